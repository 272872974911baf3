//! Units as Nsight Compute prints them, and the base units behind them.
//!
//! Base units are `ns` for time, `byte`, `Hz`, `s` below a fraction bar, and the tool's own words (`inst`, `cycle`,
//! `sector`, `%`, …) otherwise. Prefixes are decimal: 1 Kbyte is 1000 byte, as the tool's raw and scaled pages show.

/// A printed unit taken apart: `value · 10^exponent` is in `base`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// The power of ten between the printed and the base unit.
    pub exponent: i32,
    pub base: String,
}

/// The base unit of a printed one. A word that is not known is its own base.
pub fn base(printed: &str) -> Scaled {
    let (above, below) = match printed.split_once('/') {
        Some((above, below)) => (above, Some(below)),
        None => (printed, None),
    };
    let (mut exponent, above) = part(above, "ns", -9);
    let mut base = above;
    if let Some(below) = below {
        let (scale, below) = part(below, "s", 0);
        exponent -= scale;
        base = format!("{base}/{below}");
    }
    Scaled { exponent, base }
}

/// Parses a printed number and moves it to the base unit in one rounding, so that 6.75 us is exactly 6750 ns.
pub fn scale(number: &str, exponent: i32) -> Option<f64> {
    let plain: String = number.chars().filter(|c| *c != ',').collect();
    let looks_like_one = plain
        .trim_start_matches(['-', '+'])
        .starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if !looks_like_one {
        return None;
    }
    let (mantissa, own) = match plain.split_once(['e', 'E']) {
        Some((mantissa, own)) => (mantissa, own.parse::<i32>().ok()?),
        None => (plain.as_str(), 0),
    };
    let value: f64 = format!("{mantissa}e{}", own.checked_add(exponent)?)
        .parse()
        .ok()?;
    value.is_finite().then_some(value)
}

/// One side of the bar: the power of ten to its base, and the base. `time` is the base of times and `time_exponent`
/// that base in powers of seconds.
fn part(word: &str, time: &str, time_exponent: i32) -> (i32, String) {
    let seconds = match word {
        "s" | "second" | "sec" => Some(0),
        "ms" | "msecond" => Some(-3),
        "us" | "usecond" => Some(-6),
        "ns" | "nsecond" => Some(-9),
        _ => None,
    };
    if let Some(seconds) = seconds {
        return (seconds - time_exponent, time.to_owned());
    }
    if word.eq_ignore_ascii_case("hz") {
        return (0, "Hz".to_owned());
    }
    let prefix = match word.as_bytes().first() {
        Some(b'K' | b'k') => 3,
        Some(b'M') => 6,
        Some(b'G') => 9,
        Some(b'T') => 12,
        Some(b'P') => 15,
        _ => return (0, word.to_owned()),
    };
    let rest = &word[1..];
    if rest == "hz" || rest == "Hz" {
        return (prefix, "Hz".to_owned());
    }
    let is_counted = matches!(
        rest,
        "byte"
            | "bit"
            | "inst"
            | "cycle"
            | "sector"
            | "request"
            | "thread"
            | "warp"
            | "block"
            | "op"
            | "flop"
    );
    if is_counted {
        (prefix, rest.to_owned())
    } else {
        (0, word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{base, scale};

    fn normalized(number: &str, unit: &str) -> (f64, String) {
        let scaled = base(unit);
        (
            scale(number, scaled.exponent).expect("a number"),
            scaled.base,
        )
    }

    #[test]
    fn values_move_to_base_units_without_drift() {
        assert_eq!(normalized("6.75", "us"), (6750.0, "ns".into()));
        assert_eq!(
            normalized("30,990.14", "Mbyte"),
            (30_990_140_000.0, "byte".into())
        );
        assert_eq!(
            normalized("345.14", "Gbyte/s"),
            (345_140_000_000.0, "byte/s".into())
        );
        assert_eq!(normalized("13.72", "Ghz"), (13_720_000_000.0, "Hz".into()));
        assert_eq!(normalized("2", "sector/ns"), (2e9, "sector/s".into()));
        assert_eq!(normalized("0.5", "%/Kbyte"), (0.0005, "%/byte".into()));
        assert_eq!(
            normalized("1.02", "Kbyte/block"),
            (1020.0, "byte/block".into())
        );
        assert_eq!(normalized("41.49", "%"), (41.49, "%".into()));
        assert_eq!(normalized("1.5e3", "ms"), (1.5e9, "ns".into()));
    }

    #[test]
    fn words_that_only_begin_like_a_prefix_stay() {
        assert_eq!(base("Mystery").base, "Mystery");
        assert_eq!(base("SM").base, "SM");
        assert_eq!(base("").base, "");
        assert_eq!(base("Gé").base, "Gé");
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in [
            "n/a",
            "nan",
            "inf",
            "",
            "-",
            "(32, 4, 1)",
            "12x",
            "1e999999999999",
            "1e400",
        ] {
            assert_eq!(scale(text, 0), None, "{text}");
        }
    }
}
