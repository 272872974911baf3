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
pub fn base_unit(printed: &str) -> Scaled {
    let (above, below) = match printed.split_once('/') {
        Some((above, below)) => (above, Some(below)),
        None => (printed, None),
    };
    let (mut exponent, above) = unit_part(above, "ns", -9);
    let mut base = above;
    if let Some(below) = below {
        let (scale, below) = unit_part(below, "s", 0);
        exponent -= scale;
        base = format!("{base}/{below}");
    }
    Scaled { exponent, base }
}

/// How a locale writes numbers: `1,234.5`, or `1.234,5` and its kin with spaces or apostrophes between thousands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notation {
    #[default]
    Point,
    Comma,
}

/// What one printed number shows of its notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It can be of one notation only.
    Only(Notation),
    /// `1,234` or `1.234`: one number in either notation.
    Either,
    /// Digits alone, or no number.
    Nothing,
}

impl Notation {
    fn is_group(self, character: char) -> bool {
        let mark = match self {
            Self::Point => ',',
            Self::Comma => '.',
        };
        // No-break, thin and narrow no-break spaces.
        character == mark
            || matches!(
                character,
                ' ' | '\'' | '\u{a0}' | '\u{2009}' | '\u{202f}' | '’'
            )
    }

    /// What a cell shows. A mark that stands once and has three digits after it may be either; any other mark is decided by
    /// its place: the last of two kinds, or one without three digits after it, is the decimal mark, one that is repeated is not.
    pub fn shown_by(cell: &str) -> Shown {
        let body = cell.trim().trim_start_matches(['-', '+']);
        let (body, _) = body.split_once(['e', 'E']).unwrap_or((body, ""));
        let is_number = body.starts_with(|c: char| c.is_ascii_digit())
            && body.ends_with(|c: char| c.is_ascii_digit())
            && body
                .chars()
                .all(|c| c.is_ascii_digit() || c == ',' || c == '.' || Self::Point.is_group(c));
        if !is_number {
            return Shown::Nothing;
        }
        let by_mark = |mark: char| match mark {
            ',' => Self::Comma,
            _ => Self::Point,
        };
        let other = |mark: char| if mark == ',' { '.' } else { ',' };
        let Some(at) = body.rfind([',', '.']) else {
            return Shown::Nothing;
        };
        let last = if body[at..].starts_with(',') {
            ','
        } else {
            '.'
        };
        if body.contains(other(last)) {
            return Shown::Only(by_mark(last));
        }
        if body.matches(last).count() > 1 {
            return Shown::Only(by_mark(other(last)));
        }
        let (before, after) = (&body[..at], &body[at + 1..]);
        let whole = before.chars().filter(char::is_ascii_digit).count();
        // No group has other than three digits, none follows a leading zero or more than three digits.
        if after.len() == 3 && (1..=3).contains(&whole) && !before.starts_with('0') {
            Shown::Either
        } else {
            Shown::Only(by_mark(last))
        }
    }
}

/// Parses a printed number and moves it to the base unit in one rounding, so that 6.75 us is exactly 6750 ns.
pub fn scale_number(number: &str, exponent: i32) -> Option<f64> {
    scale_from(number, exponent, Notation::Point)
}

/// The same of a number in a locale's notation.
pub fn scale_from(number: &str, exponent: i32, notation: Notation) -> Option<f64> {
    let plain: String = number
        .chars()
        .filter(|c| !notation.is_group(*c))
        .map(|c| if c == ',' { '.' } else { c })
        .collect();
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
fn unit_part(word: &str, time: &str, time_exponent: i32) -> (i32, String) {
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
    use super::{Notation, Shown, base_unit, scale_from, scale_number};

    fn normalize(number: &str, unit: &str) -> (f64, String) {
        let scaled = base_unit(unit);
        (
            scale_number(number, scaled.exponent).expect("a number"),
            scaled.base,
        )
    }

    #[test]
    fn values_move_to_base_units_without_drift() {
        assert_eq!(normalize("6.75", "us"), (6750.0, "ns".into()));
        assert_eq!(
            normalize("30,990.14", "Mbyte"),
            (30_990_140_000.0, "byte".into())
        );
        assert_eq!(
            normalize("345.14", "Gbyte/s"),
            (345_140_000_000.0, "byte/s".into())
        );
        assert_eq!(normalize("13.72", "Ghz"), (13_720_000_000.0, "Hz".into()));
        assert_eq!(normalize("2", "sector/ns"), (2e9, "sector/s".into()));
        assert_eq!(normalize("0.5", "%/Kbyte"), (0.0005, "%/byte".into()));
        assert_eq!(
            normalize("1.02", "Kbyte/block"),
            (1020.0, "byte/block".into())
        );
        assert_eq!(normalize("41.49", "%"), (41.49, "%".into()));
        assert_eq!(normalize("1.5e3", "ms"), (1.5e9, "ns".into()));
    }

    #[test]
    fn a_notation_is_told_by_the_place_of_its_marks() {
        use Notation::{Comma, Point};
        for (cell, shown) in [
            ("6,75", Shown::Only(Comma)),
            ("6.75", Shown::Only(Point)),
            ("30.990,14", Shown::Only(Comma)),
            ("30,990.14", Shown::Only(Point)),
            ("1.234.567", Shown::Only(Comma)),
            ("1,234,567", Shown::Only(Point)),
            ("0,125", Shown::Only(Comma)),
            ("1234,567", Shown::Only(Comma)),
            ("1\u{202f}234,5", Shown::Only(Comma)),
            ("1,234", Shown::Either),
            ("-1.234", Shown::Either),
            ("1234", Shown::Nothing),
            ("(32, 4, 1)", Shown::Nothing),
            ("1.5e3", Shown::Only(Point)),
            ("", Shown::Nothing),
        ] {
            assert_eq!(Notation::shown_by(cell), shown, "{cell}");
        }
        assert_eq!(scale_from("30.990,14", 6, Comma), Some(30_990_140_000.0));
        assert_eq!(scale_from("1\u{202f}234,5", 0, Comma), Some(1234.5));
        assert_eq!(scale_from("6,75", 3, Comma), Some(6750.0));
        assert_eq!(scale_from("1'234.5", 0, Point), Some(1234.5));
    }

    #[test]
    fn words_that_only_begin_like_a_prefix_stay() {
        assert_eq!(base_unit("Mystery").base, "Mystery");
        assert_eq!(base_unit("SM").base, "SM");
        assert_eq!(base_unit("").base, "");
        assert_eq!(base_unit("Gé").base, "Gé");
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
            assert_eq!(scale_number(text, 0), None, "{text}");
        }
    }
}
