#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    llmprof_fuzz::importers::import("xplane", bytes);
});
