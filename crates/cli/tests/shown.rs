//! `--view`: commands that leave a run go on to show it.

use crate::common::refused;

/// Standard output is for a program or for the address of the pages.
#[test]
fn data_for_programs_and_pages_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        &["import", "x.json", "--view", "--json"][..],
        &["run", "--view", "--format", "agent"],
        &["bench", "localhost:1", "--view", "--json"],
        &["compare", "a", "b", "--view", "--json"],
    ] {
        let said = refused(folder.path(), words);
        assert!(said.contains("cannot be used with"), "{words:?}: {said}");
    }
}
