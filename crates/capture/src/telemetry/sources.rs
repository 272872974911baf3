//! All that is read for one sample.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use llmprof_record::{
    issue::{Issue, IssueCode},
    samples::Sample,
};
use llmprof_units::{Bytes, Hertz, Joules};

use super::{
    frequency::Frequency,
    kept::{CachedReading, SLOW_PERIOD},
    procfs::{self, CpuList, CpuTicks},
    rapl::{Domain, Rapl},
    worker::Worker,
};
use crate::clock;

/// Where the kernel shows its counters; elsewhere in tests.
#[derive(Clone, Debug)]
pub(super) struct Roots {
    pub(super) proc: PathBuf,
    pub(super) cpus: PathBuf,
    pub(super) powercap: PathBuf,
    pub(super) cgroups: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            cpus: "/sys/devices/system/cpu".into(),
            powercap: "/sys/class/powercap".into(),
            cgroups: "/sys/fs/cgroup".into(),
        }
    }
}

/// The counters of this machine, and their values at the sample before.
#[derive(Debug)]
pub(super) struct Sources {
    proc: PathBuf,
    cgroups: PathBuf,
    frequency: Option<Frequency>,
    /// The clock rate as it was read last: the kernel asks every CPU for it.
    hertz: CachedReading<Option<f64>>,
    hertz_stands: Duration,
    rapl: Option<Rapl>,
    ticks_per_second: f64,
    page_bytes: u64,
    before: Option<CpuTicks>,
    /// The CPUs that this process may use, and with it the workers that it starts.
    usable: CpuList,
    usable_before: Option<(u32, CpuTicks)>,
    worker: Option<Worker>,
    issues: Vec<Issue>,
}

impl Sources {
    /// Looks at what can be read; what cannot is an issue.
    pub(super) fn open_sources(roots: &Roots) -> Self {
        let mut issues = Vec::new();
        let mut check = |file: &str, code: IssueCode, parses: fn(&str) -> bool| {
            if let Some(problem) = unreadable_reason(&roots.proc.join(file), parses) {
                issues.push(Issue::warning(code).with("reason", problem));
            }
        };
        check("stat", IssueCode::TelemetryNoStat, |text| {
            procfs::cpu_ticks(text).is_some()
        });
        check("meminfo", IssueCode::TelemetryNoMeminfo, |text| {
            procfs::available_bytes(text).is_some()
        });
        let frequency = Frequency::find_source(&roots.cpus, &roots.proc.join("cpuinfo"));
        match &frequency {
            None => issues.push(Issue::warning(IssueCode::TelemetryNoFrequency)),
            Some(Frequency::CpuInfo(_)) => {
                issues.push(Issue::info(IssueCode::TelemetryNominalFrequency));
            }
            Some(Frequency::Cpufreq(_)) => {}
        }
        let rapl = Rapl::open_counters(&roots.powercap)
            .map_err(|issue| issues.push(issue))
            .ok();
        let status = fs::read_to_string(roots.proc.join("self/status")).ok();
        Self {
            proc: roots.proc.clone(),
            cgroups: roots.cgroups.clone(),
            frequency,
            hertz: CachedReading::default(),
            hertz_stands: SLOW_PERIOD,
            rapl,
            ticks_per_second: rustix::param::clock_ticks_per_second() as f64,
            page_bytes: rustix::param::page_size() as u64,
            before: None,
            usable: status
                .as_deref()
                .and_then(CpuList::allowed_cpus)
                .unwrap_or_else(CpuList::all_cpus),
            usable_before: None,
            worker: None,
            issues,
        }
    }

    /// What could not be read.
    pub(super) fn take_issues(&mut self) -> Vec<Issue> {
        std::mem::take(&mut self.issues)
    }

