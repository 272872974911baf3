use llmprof_units::{Bytes, BytesPerSecond, Hertz, Nanos, Watts};

use super::{Collected, parse_number};
use crate::issue::{Issue, IssueCode};
use crate::samples::{GpuSample, ThrottleReasons};

/// Default interval between samples of `dmon` (`-d` changes it).
const PERIOD: Nanos = Nanos(1_000_000_000);
const SOFTWARE_POWER_CAP: u64 = 0x04;
const SOFTWARE_THERMAL: u64 = 0x20;

/// The columns of a header line, `# gpu pwr gtemp …`; `None` of any other.
fn header_columns(line: &str) -> Option<Vec<String>> {
    let names = line.trim().strip_prefix('#')?;
    let names: Vec<String> = names.split_whitespace().map(str::to_lowercase).collect();
    let known = |name: &str| names.iter().any(|column| column == name);
    (known("gpu") && ["pwr", "sm", "pclk", "fb", "gtemp"].into_iter().any(known)).then_some(names)
}

/// A header of columns among the first lines.
pub(super) fn sniff(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&head[..head.len().min(4096)]);
    text.lines()
        .take(5)
        .any(|line| header_columns(line).is_some())
}

/// Rows follow a header that is repeated every few lines; with `-o DT` they begin with date and time.
pub(super) fn read(text: &str) -> Collected {
    let mut collected = Collected::default();
    let mut header: Vec<String> = Vec::new();
    let mut origin: Option<i64> = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        if line.trim_start().starts_with('#') {
            // The second line of a header has units, which are the same in every version.
            header = header_columns(line).unwrap_or(header);
            continue;
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        let cell = |name: &str| {
            let at = header.iter().position(|column| column == name)?;
            cells.get(at).copied()
        };
        let value = |name: &str| parse_number(cell(name)?);
        let gpu = value("gpu").filter(|gpu| cells.len() == header.len() && *gpu >= 0.0);
        let Some(gpu) = gpu.map(|gpu| gpu as u32) else {
            collected.lose(index + 1);
            continue;
        };
        let rows = collected.gpus.get(&gpu).map_or(0, |gpu| gpu.rows.len()) as i64;
        let time_ns = match cell("time").and_then(seconds_of_day) {
            Some(time) => {
                let day = cell("date").and_then(days_since_1970).unwrap_or(0);
                let at = day * 86_400 + time;
                Nanos((at - *origin.get_or_insert(at)).saturating_mul(1_000_000_000))
            }
            None => Nanos(PERIOD.0 * rows),
        };
        let mega = |name: &str| value(name).map(|value| value * 1e6);
        let held =
            |name: &str, bit: u64| value(name).map(|value| if value > 0.0 { bit } else { 0 });
        let (power, heat) = (
            held("pviol", SOFTWARE_POWER_CAP),
            held("tviol", SOFTWARE_THERMAL),
        );
        let reasons = power
            .or(heat)
            .map(|_| power.unwrap_or(0) | heat.unwrap_or(0));
        let sample = GpuSample {
            time_ns,
            gpu_percent: value("sm"),
            memory_percent: value("mem"),
            sm_clock_hz: mega("pclk").map(Hertz),
            memory_clock_hz: mega("mclk").map(Hertz),
            power_w: value("pwr").map(Watts),
            temperature_c: value("gtemp"),
            memory_temperature_c: value("mtemp"),
            // It prints mebibytes and says MB.
            memory_used_bytes: value("fb").map(|mib| Bytes((mib.max(0.0) * 1_048_576.0) as u64)),
            throttle_reasons: reasons.map(ThrottleReasons),
            pcie_rx: mega("rxpci").map(BytesPerSecond),
            pcie_tx: mega("txpci").map(BytesPerSecond),
            ..GpuSample::default()
        };
        collected.gpu(gpu).rows.push(sample);
    }
    if origin.is_none() && collected.gpus.values().any(|gpu| gpu.rows.len() > 1) {
        collected
            .issues
            .push(Issue::info(IssueCode::GpuTelemetryNoTimes));
    }
    collected
}

/// Seconds of the day of a time written `HH:MM:SS`.
fn seconds_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':').map(|part| part.parse::<i64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time =
        (0..24).contains(&hours) && (0..60).contains(&minutes) && (0..61).contains(&seconds);
    is_time.then(|| hours * 3600 + minutes * 60 + seconds)
}

/// `YYYYMMDD` as a number of days: the civil calendar since 1970.
fn days_since_1970(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let (year, month, day) = (number / 10_000, number / 100 % 100, number % 100);
    if !(1970..3000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar_by_hand() {
        assert_eq!(days_since_1970("19700101"), Some(0));
        assert_eq!(days_since_1970("20000301"), Some(11_017));
        assert_eq!(days_since_1970("20261115"), Some(20_772));
        assert_eq!(days_since_1970("2026-11-15"), None);
        assert_eq!(seconds_of_day("01:01:01"), Some(3661));
        assert_eq!(seconds_of_day("25:00:00"), None);
    }

    #[test]
    fn rows_with_times_and_several_gpus() {
        let text = "#Date       Time        gpu    pwr     sm   pviol\n#YYYYMMDD   HH:MM:SS    Idx      W      %       %\n \
                    20261115   23:59:59      0    100     50     0\n 20261115   23:59:59      1      -      0     0\n \
                    20261116   00:00:01      0    300    100    12\n cut line\n";
        let samples = read(text).samples();
        assert_eq!(samples.gpus.len(), 2);
        let first = &samples.gpus[0].rows;
        assert_eq!(first[1].time_ns, Nanos(2_000_000_000));
        assert_eq!(first[1].throttle_reasons, Some(ThrottleReasons(0x4)));
        assert_eq!(samples.gpus[1].rows[0].power_w, None);
        assert_eq!(samples.issues[0].code, IssueCode::GpuTelemetryBadRow);
        assert!(!sniff(b"# a comment\n1 2 3\n"));
    }
}
