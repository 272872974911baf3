#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    llmprof_fuzz::other_inputs::read(Path::new(env!("CARGO_MANIFEST_DIR")), "dataset_lines", bytes);
});
