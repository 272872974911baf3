//! `doctor`: what works on this machine, what does not, and the command that would fix it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use llmprof_capture::profiler::{
    find_library,
    nsight::{Tool, ToolError, Version, ncu, nsys},
};
use llmprof_report::{Cell, Table};
use serde::Serialize;

use crate::{args_kernels::DoctorArgs, failure::Failure, output::Output};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Works,
    /// Part of llmprof does without it.
    Missing,
    /// It is there and does not work.
    Broken,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Missing => "missing",
            Self::Broken => "broken",
        }
    }
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    /// What would make it work.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn works(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Works,
            found: found.into(),
            fix: None,
        }
    }

    fn not(name: &'static str, state: State, found: impl Into<String>, fix: &str) -> Self {
        Self {
            name,
            state,
            found: found.into(),
            fix: Some(fix.to_owned()),
        }
    }
}

pub(crate) fn doctor(args: &DoctorArgs, output: &mut Output) -> Result<(), Failure> {
    let mut checks = vec![
        driver(),
        cuda(),
        counters(),
        cupti(),
        system_cupti(&args.python),
    ];
    checks.extend([
        tool("nsys", nsys::NEEDED),
        importer(),
        tool("ncu", ncu::NEEDED),
        perf_events(),
        disk(),
    ]);
    checks.extend(python(&args.python));
    if args.json {
        return output.json(&checks);
    }
    let mut table = Table::new(&["Check", "State", "Found", "Fix"], 4);
    for check in &checks {
        table.row([
            Cell::from(check.name),
            Cell::from(check.state.word()),
            Cell::from(check.found.as_str()),
            Cell::from(check.fix.as_deref().unwrap_or("")),
        ]);
    }
    output.table(&table)
}

/// Runs a program and gives what it printed, or why it did not.
fn said(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(words)
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("{program} not found"),
            _ => format!("{program}: {error}"),
        })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr)
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned())
    }
}

/// Driver and NVML in one: nvidia-smi asks NVML.
fn driver() -> Check {
    let fields = "--query-gpu=name,driver_version,memory.total";
    match said("nvidia-smi", &[fields, "--format=csv,noheader"]) {
        Ok(found) if !found.is_empty() => {
            Check::works("NVIDIA driver, NVML", found.replace('\n', "; "))
        }
        Ok(_) => Check::not(
            "NVIDIA driver, NVML",
            State::Broken,
            "nvidia-smi lists no GPU",
            "check `lspci | grep -i nvidia` and `dmesg | grep -i nvrm`",
        ),
        Err(why) => Check::not(
            "NVIDIA driver, NVML",
            State::Missing,
            why,
            "install the NVIDIA driver; without it models run on the CPU",
        ),
    }
}

/// The newest CUDA that the driver runs, as nvidia-smi heads its table.
fn cuda() -> Check {
    const NAME: &str = "CUDA";
    let fix = "install the NVIDIA driver; without it models run on the CPU";
    let said = match said("nvidia-smi", &[]) {
        Ok(said) => said,
        Err(why) => return Check::not(NAME, State::Missing, why, fix),
    };
    match cuda_version(&said) {
        Some(version) => Check::works(NAME, format!("the driver runs up to {version}")),
        None => Check::not(NAME, State::Broken, "nvidia-smi names no CUDA version", fix),
    }
}

fn cuda_version(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("CUDA Version:")?;
    let word = rest.split_whitespace().next()?;
    word.starts_with(|c: char| c.is_ascii_digit())
        .then_some(word)
}

/// The `libcupti` that llmprof's library and torch's profiler load: of a Python package, or of an installed toolkit.
fn system_cupti(python: &str) -> Check {
    const NAME: &str = "CUPTI";
    const PROBE: &str = "\
import glob, os, sys
for folder in sys.path:
    for path in glob.glob(os.path.join(folder, 'nvidia', '*', 'lib', 'libcupti.so*')):
        print(path)
";
    let named = std::env::var("LLMPROF_CUPTI").ok();
    let packaged = said(python, &["-c", PROBE]).unwrap_or_default();
    let packaged = packaged.lines().find(|line| line.contains("libcupti.so"));
    let packaged = packaged.map(str::to_owned);
    let found = named
        .filter(|path| Path::new(path).is_file())
        .or(packaged)
        .or_else(|| {
            let known = said("ldconfig", &["-p"]).or_else(|_| said("/sbin/ldconfig", &["-p"]));
            let known = known.unwrap_or_default();
            let line = known.lines().find(|line| line.contains("libcupti.so"))?;
            Some(line.rsplit("=> ").next()?.to_owned())
        })
        .or_else(|| {
            let toolkit = std::env::var_os("CUDA_HOME");
            let toolkit = toolkit.map_or_else(|| PathBuf::from("/usr/local/cuda"), PathBuf::from);
            let folder = toolkit.join("extras/CUPTI/lib64");
            let entries = std::fs::read_dir(folder).ok()?.flatten();
            let mut files = entries.map(|entry| entry.path());
            let found = files.find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libcupti.so")
            });
            Some(found?.display().to_string())
        });
    match found {
        Some(path) => Check::works(NAME, path),
        None => Check::not(
            NAME,
            State::Missing,
            "no libcupti.so in Python packages, the loader's cache or /usr/local/cuda",
            "pip install nvidia-cuda-cupti, or install the CUDA toolkit",
        ),
    }
}

