#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    llmprof_fuzz::load::read("request_trace", bytes);
});
