//! Finds `libcupti`: already loaded, next to the CUDA libraries of Python packages, in an installed toolkit, or on the
//! loader's path.

use std::path::{Path, PathBuf};

use crate::sys::{self, Library};

/// Tried in this order; the toolkit links the last name to whichever version it has.
const LIBRARY_NAMES: [&str; 3] = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];

/// The first `libcupti` that loads. If the user named one, no other is tried.
pub(super) fn find_cupti() -> Result<Library, String> {
    if let Some(named) = std::env::var_os(llmprof_wire::options::CUPTI) {
        let named = named.to_string_lossy().into_owned();
        return Library::open(&named).ok_or_else(|| {
            format!(
                "{} names a library that does not load",
                llmprof_wire::options::CUPTI
            )
        });
    }
    let loaded = sys::loaded_paths();
    let in_process = loaded
        .iter()
        .filter(|path| is_cupti(path))
        .find_map(|path| Library::find_loaded(path));
    if let Some(library) = in_process {
        return Ok(library);
    }
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from)
        .chain([PathBuf::from("/usr/local/cuda")]);
    let folders = folders_beside(&loaded)
        .into_iter()
        .chain(toolkits.flat_map(|toolkit| in_toolkit(&toolkit)));
    for folder in folders {
        for name in LIBRARY_NAMES {
            let path = folder.join(name);
            if path.is_file()
                && let Some(library) = Library::open(&path.to_string_lossy())
            {
                return Ok(library);
            }
        }
    }
    LIBRARY_NAMES
        .iter()
        .find_map(|name| Library::open(name))
        .ok_or_else(|| "no libcupti was found".to_owned())
}

fn is_cupti(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.starts_with("libcupti.so") || (file.starts_with("libcupti-") && file.contains(".so"))
}

/// Folders of Python's CUDA packages, derived from the paths of loaded libraries: `site-packages/nvidia/cu13/lib`,
/// `site-packages/nvidia/cuda_cupti/lib`, and both from `site-packages/torch/lib`.
fn folders_beside(loaded: &[String]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut add = |folder: PathBuf| {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    };
    for path in loaded.iter().map(Path::new) {
        let Some(folder) = path.parent() else {
            continue;
        };
        let packages = folder.ancestors().find(|above| {
            above.file_name().is_some_and(|name| name == "nvidia")
                || above.file_name().is_some_and(|name| name == "torch")
        });
        let Some(packages) = packages.and_then(Path::parent) else {
            continue;
        };
        add(folder.to_owned());
        for package in ["cu13", "cu12", "cuda_cupti"] {
            add(packages.join("nvidia").join(package).join("lib"));
        }
    }
    folders
}

fn in_toolkit(toolkit: &Path) -> [PathBuf; 3] {
    [
        toolkit.join("extras/CUPTI/lib64"),
        toolkit.join("lib64"),
        toolkit.join("targets/x86_64-linux/lib"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_a_python_package_leads_to_its_neighbours() {
        let loaded = [
            "/lib/x86_64-linux-gnu/libc.so.6".to_owned(),
            "/env/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12".to_owned(),
            "/env/site-packages/torch/lib/libtorch_cuda.so".to_owned(),
        ];
        let folders = folders_beside(&loaded);
        for expected in [
            "/env/site-packages/nvidia/cuda_cupti/lib",
            "/env/site-packages/nvidia/cu13/lib",
        ] {
            assert!(folders.contains(&PathBuf::from(expected)), "{folders:?}");
        }
        assert!(folders.iter().all(|folder| folder.starts_with("/env")));
    }

    #[test]
    fn the_library_is_known_by_its_file_name() {
        assert!(is_cupti("/a/libcupti.so.12"));
        assert!(is_cupti("/torch/lib/libcupti-753be8e0.so.12"));
        assert!(!is_cupti("/a/libcupti/libcudart.so"));
        assert!(!is_cupti("/a/libcuptibench.so"));
    }
}
