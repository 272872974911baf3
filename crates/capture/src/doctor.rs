//! What works on this machine, what does not, and the command that would fix it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    profiler::{
        find_library,
        nsight::{
            Tool, ToolError, Version,
            importer::{check_importer, find_importer},
            ncu, nsys,
        },
    },
    telemetry::nvml,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Works,
    /// Part of llmprof does without it.
    Missing,
    /// It is there and does not work.
    Broken,
}

impl CheckState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Works => "ok",
            Self::Missing => "missing",
            Self::Broken => "broken",
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Check {
    /// Name of the part that was checked.
    pub name: &'static str,
    /// Whether the part works, is missing or is broken.
    pub state: CheckState,
    /// What the check saw, such as a version or an error.
    pub found: String,
    /// What would make it work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    fn works(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: CheckState::Works,
            found: found.into(),
            fix: None,
        }
    }

    fn not(name: &'static str, state: CheckState, found: impl Into<String>, fix: &str) -> Self {
        Self {
            name,
            state,
            found: found.into(),
            fix: Some(fix.to_owned()),
        }
    }
}

/// Checks everything; packages are those of the Python that is named.
pub fn check_machine(python_program: &str) -> Vec<Check> {
    let mut checks = vec![
        driver(),
        nvml_library(),
        cuda(),
        nvcc(),
        counters(),
        cupti(),
        system_cupti(python_program),
        tool("nsys", nsys::NSYS_MIN_VERSION),
        importer(),
        tool("ncu", ncu::NCU_MIN_VERSION),
        lock_folder(),
        perf_events(),
        ptrace(),
        disk(),
    ];
    checks.extend(python(python_program));
    checks.push(pixi());
    checks
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

fn driver() -> Check {
    const NAME: &str = "NVIDIA driver";
    let fields = "--query-gpu=name,driver_version,memory.total";
    match said("nvidia-smi", &[fields, "--format=csv,noheader"]) {
        Ok(driver) if !driver.is_empty() => Check::works(NAME, driver.replace('\n', "; ")),
        Ok(_) => Check::not(
            NAME,
            CheckState::Broken,
            "nvidia-smi lists no GPU",
            "check `lspci | grep -i nvidia` and `dmesg | grep -i nvrm`",
        ),
        Err(why) => Check::not(NAME, CheckState::Missing, why, NO_DRIVER),
    }
}

/// What to do without a driver.
const NO_DRIVER: &str = "Debian: sudo apt-get install nvidia-driver, Ubuntu: sudo ubuntu-drivers install (or nvidia.com/drivers); without it models run with device=cpu";
const TOOLKIT: &str =
    "sudo apt-get install nvidia-cuda-toolkit; only packages that compile CUDA code need it";
const LOCK_FOLDER: &str = "sudo mkdir -p /var/lock && sudo chmod 1777 /var/lock; nsys needs it";
const CUPTI: &str = "pip install nvidia-cuda-cupti, or install the CUDA toolkit";
const NSYS_WITH_IMPORTER: &str = "sudo apt-get install nsight-systems (Debian 13; docs/install.md has others): the package has the importer";
const IMPORTER_LIBRARIES: &str = "sudo apt-get install libdw1 libelf1, or what the message names; until then stage 2 uses llmprof's own timeline";
const COUNTERS: &str = "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, then reboot";
const PERF_EVENTS: &str = "sudo sysctl kernel.perf_event_paranoid=2";
const PTRACE: &str =
    "sudo sysctl kernel.yama.ptrace_scope=1; without it recordings have no host stacks";

/// The library that telemetry asks, without nvidia-smi.
fn nvml_library() -> Check {
    const NAME: &str = "NVML";
    match nvml::gpu_facts(None) {
        Ok(facts) if !facts.gpus.is_empty() => {
            let version = facts
                .nvml_version
                .unwrap_or_else(|| "unknown version".to_owned());
            Check::works(NAME, format!("{version}, {} GPU", facts.gpus.len()))
        }
        Ok(_) => Check::not(
            NAME,
            CheckState::Broken,
            "NVML lists no GPU",
            "check `nvidia-smi -L`",
        ),
        Err(why) => Check::not(NAME, CheckState::Missing, why.to_string(), NO_DRIVER),
    }
}

/// The compiler, which only packages that are built here need (flash-attn).
fn nvcc() -> Check {
    const NAME: &str = "nvcc";
    let toolkit = std::env::var("CUDA_HOME").unwrap_or_else(|_| "/usr/local/cuda".to_owned());
    let installed = format!("{toolkit}/bin/nvcc");
    let version = said("nvcc", &["--version"]).or_else(|_| said(&installed, &["--version"]));
    match version {
        Ok(text) => {
            let release = text
                .lines()
                .find_map(|line| line.split_once("release ")?.1.split(',').next());
            Check::works(NAME, release.unwrap_or("unknown release").to_owned())
        }
        Err(_) => Check::not(
            NAME,
            CheckState::Missing,
            format!("neither on the PATH nor at {installed}"),
            TOOLKIT,
        ),
    }
}

/// Nsight Systems keeps its lock there.
fn lock_folder() -> Check {
    const NAME: &str = "/var/lock";
    let folder = Path::new("/var/lock");
    let can_write = rustix::fs::access(
        folder,
        rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
    );
    match can_write {
        Ok(()) => Check::works(NAME, "can be written"),
        Err(error) => {
            let state = if folder.exists() {
                CheckState::Broken
            } else {
                CheckState::Missing
            };
            Check::not(NAME, state, error.to_string(), LOCK_FOLDER)
        }
    }
}

fn pixi() -> Check {
    const NAME: &str = "pixi";
    match said(NAME, &["--version"]) {
        Ok(version) => Check::works(NAME, version),
        Err(why) => Check::not(
            NAME,
            CheckState::Missing,
            why,
            "curl -fsSL https://pixi.sh/install.sh | bash; only tasks of a project need it",
        ),
    }
}

/// The newest CUDA that the driver runs, as nvidia-smi heads its table.
fn cuda() -> Check {
    const NAME: &str = "CUDA";
    let fix = NO_DRIVER;
    let said = match said("nvidia-smi", &[]) {
        Ok(said) => said,
        Err(why) => return Check::not(NAME, CheckState::Missing, why, fix),
    };
    match cuda_version(&said) {
        Some(version) => Check::works(NAME, format!("the driver runs up to {version}")),
        None => Check::not(
            NAME,
            CheckState::Broken,
            "nvidia-smi names no CUDA version",
            fix,
        ),
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
    let library = named
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
            let file = files.find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("libcupti.so")
            });
            Some(file?.display().to_string())
        });
    match library {
        Some(path) => Check::works(NAME, path),
        None => Check::not(
            NAME,
            CheckState::Missing,
            "no libcupti.so in Python packages, the loader's cache or /usr/local/cuda",
            CUPTI,
        ),
    }
}

