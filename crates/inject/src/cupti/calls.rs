//! Selects the CUDA API calls to record: those that start work on a device, wait for it, or may take long (memory,
//! modules). Recording every call gives about ten records per kernel; this gives about one.

use std::collections::HashMap;

use super::domain;

/// Highest callback number to ask for. Numbers go up to about 900; recent CUDA versions add fifty a year.
const CALLBACK_NUMBER_MAX: u32 = 4096;

/// A call is recorded if its name contains one of these. Names are those of `cuptiGetCallbackName` without `cuda` or `cu`.
const RECORDED_WORDS: &[&str] = &[
    "Launch",
    "Memcpy",
    "Memset",
    "Synchronize",
    "Malloc",
    "MemAlloc",
    "Free",
    "HostAlloc",
    "HostRegister",
    "ModuleLoad",
    "LibraryLoad",
    "GraphInstantiate",
    "GraphUpload",
    "StreamEndCapture",
];

/// Exceptions to [`RECORDED_WORDS`]: functions that describe graph nodes, or are cheap and frequent.
const EXCLUDED_WORDS: &[&str] = &[
    "Node",
    "GetParams",
    "SetParams",
    "LaunchHostFunc",
    "Attribute",
];

/// The recorded calls, by callback number.
pub(crate) struct Calls {
    pub(crate) all: bool,
    /// Calls of the runtime API, sorted.
    pub(crate) runtime: Vec<u32>,
    /// Calls of the driver API, sorted.
    pub(crate) driver: Vec<u32>,
    /// Calls that return after device work has finished, by domain and number, sorted.
    pub(super) waits: Vec<(u32, u32)>,
    /// Calls that launch kernels, likewise.
    pub(super) launches: Vec<(u32, u32)>,
    names: HashMap<(u32, u32), Vec<u8>>,
    /// Calls that are not recorded, likewise.
    pub(super) others: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// All work of a device.
    Device,
    /// A stream, an event or a copy.
    Part,
}

impl Calls {
    /// Chooses among the calls for which `name_of` has a name; with `all`, takes every one.
    pub(super) fn choose_calls(name_of: impl Fn(u32, u32) -> Option<Vec<u8>>, all: bool) -> Self {
        let mut calls = Self {
            all,
            runtime: Vec::new(),
            driver: Vec::new(),
            waits: Vec::new(),
            launches: Vec::new(),
            names: HashMap::new(),
            others: Vec::new(),
        };
        for domain in [domain::RUNTIME, domain::DRIVER] {
            // Numbers have gaps of one or two; a long silence is the end.
            let mut silence = 0;
            for callback in 1..CALLBACK_NUMBER_MAX {
                let Some(name) = name_of(domain, callback) else {
                    silence += 1;
                    if silence > 512 {
                        break;
                    }
                    continue;
                };
                silence = 0;
                let text = String::from_utf8_lossy(&name);
                if is_wanted(&text) {
                    match domain {
                        domain::RUNTIME => calls.runtime.push(callback),
                        _ => calls.driver.push(callback),
                    }
                    if is_wait(&text) {
                        calls.waits.push((domain, callback));
                    }
                    if is_launch(&text) {
                        calls.launches.push((domain, callback));
                    }
                } else {
                    calls.others.push((domain, callback));
                }
                calls.names.insert((domain, callback), name);
            }
        }
        calls.waits.sort_unstable();
        calls
    }

    /// What the call waited for, known when it returns.
    pub(super) fn waited_for(&self, domain: u32, callback: u32) -> Option<Wait> {
        self.waits.binary_search(&(domain, callback)).ok()?;
        let name = self.call_name(domain, callback);
        let is = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
        let all = is(b"DeviceSynchronize") || is(b"CtxSynchronize");
        Some(if all { Wait::Device } else { Wait::Part })
    }

    /// Empty if CUPTI gave no name.
    pub(crate) fn call_name(&self, domain: u32, callback: u32) -> &[u8] {
        self.names
            .get(&(domain, callback))
            .map_or(&[], |name| name.as_slice())
    }

    /// Whether to keep the record of a call; CUPTI before 12.5 records calls that were not selected.
    pub(crate) fn is_recorded(&self, domain: u32, callback: u32) -> bool {
        let chosen = match domain {
            domain::RUNTIME => &self.runtime,
            _ => &self.driver,
        };
        self.all || chosen.binary_search(&callback).is_ok()
    }
}

fn is_wanted(name: &str) -> bool {
    RECORDED_WORDS.iter().any(|word| name.contains(word))
        && !EXCLUDED_WORDS.iter().any(|word| name.contains(word))
}

/// Peer copies return before they are done, so they are not waits.
fn is_wait(name: &str) -> bool {
    name.contains("Synchronize")
        || (name.contains("Memcpy")
            && !["Async", "Peer", "DtoD"]
                .iter()
                .any(|word| name.contains(word)))
}

fn is_launch(name: &str) -> bool {
    name.starts_with("cudaLaunch") || name.starts_with("cuLaunch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_launch_or_wait_are_chosen() {
        let names = |domain, callback| {
            let name = match (domain, callback) {
                (domain::RUNTIME, 13) => "cudaMalloc_v3020",
                (domain::RUNTIME, 20) => "cudaGetDevice_v3020",
                (domain::RUNTIME, 31) => "cudaMemcpy_v3020",
                (domain::RUNTIME, 41) => "cudaMemcpyAsync_v3020",
                (domain::RUNTIME, 131) => "cudaStreamSynchronize_v3020",
                (domain::RUNTIME, 211) => "cudaLaunchKernel_v7000",
                (domain::RUNTIME, 300) => "cudaGraphAddMemcpyNode_v10000",
                (domain::RUNTIME, 311) => "cudaGraphLaunch_v10000",
                (domain::RUNTIME, 430) => "cudaLaunchKernelExC_v11060",
                (domain::DRIVER, 17) => "cuCtxSynchronize",
                (domain::DRIVER, 280) => "cuMemcpyDtoD_v2",
                (domain::DRIVER, 307) => "cuLaunchKernel",
                (domain::DRIVER, 310) => "cuCtxGetCurrent",
                (domain::DRIVER, 1200) => "cuLaunchAfterALongSilence",
                _ => return None,
            };
            Some(name.as_bytes().to_vec())
        };
        let calls = Calls::choose_calls(names, false);
        assert_eq!(calls.runtime, [13, 31, 41, 131, 211, 311, 430]);
        assert_eq!(calls.driver, [17, 280, 307]);
        let (driver, runtime) = (domain::DRIVER, domain::RUNTIME);
        assert_eq!(calls.waits, [(driver, 17), (runtime, 31), (runtime, 131)]);
        assert_eq!(
            calls.launches,
            [(runtime, 211), (runtime, 430), (driver, 307)]
        );
        assert_eq!(calls.others, [(runtime, 20), (runtime, 300), (driver, 310)]);
        assert_eq!(calls.waited_for(runtime, 131), Some(Wait::Part));
        assert_eq!(calls.waited_for(driver, 17), Some(Wait::Device));
        assert_eq!(calls.waited_for(runtime, 41), None);
        assert!(calls.is_recorded(domain::RUNTIME, 211));
        assert!(!calls.is_recorded(domain::RUNTIME, 20));
        assert!(!calls.is_recorded(domain::DRIVER, 211));
        assert_eq!(calls.call_name(domain::RUNTIME, 20), b"cudaGetDevice_v3020");
        assert!(Calls::choose_calls(names, true).is_recorded(domain::RUNTIME, 20));
    }
}
