#![no_main]

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use llmprof_fuzz::run_directory::{FILES, make, read};
use tempfile::TempDir;

thread_local! {
    /// A whole run, and its files as they were.
    static RUN: OnceCell<(TempDir, Vec<Option<Vec<u8>>>)> = const { OnceCell::new() };
}

fn new() -> (TempDir, Vec<Option<Vec<u8>>>) {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    make(&run, Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a run of the seeds");
    let files = FILES.map(|file| fs::read(run.join(file)).ok());
    (folder, files.to_vec())
}

/// The first byte chooses the file; all others are whole. Where the second is 0 the rest is its content, which no input is at
/// first; otherwise the rest is put over the place that bytes 2 and 3 name.
fn content(bytes: &[u8], whole: &[u8]) -> Vec<u8> {
    match bytes {
        [0, rest @ ..] => rest.to_vec(),
        [_, high, low, rest @ ..] => {
            let mut content = whole.to_vec();
            let place = usize::from(*high) << 8 | usize::from(*low);
            let start = place % (content.len() + 1);
            let end = (start + rest.len()).min(content.len());
            content.splice(start..end, rest.iter().copied());
            content
        }
        short => short.to_vec(),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((first, rest)) = bytes.split_first() {
        RUN.with(|run| {
            let (folder, files) = run.get_or_init(new);
            let run = folder.path().join("run");
            let index = usize::from(*first) % FILES.len();
            let whole = files[index].as_deref();
            read(&run, FILES[index], &content(rest, whole.unwrap_or_default()));
            let path = run.join(FILES[index]);
            let restored = match whole {
                Some(whole) => fs::write(path, whole),
                None => fs::remove_file(path),
            };
            restored.expect("the run is ours");
        });
    }
});
