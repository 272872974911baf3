//! Engine steps of a server's trace, as loads and simulations read them.

use std::path::Path;

use llmprof_analysis::{Served, engine_steps, judged_device};
use llmprof_record::{run::RunRecord, serving::EngineStep};

use crate::{failure::Failure, profiles, subject::RunSubject};

/// The steps of a trace; none where its program labels none. Of a model that is known they have a roofline.
pub(crate) fn load(path: &Path, subject: Option<&RunSubject>) -> Result<Vec<EngineStep>, Failure> {
    let mut record = profiles::read(&[path.to_owned()])?;
    // The device's events come after the steps in a file: those of the last steps would be idle.
    let mut issues = record.traces.iter().flat_map(|one| &one.trace.issues);
    if issues.any(|issue| issue.code.is_cut_file()) {
        return Err(Failure::new(format!(
            "{}: the end of the file is missing",
            path.display()
        )));
    }
    if let Some(subject) = subject {
        subject.describe(&mut record);
    }
    of_record(&record).map_err(|why| Failure::new(format!("{}: {why}", path.display())))
}

/// Those of the first trace that has some: engines of one server run the same steps.
pub(crate) fn of_record(record: &RunRecord) -> Result<Vec<EngineStep>, llmprof_analysis::NoClock> {
    let device = judged_device(record, None).device;
    let model = record.model.as_ref().and_then(|model| model.model.as_ref());
    for recorded in &record.traces {
        let served = model
            .zip(record.workload.as_ref())
            .zip(device.as_ref())
            .map(|((model, workload), device)| Served {
                model,
                workload,
                device,
            });
        let steps = engine_steps(&recorded.trace, served)?;
        if !steps.is_empty() {
            return Ok(steps);
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/vllm")
            .join(name)
    }

    #[test]
    fn a_trace_of_vllm_has_25_steps_on_the_wall_clock() {
        let steps = load(&fixture("rank0.pt.trace.json.gz"), None).unwrap();
        // 27 labels, two of them of steps without a sequence.
        assert_eq!(steps.len(), 25);
        let in_order = |pair: &[EngineStep]| pair[0].end_unix_ns <= pair[1].start_unix_ns;
        assert!(steps.windows(2).all(in_order));
        // November 2026, by baseTimeNanoseconds.
        assert_eq!(steps[0].start_unix_ns.0 / 1_000_000_000, 1_794_787_980);
        assert_eq!(
            (steps[0].prefill.tokens, steps[0].prefill.context),
            (48, Some(48))
        );
        assert_eq!((steps[0].end_unix_ns - steps[0].start_unix_ns).0, 7_687_369);
        // Every sequence that decodes makes one token a step; a CPU has no device to be busy.
        let is_plain = |step: &EngineStep| {
            step.decode.tokens == step.decode.sequences && step.busy_ns.is_none()
        };
        assert!(steps.iter().all(is_plain));
    }

    #[test]
    fn a_trace_of_the_api_server_has_no_steps_and_half_a_trace_is_none() {
        assert_eq!(
            load(&fixture("async_llm.pt.trace.json.gz"), None).unwrap(),
            []
        );
        let cut = tempfile::NamedTempFile::new().unwrap();
        let bytes = std::fs::read(fixture("rank0.pt.trace.json.gz")).unwrap();
        std::fs::write(cut.path(), &bytes[..bytes.len() / 2]).unwrap();
        let why = load(cut.path(), None).unwrap_err().to_string();
        let name = cut.path().file_name().unwrap().to_string_lossy();
        assert!(
            why.contains(&*name) && why.contains("end of the file"),
            "{why}"
        );
    }
}