/// What makes a report of what nsys recorded; without its libraries a recording stays a `.qdstrm`.
fn importer() -> Check {
    const NAME: &str = "nsys importer";
    let Ok(tool) = Tool::find_tool("nsys", None) else {
        return Check::not(
            NAME,
            CheckState::Missing,
            "nsys not found",
            NSYS_WITH_IMPORTER,
        );
    };
    match find_importer(&tool.program) {
        Some(program) => match check_importer(&program) {
            Ok(()) => Check::works(NAME, program.display().to_string()),
            Err(why) => Check::not(NAME, CheckState::Broken, why, IMPORTER_LIBRARIES),
        },
        None => Check::not(
            NAME,
            CheckState::Missing,
            format!("no QdstrmImporter beside {}", tool.program.display()),
            NSYS_WITH_IMPORTER,
        ),
    }
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
        (None, _) => Check::not(NAME, CheckState::Missing, "no NVIDIA driver", NO_DRIVER),
        (Some(_), true) => Check::works(NAME, "running as root"),
        (Some(false), false) => Check::works(NAME, "open to all users"),
        (Some(true), false) => Check::not(
            NAME,
            CheckState::Broken,
            "only root may read counters (ERR_NVGPUCTRPERM)",
            COUNTERS,
        ),
    }
}

fn cupti() -> Check {
    match find_library() {
        Ok(library) => Check::works("llmprof's CUPTI library", library.display().to_string()),
        Err(missing) => Check::not(
            "llmprof's CUPTI library",
            CheckState::Missing,
            missing.to_string(),
            &missing.hint(),
        ),
    }
}