/// What makes a report of what nsys recorded; without its libraries a recording stays a `.qdstrm`.
fn importer() -> Check {
    const NAME: &str = "nsys importer";
    let Ok(tool) = Tool::find("nsys", None) else {
        let fix = "install Nsight Systems with its host part";
        return Check::not(NAME, State::Missing, "nsys not found", fix);
    };
    match importer_of(&tool.program) {
        Some(program) => importer_state(NAME, &program),
        None => Check::not(
            NAME,
            State::Missing,
            format!("no QdstrmImporter beside {}", tool.program.display()),
            "install Nsight Systems with its host part",
        ),
    }
}

/// Whether an importer runs: it exits with success, or says how it is used.
fn importer_state(name: &'static str, program: &Path) -> Check {
    let broken = |why: String| {
        let fix = "install the packages libdw1 and libelf1, or what the message names";
        Check::not(name, State::Broken, why, fix)
    };
    let output = match Command::new(program).arg("--help").output() {
        Ok(output) => output,
        Err(error) => return broken(format!("{}: {error}", program.display())),
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let shows_usage = said.to_ascii_lowercase().contains("usage") || said.contains("--help");
    if output.status.success() || (output.status.code().is_some() && shows_usage) {
        return Check::works(name, program.display().to_string());
    }
    let last = said.trim().lines().last().unwrap_or_default();
    broken(
        format!("{}: {} {last}", program.display(), output.status)
            .trim_end()
            .to_owned(),
    )
}

/// The importer of an installation: `host-linux-x64/QdstrmImporter` beside the folder of the program.
fn importer_of(nsys: &Path) -> Option<PathBuf> {
    let program = std::fs::canonicalize(nsys).ok()?;
    program.ancestors().skip(1).take(3).find_map(|folder| {
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        let mut folders = entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("host-linux")
        });
        folders.find_map(|host| {
            let program = host.join("QdstrmImporter");
            program.is_file().then_some(program)
        })
    })
}

/// Whether anybody but root may read counters.
fn counters() -> Check {
    const NAME: &str = "counter permission";
    let params = std::fs::read_to_string("/proc/driver/nvidia/params").unwrap_or_default();
    let restricted = params
        .lines()
        .find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))
        .map(|value| value.trim() == "1");
    let is_root = said("id", &["-u"]).is_ok_and(|id| id == "0");
    match (restricted, is_root) {
        (_, true) => Check::works(NAME, "running as root"),
        (Some(false), _) => Check::works(NAME, "open to all users"),
        (Some(true), false) => Check::not(
            NAME,
            State::Broken,
            "only root may read counters (ERR_NVGPUCTRPERM)",
            "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, then reboot",
        ),
        (None, false) => Check::not(
            NAME,
            State::Missing,
            "no NVIDIA driver",
            "install the NVIDIA driver",
        ),
    }
}

fn cupti() -> Check {
    match find_library() {
        Ok(library) => Check::works("llmprof's CUPTI library", library.display().to_string()),
        Err(missing) => Check::not(
            "llmprof's CUPTI library",
            State::Missing,
            missing.to_string(),
            &missing.hint(),
        ),
    }
}

fn tool(name: &'static str, needed: Version) -> Check {
    let found = Tool::find(name, None);
    match found.and_then(|tool| tool.has(name, needed).map(|()| tool)) {
        Ok(tool) => Check::works(
            name,
            format!("{} at {}", tool.version, tool.program.display()),
        ),
        Err(error) => {
            let state = match error {
                ToolError::NotFound { .. } => State::Missing,
                _ => State::Broken,
            };
            Check::not(name, state, error.to_string(), &error.hint())
        }
    }
}

