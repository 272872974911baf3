//! Reports of Nsight Compute read without the tool, against the pages that the tool made of the same report.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use llmprof_record::counters::{Counters, Rule, Value};
use llmprof_record::import::{self, Limits, Profile, ncu_csv, ncu_report};
use proptest::prelude::*;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/h200/ncu"
    ))
    .join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(fixture(name)).expect("fixture"))
        .read_to_end(&mut bytes)
        .expect("gzip");
    bytes
}

fn report() -> Counters {
    let (format, profile) =
        import::import(&fixture("decode_12.ncu-rep.gz"), &Limits::default()).expect("report");
    assert_eq!(format, "ncu_report");
    let Profile::Counters(counters) = profile else {
        panic!("not counters");
    };
    *counters
}

#[test]
fn a_report_has_the_launches_of_its_raw_page() {
    let report = report();
    assert!(report.issues.is_empty(), "{:?}", report.issues);
    assert_eq!(report.launches.len(), 12);
    let page = ncu_csv::read(&unpacked("decode_raw.csv.gz"), "page").expect("page");
    for (own, theirs) in report.launches.iter().zip(&page.launches) {
        assert_eq!((own.grid, own.block), (theirs.grid, theirs.block));
        assert_eq!(own.canonical, theirs.canonical);
        assert_eq!(own.ranges, theirs.ranges);
        assert_eq!(own.compute_capability, theirs.compute_capability);
        assert_eq!(
            (own.stream, own.context, own.device),
            (theirs.stream, theirs.context, theirs.device)
        );
    }
}

/// Every number of the page is in the report, rounded by the page; where a name tells the unit, it is the page's.
#[test]
fn every_metric_of_the_raw_page_is_in_the_report() {
    let report = report();
    let page = ncu_csv::read(&unpacked("decode_raw.csv.gz"), "page").expect("page");
    let (mut compared, mut with_unit) = (0, 0);
    for (own, theirs) in report.launches.iter().zip(&page.launches) {
        for reading in &theirs.readings {
            let Value::Number(expected) = reading.value else {
                continue;
            };
            let metric = page.describe(reading.metric).expect("metric");
            // A page shows the number of instances of these; the report has each of them.
            let Some(value) = report.number(own, &metric.name) else {
                continue;
            };
            // The page divides these by 1000 twice.
            if metric.name.starts_with("derived__pct_occupancy_per") {
                continue;
            }
            // Two decimals or more of the printed unit.
            let step = 1e-6 * expected.abs() + 0.0051 * scale(&reading.printed_unit);
            assert!(
                (value - expected).abs() <= step,
                "{}: {value} and {expected} {}",
                metric.name,
                reading.printed_unit
            );
            compared += 1;
            let own_metric = report
                .metrics
                .iter()
                .find(|one| one.name == metric.name)
                .expect("metric");
            if !own_metric.unit.is_empty() {
                assert_eq!(own_metric.unit, metric.unit, "{}", metric.name);
                with_unit += 1;
            }
        }
    }
    assert!(compared > 12 * 1_900, "{compared}");
    assert!(with_unit > 12 * 300, "{with_unit}");
}

fn scale(unit: &str) -> f64 {
    match unit.as_bytes() {
        [b'K', ..] | b"us" => 1e3,
        [b'T', ..] => 1e12,
        bytes if bytes.starts_with(b"G") || bytes.ends_with(b"/ns") => 1e9,
        bytes if bytes.starts_with(b"M") || bytes == b"ms" || bytes.ends_with(b"/us") => 1e6,
        _ => 1.0,
    }
}

#[test]
fn rules_are_those_of_the_details_page() {
    let report = report();
    let page = ncu_csv::read(&unpacked("decode_details.csv.gz"), "page").expect("page");
    let mut rules = 0;
    for (own, theirs) in report.launches.iter().zip(&page.launches) {
        let facts = |rule: &Rule| {
            let speedup = rule.speedup.map(|speedup| {
                (
                    speedup.of_whole_kernel,
                    (speedup.percent * 100.0).round() / 100.0,
                )
            });
            (rule.name.clone(), rule.kind.clone(), speedup)
        };
        // The page goes by section, the report by rule.
        let sorted = |rules: &[Rule]| {
            let mut facts: Vec<_> = rules.iter().map(facts).collect();
            facts.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
            facts
        };
        let (ours, expected) = (sorted(&own.rules), sorted(&theirs.rules));
        assert_eq!(ours, expected, "{}", own.kernel);
        rules += ours.len();
    }
    assert!(rules > 12, "{rules}");
}

