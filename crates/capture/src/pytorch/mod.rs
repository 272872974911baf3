//! The PyTorch runtime: a worker in Python, which the binary carries with it.
//!
//! [`Package::unpack`] writes it to a directory of its own, [`Package::launch_worker`] is the command that runs it with an
//! interpreter that has torch and transformers. What that interpreter lacks, the worker says in answer to hello.

mod kernels;
mod source;

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

pub use kernels::{KernelWorker, measured_device, measured_source};
use llmprof_record::plan::{Plan, TorchProfilerSettings};

use crate::{
    process::Launch,
    runner::protocol::{LoadOptions, Profile},
    scratch::Scratch,
};

/// The worker on disk, for as long as this lives.
#[derive(Debug)]
pub struct Package {
    directory: SourceDirectory,
}

#[derive(Debug)]
enum SourceDirectory {
    Scratch(Scratch),
    Named(PathBuf),
}

/// The worker could not be unpacked.
#[derive(Debug, thiserror::Error)]
#[error("cannot unpack the PyTorch worker: {0}")]
pub struct UnpackError(#[from] pub io::Error);

impl Package {
    /// Writes the worker to a new directory that nobody else may enter.
    pub fn unpack() -> Result<Self, UnpackError> {
        let directory = Scratch::new()?;
        write_files(directory.path())?;
        Ok(Self {
            directory: SourceDirectory::Scratch(directory),
        })
    }

    /// Writes the worker to a directory of this name, so that the command that runs it is known beforehand. What a killed run
    /// left there is removed.
    pub fn unpack_to(path: &Path) -> Result<Self, UnpackError> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        fs::DirBuilder::new().mode(0o700).create(path)?;
        let package = Self {
            directory: SourceDirectory::Named(path.to_owned()),
        };
        write_files(path)?;
        Ok(package)
    }

    /// The command that runs it with this interpreter.
    pub fn launch_worker(&self, python: &str) -> Launch {
        Self::launch_at(python, self.path())
    }

    /// The command that runs one in this directory.
    pub fn launch_at(python: &str, path: &Path) -> Launch {
        Launch::new(python)
            // A log that is written late is missing when the worker is ended.
            .arg("-u")
            .arg(path.to_string_lossy())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TOKENIZERS_PARALLELISM", "false")
            // Models come from local directories: nothing may be fetched while something is measured.
            .env("HF_HUB_OFFLINE", "1")
            .env("TRANSFORMERS_OFFLINE", "1")
    }

    pub fn path(&self) -> &Path {
        match &self.directory {
            SourceDirectory::Scratch(scratch) => scratch.path(),
            SourceDirectory::Named(path) => path,
        }
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        if let SourceDirectory::Named(path) = &self.directory {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn write_files(directory: &Path) -> io::Result<()> {
    for (name, text) in source::FILES {
        let path = directory.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

/// How a plan has the model executed.
pub fn load_options(plan: &Plan) -> LoadOptions {
    LoadOptions {
        attn_implementation: plan.runtime.attn_implementation.clone(),
        experts_implementation: plan.runtime.experts_implementation.clone(),
        compile: plan.runtime.compile,
        cuda_graph: plan.runtime.cuda_graph,
        trust_remote_code: plan.runtime.trust_remote_code,
        preprocess: plan
            .model
            .preprocess
            .as_ref()
            .and_then(|keys| keys.as_object().cloned()),
        ranks: Some(plan.hardware.ranks).filter(|ranks| *ranks > 1),
    }
}

/// What torch's profiler is asked for.
pub fn profile_request(settings: &TorchProfilerSettings) -> Profile {
    Profile {
        activities: settings.activities.clone(),
        shapes: settings.shapes,
        memory: settings.memory,
        stacks: settings.stacks,
        flops: settings.flops,
    }
}

/// The name of a trace, as TensorBoard's profiler plugin finds it: the worker, then a number, here its process.
pub fn trace_name(number: usize, pid: u32) -> String {
    format!("llmprof_{number}.{pid}.pt.trace.json")
}

/// The trace that another rank writes beside that of the first, by the name of that one.
pub fn rank_trace_name(first: &str, rank: u32) -> String {
    match first.split_once('.') {
        Some((stem, rest)) => format!("{stem}.rank{rank}.{rest}"),
        None => format!("{first}.rank{rank}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_package_is_whole_and_private() {
        let package = Package::unpack().unwrap();
        let mode = fs::metadata(package.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut files = 0;
        for folder in ["", "llmprof_worker"] {
            for entry in fs::read_dir(sources.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "py") {
                    let name = path.strip_prefix(&sources).unwrap();
                    let unpacked = package.path().join(name);
                    assert_eq!(fs::read(&path).unwrap(), fs::read(unpacked).unwrap());
                    files += 1;
                }
            }
        }
        assert_eq!(files, source::FILES.len());
        let path = package.path().to_path_buf();
        drop(package);
        assert!(!path.exists());
        // By a name that is known beforehand, twice: what a killed run left is replaced.
        let folder = tempfile::tempdir().unwrap();
        let named = folder.path().join("pytorch/worker");
        fs::create_dir_all(&named).unwrap();
        fs::write(named.join("left.py"), "x").unwrap();
        let package = Package::unpack_to(&named).unwrap();
        let mode = fs::metadata(&named).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(named.join("__main__.py").is_file() && !named.join("left.py").exists());
        drop(package);
        assert!(!named.exists());
    }

    #[test]
    fn the_interpreter_runs_the_unpacked_directory() {
        let package = Package::unpack().unwrap();
        let launch = package.launch_worker("python3.12");
        assert_eq!(launch.program, "python3.12");
        assert_eq!(launch.args[0], "-u");
        assert_eq!(Path::new(&launch.args[1]), package.path());
    }
}
