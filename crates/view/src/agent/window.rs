//! What ran between two moments.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::answer::{Answer, AnswerBody, ms, percent};
use super::recorded_text::RecordedText;
use super::{PlaceId, RunAnswers};

const NAMES_MAX: usize = 12;
const DEVICES_MAX: usize = 8;

/// Times of an interval, summed: names may overlap each other.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WindowAnswer {
    /// `RUN#window=…` for `llmprof view`.
    pub view: String,
    /// Since the first event of the timeline.
    pub from_ms: f64,
    /// End of the window.
    pub to_ms: f64,
    /// The phase whose interval this is; absent where it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RecordedText>,
    /// Devices of the window.
    pub devices: Vec<DeviceAnswer>,
    /// Device time by category.
    pub categories_ms: BTreeMap<String, f64>,
    /// Kernels, copies and memsets with most time.
    pub device_events: Vec<NamedAnswer>,
    /// Host operators and calls with most time, those inside of them included.
    pub host_events: Vec<NamedAnswer>,
}

impl AnswerBody for WindowAnswer {
    const NAME: &'static str = "window";
    const CUT: &'static [&'static str] = &["host_events", "device_events", "devices"];
}

/// A device in the interval.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeviceAnswer {
    /// Name of the device.
    pub device: RecordedText,
    /// Time in which the device is busy.
    pub busy_ms: f64,
    /// Time in which the device is idle.
    pub idle_ms: f64,
    /// Idle time ÷ window.
    pub idle_pct: f64,
    /// Idle time by cause, of gaps that lie in the interval as a whole.
    pub idle_causes_ms: BTreeMap<String, f64>,
}

/// Events of one name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamedAnswer {
    /// Name of the event.
    pub name: RecordedText,
    /// Number of events.
    pub count: u64,
    /// Summed time.
    pub total_ms: f64,
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn named(rows: &Value) -> Vec<NamedAnswer> {
    let rows = rows.as_array().into_iter().flatten();
    rows.take(NAMES_MAX)
        .map(|row| NamedAnswer {
            name: RecordedText::new(row["label"].as_str().unwrap_or_default()),
            count: row["count"].as_u64().unwrap_or(0),
            total_ms: ms(number(&row["total_ns"])),
        })
        .collect()
}

impl RunAnswers<'_> {
    pub(super) fn window(&self, from: i64, to: i64) -> Result<Answer<WindowAnswer>, String> {
        let timeline = &self.run.timeline;
        if timeline.events() == 0 {
            return Err("the run has no timeline".to_owned());
        }
        if from >= timeline.span {
            return Err(format!(
                "the timeline ends at {} ms ({} ns)",
                ms(timeline.span as f64),
                timeline.span
            ));
        }
        let to = to.min(timeline.span);
        let totals = timeline.totals_json(&self.run.record, from, to);
        let devices = totals["devices"].as_array().into_iter().flatten();
        let devices = devices.take(DEVICES_MAX).map(|device| {
            let causes = device["causes"].as_array().into_iter().flatten();
            let causes = causes.map(|cause| {
                let name = cause["cause"].as_str().unwrap_or_default().to_owned();
                (name, ms(number(&cause["total_ns"])))
            });
            DeviceAnswer {
                device: RecordedText::new(device["device"].as_str().unwrap_or_default()),
                busy_ms: ms(number(&device["busy_ns"])),
                idle_ms: ms(number(&device["idle_ns"])),
                idle_pct: percent(number(&device["idle_ns"]), number(&device["span_ns"])),
                idle_causes_ms: causes.collect(),
            }
        });
        let categories = totals["categories"].as_array().into_iter().flatten();
        let categories = categories.map(|category| {
            let name = category["category"].as_str().unwrap_or_default().to_owned();
            (name, ms(number(&category["total_ns"])))
        });
        let moments = (from + timeline.origin, to + timeline.origin);
        let steps = &timeline.phases;
        let step = steps
            .iter()
            .position(|(_, start, end)| (*start, *end) == moments);
        let body = WindowAnswer {
            view: self.asked.view(&PlaceId::Window(from, to)),
            from_ms: ms(from as f64),
            to_ms: ms(to as f64),
            phase: step.map(|step| RecordedText::new(&steps[step].0)),
            devices: devices.collect(),
            categories_ms: categories.collect(),
            device_events: named(&totals["device_names"]),
            host_events: named(&totals["host_names"]),
        };
        let mut next = Vec::new();
        // The next interval of the same phase, to see whether this one is usual.
        let following = step.and_then(|step| {
            let name = &steps[step].0;
            let later = steps.iter().enumerate().skip(step + 1);
            later
                .filter(|(_, other)| other.0 == *name)
                .map(|(number, _)| number)
                .next()
        });
        if let Some(number) = following {
            let id = PlaceId::Step(number).to_string();
            let why = "the next interval of this phase";
            next.push(
                self.asked
                    .next("explain", &[("id", id.as_str().into())], why),
            );
        }
        next.push(self.asked.next("findings", &[], "causes with their gains"));
        let mut answer = self.answer(body);
        if answer.body.devices.is_empty() {
            answer
                .abstained
                .push("no device ran anything in this time that the trace shows".to_owned());
        }
        answer.next = next;
        Ok(answer)
    }

    /// The interval of a step, ns since the first event.
    pub(super) fn step_window(&self, number: usize) -> Result<(i64, i64), String> {
        let timeline = &self.run.timeline;
        let count = timeline.phases.len();
        let step = timeline.phases.get(number).ok_or_else(|| match count {
            0 => "the trace shows no steps or phases; ask for a window by its times".to_owned(),
            _ => format!("steps are numbered from 0 to {}", count - 1),
        })?;
        Ok((step.1 - timeline.origin, step.2 - timeline.origin))
    }
}