/// One decode step of Qwen2.5-0.5B (24 layers, batch 1, bf16) on an H200: the GEMMs read each weight once from DRAM. The model has
/// 494,032,768 parameters, whose embedding table is the head too.
#[test]
fn gemms_of_a_decode_step_read_the_weights_once() {
    let counters = ncu_report::read(&unpacked("decode_step.ncu-rep.gz"), "report");
    // Kernel and launches of one step: q; k and v; o; gate and up; down; head.
    let launches = [
        ("nvjet_sm90_tst_8x64_64x16_4x1_v_bz_bias_TNN", 24),
        ("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_bias_TNT", 48),
        ("nvjet_sm90_tst_8x64_64x16_4x1_v_bz_TNN", 24),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", 48),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", 24),
        ("nvjet_sm90_tst_384x8_64x4_2x1_v_bz_TNT", 1),
    ];
    let mut bytes = 0;
    for (name, count) in launches {
        let launch = counters.launches.iter().find(|one| one.kernel == name);
        let launch = launch.unwrap_or_else(|| panic!("{name}"));
        bytes += count * counters.dram_bytes(launch).expect("bytes").0;
    }
    let weights = 2 * 494_032_768_u64;
    let ratio = bytes as f64 / weights as f64;
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

/// Where blocks end. The format counts neither blocks nor bytes of the whole: a report cut at such a place is a shorter one.
fn block_ends(bytes: &[u8]) -> Vec<usize> {
    let length =
        |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let mut at = 8 + length(4);
    let mut ends = vec![at];
    while at < bytes.len() {
        let header = &bytes[at + 4..at + 4 + length(at)];
        // The size of the payload is the last field of a block's header here, of up to four bytes.
        let tag = header
            .iter()
            .rposition(|byte| *byte == 5 << 3)
            .expect("a size");
        let payload = header[tag + 1..]
            .iter()
            .enumerate()
            .fold(0, |sum, (place, byte)| {
                sum | usize::from(byte & 0x7f) << (7 * place)
            });
        at += 4 + header.len() + payload;
        ends.push(at);
    }
    assert_eq!(at, bytes.len());
    ends
}

/// A report cut at a byte has the launches before it, and says so unless nothing shows that there was more.
fn check_cut(bytes: &[u8], cut: usize) {
    let whole = ncu_report::read(bytes, "report");
    let partial = ncu_report::read(&bytes[..cut], "report");
    assert!(partial.launches.len() < 12);
    for (launch, of_whole) in partial.launches.iter().zip(&whole.launches) {
        // What the device is stands behind the first launch, and is added to the readings of all.
        let mut expected = of_whole.clone();
        expected
            .compute_capability
            .clone_from(&launch.compute_capability);
        expected.readings.truncate(launch.readings.len());
        assert_eq!(launch, &expected);
    }
    let is_said = partial
        .issues
        .iter()
        .any(|issue| issue.code.as_str() == "ncu.cut_report");
    assert_eq!(is_said, !block_ends(bytes).contains(&cut), "cut at {cut}");
}

