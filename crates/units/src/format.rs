use std::fmt;

/// `value` with about four significant digits and no trailing zeros: `0.1234`, `12.34`, `1234`.
pub fn format_significant(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (3 - magnitude).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn format_scaled(value: f64, base: f64, prefixes: &[&str], unit: &str) -> String {
    let mut scaled = value;
    let mut index = 0;
    // 999.95 would print as 1000 of the smaller unit: step up where the rounded text would.
    while scaled.abs() >= base * 0.999_95 && index + 1 < prefixes.len() {
        scaled /= base;
        index += 1;
    }
    format!("{} {}{unit}", format_significant(scaled), prefixes[index])
}

/// With decimal prefixes: `989.5 TFLOP/s`.
pub(crate) fn format_decimal(value: f64, unit: &str) -> String {
    if value != 0.0 && value.abs() < 1.0 {
        return format_scaled(value * 1e9, 1e3, &["n", "µ", "m", ""], unit);
    }
    format_scaled(value, 1e3, &["", "k", "M", "G", "T", "P", "E"], unit)
}

/// With binary prefixes: `942.4 MiB`.
pub(crate) fn format_binary(value: f64, unit: &str) -> String {
    format_scaled(
        value,
        1024.0,
        &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"],
        unit,
    )
}

/// A duration given in nanoseconds: `2.05 ms`.
pub(crate) fn format_duration(nanos: f64) -> String {
    format_scaled(nanos, 1e3, &["n", "µ", "m", ""], "s")
}

/// A fraction printed in percent: `Percent(0.8412)` is `84.1 %`. Small ones have one digit, and those below 0.001 % a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(
    /// The fraction; 1 is the whole.
    pub f64,
);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        let size = percent.abs();
        // Where a figure rounds to the next power of ten, its digit moves one place up.
        let decimals = match size {
            _ if size == 0.0 || size >= 0.05 => 1,
            _ if size >= 0.009_5 => 2,
            _ if size >= 0.000_95 => 3,
            _ => {
                let bound = if percent < 0.0 {
                    "> -0.001 %"
                } else {
                    "< 0.001 %"
                };
                return f.pad(bound);
            }
        };
        f.pad(&format!("{percent:.decimals$} %"))
    }
}

/// A factor: `Times(1.307)` is `1.31×`, `Times(556.81)` is `557×`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times(pub f64);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.0.abs() {
            size if size < 9.995 => 2,
            size if size < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{:.decimals$}×", self.0))
    }
}

/// A number of things with their name, which is given for one of them: `Count(1, "pass")` is `1 pass`, `Count(3, "pass")` is
/// `3 passes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'n>(
    pub u64,
    /// What one of them is called.
    pub &'n str,
);

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, name) = self;
        if *count == 1 {
            return write!(f, "{count} {name}");
        }
        let hisses = ["s", "x", "ch", "sh"].iter().any(|end| name.ends_with(end));
        let stem = name.strip_suffix('y').filter(|stem| {
            let vowel = |letter: char| "aeiou".contains(letter);
            !stem.ends_with(vowel)
        });
        match stem {
            Some(stem) => write!(f, "{count} {stem}ies"),
            None if hisses => write!(f, "{count} {name}es"),
            None => write!(f, "{count} {name}s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_three_digits() {
        assert_eq!(Times(1.307).to_string(), "1.31×");
        assert_eq!(Times(9.996).to_string(), "10.0×");
        assert_eq!(Times(12.15).to_string(), "12.2×");
        assert_eq!(Times(556.81).to_string(), "557×");
    }

    #[test]
    fn one_is_singular_and_all_else_is_not() {
        let texts = |name| [0, 1, 2].map(|count| Count(count, name).to_string());
        assert_eq!(texts("kernel"), ["0 kernels", "1 kernel", "2 kernels"]);
        assert_eq!(texts("plain pass")[1..], ["1 plain pass", "2 plain passes"]);
        assert_eq!(texts("batch")[1..], ["1 batch", "2 batches"]);
        assert_eq!(texts("copy")[1..], ["1 copy", "2 copies"]);
        assert_eq!(texts("day")[1..], ["1 day", "2 days"]);
    }

    #[test]
    fn prefixes_step_where_the_text_would_overflow() {
        assert_eq!(format_decimal(999.4, "B/s"), "999.4 B/s");
        assert_eq!(format_decimal(999.96, "B/s"), "1 kB/s");
        assert_eq!(format_decimal(989.5e12, "FLOP/s"), "989.5 TFLOP/s");
        assert_eq!(format_binary(1024.0 * 1024.0 * 1.5, "B"), "1.5 MiB");
        assert_eq!(format_duration(2_050_000.0), "2.05 ms");
        assert_eq!(format_duration(-1500.0), "-1.5 µs");
        assert_eq!(format_duration(59e9), "59 s");
        assert_eq!(format_decimal(0.0042, "J"), "4.2 mJ");
        assert_eq!(format_decimal(0.0, "J"), "0 J");
    }

    #[test]
    fn significant_digits() {
        assert_eq!(format_significant(0.000_123_46), "0.0001235");
        assert_eq!(format_significant(123_456.0), "123456");
        assert_eq!(format_significant(f64::NAN), "NaN");
        assert_eq!(format_significant(-2.0), "-2");
    }

    #[test]
    fn percent_keeps_small_shares_visible() {
        assert_eq!(Percent(0.8412).to_string(), "84.1 %");
        assert_eq!(Percent(0.000_498).to_string(), "0.05 %");
        assert_eq!(Percent(0.000_040_34).to_string(), "0.004 %");
        assert_eq!(Percent(0.000_097).to_string(), "0.01 %");
        assert_eq!(Percent(-0.000_04).to_string(), "-0.004 %");
        assert_eq!(Percent(0.000_01).to_string(), "0.001 %");
        assert_eq!(Percent(0.000_006_546).to_string(), "< 0.001 %");
        assert_eq!(Percent(-0.000_001).to_string(), "> -0.001 %");
        assert_eq!(Percent(0.0).to_string(), "0.0 %");
    }
}
