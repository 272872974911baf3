//! Classes and roofline figures of published and our own counters.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use llmprof_analysis::counters::{ClassRule, CountersAnalysis, KernelClass, LaunchRow};
use llmprof_record::counters::{Level, Pipe};
use llmprof_record::import::ncu_csv;
use llmprof_theory::device::Catalog;

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
        assert!(row.occupancy_limiter.is_some());
    }
    let has_work = |row: &&LaunchRow| row.pipes.iter().any(|pipe| pipe.peak_flops_per_s.is_some());
    assert!(found.launches.iter().filter(has_work).count() > 0);
}
