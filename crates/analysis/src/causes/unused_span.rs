//! Attention over positions of a KV cache that hold no token yet.

use crate::thresholds::{
    CACHE_BANDWIDTH_MIN_SHARE, SHORT_CACHE_ATTENTION_NS, UNUSED_SPAN_MIN_RATIO,
};
use llmprof_record::kernel_name::Category;
use llmprof_record::run::RunPhase;
use llmprof_units::Nanos;

use super::cause::{CauseKind, CausePlace};
use super::{CauseCandidate, Scene};
use crate::replay::{DeviceWork, Edit};

pub(super) fn find_unused_span(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let shapes = &scene.shapes;
    let (Some(device), Some(cache)) = (scene.device, shapes.cache) else {
        return Vec::new();
    };
    if scene.phase != RunPhase::Decode || cache.positions < UNUSED_SPAN_MIN_RATIO * shapes.tokens {
        return Vec::new();
    }
    // Keys and values of 16 bits; time to read them once.
    let read_ns = |positions: i64| {
        let bytes = 4.0 * cache.sequences as f64 * positions as f64 * cache.width as f64;
        1e9 * bytes / device.memory_bandwidth().0
    };
    let whole = read_ns(cache.positions);
    let needed =
        read_ns(shapes.tokens) / CACHE_BANDWIDTH_MIN_SHARE + SHORT_CACHE_ATTENTION_NS as f64;
    // Long enough to read the whole cache, and too long for the tokens in it.
    let is_whole = |work: &DeviceWork| work.duration as f64 >= whole.max(needed);
    let share = shapes.tokens as f64 / cache.positions as f64;
    let mut edit = Edit::default();
    let (mut count, mut time) = (0, 0);
    for (index, work) in scene.own_work() {
        if scene.category(work) == Category::Attention && is_whole(work) {
            let after = (work.duration as f64 * share) as i64;
            edit.set_duration(index, after.max(SHORT_CACHE_ATTENTION_NS));
            count += 1;
            time += work.duration;
        }
    }
    if count == 0 {
        return Vec::new();
    }
    vec![CauseCandidate {
        kind: CauseKind::UnusedSpan {
            positions: cache.positions as u64,
            tokens: shapes.tokens as u64,
            kernels_ns: Nanos(scene.a_step(time)),
        },
        place: CausePlace::default(),
        count,
        edit,
        partial: None,
    }]
}

#[cfg(test)]
mod tests {
    use crate::causes::sketch::Sketch;

    /// A cache of 8,192 positions for 32 sequences with 4 heads of 128: 537 MB of keys and values, 112 µs on an H200.
    fn sketch_attention(us: i64) -> Sketch {
        let mut sketch = Sketch::with_prompt(32, 512, 2048, 32_000);
        sketch.write_cache(&[32, 8192, 4, 128]);
        for _ in 0..4 {
            sketch.launch_graph(&[
                ("nvjet_gemm", 60),
                ("flash_fwd_kernel", us),
                ("nvjet_gemm", 60),
            ]);
            sketch.synchronize();
        }
        sketch
    }

    #[test]
    fn attention_that_reads_the_whole_cache_is_a_cause() {
        let (saved, now) = sketch_attention(176)
            .diagnose()
            .gain_of("unused_span")
            .unwrap();
        assert!((0.62..0.66).contains(&saved), "{saved} of {now} ms");
    }

    #[test]
    fn attention_over_the_tokens_is_none() {
        assert_eq!(sketch_attention(20).diagnose().gain_of("unused_span"), None);
    }
}
