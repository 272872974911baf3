//! Classes and roofline figures of published and our own counters.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use llmprof_analysis::counters::{ClassRule, CountedLaunch, CountersAnalysis, KernelBottleneck};
use llmprof_record::counters::{Level, Pipe};
use llmprof_record::import::ncu_csv;
use llmprof_theory::device::{Catalog, Engine};
use llmprof_units::DType;

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(path)
}

/// Twenty kernels of DeepSeek-OCR on an RTX 5090.
fn published() -> Vec<CountedLaunch> {
    let counters = ncu_csv::read_directory(&fixture("ancestor/ncu")).expect("directory");
    let device = Catalog::embedded().by_name("rtx_5090").expect("device");
    let found =
        CountersAnalysis::from_counters(&counters, None, Some(&device), ClassRule::default());
    found.launches
}

fn row<'a>(rows: &'a [CountedLaunch], number: &str) -> &'a CountedLaunch {
    let prefix = format!("kernel_{number}_");
    let found = rows.iter().find(|row| row.report.starts_with(&prefix));
    found.unwrap_or_else(|| panic!("kernel {number}"))
}

/// Compute capability 12.0 and 170 SMs are those of one device, so that nobody needs to name it.
#[test]
fn the_device_is_inferred() {
    let mut counters = ncu_csv::read_directory(&fixture("ancestor/ncu")).expect("directory");
    let found = CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
    assert_eq!(found.device.as_deref(), Some("rtx_5090"));
    assert_eq!(found.launches, published());
    // Another chip of that generation is in no list: kernels with tensor work have no FLOP rate, and are not called idle.
    for launch in &mut counters.launches {
        launch.compute_capability = "12.9".to_owned();
    }
    let found = CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
    assert_eq!(found.device, None);
    let gemm = row(&found.launches, "0005");
    assert_eq!((gemm.used.lacks_peak, gemm.used.flops_pct), (true, None));
    let wrong = found
        .launches
        .iter()
        .filter(|row| row.used.lacks_peak && row.class == KernelBottleneck::LatencyBound);
    assert_eq!(wrong.count(), 0);
}

/// 43,520 FFMA operations a cycle are 170 SMs of 128 lanes.
#[test]
fn classes_follow_the_busiest_unit_and_the_grid() {
    use KernelBottleneck::*;
    let rows = published();
    assert_eq!(rows.len(), 20);
    let expected = [
        // No unit of it, nor of 0011, 0012 and 0020, is at 35 %, and their grids fill 170 SMs.
        ("0001", LatencyBound),
        ("0002", MemoryBound),
        ("0003", L2Bound),
        ("0004", UnderfilledGrid),
        ("0005", ComputeBound),
        ("0006", UnderfilledGrid),
        ("0007", UnderfilledGrid),
        ("0008", MemoryBound),
        ("0009", Balanced),
        ("0010", L2Bound),
        ("0011", LatencyBound),
        ("0012", LatencyBound),
        ("0013", UnderfilledGrid),
        ("0014", MemoryBound),
        ("0015", MemoryBound),
        ("0016", ComputeBound),
        // A copy, whatever its SMs do.
        ("0017", LatencyBound),
        ("0018", UnderfilledGrid),
        ("0019", L2Bound),
        ("0020", LatencyBound),
    ];
    assert_eq!(expected.len(), rows.len());
    for (number, class) in expected {
        let row = row(&rows, number);
        assert_eq!(row.class, class, "{number}: {:?} {:?}", row.used, row.fill);
    }
    assert_eq!(row(&rows, "0001").fill.sms, Some(170));
}

