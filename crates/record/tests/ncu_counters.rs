//! Nsight Compute's pages against each other and against the values published for them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use llmprof_record::counters::{Counters, ProfiledLaunch, RuleKind, Value};
use llmprof_record::import::ncu_csv::{self, NcuError};
use proptest::prelude::*;

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(path)
}

fn unpacked(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(fixture(path)).expect("fixture"))
        .read_to_end(&mut bytes)
        .expect("gzip");
    bytes
}

fn raw() -> Counters {
    ncu_csv::read(&unpacked("h200/ncu/decode_raw.csv.gz"), "decode_raw.csv").expect("raw page")
}

fn details() -> Counters {
    ncu_csv::read(
        &unpacked("h200/ncu/decode_details.csv.gz"),
        "decode_details.csv",
    )
    .expect("details page")
}

fn ancestor() -> Counters {
    ncu_csv::read_directory(&fixture("ancestor/ncu")).expect("directory")
}

fn codes(counters: &Counters) -> Vec<&str> {
    counters
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect()
}

#[test]
fn the_raw_page_has_every_launch_and_metric() {
    let raw = raw();
    assert_eq!(codes(&raw), Vec::<&str>::new());
    assert_eq!(raw.launches.len(), 40);
    // 2,240 columns, of which 13 describe the launch.
    assert_eq!(raw.metrics.len(), 2227);
    for launch in &raw.launches {
        assert_eq!(launch.readings.len(), 2227);
        assert_eq!(launch.compute_capability, "9.0");
        let ranges: Vec<_> = launch
            .ranges
            .iter()
            .map(|range| (&*range.domain, &*range.name))
            .collect();
        assert_eq!(ranges, [("", "decode")]);
        assert_eq!(
            raw.number(launch, "device__attribute_multiprocessor_count"),
            Some(132.0)
        );
    }
    let first = &raw.launches[0];
    assert_eq!(
        (first.grid, first.block),
        (Some([7, 1, 1]), Some([128, 1, 1]))
    );
}

/// A number on the details page is the raw one, rounded to the decimals it shows.
#[test]
fn the_details_page_agrees_with_the_raw_page() {
    let pairs = [
        (
            "GPU Speed Of Light Throughput",
            "Duration",
            "gpu__time_duration.sum",
            10.0,
        ),
        (
            "GPU Speed Of Light Throughput",
            "DRAM Frequency",
            "dram__cycles_elapsed.avg.per_second",
            5e6,
        ),
        (
            "GPU Speed Of Light Throughput",
            "L2 Cache Throughput",
            "lts__throughput.avg.pct_of_peak_sustained_elapsed",
            0.005,
        ),
        (
            "Memory Workload Analysis",
            "Memory Throughput",
            "dram__bytes.sum.per_second",
            5e6,
        ),
        (
            "Memory Workload Analysis",
            "L2 Hit Rate",
            "lts__t_sector_hit_rate.pct",
            0.005,
        ),
        (
            "Occupancy",
            "Achieved Occupancy",
            "sm__warps_active.avg.pct_of_peak_sustained_active",
            0.005,
        ),
        (
            "Launch Statistics",
            "Registers Per Thread",
            "launch__registers_per_thread",
            0.0,
        ),
        ("Launch Statistics", "Threads", "launch__thread_count", 0.0),
    ];
    let (raw, details) = (raw(), details());
    assert_eq!(codes(&details), Vec::<&str>::new());
    assert_eq!(details.launches.len(), 40);
    for (wide, long) in raw.launches.iter().zip(&details.launches) {
        assert_eq!(
            (wide.id, &wide.kernel, wide.grid),
            (long.id, &long.kernel, long.grid)
        );
        for (section, label, metric, half_step) in pairs {
            let exact = raw
                .number(wide, metric)
                .unwrap_or_else(|| panic!("{metric}"));
            let shown = long.readings.iter().find_map(|reading| {
                let described = details.describe(reading.metric).expect("metric");
                match reading.value {
                    Value::Number(number)
                        if described.section == section && described.name == label =>
                    {
                        Some(number)
                    }
                    _ => None,
                }
            });
            let shown = shown.unwrap_or_else(|| panic!("{label}"));
            assert!(
                (exact - shown).abs() <= half_step * 1.0001,
                "{label} {shown}, {metric} {exact}"
            );
        }
    }
}

