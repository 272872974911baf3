//! What the library is given when its process starts: a few environment variables.

use std::fmt;

/// The directory for wire files.
pub const DIRECTORY: &str = "LLMPROF_WIRE_DIR";
/// The path of the control channel's socket.
pub const CONTROL: &str = "LLMPROF_CONTROL";
/// The capture options, written as [`Options`] are displayed.
pub const CAPTURE: &str = "LLMPROF_CAPTURE";
/// The name of the range inside which alone is recorded.
pub const RANGE: &str = "LLMPROF_NVTX_RANGE";
/// A `libcupti` to use before all others.
pub const CUPTI: &str = "LLMPROF_CUPTI";

/// How to record. As text: `calls=launch begin=on interval_ms=40 overhead_ppm=0 detach=on buffer_kib=128 …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Record every call of the CUDA API, not only those that launch or wait.
    pub all_calls: bool,
    /// Record from the first moment; otherwise from when the control channel says so.
    pub begin: bool,
    /// How often what was recorded is written, ms. A process that is killed loses what came since, and what its device had not
    /// done yet: less than 100 ms.
    pub interval_ms: u32,
    /// The share of time that recording may cost, in millionths; 0: record all the time.
    pub overhead_ppm: u32,
    /// Take CUPTI out of the process while nothing is recorded: between slices, and once recording was ended.
    pub detach: bool,
    /// How large a buffer for CUPTI is, KiB. Before it is full CUPTI may keep it back while the device is busy, so that a large one
    /// is lost with a process that dies.
    pub buffer_kib: u32,
    /// How many bytes of buffers there may be, MiB; records are dropped when they are all in use.
    pub memory_mib: u32,
    /// How long the end of the process may wait for the last records to be written, ms.
    pub exit_ms: u32,
    /// How many bytes the file of a process may have; 0: no limit. Then recording ends, and a few last records say so.
    pub most_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            all_calls: false,
            begin: true,
            interval_ms: 40,
            overhead_ppm: 0,
            detach: true,
            buffer_kib: 128,
            memory_mib: 64,
            exit_ms: 10_000,
            most_bytes: 0,
        }
    }
}

impl Options {
    /// Reads the text of the variable. What it does not understand keeps its default: the library must not fail in
    /// somebody's process for a word.
    pub fn read(text: &str) -> Self {
        let mut options = Self::default();
        for (key, value) in text
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='))
        {
            let number = value.parse::<u32>().ok();
            let set = |field: &mut u32| {
                if let Some(number) = number {
                    *field = number;
                }
            };
            match key {
                "calls" => options.all_calls = value == "all",
                "begin" => options.begin = value != "off",
                "interval_ms" => set(&mut options.interval_ms),
                "overhead_ppm" => set(&mut options.overhead_ppm),
                "detach" => options.detach = value != "off",
                "buffer_kib" => set(&mut options.buffer_kib),
                "memory_mib" => set(&mut options.memory_mib),
                "exit_ms" => set(&mut options.exit_ms),
                "most_bytes" => options.most_bytes = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        options.interval_ms = options.interval_ms.clamp(1, 60_000);
        options.overhead_ppm = options.overhead_ppm.min(1_000_000);
        options.buffer_kib = options.buffer_kib.clamp(16, 64 << 10);
        options.memory_mib = options.memory_mib.clamp(1, 16 << 10);
        options
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "calls={} begin={} interval_ms={} overhead_ppm={} detach={} buffer_kib={} memory_mib={} exit_ms={} most_bytes={}",
            if self.all_calls { "all" } else { "launch" },
            if self.begin { "on" } else { "off" },
            self.interval_ms,
            self.overhead_ppm,
            if self.detach { "on" } else { "off" },
            self.buffer_kib,
            self.memory_mib,
            self.exit_ms,
            self.most_bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_back() {
        let options = Options {
            all_calls: true,
            begin: false,
            interval_ms: 50,
            overhead_ppm: 20_000,
            detach: false,
            buffer_kib: 64,
            memory_mib: 8,
            exit_ms: 1,
            most_bytes: u64::MAX,
        };
        assert_eq!(Options::read(&options.to_string()), options);
        assert_eq!(Options::read(""), Options::default());
    }

    #[test]
    fn nonsense_keeps_the_defaults() {
        let read = Options::read(
            "calls interval_ms=soon overhead_ppm=-3 colour=blue detach=maybe buffer_kib=0",
        );
        assert_eq!(
            read,
            Options {
                buffer_kib: 16,
                ..Options::default()
            }
        );
    }
}