#[test]
fn a_report_cut_between_blocks_is_a_shorter_one() {
    let bytes = unpacked("decode_12.ncu-rep.gz");
    for end in block_ends(&bytes) {
        for cut in [end - 1, end, end + 1] {
            if cut < bytes.len() {
                check_cut(&bytes, cut);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_cut_report_keeps_whole_launches(share in 0.0..1.0_f64) {
        let bytes = unpacked("decode_12.ncu-rep.gz");
        check_cut(&bytes, (bytes.len() as f64 * share) as usize);
    }

    #[test]
    fn damage_does_no_harm(at in 0..4_000_usize, byte in any::<u8>()) {
        let mut bytes = unpacked("decode_12.ncu-rep.gz");
        bytes[at] = byte;
        let _ = ncu_report::read(&bytes, "report");
    }
}

/// A field with a message or text of a protocol buffer.
fn message(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(content);
    field
}

fn varint(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn with_length(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_le_bytes()[..], content].concat()
}

/// A report of one block with these launches and a device.
fn report_of(launches: &[Vec<u8>], device: &[u8]) -> Vec<u8> {
    let payload: Vec<u8> = launches
        .iter()
        .flat_map(|launch| with_length(launch))
        .collect();
    let mut header = Vec::new();
    for (number, value) in [(2_u8, launches.len()), (5, payload.len())] {
        header.push(number << 3);
        let mut rest = value;
        while rest >= 0x80 {
            header.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        header.push(rest as u8);
    }
    let devices = message(3, &message(6, device));
    [
        b"NVR\0".to_vec(),
        with_length(&[]),
        with_length(&header),
        payload,
        with_length(&devices),
    ]
    .concat()
}

/// Every launch gets the attributes of its device: 400 KB of both would be 10⁸ readings.
#[test]
fn attributes_times_launches_are_bounded_by_the_size_of_the_file() {
    let launch = [varint(1, 1), message(7, b"k")].concat();
    let attribute = message(3, &[message(1, b"a"), message(2, &varint(4, 1))].concat());
    let bytes = report_of(&vec![launch; 15_000], &attribute.repeat(20_000));
    let counters = ncu_report::read(&bytes, "report");
    assert_eq!(counters.launches.len(), 15_000);
    let readings: usize = counters
        .launches
        .iter()
        .map(|launch| launch.readings.len())
        .sum();
    assert!(readings <= bytes.len() / 16, "{readings}");
    let codes: Vec<_> = counters
        .issues
        .iter()
        .map(|issue| issue.code.as_str())
        .collect();
    assert_eq!(codes, ["ncu.too_many_attributes"]);
}

/// A rule's name stands beside each of its messages, a domain's beside each of its ranges: 100 KB of a name and as many
/// messages would be gigabytes.
#[test]
fn long_names_are_not_copied_for_every_message() {
    let name = "x".repeat(100_000);
    let item = message(1, &message(1, &[message(1, b"m"), varint(2, 1)].concat()));
    let rule = [
        message(1, name.as_bytes()),
        message(4, name.as_bytes()),
        message(3, &item.repeat(10_000)),
    ]
    .concat();
    let range = message(3, &message(1, b"r"));
    let domain = [varint(1, 5), message(2, name.as_bytes())].concat();
    let thread_domain = [varint(1, 5), range.repeat(10_000)].concat();
    let thread = [varint(1, 1), message(2, &thread_domain)].concat();
    let state = [message(1, &domain), message(2, &thread)].concat();
    let launch = [
        varint(1, 1),
        message(7, b"k"),
        vec![0x9a, 0x01],
        message(0, &rule)[1..].to_vec(),
        vec![0xaa, 0x01],
        message(0, &state)[1..].to_vec(),
    ]
    .concat();
    let counters = ncu_report::read(&report_of(&[launch], &[]), "report");
    let launch = &counters.launches[0];
    assert_eq!((launch.rules.len(), launch.ranges.len()), (10_000, 10_000));
    assert!(
        launch
            .rules
            .iter()
            .all(|rule| rule.name.len() <= 256 && rule.section.len() <= 256)
    );
    assert!(launch.ranges.iter().all(|range| range.domain.len() <= 256));
}

/// Counts of results that are not kernels are added up.
#[test]
fn absurd_counts_saturate() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let header: Vec<u8> = (7..=9_u8)
        .flat_map(|number| [&[number << 3][..], &huge].concat())
        .collect();
    let bytes = [b"NVR\0".to_vec(), with_length(&[]), with_length(&header)].concat();
    let counters = ncu_report::read(&bytes, "report");
    assert_eq!(counters.issues[0].count, u64::MAX);
}
