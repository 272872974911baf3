//! Which calls of the CUDA API are recorded: those that start work on a device, wait for it, or take long for reasons
//! worth knowing (memory, modules). Recording every call gives ten records a kernel where this gives about one.

use std::collections::HashMap;

use super::domain;

/// Numbers of callbacks go up to about 900; the last versions add fifty a year.
const MOST: u32 = 4096;

/// What a name must hold to be recorded. Names are those of `cuptiGetCallbackName`, without `cuda` or `cu` in front.
const WORDS: &[&str] = &[
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

/// What excludes a name that [`WORDS`] would take: functions that describe nodes of graphs or are cheap and frequent.
const NOT: &[&str] = &[
    "Node",
    "GetParams",
    "SetParams",
    "LaunchHostFunc",
    "Attribute",
];

/// The calls that are recorded, by the numbers of their callbacks.
pub(crate) struct Calls {
    pub(crate) all: bool,
    /// Of the runtime, in order.
    pub(crate) runtime: Vec<u32>,
    /// Of the driver, in order.
    pub(crate) driver: Vec<u32>,
    /// Those that return when a device has done what it was given, by domain and number, in order.
    pub(super) waits: Vec<(u32, u32)>,
    /// Those that give kernels to a device, likewise.
    pub(super) launches: Vec<(u32, u32)>,
    names: HashMap<(u32, u32), Vec<u8>>,
    /// Those that are not recorded, likewise.
    pub(super) others: Vec<(u32, u32)>,
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// All that a device was given.
    Device,
    /// A stream, an event or a copy.
    Part,
}

impl Calls {
    /// Chooses among the calls that `name_of` knows by domain and number.
    pub(super) fn choose(name_of: impl Fn(u32, u32) -> Option<Vec<u8>>, all: bool) -> Self {
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
            for callback in 1..MOST {
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

    /// What a call has waited for when it returns.
    pub(super) fn waited_for(&self, domain: u32, callback: u32) -> Option<Wait> {
        self.waits.binary_search(&(domain, callback)).ok()?;
        let name = self.name(domain, callback);
        let is = |word: &[u8]| name.windows(word.len()).any(|part| part == word);
        let all = is(b"DeviceSynchronize") || is(b"CtxSynchronize");
        Some(if all { Wait::Device } else { Wait::Part })
    }

    /// The name of a call; empty where CUPTI did not tell.
    pub(crate) fn name(&self, domain: u32, callback: u32) -> &[u8] {
        self.names
            .get(&(domain, callback))
            .map_or(&[], |name| name.as_slice())
    }

    /// Whether a record of this call is to be kept; CUPTI before 12.5 sends more than we want.
    pub(crate) fn wants(&self, domain: u32, callback: u32) -> bool {
        let chosen = match domain {
            domain::RUNTIME => &self.runtime,
            _ => &self.driver,
        };
        self.all || chosen.binary_search(&callback).is_ok()
    }
}

fn is_wanted(name: &str) -> bool {
    WORDS.iter().any(|word| name.contains(word)) && !NOT.iter().any(|word| name.contains(word))
}

/// Copies from one device to another return before they are done.
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
        let calls = Calls::choose(names, false);
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
        assert!(calls.wants(domain::RUNTIME, 211));
        assert!(!calls.wants(domain::RUNTIME, 20));
        assert!(!calls.wants(domain::DRIVER, 211));
        assert_eq!(calls.name(domain::RUNTIME, 20), b"cudaGetDevice_v3020");
        assert!(Calls::choose(names, true).wants(domain::RUNTIME, 20));
    }
}
