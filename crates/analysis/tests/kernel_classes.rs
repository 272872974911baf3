//! Classes and roofline figures of published and our own counters.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use llmprof_analysis::counters::{ClassRule, CountersAnalysis, KernelClass, LaunchRow};
use llmprof_record::counters::{Level, Pipe};
use llmprof_record::import::ncu_csv;
use llmprof_theory::device::{Catalog, Engine};
use llmprof_units::DType;

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(path)
}

/// Twenty kernels of DeepSeek-OCR on an RTX 5090.
fn published() -> Vec<LaunchRow> {
    let counters = ncu_csv::read_directory(&fixture("ancestor/ncu")).expect("directory");
    let device = Catalog::embedded().by_name("rtx_5090").expect("device");
    let found = CountersAnalysis::of(&counters, None, Some(&device), ClassRule::default());
    found.launches
}

fn row<'a>(rows: &'a [LaunchRow], number: &str) -> &'a LaunchRow {
    let prefix = format!("kernel_{number}_");
    let found = rows.iter().find(|row| row.report.starts_with(&prefix));
    found.unwrap_or_else(|| panic!("kernel {number}"))
}

/// 43,520 FFMA operations a cycle are 170 SMs of 128 lanes.
#[test]
fn classes_follow_the_busiest_unit_and_the_grid() {
    use KernelClass::*;
    let rows = published();
    assert_eq!(rows.len(), 20);
    let expected = [
        ("0002", MemoryBound),
        ("0003", L2Bound),
        ("0004", UnderfilledGrid),
        ("0005", ComputeBound),
        ("0006", UnderfilledGrid),
        ("0007", UnderfilledGrid),
        ("0008", MemoryBound),
        ("0009", Balanced),
        ("0010", L2Bound),
        ("0013", UnderfilledGrid),
        ("0014", MemoryBound),
        ("0015", MemoryBound),
        ("0016", ComputeBound),
        // A copy, whatever its SMs do.
        ("0017", LatencyBound),
        ("0018", UnderfilledGrid),
        ("0019", L2Bound),
    ];
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
    let found = CountersAnalysis::of(&counters, None, None, ClassRule::default());
    for row in &found.launches {
        assert_ne!(row.class, KernelClass::Unknown, "{}", row.kernel);
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
    let has_work = |row: &&LaunchRow| row.pipes.iter().any(|pipe| pipe.peak_flops_per_s.is_some());
    assert!(found.launches.iter().filter(has_work).count() > 0);
}

/// The published rule compares SM and DRAM throughput alone, five points apart; its counts, and the means of each class over
/// kernels (SM, DRAM, duration in µs), follow from the same counters.
#[test]
fn the_published_classes_follow_from_the_published_rule() {
    let rows = published();
    let published_class = |row: &LaunchRow| {
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
    let duration = |row: &LaunchRow| row.duration_ns.expect("duration").0 as f64 / 1e3;
    for (class, count, means) in expected {
        let own: Vec<&LaunchRow> = rows
            .iter()
            .filter(|row| published_class(row) == class)
            .collect();
        assert_eq!(own.len(), count, "{class}");
        let mean = |value: &dyn Fn(&LaunchRow) -> f64| {
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
    let peak = device.peak(DType::Bf16, Engine::Tensor).expect("peak");
    let ridge = peak.dense_flops_per_s.0 / device.bandwidth().0;
    assert!((ridge - 116.9).abs() < 0.05, "{ridge}");
}