/// CPU counters of the native runtime.
fn perf_events() -> Check {
    const NAME: &str = "perf_event_paranoid";
    let file = "/proc/sys/kernel/perf_event_paranoid";
    let level = std::fs::read_to_string(file).map(|text| text.trim().parse::<i32>());
    match level {
        Ok(Ok(level)) if level <= 2 => Check::works(NAME, level.to_string()),
        Ok(Ok(level)) => Check::not(
            NAME,
            State::Broken,
            format!("{level}: CPU counters are forbidden"),
            "sudo sysctl kernel.perf_event_paranoid=2",
        ),
        _ => Check::not(
            NAME,
            State::Missing,
            "the kernel has no perf events",
            "run on a kernel with perf events",
        ),
    }
}

fn disk() -> Check {
    const NAME: &str = "disk";
    const LEAST_GB: f64 = 5.0;
    let here = Path::new(".");
    match rustix::fs::statvfs(here) {
        Ok(found) => {
            let gigabytes = found.f_bavail as f64 * found.f_frsize as f64 / 1e9;
            let text = format!("{gigabytes:.1} GB free");
            if gigabytes >= LEAST_GB {
                Check::works(NAME, text)
            } else {
                Check::not(
                    NAME,
                    State::Broken,
                    text,
                    "free 5 GB: traces and reports of one run may have gigabytes",
                )
            }
        }
        Err(error) => Check::not(
            NAME,
            State::Broken,
            error.to_string(),
            "run in a directory that can be written",
        ),
    }
}

/// The interpreter and the packages that the runtimes use.
fn python(program: &str) -> Vec<Check> {
    const PROBE: &str = "\
import importlib, sys
print('python', '.'.join(map(str, sys.version_info[:3])))
for name in ('torch', 'transformers', 'vllm'):
    try:
        module = importlib.import_module(name)
        extra = ''
        if name == 'torch':
            extra = f', CUDA {module.version.cuda}, {module.cuda.device_count()} GPU'
        print(name, module.__version__ + extra)
    except Exception as error:
        print(name, '-', f'{type(error).__name__}: {error}'.splitlines()[0])
";
    let found = match said(program, &["-c", PROBE]) {
        Ok(found) => found,
        Err(why) => {
            let fix = "install Python 3.10 or newer, or --python PATH";
            return vec![Check::not("python", State::Missing, why, fix)];
        }
    };
    let line = |name: &'static str, fix: &str| {
        let rest = found
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        match rest {
            Some(rest) => match rest.strip_prefix("- ") {
                Some(why) => Check::not(name, State::Missing, why, fix),
                None => Check::works(name, rest),
            },
            None => Check::not(name, State::Broken, "the probe said nothing of it", fix),
        }
    };
    vec![
        line("python", "--python PATH"),
        line("torch", "pip install torch"),
        line("transformers", "pip install transformers"),
        line("vllm", "pip install vllm; only runtime=vllm needs it"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_nvidia_smi_names_cuda() {
        let header =
            "| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8     |";
        assert_eq!(cuda_version(header), Some("12.8"));
        assert_eq!(cuda_version("CUDA Version: N/A"), None);
        assert_eq!(cuda_version("no devices"), None);
    }

    #[test]
    fn an_importer_works_where_it_says_how_it_is_used() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let state = |script: &str, mode: u32| {
            let program = folder.path().join("QdstrmImporter");
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
            importer_state("nsys importer", &program)
        };
        for works in ["echo fine", "echo 'Usage: QdstrmImporter' >&2; exit 1"] {
            assert_eq!(state(works, 0o755).state, State::Works, "{works}");
        }
        for (broken, mode, why) in [
            ("exit 0", 0o644, "ermission denied"),
            ("kill -SEGV $$", 0o755, "signal: 11"),
            ("exit 3", 0o755, "exit status: 3"),
            (
                "echo 'error while loading shared libraries: libdw.so.1' >&2; exit 127",
                0o755,
                "libdw.so.1",
            ),
        ] {
            let found = state(broken, mode);
            assert_eq!(found.state, State::Broken, "{broken}");
            assert!(found.found.contains(why), "{}", found.found);
        }
    }

    #[test]
    fn the_importer_is_found_beside_the_tool() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("2025.3.1");
        for name in ["bin", "target-linux-x64", "host-linux-x64"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::write(root.join("target-linux-x64/nsys"), "").unwrap();
        std::os::unix::fs::symlink("../target-linux-x64/nsys", root.join("bin/nsys")).unwrap();
        assert_eq!(importer_of(&root.join("bin/nsys")), None);
        let importer = root.join("host-linux-x64/QdstrmImporter");
        std::fs::write(&importer, "").unwrap();
        let found = importer_of(&root.join("bin/nsys")).unwrap();
        assert_eq!(found, std::fs::canonicalize(importer).unwrap());
    }
}
