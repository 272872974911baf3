#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok((_, records)) = llmprof_wire::Reader::new(bytes) {
        records.for_each(drop);
    }
});
