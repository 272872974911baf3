//! The clock rate of the CPUs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the clock rate can be read.
#[derive(Debug)]
pub(super) enum Frequency {
    /// `scaling_cur_freq` of each CPU, in kHz: what the CPU ran at lately, where it can tell.
    Cpufreq(Vec<PathBuf>),
    /// `cpu MHz` in `/proc/cpuinfo`. Guests usually see a constant there.
    CpuInfo(PathBuf),
}

impl Frequency {
    /// Looks for a source; `None` where there is none.
    pub(super) fn find_source(cpus: &Path, cpuinfo: &Path) -> Option<Self> {
        let mut files: Vec<PathBuf> = fs::read_dir(cpus)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| is_cpu(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path().join("cpufreq/scaling_cur_freq"))
            .filter(|file| {
                fs::read_to_string(file).is_ok_and(|text| parse_kilohertz(&text).is_some())
            })
            .collect();
        files.sort();
        if !files.is_empty() {
            return Some(Self::Cpufreq(files));
        }
        let text = fs::read_to_string(cpuinfo).ok()?;
        mean_megahertz(&text).map(|_| Self::CpuInfo(cpuinfo.to_owned()))
    }

    /// The mean over all CPUs now, in Hz.
    pub(super) fn mean_hz(&self) -> Option<f64> {
        match self {
            Self::Cpufreq(files) => {
                let rates = files
                    .iter()
                    .filter_map(|file| parse_kilohertz(&fs::read_to_string(file).ok()?));
                mean_of(rates).map(|khz| khz * 1e3)
            }
            Self::CpuInfo(file) => {
                mean_megahertz(&fs::read_to_string(file).ok()?).map(|mhz| mhz * 1e6)
            }
        }
    }
}

/// Whether a folder is that of one CPU (`cpu0`), not `cpufreq` or `cpuidle`.
fn is_cpu(name: &str) -> bool {
    name.strip_prefix("cpu")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn parse_kilohertz(text: &str) -> Option<f64> {
    text.trim().parse::<u64>().ok().map(|khz| khz as f64)
}

fn mean_megahertz(cpuinfo: &str) -> Option<f64> {
    let rates = cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.trim() == "cpu MHz")
        .filter_map(|(_, value)| value.trim().parse::<f64>().ok())
        .filter(|mhz| mhz.is_finite());
    mean_of(rates)
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpufreq_is_preferred_and_its_mean_taken() {
        let root = tempfile::tempdir().unwrap();
        for (cpu, khz) in [
            ("cpu0", "2000000\n"),
            ("cpu1", "3000000\n"),
            ("cpufreq", "1\n"),
        ] {
            let folder = root.path().join(cpu).join("cpufreq");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("scaling_cur_freq"), khz).unwrap();
        }
        let source = Frequency::find_source(root.path(), Path::new("/nowhere")).unwrap();
        assert_eq!(source.mean_hz(), Some(2.5e9));
    }

    #[test]
    fn cpuinfo_is_next_and_then_nothing() {
        let root = tempfile::tempdir().unwrap();
        let cpuinfo = root.path().join("cpuinfo");
        fs::write(
            &cpuinfo,
            "cpu MHz\t\t: 2100.000\nbogomips\t: 4200.00\ncpu MHz\t\t: 1900.000\n",
        )
        .unwrap();
        let source = Frequency::find_source(root.path(), &cpuinfo).unwrap();
        assert_eq!(source.mean_hz(), Some(2.0e9));
        fs::write(&cpuinfo, "processor\t: 0\nBogoMIPS\t: 50.00\n").unwrap();
        assert!(Frequency::find_source(root.path(), &cpuinfo).is_none());
    }
}