fn tool(name: &'static str, needed: Version) -> Check {
    let installed = Tool::find_tool(name, None);
    match installed.and_then(|tool| tool.require_version(name, needed).map(|()| tool)) {
        Ok(tool) => Check::works(
            name,
            format!("{} at {}", tool.version, tool.program.display()),
        ),
        Err(error) => {
            let state = match error {
                ToolError::NotFound { .. } => CheckState::Missing,
                _ => CheckState::Broken,
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
            CheckState::Broken,
            format!("{level}: CPU counters are forbidden"),
            PERF_EVENTS,
        ),
        _ => Check::not(
            NAME,
            CheckState::Missing,
            "the kernel has no perf events",
            "run on a kernel with perf events",
        ),
    }
}

/// Whether `record` may read the stacks of the program that it starts. A kernel without Yama asks only for the same user.
fn ptrace() -> Check {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    ptrace_check(scope.as_deref().map_or("0", str::trim))
}

fn ptrace_check(scope: &str) -> Check {
    const NAME: &str = "ptrace_scope";
    match scope {
        "0" | "1" => Check::works(NAME, scope),
        _ => Check::not(
            NAME,
            CheckState::Broken,
            format!("{scope}: only administrators may read other processes"),
            PTRACE,
        ),
    }
}

fn disk() -> Check {
    const NAME: &str = "disk";
    const FREE_DISK_MIN_GB: f64 = 5.0;
    let here = Path::new(".");
    match rustix::fs::statvfs(here) {
        Ok(disk) => {
            let gigabytes = disk.f_bavail as f64 * disk.f_frsize as f64 / 1e9;
            let text = format!("{gigabytes:.1} GB free");
            if gigabytes >= FREE_DISK_MIN_GB {
                Check::works(NAME, text)
            } else {
                Check::not(
                    NAME,
                    CheckState::Broken,
                    text,
                    "free 5 GB: traces and reports of one run may have gigabytes",
                )
            }
        }
        Err(error) => Check::not(
            NAME,
            CheckState::Broken,
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
    let printed = match said(program, &["-c", PROBE]) {
        Ok(printed) => printed,
        Err(why) => {
            let fix = "sudo apt-get install python3, or --python PATH";
            let missing = |name| Check::not(name, CheckState::Missing, "no Python to ask", fix);
            return vec![
                Check::not("python", CheckState::Missing, why, fix),
                missing("torch"),
                missing("transformers"),
                missing("vllm"),
            ];
        }
    };
    let line = |name: &'static str, fix: &str| {
        let rest = printed
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        match rest {
            Some(rest) => match rest.strip_prefix("- ") {
                Some(why) => Check::not(name, CheckState::Missing, why, fix),
                None => Check::works(name, rest),
            },
            None => Check::not(
                name,
                CheckState::Broken,
                "the probe said nothing of it",
                fix,
            ),
        }
    };
    vec![
        line("python", "--python PATH"),
        line(
            "torch",
            &format!("{program} -m pip install torch; only runtime=pytorch needs it"),
        ),
        line(
            "transformers",
            &format!("{program} -m pip install transformers; only runtime=pytorch needs it"),
        ),
        line(
            "vllm",
            &format!("{program} -m pip install vllm; only runtime=vllm needs it"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command in the texts of this file and in the hints of the tools that it checks.
    #[test]
    fn install_page_has_every_command_that_the_doctor_prints() {
        let page = include_str!("../../../docs/install.md");
        let sources = [
            include_str!("doctor.rs"),
            include_str!("profiler/nsight/tool.rs"),
            include_str!("profiler/cupti.rs"),
        ];
        let mut commands = 0;
        for source in sources {
            let (code, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
            for program in ["sudo ", "pip install ", "curl ", "echo '", "nvidia-smi -"] {
                for (begin, _) in code.match_indices(program) {
                    let command = code[begin..].split(['"', ';', ',', '`']).next().unwrap();
                    let command = command.split(" (").next().unwrap().trim();
                    let line = format!("{command}\n");
                    assert!(page.contains(&line), "docs/install.md lacks `{command}`");
                    commands += 1;
                }
            }
        }
        assert!(commands > 10, "{commands}");
    }

    #[test]
    fn ptrace_needs_a_scope_of_at_most_one() {
        assert_eq!(ptrace_check("1").state, CheckState::Works);
        let refused = ptrace_check("2");
        assert_eq!(refused.state, CheckState::Broken);
        assert_eq!(refused.fix.as_deref(), Some(PTRACE));
    }

    #[test]
    fn the_header_of_nvidia_smi_names_cuda() {
        let header =
            "| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8     |";
        assert_eq!(cuda_version(header), Some("12.8"));
        assert_eq!(cuda_version("CUDA Version: N/A"), None);
        assert_eq!(cuda_version("no devices"), None);
    }
}