/// FLOPs, DRAM bytes, intensity and rate, in base units.
#[test]
fn roofline_figures_have_the_right_units() {
    let rows = published();
    // Kernel, DRAM megabytes, FLOP per byte, TFLOP/s.
    let tensor = [
        ("0003", 3.35, 380.6, 54.44),
        ("0005", 17.50, 716.1, 112.09),
        ("0009", 105.65, 96.47, 63.41),
        ("0013", 4.74, 70.79, 32.45),
        ("0016", 63.967, 717.6, 113.42),
    ];
    for (number, megabytes, intensity, rate) in tensor {
        let row = row(&rows, number);
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 2e-3;
        let point = row.tensor.expect("tensor work");
        assert!(
            close(row.dram_bytes.expect("bytes").0 as f64 / 1e6, megabytes),
            "{number}"
        );
        assert!(
            close(point.intensity.expect("intensity"), intensity),
            "{number}"
        );
        assert!(close(point.flops_per_s / 1e12, rate), "{number}");
        let pipe = row.pipes.iter().find(|pipe| pipe.pipe == Pipe::Tensor);
        let pipe = pipe.expect("tensor pipe");
        assert_eq!(pipe.format, "bf16");
        assert!(close(pipe.flops_per_s.0 / 1e12, rate), "{number}");
        let dram = row.levels.iter().find(|level| level.level == Level::Dram);
        let counted = pipe.flops_per_s.0 / dram.expect("DRAM").bytes_per_s.0;
        assert!(close(counted, intensity), "{number}: {counted}");
    }
    for (number, gigaflops) in [("0001", 344.2), ("0002", 962.1)] {
        let rates = &row(&rows, number).pipes;
        let fp32 = rates
            .iter()
            .find(|pipe| pipe.pipe == Pipe::Fp32)
            .expect("FP32");
        assert!(
            (fp32.flops_per_s.0 / 1e9 / gigaflops - 1.0).abs() < 5e-3,
            "{number}"
        );
    }
}

#[test]
fn the_published_means_are_reproduced() {
    let rows = published();
    let mean = |name: &str| {
        let sum: f64 = rows.iter().filter_map(|row| row.percentage(name)).sum();
        sum / rows.len() as f64
    };
    for (name, expected) in [
        ("sm_throughput_pct", 15.75),
        ("dram_throughput_pct", 21.80),
        ("mem_throughput_pct", 34.62),
        ("achieved_occupancy_pct", 39.51),
        ("l1tex_hit_rate_pct", 8.96),
        ("l2_hit_rate_pct", 39.95),
    ] {
        assert!(
            (mean(name) - expected).abs() < 0.006,
            "{name}: {}",
            mean(name)
        );
    }
}

/// A full page has everything: pipes with peaks, three levels, stalls that sum to one, waves.
#[test]
fn a_full_page_has_every_quantity() {
    let mut bytes = Vec::new();
    let file = File::open(fixture("h200/ncu/decode_raw.csv.gz")).expect("fixture");
    GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
    let counters = ncu_csv::read(&bytes, "raw").expect("page");
    let found = CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
    for row in &found.launches {
        assert_ne!(row.class, KernelBottleneck::Unknown, "{}", row.kernel);
        assert_eq!(row.fill.sms, Some(132));
        let levels: Vec<Level> = row.levels.iter().map(|level| level.level).collect();
        assert_eq!(levels, [Level::Dram, Level::L2, Level::L1]);
        // 4.8 TB/s by the datasheet, at the clock of the measurement.
        let peak = row.levels[0].peak_bytes_per_s.expect("peak").0 / 1e12;
        assert!((4.5..5.0).contains(&peak), "{peak}");
        let stalls: f64 = row.stalls.iter().map(|stall| stall.share).sum();
        assert!(
            (stalls - 1.0).abs() < 1e-9 || row.stalls.is_empty(),
            "{stalls}"
        );
        assert!(!row.occupancy_limiters.is_empty());
    }
    let has_work =
        |row: &&CountedLaunch| row.pipes.iter().any(|pipe| pipe.peak_flops_per_s.is_some());
    assert!(found.launches.iter().filter(has_work).count() > 0);
}

