//! The tests of a crate are one program. A file that it does not name would never run.

use std::{fs, path::Path};

#[test]
fn every_file_of_tests_is_linked() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut programs = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let tests = folder.join("tests");
        let Ok(main) = fs::read_to_string(tests.join("main.rs")) else {
            continue;
        };
        programs += 1;
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for entry in fs::read_dir(&tests).unwrap() {
            let path = entry.unwrap().path();
            let is_module = path.extension().is_some_and(|extension| extension == "rs")
                || path.join("mod.rs").is_file();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_linked = name == "main"
                || main.contains(&format!("mod {name};\n"))
                || manifest.contains(&format!("[[test]]\nname = \"{name}\"\n"));
            assert!(!is_module || is_linked, "{} is not linked", path.display());
        }
    }
    assert!(programs > 0);
}
