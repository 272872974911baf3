//! Processor time that a quota withheld: of a container, or of any control group that a process is in.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The counters of the control groups that a process is in, from its own up to the root.
#[derive(Debug, Default)]
pub(super) struct Quota {
    files: Vec<PathBuf>,
}

impl Quota {
    /// Finds them from `/proc/PID/cgroup`, whose lines are `number:controllers:path`; no controllers are named in
    /// version 2 (cgroups(7)). A path that a container does not show leaves the groups above it, which it may show.
    pub(super) fn find_quota(cgroup: &str, mounts: &Path) -> Self {
        let mut files = Vec::new();
        for line in cgroup.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let mount = match controllers {
                "" => mounts.to_owned(),
                names if names.split(',').any(|name| name == "cpu") => mounts.join(names),
                _ => continue,
            };
            let group = Path::new(path.trim_start_matches('/'));
            let groups = group.ancestors().map(|group| mount.join(group));
            files.extend(
                groups
                    .map(|group| group.join("cpu.stat"))
                    .filter(|file| throttled_in(file).is_some()),
            );
        }
        Self { files }
    }

    /// Nanoseconds of processor time that were withheld so far, summed over processors; `None` where no group counts it.
    pub(super) fn throttled_ns(&self) -> Option<u64> {
        let counts = self.files.iter().map(|file| throttled_in(file));
        counts.flatten().reduce(u64::saturating_add)
    }
}

fn throttled_in(file: &Path) -> Option<u64> {
    throttled_ns(&fs::read_to_string(file).ok()?)
}

/// Version 1 counts nanoseconds, version 2 microseconds; a group without a quota may leave the line out.
fn throttled_ns(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_time", nanos) => nanos.trim().parse().ok(),
        ("throttled_usec", micros) => micros.trim().parse::<u64>().ok()?.checked_mul(1000),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_mounts(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn both_versions_are_read() {
        let one = "nr_periods 36\nnr_throttled 35\nthrottled_time 2050\n";
        let two = "usage_usec 9\nnr_periods 36\nnr_throttled 35\nthrottled_usec 3\n";
        let root = make_mounts(&[("cpu,cpuacct/job/cpu.stat", one)]);
        let of = |cgroup: &str, root: &tempfile::TempDir| {
            Quota::find_quota(cgroup, root.path()).throttled_ns()
        };
        assert_eq!(
            of("4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n", &root),
            Some(2050)
        );
        let root = make_mounts(&[
            ("cpu.stat", "usage_usec 9\n"),
            ("pod/cpu.stat", two),
            ("pod/worker/cpu.stat", two),
        ]);
        assert_eq!(of("0::/pod/worker\n", &root), Some(6000));
    }

    #[test]
    fn a_container_that_shows_only_its_own_group_is_read_there() {
        let root = make_mounts(&[("cpu.stat", "throttled_usec 7\n")]);
        let quota = Quota::find_quota("0::/docker/abc\n", root.path());
        assert_eq!(quota.throttled_ns(), Some(7000));
    }

    #[test]
    fn nothing_is_known_where_nothing_counts() {
        let root = make_mounts(&[("cpu.stat", "throttled_usec many\n")]);
        for text in ["", "0", "0::", "3:cpuset:/\n", "0::/../..\n"] {
            let quota = Quota::find_quota(text, root.path());
            assert_eq!(quota.throttled_ns(), None, "{text}");
        }
    }
}