#[test]
fn base_units_hold_whatever_unit_was_printed() {
    let details = details();
    let printed: Vec<&str> = details
        .launches
        .iter()
        .flat_map(|launch| &launch.readings)
        .filter(|reading| {
            details.describe(reading.metric).expect("metric").name == "Memory Throughput"
        })
        .map(|reading| reading.printed_unit.as_str())
        .collect();
    assert!(printed.contains(&"Gbyte/s") && printed.contains(&"%"));
    for metric in &details.metrics {
        let scaled = ["Kbyte", "Mbyte", "Gbyte", "us", "ms", "Ghz", "Mhz"];
        assert!(
            !metric.unit.split('/').any(|unit| scaled.contains(&unit)),
            "{metric:?}"
        );
    }
}

#[test]
fn rules_keep_their_advice_and_expected_gain() {
    let details = details();
    let rules: Vec<_> = details
        .launches
        .iter()
        .flat_map(|launch| &launch.rules)
        .collect();
    // Of 508 rows, none is repeated within a launch.
    assert_eq!(rules.len(), 508);
    let first = &details.launches[0].rules[3];
    assert_eq!(
        (first.name.as_str(), &first.kind),
        ("HighPipeUtilization", &RuleKind::Optimization)
    );
    let gain = first.speedup.expect("an estimate");
    assert_eq!((gain.of_whole_kernel, gain.percent), (false, 99.95));
    assert!(
        rules
            .iter()
            .all(|rule| !matches!(rule.kind, RuleKind::Other(_)))
    );
}

#[test]
fn process_and_host_names_do_not_pass() {
    for counters in [raw(), details(), ancestor()] {
        let text = serde_json::to_string(&counters).expect("JSON");
        assert!(!text.contains("127.0.0.1") && !text.contains("python3"));
    }
}

/// Columns of the ancestor's own summary, where it read them, and one step of its last decimal in base units.
const SUMMARY: &[(&str, &str, &str, &str, f64)] = &[
    (
        "sm_throughput_pct",
        "GPU Speed Of Light Throughput",
        "Compute (SM) Throughput",
        "%",
        1.0,
    ),
    (
        "dram_throughput_pct",
        "GPU Speed Of Light Throughput",
        "DRAM Throughput",
        "%",
        1.0,
    ),
    (
        "mem_throughput_pct",
        "GPU Speed Of Light Throughput",
        "Memory Throughput",
        "%",
        1.0,
    ),
    (
        "l1tex_throughput_pct",
        "GPU Speed Of Light Throughput",
        "L1/TEX Cache Throughput",
        "%",
        1.0,
    ),
    (
        "l2_throughput_pct",
        "GPU Speed Of Light Throughput",
        "L2 Cache Throughput",
        "%",
        1.0,
    ),
    (
        "duration_us",
        "GPU Speed Of Light Throughput",
        "Duration",
        "ns",
        1e3,
    ),
    (
        "mem_busy_pct",
        "Memory Workload Analysis",
        "Mem Busy",
        "%",
        1.0,
    ),
    (
        "max_bandwidth_pct",
        "Memory Workload Analysis",
        "Max Bandwidth",
        "%",
        1.0,
    ),
    (
        "memory_throughput_gbs",
        "Memory Workload Analysis",
        "Memory Throughput",
        "byte/s",
        1e9,
    ),
    (
        "l1tex_hit_rate_pct",
        "Memory Workload Analysis",
        "L1/TEX Hit Rate",
        "%",
        1.0,
    ),
    (
        "l2_hit_rate_pct",
        "Memory Workload Analysis",
        "L2 Hit Rate",
        "%",
        1.0,
    ),
    (
        "achieved_occupancy_pct",
        "Occupancy",
        "Achieved Occupancy",
        "%",
        1.0,
    ),
    (
        "theoretical_occupancy_pct",
        "Occupancy",
        "Theoretical Occupancy",
        "%",
        1.0,
    ),
];

