//! Energy counters of processors (RAPL), from the kernel's powercap tree.
//!
//! A zone is a folder such as `intel-rapl:0` with `name`, `energy_uj` and `max_energy_range_uj`. The zones of packages
//! are `intel-rapl:N`; the memory of a package is its subzone named `dram` and not part of it. The zones named `core`
//! and `uncore` are parts of their package, `psys` holds the packages and more, and the `intel-rapl-mmio` tree shows
//! the same packages once again: none of those may be added. AMD's processors use the same names.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use llmprof_record::issue::{Issue, IssueCode};

/// A part of the machine with energy counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    Package,
    Dram,
}

/// One energy counter, with its overflows added up.
#[derive(Debug)]
struct Zone {
    domain: Domain,
    energy: PathBuf,
    /// The counter's greatest value, after which it starts again from 0.
    range: u64,
    last: u64,
    /// Microjoules since the first reading.
    total: u64,
}

/// The energy counters that can be read.
#[derive(Debug, Default)]
pub(super) struct Rapl {
    zones: Vec<Zone>,
}

impl Rapl {
    /// Looks for counters below `root` and reads them once.
    pub(super) fn open_counters(root: &Path) -> Result<Self, Issue> {
        let mut zones = Vec::new();
        let mut denied = None;
        for (folder, domain) in zone_folders(root) {
            match Zone::open_zone(&folder, domain) {
                Ok(zone) => zones.push(zone),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    denied = Some(folder);
                }
                Err(_) => {}
            }
        }
        // Half of the counters would be a wrong sum, not an incomplete one.
        if let Some(folder) = denied {
            return Err(Issue::info(IssueCode::TelemetryEnergyDenied)
                .with("file", folder.join("energy_uj").display().to_string()));
        }
        if zones.iter().any(|zone| zone.domain == Domain::Package) {
            Ok(Self { zones })
        } else {
            Err(Issue::info(IssueCode::TelemetryNoEnergy)
                .with("folder", root.display().to_string()))
        }
    }

    pub(super) fn update_zones(&mut self) {
        for zone in &mut self.zones {
            if let Ok(now) = read_number(&zone.energy) {
                zone.total += wrapped_difference(zone.last, now, zone.range);
                zone.last = now;
            }
        }
    }

    /// Joules of a domain between the first and the latest reading; `None` where it has no counter.
    pub(super) fn domain_joules(&self, domain: Domain) -> Option<f64> {
        let mut zones = self
            .zones
            .iter()
            .filter(|zone| zone.domain == domain)
            .peekable();
        zones.peek()?;
        Some(zones.map(|zone| zone.total).sum::<u64>() as f64 * 1e-6)
    }
}

impl Zone {
    fn open_zone(folder: &Path, domain: Domain) -> io::Result<Self> {
        let energy = folder.join("energy_uj");
        Ok(Self {
            domain,
            range: read_number(&folder.join("max_energy_range_uj"))?,
            last: read_number(&energy)?,
            total: 0,
            energy,
        })
    }
}

/// How much a counter counted from `before` to `now`, if it wrapped at most once: a package of 500 W takes more than
/// eight minutes for one round of 262 kJ.
fn wrapped_difference(before: u64, now: u64, range: u64) -> u64 {
    if now >= before {
        now - before
    } else {
        range.saturating_sub(before).saturating_add(now)
    }
}

/// The zones that may be added up.
fn zone_folders(root: &Path) -> Vec<(PathBuf, Domain)> {
    let mut zones: Vec<(PathBuf, Domain)> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let file_name = entry.file_name();
            let address = file_name.to_str()?.strip_prefix("intel-rapl:")?;
            let name = fs::read_to_string(entry.path().join("name")).ok()?;
            let domain = match (address.contains(':'), name.trim()) {
                (false, name) if name.starts_with("package") => Domain::Package,
                (true, "dram") => Domain::Dram,
                _ => return None,
            };
            Some((entry.path(), domain))
        })
        .collect();
    zones.sort_by(|a, b| a.0.cmp(&b.0));
    zones
}

fn read_number(path: &Path) -> io::Result<u64> {
    fs::read_to_string(path)?
        .trim()
        .parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A powercap tree as a server with two sockets has it.
    fn powercap_tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (folder, name, energy) in [
            ("intel-rapl", "", ""),
            ("intel-rapl:0", "package-0", "1000000"),
            ("intel-rapl:0:0", "dram", "500"),
            ("intel-rapl:0:1", "core", "77"),
            ("intel-rapl:1", "package-1", "4000000"),
            ("intel-rapl:1:0", "dram", "600"),
            ("intel-rapl:2", "psys", "9"),
            ("intel-rapl-mmio:0", "package-0", "1000000"),
        ] {
            let path = root.path().join(folder);
            fs::create_dir(&path).unwrap();
            if !name.is_empty() {
                fs::write(path.join("name"), format!("{name}\n")).unwrap();
                fs::write(path.join("energy_uj"), format!("{energy}\n")).unwrap();
                fs::write(path.join("max_energy_range_uj"), "5000000\n").unwrap();
            }
        }
        root
    }

    #[test]
    fn packages_are_added_once_and_wraps_are_seen() {
        let root = powercap_tree();
        let mut rapl = Rapl::open_counters(root.path()).unwrap();
        assert_eq!(rapl.domain_joules(Domain::Package), Some(0.0));
        let set = |zone: &str, energy: &str| {
            fs::write(root.path().join(zone).join("energy_uj"), energy).unwrap();
        };
        set("intel-rapl:0", "3500000");
        set("intel-rapl:1", "500000");
        set("intel-rapl:2", "4000000");
        set("intel-rapl-mmio:0", "3500000");
        set("intel-rapl:0:0", "1500");
        rapl.update_zones();
        // 2.5 J from one package; the other went 1.0 J to its end and then 0.5 J.
        assert_eq!(rapl.domain_joules(Domain::Package), Some(4.0));
        assert_eq!(rapl.domain_joules(Domain::Dram), Some(0.001));
        // A reading that fails loses nothing: the next one holds its energy too.
        fs::remove_file(root.path().join("intel-rapl:0/energy_uj")).unwrap();
        rapl.update_zones();
        assert_eq!(rapl.domain_joules(Domain::Package), Some(4.0));
        set("intel-rapl:0", "4500000");
        rapl.update_zones();
        assert_eq!(rapl.domain_joules(Domain::Package), Some(5.0));
    }

    #[test]
    fn a_package_without_memory_counter() {
        let root = powercap_tree();
        for zone in ["intel-rapl:0:0", "intel-rapl:1:0"] {
            fs::remove_dir_all(root.path().join(zone)).unwrap();
        }
        let rapl = Rapl::open_counters(root.path()).unwrap();
        assert_eq!(rapl.domain_joules(Domain::Dram), None);
    }

    #[test]
    fn no_tree_is_an_issue() {
        let root = tempfile::tempdir().unwrap();
        let issue = Rapl::open_counters(&root.path().join("absent")).unwrap_err();
        assert_eq!(issue.code, IssueCode::TelemetryNoEnergy);
        let damaged = powercap_tree();
        for zone in ["intel-rapl:0", "intel-rapl:1"] {
            fs::write(damaged.path().join(zone).join("energy_uj"), "much").unwrap();
        }
        let issue = Rapl::open_counters(damaged.path()).unwrap_err();
        assert_eq!(issue.code, IssueCode::TelemetryNoEnergy);
    }
}