/// Quantities of single launches, as the raw page has them: sectors and requests, conflicts and wavefronts, limits, stalls, bytes
/// between L2 and the SMs.
#[test]
fn quantities_are_those_of_the_page() {
    let mut bytes = Vec::new();
    let file = File::open(fixture("h200/ncu/decode_raw.csv.gz")).expect("fixture");
    GzDecoder::new(file).read_to_end(&mut bytes).expect("gzip");
    let counters = ncu_csv::read(&bytes, "raw").expect("page");
    let found = CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
    let launch = |id: u64| {
        let row = found.launches.iter().find(|row| row.id == id);
        row.unwrap_or_else(|| panic!("launch {id}"))
    };
    // Launch, sectors of a load and of a store, conflicts of wavefronts, all limiters that tie, waves.
    let expected = [
        (0, Some(84.0 / 56.0), Some(2.0), 0.0, "registers|warps", 0.0),
        (
            1,
            None,
            Some(1.0),
            0.0,
            "shared_memory|warps|blocks|barriers",
            0.0,
        ),
        (
            4,
            Some(1.0),
            Some(4.0),
            1112.0 / 2204.0,
            "registers|shared_memory",
            0.0,
        ),
        (14, Some(16.0), Some(1.0), 0.0, "registers|warps", 0.0),
        (
            20,
            Some(1.0),
            None,
            20.0 / 120_431.0,
            "registers|shared_memory",
            0.85,
        ),
        (25, Some(2.0), Some(2.0), 0.0, "registers|warps", 1.0),
        (
            35,
            Some(2148.0 / 138.0),
            Some(13.0),
            9.0 / 4668.0,
            "registers",
            0.01,
        ),
    ];
    for (id, load, store, conflicts, limiter, waves) in expected {
        let row = launch(id);
        assert_eq!(row.access.sectors_per_load, load, "{id}");
        assert_eq!(row.access.sectors_per_store, store, "{id}");
        assert_eq!(row.access.bank_conflict_share, Some(conflicts), "{id}");
        assert_eq!(row.occupancy_limiters.join("|"), limiter, "{id}");
        assert_eq!(row.fill.waves, Some(waves), "{id}");
        assert_eq!(row.fill.tail_share, None, "{id}: one wave has no tail");
    }
    for (id, reason, share) in [
        (0, "long_scoreboard", 0.447_372_98),
        (1, "no_instruction", 0.366_247_75),
        (4, "wait", 0.177_758_53),
        (35, "wait", 0.191_464_79),
    ] {
        let stall = launch(id).limiting_stall().expect("a stall");
        assert_eq!(stall.reason, reason, "{id}");
        assert!((stall.share - share).abs() < 1e-6, "{id}: {}", stall.share);
    }
    assert_eq!(launch(4).stalls[0].reason, "selected");
    // FLOPs per byte between L2 and the SMs: 17,547.9 GFLOP/s of the tensor cores over 873.06 GB/s, and
    // (2 × 4.497635 + 0.562204) × 2.014825 GFLOP/s over 74.212389 GB/s.
    for (id, pipe, intensity) in [(20, Pipe::Tensor, 20.0993), (4, Pipe::Fp32, 0.259_48)] {
        let row = launch(id);
        let rate = row
            .pipes
            .iter()
            .find(|rate| rate.pipe == pipe)
            .expect("pipe");
        let level = row.levels.iter().find(|level| level.level == Level::L2);
        let found = rate.flops_per_s.0 / level.expect("L2").bytes_per_s.0;
        assert!((found / intensity - 1.0).abs() < 1e-3, "{id}: {found}");
    }
}

