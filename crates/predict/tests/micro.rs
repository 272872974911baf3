//! Kernels by themselves on an H200 (fixtures/h200/kernels/micro_shapes.jsonl) beside what the curves say of them: those that blind models showed to be missing or wrong.

use std::collections::BTreeMap;

use llmprof_predict::{KernelClock, KernelCurves};
use llmprof_theory::kernels::{Access, Kernel, Stored};
use llmprof_units::stats::median;
use serde_json::Value;

const ROWS: &str = include_str!("../../../fixtures/h200/kernels/micro_shapes.jsonl");

/// Below this a kernel is mostly its launch.
const SHORT_US: f64 = 5.0;

fn stream(access: Access, bytes: f64, elements: f64, width: f64) -> Kernel {
    Kernel::Stream {
        access,
        bytes,
        elements,
        width,
    }
}

fn gemm(row: &Value, size: f64) -> Kernel {
    let of = |key: &str| row[key].as_f64().unwrap_or(1.0);
    let aligned = of("n") % 8.0 == 0.0 && of("k") % 8.0 == 0.0;
    Kernel::Gemm {
        groups: of("groups"),
        m: of("m"),
        n: of("n"),
        k: of("k"),
        size,
        aligned,
        stored: Stored::Plain,
    }
}

/// What a row measured; `None` for kinds that curves were fitted to before.
fn kernel(row: &Value) -> Option<Kernel> {
    let of = |key: &str| row[key].as_f64().unwrap_or(0.0);
    let n = of("n");
    Some(match row["kind"].as_str()? {
        "cast_dense" | "cast_broadcast" | "cast_row" | "widen_sliced" => {
            stream(Access::Cast, 10.0 * n, n, 0.0)
        }
        "transposed" => stream(Access::Transposed, 12.0 * n, n, 0.0),
        "depthwise" => stream(Access::Depthwise, 4.0 * n, n, 0.0),
        "solve" => stream(
            Access::Solve,
            0.0,
            of("groups") * n * of("m") * of("m"),
            0.0,
        ),
        "reduce_last" => stream(Access::Reduce, 4.0 * (n + n / of("width")), n, of("width")),
        "softmax_bf16" | "softmax_f32" => {
            let access = if of("width") > 2048.0 {
                Access::SoftmaxLong
            } else {
                Access::Softmax
            };
            stream(access, 4.0 * n, n, 0.0)
        }
        "append" if of("dim") % 8.0 != 0.0 => stream(Access::Copy, 4.0 * n, n, 0.0),
        "flash_2" => Kernel::Attention {
            batch: of("batch"),
            heads: of("heads"),
            kv_heads: of("heads"),
            queries: of("queries"),
            keys: of("keys"),
            key_dim: of("dim"),
            value_dim: of("dim"),
            causal: of("queries") > 1.0,
            masked: false,
            cached: 2.0,
        },
        "bmm_large" | "scores" | "values" => gemm(row, 2.0),
        "bmm_f32" => gemm(row, 4.0),
        _ => return None,
    })
}

#[test]
fn kernels_take_what_they_take_alone() {
    let curves = KernelCurves::embedded("h200").expect("it is embedded");
    let clock = KernelClock::new(&curves, curves.peak_flops, curves.bytes_per_s);
    let mut errors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in ROWS.lines() {
        let row: Value = serde_json::from_str(line).expect("valid JSON");
        let measured = row["us"].as_f64().expect("a time");
        if measured < SHORT_US {
            continue;
        }
        if let Some(kernel) = kernel(&row) {
            let error = clock.time_kernel(&kernel).seconds() * 1e6 / measured - 1.0;
            let kind = row["kind"].as_str().expect("a name").to_owned();
            errors.entry(kind).or_default().push(error);
        }
    }
    assert_eq!(errors.len(), 16, "{:?}", errors.keys());
    for (kind, mut errors) in errors {
        let median = median(&mut errors).expect("each kind has kernels");
        println!("{kind}: {} kernels, {:+.1} %", errors.len(), median * 100.0);
        assert!(median.abs() < 0.25, "{kind}: {median:+.3}");
    }
}

/// Curves that were measured before a way through memory had its own say what they always said.
#[test]
fn older_curves_stand_in_for_newer_ways_through_memory() {
    let mut curves = KernelCurves::embedded("h200").expect("it is embedded");
    let clock =
        |curves: &KernelCurves| KernelClock::new(curves, curves.peak_flops, curves.bytes_per_s);
    let cast = stream(Access::Cast, 1e9, 1e8, 0.0);
    let broadcast = stream(Access::Broadcast, 1e9, 1e8, 0.0);
    assert!(
        clock(&curves).time_kernel(&cast).seconds()
            > clock(&curves).time_kernel(&broadcast).seconds()
    );
    curves.tables.remove(&Access::Cast);
    for access in [Access::Transposed, Access::Depthwise, Access::Solve] {
        curves.streams.remove(&access);
    }
    assert_eq!(
        clock(&curves).time_kernel(&cast),
        clock(&curves).time_kernel(&broadcast)
    );
    let text = serde_json::to_string(&curves).expect("plain data");
    assert!(KernelCurves::parse_text(&text, "older.json").is_ok());
}
