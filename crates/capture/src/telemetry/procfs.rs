//! Counters of `/proc`, from their text.

/// Processor time of the whole machine since it started, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTicks {
    /// All CPUs, whatever they did.
    pub(super) total: u64,
    /// Neither idle nor waiting for a disk.
    pub(super) busy: u64,
    /// Taken by other guests of the hypervisor; part of `busy`.
    pub(super) stolen: u64,
}

impl CpuTicks {
    /// Percent of the machine that was busy since `before`, and percent that was stolen.
    pub(super) fn percent_since(self, before: Self) -> Option<(f64, f64)> {
        // The kernel may correct idle time backwards by a tick: no share is better than a negative one.
        let total = self.total.checked_sub(before.total).filter(|&t| t > 0)?;
        let share = |now: u64, before: u64| Some(now.checked_sub(before)? as f64 / total as f64);
        Some((
            100.0 * share(self.busy, before.busy)?,
            100.0 * share(self.stolen, before.stolen)?,
        ))
    }
}

/// Reads `/proc/stat`.
///
/// Its first line is `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guest time is counted in
/// user time already (proc_stat(5)), so it is left out of the sum.
pub(super) fn cpu_ticks(stat: &str) -> Option<CpuTicks> {
    ticks_of(stat.lines().find_map(|line| line.strip_prefix("cpu "))?)
}

/// The same of some CPUs, from their own lines (`cpu0 …`), and how many of them there are.
pub(super) fn cpu_ticks_among(stat: &str, cpus: &CpuList) -> Option<(u32, CpuTicks)> {
    let (mut count, mut sum) = (0, CpuTicks::default());
    for line in stat.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let Some((number, rest)) = line.split_once(' ') else {
            continue;
        };
        if number.parse().is_ok_and(|number| cpus.contains(number)) {
            let ticks = ticks_of(rest)?;
            count += 1;
            sum.total = sum.total.checked_add(ticks.total)?;
            sum.busy = sum.busy.checked_add(ticks.busy)?;
            sum.stolen = sum.stolen.checked_add(ticks.stolen)?;
        }
    }
    (count > 0).then_some((count, sum))
}

/// The numbers of a line of `/proc/stat`.
fn ticks_of(numbers: &str) -> Option<CpuTicks> {
    let mut ticks = [0u64; 8];
    for (slot, word) in ticks.iter_mut().zip(numbers.split_whitespace()) {
        *slot = word.parse().ok()?;
    }
    let total = ticks.iter().try_fold(0u64, |sum, &t| sum.checked_add(t))?;
    let [.., idle, waiting, _, _, stolen] = ticks;
    Some(CpuTicks {
        total,
        busy: total - idle - waiting,
        stolen,
    })
}

/// Processor time of one process, user and system, of all its threads, in clock ticks, from `/proc/PID/stat`.
///
/// Its second field is the program's name in parentheses, which may itself hold spaces and parentheses.
pub(super) fn process_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    // Fields are counted from 1; the one after the name is the third, utime and stime are the 14th and 15th.
    let mut fields = rest.split_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

/// The process that started a process, from `/proc/PID/stat`.
pub(super) fn parent_of(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(4 - 3)?.parse().ok()
}

