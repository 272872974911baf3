//! The seeds of `fuzz/corpus` and damaged copies of them, with the overflow checks of a test: no request, query, summary, model, device, price,
//! text or message is a panic.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "the files are modules of the fuzz targets too"
)]

#[path = "../../../fuzz/src/mcp.rs"]
mod mcp;
#[path = "../../../fuzz/src/mutate.rs"]
pub(crate) mod mutate;
#[path = "../../../fuzz/src/other_inputs.rs"]
mod other_inputs;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;

use std::path::Path;

use mcp::McpServer;
use other_inputs::FORMATS;
use seeds::Seeds;

/// Damaged copies of the seeds of each format.
const CASES: u64 = 300;

fn read(format: &str, bytes: &[u8]) -> bool {
    other_inputs::read(&replay::folder(), format, bytes)
}

#[test]
fn every_format_has_a_target_and_reads_its_seeds() {
    for format in FORMATS {
        for seed in replay::seeds(format).all() {
            let text = String::from_utf8_lossy(seed);
            assert!(read(format, seed), "{format}: {text}");
        }
    }
}

#[test]
fn damaged_inputs_are_errors_or_answers() {
    for format in FORMATS {
        replay::damaged(format, &replay::seeds(format), CASES, |input| {
            read(format, input);
        });
    }
}

#[test]
fn damaged_messages_do_not_end_the_server() {
    let seeds = Seeds::read(&replay::folder(), mcp::FORMAT).expect("it has seeds");
    let server = McpServer::new(Path::new(env!("CARGO_BIN_EXE_llmprof")), &replay::folder());
    for seed in seeds.all() {
        assert!(server.read(seed), "{}", String::from_utf8_lossy(seed));
    }
    for number in 0..CASES {
        server.read(&seeds.damaged(number));
    }
}
