//! `${now:PATTERN}`: Python's `strftime` of the local time, which Hydra takes without its zone, in the C locale.

use jiff::civil::{DateTime, Weekday};

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Formats a time; a directive that does not exist stays as it is, as glibc leaves it.
pub(super) fn strftime(time: DateTime, pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let flags: String = rest[1..]
            .chars()
            .take_while(|c| "-_0^#".contains(*c))
            .collect();
        let after = &rest[1 + flags.len()..];
        let Some(directive) = after.chars().next() else {
            break;
        };
        let used = 1 + flags.len() + directive.len_utf8();
        match directive_field(time, directive) {
            Some(field) => out.push_str(&field.write_padded(&flags)),
            None => out.push_str(&rest[..used]),
        }
        rest = &rest[used..];
    }
    out.push_str(rest);
    out
}

/// One directive's value, before flags.
enum ClockField {
    Number { value: i64, width: usize, pad: char },
    Text(String),
}

impl ClockField {
    fn write_padded(self, flags: &str) -> String {
        match self {
            Self::Number { value, width, pad } => {
                let pad = match flags.chars().rfind(|flag| "-_0".contains(*flag)) {
                    Some('-') => return value.to_string(),
                    Some('_') => ' ',
                    Some('0') => '0',
                    _ => pad,
                };
                let digits = value.to_string();
                let fill = width.saturating_sub(digits.len());
                let mut out: String = std::iter::repeat_n(pad, fill).collect();
                out.push_str(&digits);
                out
            }
            Self::Text(text) if flags.contains('^') => text.to_uppercase(),
            Self::Text(text) => text,
        }
    }
}

fn directive_field(time: DateTime, directive: char) -> Option<ClockField> {
    let number = |value: i64, width: usize| ClockField::Number {
        value,
        width,
        pad: '0',
    };
    let spaced = |value: i64| ClockField::Number {
        value,
        width: 2,
        pad: ' ',
    };
    let text = |text: &str| ClockField::Text(text.to_owned());
    let again = |pattern: &str| ClockField::Text(strftime(time, pattern));
    let weekday = i64::from(time.weekday().to_sunday_zero_offset());
    let day_name = DAYS[weekday as usize];
    let month_name = MONTHS[time.month() as usize - 1];
    let hour = i64::from(time.hour());
    let half_day = if hour % 12 == 0 { 12 } else { hour % 12 };
    let year_day = i64::from(time.day_of_year());
    let week = time.date().iso_week_date();
    Some(match directive {
        'a' => text(&day_name[..3]),
        'A' => text(day_name),
        'b' | 'h' => text(&month_name[..3]),
        'B' => text(month_name),
        'c' => again("%a %b %e %H:%M:%S %Y"),
        'C' => number(i64::from(time.year()) / 100, 2),
        'd' => number(i64::from(time.day()), 2),
        'D' | 'x' => again("%m/%d/%y"),
        'e' => spaced(i64::from(time.day())),
        'f' => number(i64::from(time.subsec_nanosecond()) / 1000, 6),
        'F' => again("%Y-%m-%d"),
        'g' => number(i64::from(week.year()) % 100, 2),
        'G' => number(i64::from(week.year()), 0),
        'H' => number(hour, 2),
        'I' => number(half_day, 2),
        'j' => number(year_day, 3),
        'k' => spaced(hour),
        'l' => spaced(half_day),
        'm' => number(i64::from(time.month()), 2),
        'M' => number(i64::from(time.minute()), 2),
        'n' => text("\n"),
        'p' => text(if hour < 12 { "AM" } else { "PM" }),
        'P' => text(if hour < 12 { "am" } else { "pm" }),
        'r' => again("%I:%M:%S %p"),
        'R' => again("%H:%M"),
        // Seconds since 1970, for a clock that shows UTC.
        's' => number(
            time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0))
                .as_secs(),
            1,
        ),
        'S' => number(i64::from(time.second()), 2),
        't' => text("\t"),
        'T' | 'X' => again("%H:%M:%S"),
        'u' => number(i64::from(time.weekday().to_monday_one_offset()), 1),
        'U' => number((year_day + 6 - weekday) / 7, 2),
        'V' => number(i64::from(week.week()), 2),
        'w' => number(weekday, 1),
        'W' => {
            let from_monday = i64::from(time.weekday().since(Weekday::Monday));
            number((year_day + 6 - from_monday) / 7, 2)
        }
        'y' => number(i64::from(time.year()) % 100, 2),
        'Y' => number(i64::from(time.year()), 0),
        // A time without a zone has nothing to say here.
        'z' | 'Z' => text(""),
        '%' => text("%"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_as_python_writes_them() {
        let time: DateTime = "2026-03-05T14:07:09.012345".parse().expect("a time");
        for (pattern, expected) in [
            ("%Y-%m-%d_%H-%M-%S", "2026-03-05_14-07-09"),
            (
                "%a %A %b %B %d %e|%-d|%_d",
                "Thu Thursday Mar March 05  5|5| 5",
            ),
            ("%I:%M %p %f %j", "02:07 PM 012345 064"),
            ("%U %W %V %G %u %w", "09 09 10 2026 4 4"),
            (
                "%c|%x|%X|%y|%C",
                "Thu Mar  5 14:07:09 2026|03/05/26|14:07:09|26|20",
            ),
            ("100%% %Q %^a%z", "100% %Q THU"),
            ("end %", "end %"),
            ("%s", "1772719629"),
        ] {
            assert_eq!(strftime(time, pattern), expected, "{pattern}");
        }
    }
}
