//! The timeline's canvas and its data: rows of events that do not overlap, as variable-length integers in base64.

use llmprof_units::Count;
use serde_json::json;

use super::embedded_json;
use crate::chart::escaped;
use crate::view::{MAX_ROWS_PER_LANE, Timeline, TimelineLayout};

pub(super) fn figure(timeline: &Timeline, key: &str) -> String {
    let layout = timeline.layout();
    let rows: Vec<_> = layout
        .rows
        .iter()
        .map(|row| json!([row.lane, row.events.len()]))
        .collect();
    let origin = origin(timeline, &layout);
    let since = |time: i64| time.saturating_sub(origin);
    let windows: Vec<_> = timeline
        .windows
        .iter()
        .map(|window| {
            json!([
                window.phase,
                since(window.start_ns.0),
                since(window.end_ns.0)
            ])
        })
        .collect();
    let meta = json!({
        "lanes": timeline.lanes,
        "names": timeline.names,
        "labels": timeline.labels,
        "phases": timeline.phases,
        "windows": windows,
        "rows": rows,
        "first_ns": since(layout.start_ns.0),
        "end_ns": since(layout.end_ns.0),
    });
    let hidden = match layout.hidden {
        0 => String::new(),
        hidden => format!(
            "<p class=\"hint\">Not drawn: {}, since there are more than {MAX_ROWS_PER_LANE} at one time in a lane, or no lane.</p>\n",
            Count(hidden as u64, "event")
        ),
    };
    let button = |action: &str, sign: &str, title: &str| {
        format!(
            "<button type=\"button\" data-action=\"{action}\" title=\"{title}\" aria-label=\"{title}\">{sign}</button>"
        )
    };
    let buttons = [
        button("in", "+", "Zoom in (W)"),
        button("out", "−", "Zoom out (S)"),
        button("left", "←", "Move left (A)"),
        button("right", "→", "Move right (D)"),
        button("all", "all", "Show everything (0)"),
    ]
    .concat();
    let finds = [
        button("previous", "‹", "Previous hit (Shift+Enter)"),
        button("next", "›", "Next hit (Enter)"),
    ]
    .concat();
    format!(
        "<figure class=\"timeline\">\n<div class=\"controls\">{buttons} \
         <label>color by <select class=\"by\"><option value=\"name\">name</option><option value=\"phase\">phase</option></select></label> \
         <label>find <input type=\"search\" class=\"find\" placeholder=\"part of a name\"></label> {finds} <output></output></div>\n\
         <canvas tabindex=\"0\" role=\"img\" aria-label=\"Timeline of {}\"></canvas>\n<div class=\"band\" hidden></div>\n\
         <p class=\"hint keys\">Drag to zoom into a range, Ctrl+wheel or W/S to zoom, A/D or Shift+drag to move, click for details. Height is \
         utilization where events are narrower than a pixel; percentages are the busy share of the view.</p>\n\
         <div class=\"details\" aria-live=\"polite\" hidden></div>\n\
         <noscript><p>The timeline needs JavaScript; a still picture is in plots/{}.svg.</p></noscript>\n{hidden}\
         <script type=\"application/json\" class=\"meta\">{}</script>\n\
         <script type=\"application/octet-stream\" class=\"events\">{}</script>\n</figure>\n",
        Count(timeline.len() as u64, "event"),
        escaped(key),
        embedded_json(&meta),
        base64(&encoded(timeline, &layout))
    )
}

/// The zero of the axis, which is after no event that is drawn.
fn origin(timeline: &Timeline, layout: &TimelineLayout) -> i64 {
    let start = layout.start_ns;
    timeline
        .origin_ns
        .map_or(start, |origin| origin.min(start))
        .0
}

/// Row after row: distance of the start from the end before it, duration, name, phase. Events of a row do not overlap, so no distance is
/// negative, and most fit two bytes.
fn encoded(timeline: &Timeline, layout: &TimelineLayout) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(timeline.len() * 7);
    for row in &layout.rows {
        let mut last = origin(timeline, layout);
        for &index in &row.events {
            let event = timeline.event(index as usize);
            push(&mut bytes, event.start_ns.0.abs_diff(last));
            push(&mut bytes, event.duration_ns.0.max(0) as u64);
            push(&mut bytes, u64::from(event.name));
            push(&mut bytes, u64::from(event.phase));
            last = event.start_ns.0.saturating_add(event.duration_ns.0.max(0));
        }
    }
    bytes
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= chunk.len() {
                let sextet = bits >> (18 - 6 * digit) & 63;
                text.push(char::from(DIGITS[sextet as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_rfc_4648() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn integers_take_seven_bits_a_byte() {
        let mut bytes = Vec::new();
        for value in [0, 127, 128, 300, u64::MAX] {
            push(&mut bytes, value);
        }
        let mut expected = vec![0, 127, 0x80, 1, 0xac, 2];
        expected.extend([0xff; 9]);
        expected.push(1);
        assert_eq!(bytes, expected);
    }
}