/// Two and a half waves take the time of three: a sixth of it is idle.
#[test]
fn the_last_wave_leaves_a_tail() {
    let page = "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"launch__waves_per_multiprocessor\"\n\
                \"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"\n\
                \"0\",\"1\",\"p\",\"h\",\"gemm\",\"1\",\"7\",\"(32, 1, 1)\",\"(330, 1, 1)\",\"0\",\"9.0\",\"2.5\"\n";
    let counters = ncu_csv::read(page.as_bytes(), "raw").expect("page");
    let found = CountersAnalysis::from_counters(&counters, None, None, ClassRule::default());
    let fill = found.launches[0].fill;
    assert_eq!((fill.blocks, fill.waves), (Some(330), Some(2.5)));
    assert!((fill.tail_share.expect("tail") - 1.0 / 6.0).abs() < 1e-12);
}

/// The published rule compares SM and DRAM throughput alone, five points apart; its counts, and the means of each class over
/// kernels (SM, DRAM, duration in µs), follow from the same counters.
#[test]
fn the_published_classes_follow_from_the_published_rule() {
    let rows = published();
    let published_class = |row: &CountedLaunch| {
        let sm = row.percentage("sm_throughput_pct").expect("SM");
        let dram = row.percentage("dram_throughput_pct").expect("DRAM");
        match sm - dram {
            over if over > 5.0 => "compute",
            under if under < -5.0 => "memory",
            _ => "balanced",
        }
    };
    let expected = [
        ("compute", 4, [36.21, 9.89, 137.44]),
        ("memory", 9, [9.38, 34.23, 9.67]),
        ("balanced", 7, [12.25, 12.62, 39.75]),
    ];
    let duration = |row: &CountedLaunch| row.duration_ns.expect("duration").0 as f64 / 1e3;
    for (class, count, means) in expected {
        let own: Vec<&CountedLaunch> = rows
            .iter()
            .filter(|row| published_class(row) == class)
            .collect();
        assert_eq!(own.len(), count, "{class}");
        let mean = |value: &dyn Fn(&CountedLaunch) -> f64| {
            own.iter().map(|row| value(row)).sum::<f64>() / count as f64
        };
        let found = [
            mean(&|row| row.percentage("sm_throughput_pct").expect("SM")),
            mean(&|row| row.percentage("dram_throughput_pct").expect("DRAM")),
            mean(&duration),
        ];
        for (found, expected) in found.iter().zip(means) {
            assert!((found - expected).abs() < 0.006, "{class}: {found}");
        }
    }
    let mean = rows.iter().map(duration).sum::<f64>() / rows.len() as f64;
    assert!((mean - 45.75).abs() < 0.006, "{mean}");
}

/// Rates of memory in the GEMVs, throughputs of the kernels with tensor work, and the ridge point that they are compared with.
#[test]
fn published_throughputs_keep_their_units() {
    let rows = published();
    for (number, gigabytes) in [("0001", 345.14), ("0002", 958.09)] {
        let levels = &row(&rows, number).levels;
        let dram = levels.iter().find(|level| level.level == Level::Dram);
        let found = dram.expect("DRAM").bytes_per_s.0 / 1e9;
        assert!((found / gigabytes - 1.0).abs() < 2e-3, "{number}: {found}");
    }
    for (number, sm, dram) in [
        ("0003", 41.49, 8.13),
        ("0005", 32.10, 8.87),
        ("0009", 36.75, 37.26),
        ("0013", 8.77, 26.00),
        ("0016", 32.46, 8.96),
    ] {
        let row = row(&rows, number);
        assert_eq!(row.percentage("sm_throughput_pct"), Some(sm), "{number}");
        assert_eq!(
            row.percentage("dram_throughput_pct"),
            Some(dram),
            "{number}"
        );
    }
    let device = Catalog::embedded().by_name("rtx_5090").expect("device");
    let peak = device
        .dense_peak(DType::Bf16, Engine::Tensor)
        .expect("peak");
    let ridge = peak.dense_flops_per_s.0 / device.memory_bandwidth().0;
    assert!((ridge - 116.9).abs() < 0.05, "{ridge}");
}
