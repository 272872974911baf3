//! What a device told beside the run's clock: when tokens were there by its own events, and what its allocator did.

use llmprof_analysis::run::PassKind;
use llmprof_capture::runner::protocol::{DeviceMemory, Generated};
use llmprof_record::{
    import::{self, Limits, Profile},
    store::RunDir,
};
use llmprof_report::view::Series;
use llmprof_units::{Bytes, Percent};
use serde_json::{Value, json};

use super::halt::Halt;
use crate::commands::profile::memory;

/// What is shown of it.
#[derive(Default)]
pub(super) struct DeviceFacts {
    /// Lines for the terminal.
    pub(super) lines: Vec<String>,
    /// Memory over time, for the page.
    pub(super) curves: Vec<Series>,
}

/// Writes `token_times.csv`, and `allocator.json` with `memory.csv` where there is an allocator.
pub(super) fn write(
    passes: &[(PassKind, Vec<Generated>)],
    store: &RunDir,
) -> Result<DeviceFacts, Halt> {
    store.write("token_times.csv", token_times(passes))?;
    let told: Vec<(usize, PassKind, &DeviceMemory)> = passes
        .iter()
        .enumerate()
        .flat_map(|(number, (kind, answers))| {
            let memory = answers.iter().filter_map(|answer| answer.memory.as_ref());
            memory.map(move |memory| (number, *kind, memory))
        })
        .collect();
    if told.is_empty() {
        return Ok(DeviceFacts::default());
    }
    let mut lines = Vec::from_iter(peak(&told));
    let mut curves = Vec::new();
    let mut history = Value::Null;
    if let Some(path) = told
        .iter()
        .find_map(|(.., memory)| memory.snapshot.as_ref())
    {
        let (_, imported) = import::import(path, &Limits::default())
            .map_err(|error| Halt::Failed(error.to_string()))?;
        if let Profile::Memory(found) = imported {
            lines.extend(llmprof_report::text::memory::summary(&found));
            curves = llmprof_report::compose::memory_series(&found);
            if let Some(timeline) = memory::csv(&found) {
                store.write(memory::FILE, timeline)?;
            }
            history = json!(found);
        }
    }
    let batches: Vec<Value> = told
        .iter()
        .map(|(pass, kind, memory)| json!({"pass": pass, "kind": kind, "memory": memory}))
        .collect();
    let text = serde_json::to_string_pretty(&json!({"batches": batches, "history": history}))
        .map_err(|error| Halt::Failed(format!("cannot write JSON: {error}")))?;
    store.write("allocator.json", text + "\n")?;
    Ok(DeviceFacts { lines, curves })
}

/// The largest batch without capture, in a line.
fn peak(told: &[(usize, PassKind, &DeviceMemory)]) -> Option<String> {
    let plain = told.iter().filter(|(_, kind, _)| *kind == PassKind::Plain);
    let (.., most) = plain.max_by_key(|(.., memory)| memory.peak_allocated_bytes)?;
    let Bytes(reserved) = most.peak_reserved_bytes;
    let free = reserved.saturating_sub(most.peak_allocated_bytes.0);
    let share = Percent(free as f64 / (reserved.max(1)) as f64);
    Some(format!(
        "device memory: at most {} allocated of {} reserved ({share} free), {} held before the batch",
        most.peak_allocated_bytes, most.peak_reserved_bytes, most.start_allocated_bytes
    ))
}

/// When each token was there: by the host's clock since its request began, and by the device's since its batch began.
fn token_times(passes: &[(PassKind, Vec<Generated>)]) -> String {
    let mut text = "pass,kind,request,token,host_ns,device_ns\n".to_owned();
    for (number, (kind, answers)) in passes.iter().enumerate() {
        let kind = match kind {
            PassKind::WarmUp => "warm_up",
            PassKind::Plain => "plain",
            PassKind::Captured => "captured",
        };
        for answer in answers {
            for request in &answer.requests {
                for (token, time) in request.token_ns.iter().enumerate() {
                    let device = answer.device_token_ns.get(token);
                    text += &format!(
                        "{number},{kind},{},{token},{},{}\n",
                        crate::output::csv_field(&request.id),
                        (*time - request.start_ns).0,
                        device.map(|time| time.0.to_string()).unwrap_or_default()
                    );
                }
            }
        }
    }
    text
}