#[test]
fn the_ancestors_directory_gives_its_own_summary() {
    let counters = ancestor();
    // Its two summaries lie beside the pages.
    assert_eq!(codes(&counters), ["ncu.other_file", "ncu.other_file"]);
    assert_eq!(counters.launches.len(), 20);
    let mut reader =
        csv::Reader::from_path(fixture("ancestor/ncu/metrics_summary.csv")).expect("summary");
    let header = reader.headers().expect("header").clone();
    let mut compared = 0;
    for (row, launch) in reader
        .records()
        .map(|row| row.expect("row"))
        .zip(&counters.launches)
    {
        let cell = |name: &str| &row[header.iter().position(|cell| cell == name).expect("column")];
        assert_eq!(cell("kernel_id"), launch.report);
        assert_eq!(cell("kernel_name"), launch.kernel);
        let [x, y, z] = launch.grid.expect("grid");
        assert_eq!(cell("grid_size"), format!("({x}, {y}, {z})"));
        for (column, section, name, unit, scale) in SUMMARY {
            let published: f64 = cell(column).parse().expect("number");
            let ours = counters
                .number_in(launch, section, name, unit)
                .expect("metric");
            assert!(
                (published * scale - ours).abs() <= 1e-9 * ours.abs(),
                "{column} of {}",
                launch.report
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 20 * 13);
}

/// The same counters have other names on Blackwell, and some sections have only their sum.
#[test]
fn dram_bytes_are_known_by_either_name() {
    let page = String::from_utf8(unpacked("h200/ncu/decode_raw.csv.gz")).expect("UTF-8");
    let renamed = |read: &str, write: &str| {
        let header = page.replacen("\"dram__bytes_read.sum\"", read, 1);
        let text = header.replacen("\"dram__bytes_write.sum\"", write, 1);
        assert_ne!(text, page, "the page has both");
        ncu_csv::read(text.as_bytes(), "decode_raw.csv").expect("raw page")
    };
    let newer = renamed(
        "\"dram__bytes_op_read.sum\"",
        "\"dram__bytes_op_write.sum\"",
    );
    let bytes = |counters: &Counters| -> Vec<_> {
        let launches = counters.launches.iter();
        launches.map(|launch| counters.dram_bytes(launch)).collect()
    };
    let expected = bytes(&raw());
    assert!(expected.iter().all(Option::is_some));
    assert_eq!(bytes(&newer), expected);
    let neither = renamed("\"x__read.sum\"", "\"dram__bytes.sum\"");
    let written = renamed("\"x__read.sum\"", "\"x__write.sum\"");
    assert!(bytes(&neither).iter().all(Option::is_some));
    assert_eq!(bytes(&written), vec![None; expected.len()]);
}

/// Operations are counted once, whichever counters the sections of a chip collect: over all instructions or by instruction, dense
/// alone or with sparse ones beside them, and on Blackwell each a second time.
#[test]
fn tensor_operations_count_once_on_every_chip() {
    let operations = |counters: &[(&str, f64)]| {
        let names: Vec<String> = counters
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let values: Vec<String> = counters
            .iter()
            .map(|(_, value)| format!("\"{value}\""))
            .collect();
        let text = format!(
            "\"ID\",\"Process ID\",\"Kernel Name\",{}\n\"\",\"\",\"\",{}\n\"0\",\"1\",\"gemm\",{}\n",
            names.join(","),
            vec!["\"\""; names.len()].join(","),
            values.join(",")
        );
        let read = ncu_csv::read(text.as_bytes(), "raw.csv").expect("raw page");
        read.tensor_operations(&read.launches[0])
    };
    let hopper = [
        (
            "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum",
            60.0,
        ),
        (
            "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_on.sum",
            0.0,
        ),
        (
            "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_off.sum",
            40.0,
        ),
        ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 100.0),
        ("sm__ops_path_tensor_src_fp8_sparsity_off.sum", 7.0),
        ("sm__ops_path_tensor_src_fp8_sparsity_on.sum", 14.0),
    ];
    assert_eq!(operations(&hopper), Some(107.0));
    let rtx_blackwell = [
        ("sm__ops_path_tensor_src_fp8_dst_fp16_sparsity_off.sum", 3.0),
        (
            "sm__ops_path_tensor_src_fp8_dst_fp16_sparsity_off_realtime.sum",
            3.0,
        ),
        ("sm__ops_path_tensor_src_fp8_dst_fp32.sum", 6.0),
        ("sm__ops_path_tensor_src_fp8_dst_fp32_realtime.sum", 6.0),
        ("sm__ops_path_tensor_src_fp8_dst_fp32_sparsity_off.sum", 5.0),
    ];
    assert_eq!(operations(&rtx_blackwell), Some(8.0));
    let b300 = [
        (
            "sm__ops_path_tensor_op_utchmma_src_bf16_dst_fp32_sparsity_off.sum",
            90.0,
        ),
        ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", 100.0),
        (
            "sm__ops_path_tensor_op_utcqmma_src_fp8_dst_fp16_sparsity_off.sum",
            2.0,
        ),
        (
            "sm__ops_path_tensor_op_utcqmma_src_fp8_dst_fp16_sparsity_on.sum",
            4.0,
        ),
        (
            "sm__ops_path_tensor_op_utcqmma_src_fp8_dst_fp32_sparsity_off.sum",
            9.0,
        ),
    ];
    assert_eq!(operations(&b300), Some(111.0));
    assert_eq!(operations(&[("sm__cycles_elapsed.sum", 1.0)]), None);
}

fn ranked(counters: &Counters, rank: usize) -> &ProfiledLaunch {
    &counters.launches[rank - 1]
}

/// The published intensities were wrong by the units of the byte counters; these are the corrected ones.
#[test]
fn tensor_intensities_are_the_corrected_ones() {
    let counters = ancestor();
    let table = [
        (3, 1_275_068_416.0, 380.6, 54.44),
        (5, 12_532_580_352.0, 716.1, 112.09),
        (9, 10_192_158_720.0, 96.47, 63.41),
        (13, 335_544_320.0, 70.79, 32.45),
        (16, 45_902_462_976.0, 717.6, 113.42),
    ];
    for (rank, operations, intensity, teraflops) in table {
        let launch = ranked(&counters, rank);
        assert_eq!(counters.tensor_operations(launch), Some(operations));
        let point = counters.tensor_point(launch).expect("point");
        let measured = point.intensity().expect("traffic");
        assert!(
            (measured / intensity - 1.0).abs() < 2e-4,
            "{rank}: {measured}"
        );
        assert!(
            (point.rate.0 / 1e12 / teraflops - 1.0).abs() < 2e-4,
            "{rank}: {}",
            point.rate.0
        );
    }
    let without: usize = (1..=20)
        .filter(|rank| counters.tensor_operations(ranked(&counters, *rank)) == Some(0.0))
        .count();
    assert_eq!(without, 15);
}

#[test]
fn fp32_points_are_the_published_ones() {
    let counters = ancestor();
    let table: BTreeMap<usize, (f64, f64)> = [
        (1, (344.2, 0.997)),
        (2, (962.1, 1.004)),
        (3, (79.9, 0.558)),
        (5, (146.2, 0.934)),
        (6, (14.6, 0.240)),
        (7, (282.4, 9.081)),
        (9, (1574.7, 2.396)),
        (10, (155.0, 0.854)),
        (11, (169.3, 0.450)),
        (13, (258.2, 0.563)),
        (14, (369.3, 0.500)),
        (15, (171.9, 0.249)),
        (16, (37.0, 0.234)),
        (18, (176.2, 0.296)),
    ]
    .into();
    for rank in 1..=20 {
        let point = counters.fp32_point(ranked(&counters, rank)).expect("chart");
        let (gigaflops, intensity) = table.get(&rank).copied().unwrap_or_default();
        assert!(
            (point.rate.0 / 1e9 - gigaflops).abs() < 0.051,
            "{rank}: {}",
            point.rate.0
        );
        assert!(
            (point.intensity().expect("traffic") - intensity).abs() < 6e-4,
            "{rank}"
        );
    }
}

#[test]
fn lines_before_the_header_are_passed_and_complaints_kept() {
    let page = std::fs::read(first_page()).expect("fixture");
    let banner = "==PROF== Connected to process 7 (/home/someone/python)\nhello\n==WARNING== Backing up device memory\n==WARNING== see /home/someone/x\n";
    let whole = [banner.as_bytes(), &page].concat();
    assert!(ncu_csv::sniff(&whole));
    let (plain, with_banner) = (ncu_csv::read(&page, "a"), ncu_csv::read(&whole, "a"));
    let (plain, with_banner) = (plain.expect("page"), with_banner.expect("page"));
    assert_eq!(plain.launches, with_banner.launches);
    assert_eq!(codes(&with_banner), ["ncu.said", "ncu.said"]);
    let text = serde_json::to_string(&with_banner.issues).expect("JSON");
    assert!(text.contains("Backing up") && !text.contains("someone"));
}

fn first_page() -> PathBuf {
    fixture("ancestor/ncu/kernel_0001_67bdb7e29d1bb4e0ca0aec954ef18af3/ncu.details.csv")
}

#[test]
fn what_is_no_page_is_refused_by_name() {
    for bytes in [
        &b""[..],
        b"\n\n",
        b"Time (%),Name\n1,a\n",
        b"\x00\xff\xfe",
        b"==ERROR== No kernels were profiled.\n",
    ] {
        let error = ncu_csv::read(bytes, "page.csv").expect_err("no page");
        assert!(matches!(error, NcuError::NoHeader { .. }));
        assert!(error.to_string().contains("page.csv"));
    }
    let said = ncu_csv::read(b"==ERROR== No kernels were profiled.\n", "p").expect_err("no page");
    assert!(said.to_string().contains("No kernels were profiled"));
    let error =
        ncu_csv::read(b"\"ID\",\"Kernel Name\",\"Metric Name\"\n", "p").expect_err("columns");
    assert!(matches!(
        error,
        NcuError::MissingColumn {
            column: "Section Name",
            ..
        }
    ));
    assert!(matches!(
        ncu_csv::read_directory(&fixture("ancestor/nsys")),
        Err(NcuError::EmptyDirectory(_))
    ));
    assert!(matches!(
        ncu_csv::read_directory(&fixture("absent")),
        Err(NcuError::Io { .. })
    ));
}

/// How many rows a page has, and how many of them a reading of it accounts for.
fn accounted(counters: &Counters) -> usize {
    let kept = |launch: &ProfiledLaunch| launch.readings.len() + launch.rules.len();
    counters.launches.iter().map(kept).sum()
}

#[test]
fn a_page_cut_anywhere_loses_only_the_row_it_is_cut_in_and_says_so() {
    let page = std::fs::read(first_page()).expect("fixture");
    let header_end = page.iter().position(|byte| *byte == b'\n').expect("header") + 1;
    for cut in (header_end + 1..page.len()).step_by(37) {
        let part = &page[..cut];
        let counters = ncu_csv::read(part, "cut.csv").expect("header is there");
        let lines = line_breaks(&part[header_end..]);
        let last = part.last() == Some(&b'\n');
        let kept = accounted(&counters);
        assert!(
            kept == lines || (kept == lines + 1 && !last),
            "cut at {cut}: {kept} of {lines}"
        );
        if !last && kept == lines {
            let codes = codes(&counters);
            assert!(
                codes == ["ncu.cut_row"] || codes == ["ncu.nameless"],
                "cut at {cut}: {codes:?}"
            );
            let place = counters.issues[0].values["place"].as_str();
            assert!(place.expect("text").contains("cut.csv"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn flipped_bits_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..8), 1..20)) {
        let mut page = std::fs::read(first_page()).expect("fixture");
        for (place, bit) in flips {
            let place = place.index(page.len());
            page[place] ^= 1 << bit;
        }
        let _ = ncu_csv::read(&page, "flipped.csv");
    }

}

proptest! {
    // A page is most of a megabyte.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_raw_page_cut_anywhere_never_panics(cut in any::<prop::sample::Index>()) {
        use std::sync::OnceLock;
        static PAGE: OnceLock<Vec<u8>> = OnceLock::new();
        let page = PAGE.get_or_init(|| unpacked("h200/ncu/decode_raw.csv.gz"));
        let cut = cut.index(page.len());
        if let Ok(counters) = ncu_csv::read(&page[..cut], "cut.csv") {
            let whole = line_breaks(&page[..cut]);
            prop_assert!(counters.launches.len() <= whole.saturating_sub(1));
            prop_assert!(page[..cut].ends_with(b"\n") && whole > 2 || !counters.issues.is_empty());
        }
    }
}

fn line_breaks(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// Every cell of a page, changed by its row and column.
fn rewritten(page: &[u8], change: impl Fn(usize, &str, &str) -> String) -> Vec<u8> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .has_headers(false)
        .from_reader(page);
    let mut writer = csv::WriterBuilder::new()
        .flexible(true)
        .quote_style(csv::QuoteStyle::Always)
        .from_writer(Vec::new());
    let mut header = csv::StringRecord::new();
    for (row, record) in reader.records().enumerate() {
        let record = record.expect("a row");
        if row == 0 {
            header = record.clone();
        }
        let cells = record.iter().enumerate();
        let changed = cells.map(|(at, cell)| change(row, header.get(at).unwrap_or(""), cell));
        writer
            .write_record(changed.collect::<Vec<_>>())
            .expect("memory takes it");
    }
    writer.into_inner().expect("memory takes it")
}

/// `1,234.5` as other locales write it.
fn localized(number: &str, group: &str) -> String {
    let is_number = !number.is_empty()
        && number
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-'));
    if !is_number {
        return number.to_owned();
    }
    number
        .replace(',', "\u{1}")
        .replace('.', ",")
        .replace('\u{1}', group)
}

/// Pages of a German, a French and a Swiss locale hold the values of the English ones.
#[test]
fn other_locales_write_the_same_numbers() {
    let shared = [
        "ID",
        "Kernel Name",
        "Process ID",
        "Context",
        "Stream",
        "Device",
        "CC",
        "Block Size",
        "Grid Size",
    ];
    for (page, name) in [
        ("h200/ncu/decode_raw.csv.gz", "raw"),
        ("h200/ncu/decode_details.csv.gz", "details"),
    ] {
        let english = unpacked(page);
        let plain = ncu_csv::read(&english, "page").expect("a page");
        for group in [".", "\u{202f}", "'"] {
            let text = rewritten(&english, |row, column, cell| {
                let is_value = match name {
                    "details" => matches!(column, "Metric Value" | "Estimated Speedup"),
                    _ => !shared.contains(&column),
                };
                if row > 0 && is_value {
                    localized(cell, group)
                } else {
                    cell.to_owned()
                }
            });
            let grouped = ncu_csv::read(&text, "page").expect("a page");
            assert_eq!(codes(&grouped), codes(&plain), "{name} {group:?}");
            assert!(grouped.launches == plain.launches, "{name} {group:?}");
        }
    }
    // Two notations on one page are an issue; so is a page whose numbers fit both.
    let page = |values: [&str; 2]| {
        format!(
            "\"ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\"0\",\"k\",\"s\",\"a\",\"us\",\"{}\"\n\
             \"0\",\"k\",\"s\",\"b\",\"us\",\"{}\"\n",
            values[0], values[1]
        )
    };
    let read_page = |values| ncu_csv::read(page(values).as_bytes(), "page").expect("a page");
    assert_eq!(codes(&read_page(["6,75", "6.75"])), ["ncu.two_notations"]);
    assert_eq!(
        codes(&read_page(["1,234", "5,678"])),
        ["ncu.notation_assumed"]
    );
    assert_eq!(codes(&read_page(["1,234", "5,67"])), Vec::<&str>::new());
    let commas = read_page(["1,234", "5,67"]);
    assert_eq!(commas.number(&commas.launches[0], "a"), Some(1234.0));
    let points = read_page(["1,234", "5.67"]);
    assert_eq!(points.number(&points.launches[0], "a"), Some(1_234_000.0));
}

/// `--print-summary per-kernel`, made from the raw page: means of launches of one kernel and size.
#[test]
fn a_summary_per_kernel_has_the_means_of_its_launches() {
    const METRICS: [&str; 2] = ["gpu__time_duration.sum", "dram__bytes_read.sum"];
    let raw = raw();
    let mut groups: BTreeMap<(String, String), Vec<&ProfiledLaunch>> = BTreeMap::new();
    for launch in &raw.launches {
        let size = format!(
            "{:?}|{:?}",
            launch.grid.expect("a grid"),
            launch.block.expect("a block")
        );
        groups
            .entry((launch.kernel.clone(), size))
            .or_default()
            .push(launch);
    }
    let mut writer = csv::WriterBuilder::new()
        .quote_style(csv::QuoteStyle::Always)
        .from_writer(Vec::new());
    writer
        .write_record([
            "Process ID",
            "Process Name",
            "Host Name",
            "Kernel Name",
            "Block Size",
            "Grid Size",
            "Device",
            "CC",
            "Invocations",
            "Section Name",
            "Metric Name",
            "Metric Unit",
            "Minimum",
            "Maximum",
            "Average",
        ])
        .expect("memory takes it");
    let triple = |size: Option<[u32; 3]>| {
        format!("{:?}", size.expect("a size"))
            .replace('[', "(")
            .replace(']', ")")
    };
    let mut expected = Vec::new();
    for ((kernel, _), launches) in &groups {
        for metric in METRICS {
            let values: Vec<f64> = launches
                .iter()
                .map(|launch| raw.number(launch, metric).expect("a value"))
                .collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let unit = if metric.starts_with("gpu") {
                "ns"
            } else {
                "byte"
            };
            expected.push(mean);
            writer
                .write_record([
                    "7",
                    "python",
                    "127.0.0.1",
                    kernel,
                    &triple(launches[0].block),
                    &triple(launches[0].grid),
                    "0",
                    "9.0",
                    &launches.len().to_string(),
                    "Command line profiler metrics",
                    metric,
                    unit,
                    "0.00",
                    "1,000,000.00",
                    &format!("{mean:.6}"),
                ])
                .expect("memory takes it");
        }
    }
    let page = writer.into_inner().expect("memory takes it");
    assert!(ncu_csv::sniff(&page));
    let summary = ncu_csv::read(&page, "summary.csv").expect("a summary");
    assert_eq!(codes(&summary), ["ncu.means_of_launches"]);
    assert_eq!(summary.launches.len(), groups.len());
    let launches = &summary.issues[0].values["launches"];
    assert_eq!(launches.as_u64(), Some(40));
    let values: Vec<f64> = summary
        .launches
        .iter()
        .flat_map(|launch| METRICS.map(|metric| summary.number(launch, metric).expect("a mean")))
        .collect();
    for (value, mean) in values.iter().zip(&expected) {
        assert!((value - mean).abs() < 1e-3, "{value} {mean}");
    }
    assert_eq!(summary.launches[0].compute_capability, "9.0");
}
