//! Reads what is known of this machine for `env.json`.

use std::{fs, path::Path};

use llmprof_record::run::{Cpu, HostFacts};
use llmprof_units::Bytes;

use crate::{git, telemetry::nvml};

/// Environment variables that may be recorded: they change how a model runs and hold no secret.
const RECORDED_VARIABLES: &[&str] = &[
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "KMP_AFFINITY",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "PYTORCH_CUDA_ALLOC_CONF",
    "RAYON_NUM_THREADS",
    "TOKENIZERS_PARALLELISM",
];

/// Instruction sets that decide how fast a CPU multiplies matrices.
const RECORDED_FLAGS: &[&str] = &[
    "avx2",
    "fma",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "bf16",
    "sve",
];

/// Looks at this machine; `project` is where the run was started.
pub fn collect_facts(version: &str, project: &Path) -> HostFacts {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let uname = rustix::system::uname();
    HostFacts {
        llmprof: version.to_owned(),
        os: os_release
            .lines()
            .find_map(|line| line.strip_prefix("PRETTY_NAME="))
            .map(|name| name.trim_matches('"').to_owned()),
        kernel: uname.release().to_str().ok().map(str::to_owned),
        cpu: read_cpu(),
        memory_bytes: proc_field(&meminfo, "MemTotal").and_then(parse_kibibytes),
        nvidia: nvml::gpu_facts(None).ok(),
        git_revision: git::find_revision(project),
        environment: RECORDED_VARIABLES
            .iter()
            .filter_map(|&name| Some((name.to_owned(), std::env::var(name).ok()?)))
            .collect(),
        worker: std::collections::BTreeMap::new(),
        packages: std::collections::BTreeMap::new(),
    }
}

/// Looks at the processor alone.
pub fn read_cpu() -> Cpu {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Cpu {
        model: proc_field(&cpuinfo, "model name").map(str::to_owned),
        architecture: std::env::consts::ARCH.to_owned(),
        threads: std::thread::available_parallelism().ok().map(usize::from),
        features: cpu_features(&cpuinfo),
    }
}

/// The most memory that programs here can have: that of the machine with its swap, or less where a control group limits it.
pub fn memory_limit() -> Option<Bytes> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    memory_within(&meminfo, &group)
}

fn memory_within(meminfo: &str, group: &str) -> Option<Bytes> {
    let size = |name| proc_field(meminfo, name).and_then(parse_kibibytes);
    let swap = size("SwapTotal").unwrap_or_default();
    let machine = Bytes(size("MemTotal")?.0.saturating_add(swap.0));
    // A group without a limit says `max`.
    let limit = group.trim().parse().map(Bytes);
    Some(limit.map_or(machine, |limit: Bytes| limit.min(machine)))
}

/// The value after `name :` in a file of `/proc`.
fn proc_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// Parses a size such as `24601234 kB`.
fn parse_kibibytes(value: &str) -> Option<Bytes> {
    let number: u64 = value.strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(number.checked_mul(1024)?))
}

/// The recorded flags that the CPU has (`flags` on x86, `Features` on Arm).
fn cpu_features(cpuinfo: &str) -> Vec<String> {
    let flags = proc_field(cpuinfo, "flags").or_else(|| proc_field(cpuinfo, "Features"));
    let flags: Vec<&str> = flags.unwrap_or_default().split_whitespace().collect();
    RECORDED_FLAGS
        .iter()
        .filter(|flag| flags.contains(flag))
        .map(|&flag| flag.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nflags\t\t: fpu avx2 fma amx_bf16\n";
        assert_eq!(proc_field(cpuinfo, "model name"), Some("Some CPU @ 2.0GHz"));
        assert_eq!(cpu_features(cpuinfo), ["avx2", "fma", "amx_bf16"]);
        assert_eq!(parse_kibibytes("2 kB"), Some(Bytes(2048)));
        assert_eq!(parse_kibibytes("2 MB"), None);
    }

    #[test]
    fn memory_is_that_of_the_machine_or_of_its_group() {
        let meminfo = "MemTotal: 8 kB\nSwapTotal: 2 kB\n";
        let within = |group| memory_within(meminfo, group);
        assert_eq!(within("max\n"), Some(Bytes(10 << 10)));
        assert_eq!(within("4096\n"), Some(Bytes(4096)));
        assert_eq!(within("99999\n"), Some(Bytes(10 << 10)));
        assert_eq!(memory_within("", "4096"), None);
    }

    #[test]
    fn nothing_outside_the_list_is_recorded() {
        let facts = collect_facts("0.0.0", Path::new("/"));
        assert!(
            facts
                .environment
                .keys()
                .all(|name| RECORDED_VARIABLES.contains(&name.as_str()))
        );
        assert!(!serde_json::to_string(&facts).unwrap().contains("PATH"));
    }
}