    /// Reads everything now. Rates cover the time since the sample before and are absent in the first one.
    pub(super) fn read_sample(&mut self, process: Option<u32>) -> Sample {
        let time = clock::now();
        // Energy first: it is the one that is divided by differences of `time`.
        if let Some(rapl) = &mut self.rapl {
            rapl.update_zones();
        }
        let joules = |domain| Some(Joules(self.rapl.as_ref()?.domain_joules(domain)?));
        let (package_energy, dram_energy) = (joules(Domain::Package), joules(Domain::Dram));
        let text = |file: &str| fs::read_to_string(self.proc.join(file)).ok();
        let stat = text("stat");
        let now = stat.as_deref().and_then(procfs::cpu_ticks);
        let shares = now
            .zip(self.before)
            .and_then(|(now, before)| now.percent_since(before));
        let usable = stat
            .as_deref()
            .and_then(|stat| procfs::cpu_ticks_among(stat, &self.usable));
        // A CPU that came or went takes all its ticks with it.
        let usable_busy = usable.zip(self.usable_before).and_then(|(now, before)| {
            let (busy, _) = now.1.percent_since(before.1)?;
            (now.0 == before.0).then(|| busy / 100.0 * f64::from(now.0))
        });
        let available = text("meminfo").as_deref().and_then(procfs::available_bytes);
        let resident = process
            .and_then(|pid| text(&format!("{pid}/statm")))
            .as_deref()
            .and_then(procfs::resident_pages);
        self.before = now.or(self.before);
        self.usable_before = usable.or(self.usable_before);
        if self.worker.as_ref().map(Worker::pid) != process {
            self.worker = process.map(|pid| Worker::watch_process(pid, &self.proc, &self.cgroups));
        }
        let worker = self.worker.as_mut();
        let rates = worker
            .map(|worker| worker.read_rates(time, &self.proc, self.ticks_per_second))
            .unwrap_or_default();
        let frequency = self.frequency.as_ref();
        let hertz = self
            .hertz
            .renew_after(self.hertz_stands, || frequency.and_then(Frequency::mean_hz));
        Sample {
            time_ns: time,
            cpu_percent: shares.map(|(busy, _)| busy),
            steal_percent: shares.map(|(_, stolen)| stolen),
            frequency_hz: hertz.map(Hertz),
            available_bytes: available.map(Bytes),
            worker_cores: rates.cores,
            // A process that has ended but was not waited for has no pages.
            worker_rss_bytes: resident
                .filter(|&pages| pages > 0)
                .and_then(|pages| pages.checked_mul(self.page_bytes))
                .map(Bytes),
            package_energy_j: package_energy,
            dram_energy_j: dram_energy,
            usable_cores: usable.map(|(count, _)| count),
            usable_cores_busy: usable_busy,
            worker_waiting: rates.waiting,
            quota_throttled: rates.throttled,
        }
    }
}

