//! What limits the occupancy of kernels, against the counters of one decode step on an H200.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use llmprof_analysis::analyze;
use llmprof_record::import::{self, Limits};
use llmprof_record::run::RunRecord;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/h200/ncu")
        .join(name)
}

/// The limits of every launch by plain reading of the page: how many blocks each allows.
fn limits() -> Vec<Vec<(&'static str, f64)>> {
    let file = File::open(fixture("decode_raw.csv.gz")).expect("fixture");
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let lines: Vec<String> = lines.map(|line| line.expect("text")).collect();
    let page = lines.iter().filter(|line| line.starts_with('"'));
    let page: Vec<&str> = page.map(String::as_str).collect();
    let page = page.join("\n");
    let mut table = csv::Reader::from_reader(page.as_bytes());
    let header = table.headers().expect("a header").clone();
    let of = |name: &str| {
        let name = format!("launch__occupancy_limit_{name}");
        header
            .iter()
            .position(|column| column == name)
            .expect("a column")
    };
    let columns = [
        ("registers", of("registers")),
        ("shared_memory", of("shared_mem")),
        ("warps", of("warps")),
        ("blocks", of("blocks")),
        ("barriers", of("barriers")),
    ];
    // The first row has units.
    table
        .records()
        .skip(1)
        .map(|row| {
            let row = row.expect("a row");
            let limit = |(name, at): (&'static str, usize)| {
                (name, row[at].replace(',', "").parse().expect("a number"))
            };
            columns.map(limit).to_vec()
        })
        .collect()
}

#[test]
fn limits_that_allow_as_few_blocks_are_all_named() {
    let expected: Vec<Vec<&str>> = limits()
        .iter()
        .map(|limits| {
            let least = limits.iter().map(|limit| limit.1).fold(f64::MAX, f64::min);
            let tied = limits.iter().filter(|limit| limit.1 == least);
            tied.map(|limit| limit.0).collect()
        })
        .collect();
    // Of 40 launches, 24 have several limits that tie.
    assert_eq!(expected.len(), 40);
    assert_eq!(expected.iter().filter(|names| names.len() > 1).count(), 24);
    for page in ["decode_raw.csv.gz", "decode_details.csv.gz"] {
        let (_, profile) = import::import(&fixture(page), &Limits::default()).expect("fixture");
        let mut record = RunRecord::default();
        record.add_profile(page, profile).expect("counters");
        let found = analyze(&record, None).expect("analysis").counters;
        let mut launches = found.expect("counters").launches;
        launches.sort_by_key(|launch| launch.id);
        let found: Vec<Vec<&str>> = launches
            .iter()
            .map(|launch| {
                let limiters = launch.occupancy_limiters.iter();
                limiters.map(String::as_str).collect()
            })
            .collect();
        assert_eq!(found, expected, "{page}");
    }
}
