#![no_main]

use std::cell::OnceCell;

use llmprof_fuzz::run_directory::{FILES, read};

thread_local! {
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

// The first byte chooses the file.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((first, rest)) = bytes.split_first() {
        FOLDER.with(|folder| {
            let folder = folder.get_or_init(|| tempfile::tempdir().expect("a folder"));
            read(folder.path(), FILES[usize::from(*first) % FILES.len()], rest);
        });
    }
});