/// Why a file tells nothing.
fn unreadable_reason(path: &Path, parses: fn(&str) -> bool) -> Option<String> {
    match fs::read_to_string(path) {
        Ok(text) if parses(&text) => None,
        Ok(_) => Some(format!("{} has another format", path.display())),
        Err(error) => Some(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_tells_nothing_gives_one_issue_each() {
        let nowhere = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: nowhere.path().to_owned(),
            cpus: nowhere.path().to_owned(),
            powercap: nowhere.path().to_owned(),
            cgroups: nowhere.path().to_owned(),
        };
        let mut sources = Sources::open_sources(&roots);
        let codes: Vec<IssueCode> = sources
            .take_issues()
            .into_iter()
            .map(|issue| issue.code)
            .collect();
        assert_eq!(
            codes,
            [
                IssueCode::TelemetryNoStat,
                IssueCode::TelemetryNoMeminfo,
                IssueCode::TelemetryNoFrequency,
                IssueCode::TelemetryNoEnergy
            ]
        );
        let sample = sources.read_sample(Some(1));
        assert_eq!(
            sample,
            Sample {
                time_ns: sample.time_ns,
                ..Sample::default()
            }
        );
    }

    #[test]
    fn rates_are_differences_between_samples() {
        let root = tempfile::tempdir().unwrap();
        let set = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let process =
            |ticks: u64| format!("7 (w) S 1 7 7 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 1 1 1");
        set(
            "stat",
            "cpu  100 0 0 100 0 0 0 0\ncpu0 50 0 0 50 0 0 0 0\ncpu1 50 0 0 50 0 0 0 0\n",
        );
        set("self/status", "Cpus_allowed_list:\t1\n");
        set("7/cgroup", "0::/job\n");
        set("7/task/7/schedstat", "10 0 1\n");
        set("cgroup/job/cpu.stat", "throttled_usec 0\n");
        set("meminfo", "MemAvailable: 4 kB\n");
        set("7/stat", &process(10));
        set("7/statm", "9 3 0 0 0 0 0\n");
        let roots = Roots {
            proc: root.path().to_owned(),
            cpus: root.path().to_owned(),
            powercap: root.path().to_owned(),
            cgroups: root.path().join("cgroup"),
        };
        let mut sources = Sources::open_sources(&roots);
        let first = sources.read_sample(Some(7));
        assert_eq!((first.cpu_percent, first.worker_cores), (None, None));
        assert_eq!((first.usable_cores, first.worker_waiting), (Some(1), None));
        assert_eq!(first.available_bytes, Some(Bytes(4096)));
        assert_eq!(
            first.worker_rss_bytes,
            Some(Bytes(3 * rustix::param::page_size() as u64))
        );
        set(
            "stat",
            "cpu  130 0 0 100 0 0 0 10\ncpu0 75 0 0 50 0 0 0 5\ncpu1 55 0 0 55 0 0 0 0\n",
        );
        set("7/task/7/schedstat", "20 4000 2\n");
        set("cgroup/job/cpu.stat", "throttled_usec 3\n");
        set("7/stat", &process(15));
        let second = sources.read_sample(Some(7));
        assert_eq!(
            (second.cpu_percent, second.steal_percent),
            (Some(100.0), Some(25.0))
        );
        let seconds = (second.time_ns.0 - first.time_ns.0) as f64 * 1e-9;
        let ticks =
            second.worker_cores.unwrap() * seconds * rustix::param::clock_ticks_per_second() as f64;
        assert!((ticks - 5.0).abs() < 1e-9, "{ticks}");
        // The process may use CPU 1 alone.
        assert_eq!(second.usable_cores_busy, Some(0.5));
        let nanos = |rate: Option<f64>| rate.unwrap() * seconds * 1e9;
        assert!((nanos(second.worker_waiting) - 4000.0).abs() < 1e-3);
        assert!((nanos(second.quota_throttled) - 3000.0).abs() < 1e-3);
        // Another process under watch starts anew, and one that is gone has nothing.
        set("8/stat", &process(100));
        assert_eq!(sources.read_sample(Some(8)).worker_cores, None);
        let gone = sources.read_sample(Some(9));
        assert_eq!((gone.worker_cores, gone.worker_rss_bytes), (None, None));
    }

    #[test]
    fn the_clock_rate_stands_for_a_while() {
        let root = tempfile::tempdir().unwrap();
        let cpuinfo = root.path().join("cpuinfo");
        let set = |megahertz: u32| {
            fs::write(&cpuinfo, format!("cpu MHz\t\t: {megahertz}\n")).unwrap();
        };
        set(2000);
        let roots = Roots {
            proc: root.path().to_owned(),
            cpus: root.path().to_owned(),
            powercap: root.path().to_owned(),
            cgroups: root.path().join("cgroup"),
        };
        let mut sources = Sources::open_sources(&roots);
        let mut read = |stands: Duration| {
            sources.hertz_stands = stands;
            sources.read_sample(None).frequency_hz
        };
        assert_eq!(read(Duration::MAX), Some(Hertz(2e9)));
        set(3000);
        assert_eq!(read(Duration::MAX), Some(Hertz(2e9)));
        assert_eq!(read(Duration::ZERO), Some(Hertz(3e9)));
    }
}
