//! Stacks with their times, and the files that flame graph viewers read.

use std::collections::HashMap;
use std::fmt::Write as _;

use llmprof_units::Nanos;
use serde_json::json;

/// A stack, and how long threads were in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameStack {
    /// Names of the frames, outermost first.
    pub frames: Vec<String>,
    pub time_ns: Nanos,
}

/// One line a stack, frames joined by `;`, then the time in µs: what flamegraph.pl, inferno and speedscope read.
pub fn write_folded(stacks: &[FlameStack]) -> String {
    let mut text = String::new();
    for stack in stacks {
        let frames: Vec<String> = stack
            .frames
            .iter()
            .map(|frame| frame.replace([';', '\n'], ","))
            .collect();
        let micros = stack.time_ns.0 / 1000;
        let _ = writeln!(text, "{} {micros}", frames.join(";"));
    }
    text
}

/// A file of speedscope with a profile for each name.
pub fn write_speedscope(profiles: &[(&str, Vec<FlameStack>)]) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut frames = Vec::new();
    let mut written = Vec::new();
    for (name, stacks) in profiles {
        let mut samples = Vec::new();
        for stack in stacks {
            let numbered = stack.frames.iter().map(|frame| {
                *numbers.entry(frame).or_insert_with(|| {
                    frames.push(json!({ "name": frame }));
                    frames.len() - 1
                })
            });
            samples.push(numbered.collect::<Vec<_>>());
        }
        let weights: Vec<i64> = stacks.iter().map(|stack| stack.time_ns.0).collect();
        written.push(json!({
            "type": "sampled",
            "name": name,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<i64>(),
            "samples": samples,
            "weights": weights,
        }));
    }
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "llmprof",
        "shared": { "frames": frames },
        "profiles": written,
    });
    file.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> Vec<FlameStack> {
        [(["main", "a;b"], 5000), (["main", "c"], 7000)]
            .map(|(frames, time)| FlameStack {
                frames: frames.map(str::to_owned).to_vec(),
                time_ns: Nanos(time),
            })
            .to_vec()
    }

    #[test]
    fn a_folded_line_has_one_meaning() {
        assert_eq!(write_folded(&stacks()), "main;a,b 5\nmain;c 7\n");
    }

    #[test]
    fn profiles_of_speedscope_share_frames() {
        let text = write_speedscope(&[("idle", stacks()), ("all", stacks())]);
        let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(file["shared"]["frames"].as_array().map(Vec::len), Some(3));
        assert_eq!(file["profiles"][1]["samples"], json!([[0, 1], [0, 2]]));
        assert_eq!(file["profiles"][1]["endValue"], 12_000);
    }
}