/// Resident pages of a process, from `/proc/PID/statm`.
pub(super) fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes of memory that programs can still get, from `/proc/meminfo`.
pub(super) fn available_bytes(meminfo: &str) -> Option<u64> {
    let value = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Some of the machine's CPUs, as the kernel lists them: `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuList(Vec<(u32, u32)>);

impl CpuList {
    /// Every CPU there may be.
    pub(super) fn all_cpus() -> Self {
        Self(vec![(0, u32::MAX)])
    }

    /// The CPUs that a process may run on, from `/proc/PID/status`.
    pub(super) fn allowed_cpus(status: &str) -> Option<Self> {
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let ranges = list.trim().split(',').map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        ranges.collect::<Option<Vec<_>>>().map(Self)
    }

    fn contains(&self, cpu: u32) -> bool {
        let mut ranges = self.0.iter();
        ranges.any(|&(first, last)| (first..=last).contains(&cpu))
    }
}

/// Nanoseconds in which a thread was ready but waited for a CPU, from `/proc/PID/task/TID/schedstat`: time on a CPU, time
/// waiting for one, times it got one. A kernel that does not count shows zeros (kernel/sched/stats.h, `sched_info_on`).
pub(super) fn waited_ns(schedstat: &str) -> Option<u64> {
    let mut fields = schedstat.split_whitespace();
    let ran: u64 = fields.next()?.parse().ok()?;
    let waited = fields.next()?.parse().ok()?;
    (ran > 0).then_some(waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  200110 459280 120873 163729 2800 0 855 1410 40 2\n\
                        cpu0 91883 237930 59744 82137 2000 0 137 708 0 0\nintr 3821087 0\n";

    #[test]
    fn machine_time_by_hand() {
        // 200110 + 459280 + 120873 + 163729 + 2800 + 0 + 855 + 1410 = 949057; less 163729 idle and 2800 waiting.
        let ticks = cpu_ticks(STAT).unwrap();
        assert_eq!(
            ticks,
            CpuTicks {
                total: 949_057,
                busy: 782_528,
                stolen: 1410
            }
        );
        let later = CpuTicks {
            total: ticks.total + 200,
            busy: ticks.busy + 150,
            stolen: ticks.stolen + 10,
        };
        assert_eq!(later.percent_since(ticks), Some((75.0, 5.0)));
        assert_eq!(ticks.percent_since(ticks), None);
        assert_eq!(ticks.percent_since(later), None);
    }

    #[test]
    fn some_processors_by_hand() {
        let stat = "cpu  60 0 0 40 0 0 0 4\ncpu0 10 0 0 10 0 0 0 1\ncpu1 20 0 0 10 0 0 0 1\n\
                    cpu10 30 0 0 20 0 0 0 2\nintr 1 2\n";
        let among = |list: &str| {
            let cpus = CpuList::allowed_cpus(&format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
            cpu_ticks_among(stat, &cpus.unwrap())
        };
        let ticks = |total, busy, stolen| CpuTicks {
            total,
            busy,
            stolen,
        };
        assert_eq!(among("1"), Some((1, ticks(31, 21, 1))));
        assert_eq!(among("0,8-10"), Some((2, ticks(73, 43, 3))));
        assert_eq!(among("2-9"), None);
        let all = cpu_ticks_among(stat, &CpuList::all_cpus());
        assert_eq!(all, Some((3, cpu_ticks(stat).unwrap())));
        for list in ["", "x", "1-", "1,,2"] {
            let status = format!("Cpus_allowed_list:\t{list}\n");
            assert_eq!(CpuList::allowed_cpus(&status), None, "{list}");
        }
        assert_eq!(CpuList::allowed_cpus("Name:\tx\n"), None);
    }

    #[test]
    fn waiting_is_the_second_number() {
        assert_eq!(waited_ns("118298 3086987 2\n"), Some(3_086_987));
        // A kernel that does not count.
        assert_eq!(waited_ns("0 0 0\n"), None);
        for text in ["", "1", "1 x 2", "-1 2 3"] {
            assert_eq!(waited_ns(text), None, "{text}");
        }
    }

    #[test]
    fn an_old_kernel_has_fewer_fields() {
        let ticks = cpu_ticks("cpu  1 2 3 4\n").unwrap();
        assert_eq!((ticks.total, ticks.busy, ticks.stolen), (10, 6, 0));
    }

    #[test]
    fn a_program_may_have_any_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 17 25 0 0 20 0 8 0 474776 31334400 407 1";
        assert_eq!(process_ticks(stat), Some(42));
        assert_eq!(parent_of(stat), Some(1));
        assert_eq!(resident_pages("765 436 407 5 0 123 0\n"), Some(436));
    }

    #[test]
    fn memory_is_in_kibibytes() {
        let meminfo = "MemTotal:       24682740 kB\nMemAvailable:   23282820 kB\n";
        assert_eq!(available_bytes(meminfo), Some(23_282_820 * 1024));
    }

    #[test]
    fn damage_gives_nothing() {
        for text in [
            "",
            "cpu",
            "cpu  1 2 x 4",
            "cpu0 1 2 3 4",
            ")",
            "1 (a) S 1",
            "x y",
        ] {
            assert_eq!(cpu_ticks(text), None, "{text}");
            assert_eq!(process_ticks(text), None, "{text}");
            assert_eq!(available_bytes(text), None, "{text}");
        }
        assert_eq!(parent_of("1 (a) S"), None);
        assert_eq!(parent_of("1 (a) S -1 0"), None);
        let overflowing = format!("cpu  {0} {0} 0 0", u64::MAX);
        assert_eq!(cpu_ticks(&overflowing), None);
        assert_eq!(
            available_bytes("MemAvailable: 99999999999999999999 kB"),
            None
        );
    }

    #[test]
    fn this_machine_is_read() {
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        assert!(cpu_ticks(&read("/proc/stat")).unwrap().busy > 0);
        assert!(process_ticks(&read("/proc/self/stat")).is_some());
        assert!(resident_pages(&read("/proc/self/statm")).unwrap() > 0);
        assert!(available_bytes(&read("/proc/meminfo")).unwrap() > 0);
    }
}
