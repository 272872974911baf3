//! Puts the config tree into the binary: every file of `conf/` becomes a (path, text) pair.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&manifest).join("../../conf");
    let root = root.canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());

    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                files.push(path);
            }
        }
    }
    files.sort();

    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("conf.rs");
    let mut code = fs::File::create(out)?;
    writeln!(code, "&[")?;
    for path in files {
        let relative = path.strip_prefix(&root).expect("found below the root");
        let name = relative.to_str().expect("config names are ASCII");
        writeln!(
            code,
            "    ({name:?}, include_str!({:?})),",
            path.display().to_string()
        )?;
    }
    writeln!(code, "]")
}
