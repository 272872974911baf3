//! What theory counts, call by call in the order of execution.

use llmprof_record::run::RunPhase;
use llmprof_theory::roofline::{MemoryLevel, Roof};
use llmprof_theory::{Kind, Model, Operator, Pass, Path, Step, Workload};
use rustc_hash::FxHashMap;

use crate::matching::expected::Expected;

/// Names and paths of operators, each text once, referred to by number.
#[derive(Default)]
struct ScriptNames<'m> {
    paths: FxHashMap<Path<'m>, (u32, u32)>,
    path_texts: Vec<String>,
    by_path: FxHashMap<String, u32>,
    place_texts: Vec<String>,
    by_place: FxHashMap<String, u32>,
}

impl<'m> ScriptNames<'m> {
    fn number_path(&mut self, path: Path<'m>) -> (u32, u32) {
        if let Some(known) = self.paths.get(&path) {
            return *known;
        }
        let numbers = (
            intern_text(&mut self.by_path, &mut self.path_texts, path.to_string()),
            intern_text(
                &mut self.by_place,
                &mut self.place_texts,
                path_without_layer(&path),
            ),
        );
        self.paths.insert(path, numbers);
        numbers
    }
}

fn intern_text(known: &mut FxHashMap<String, u32>, texts: &mut Vec<String>, text: String) -> u32 {
    *known.entry(text).or_insert_with_key(|text| {
        texts.push(text.clone());
        (texts.len() - 1) as u32
    })
}

/// The path of an operator with `*` for the number of its layer.
pub(crate) fn path_without_layer(path: &Path<'_>) -> String {
    if path.layer.is_none() {
        return path.to_string();
    }
    [path.prefix, "*", path.name]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(".")
}

/// What theory counts for some interval of a run, call by call in the order of execution.
pub(crate) struct Script<'m> {
    names: ScriptNames<'m>,
    pub(crate) calls: Vec<Expected>,
    /// Where each step begins in `calls`; one more for the end.
    steps: Vec<usize>,
}

impl<'m> Script<'m> {
    pub(crate) fn empty() -> Self {
        Self {
            names: ScriptNames::default(),
            calls: Vec::new(),
            steps: vec![0],
        }
    }

    /// Adds the calls of one pass. No step begins once there are more than `most` calls.
    pub(crate) fn add_pass(
        &mut self,
        model: &'m Model,
        workload: &Workload,
        pass: &Pass,
        roof: Option<(&Roof<'_>, MemoryLevel)>,
        most: usize,
    ) {
        for step in 0..pass.steps {
            if self.calls.len() > most {
                return;
            }
            let single = Pass {
                past: pass.past.saturating_add(step.saturating_mul(pass.queries)),
                steps: 1,
                ..*pass
            };
            model.lower_in_order(workload, &single, &mut |operator| {
                self.push(operator, roof);
            });
            self.steps.push(self.calls.len());
        }
    }

    /// Adds the calls of a step that an engine states, each layer by itself.
    pub(crate) fn add_step(
        &mut self,
        model: &'m Model,
        workload: &Workload,
        step: &Step,
        roof: Option<(&Roof<'_>, MemoryLevel)>,
    ) {
        // Without the lengths of the sequences nothing says how many keys attention reads.
        let has_context = step.cached_tokens().is_some();
        model.lower_step(workload, step, &mut |operator| {
            let is_known = has_context || operator.kind != Kind::Attention;
            self.push_layers(operator, roof.filter(|_| is_known));
        });
        self.steps.push(self.calls.len());
    }

    /// Adds the calls of what comes before the decoder, each layer by itself: image towers, an encoder.
    pub(crate) fn add_before(
        &mut self,
        phase: RunPhase,
        model: &'m Model,
        workload: &Workload,
        roof: Option<(&Roof<'_>, MemoryLevel)>,
    ) {
        let mut push = |operator: &Operator<'m>| self.push_layers(operator, roof);
        match phase {
            RunPhase::Encoder => model.lower_encoder(workload, &mut push),
            _ => model.lower_vision(workload, &mut push),
        }
        self.steps.push(self.calls.len());
    }

    fn push_layers(&mut self, operator: &Operator<'m>, roof: Option<(&Roof<'_>, MemoryLevel)>) {
        if operator.numbers.is_empty() {
            self.push(operator, roof);
        }
        for &number in operator.numbers {
            let mut single = *operator;
            single.path.layer = Some(number);
            single.layers = 1;
            self.push(&single, roof);
        }
    }

    /// The number of a path's text, where a call has it.
    pub(crate) fn path_number(&self, text: &str) -> Option<u32> {
        self.names.by_path.get(text).copied()
    }

    /// Where the step with the call `index` ends in `calls`.
    pub(crate) fn step_around(&self, index: usize) -> std::ops::Range<usize> {
        let after = self.steps.partition_point(|&start| start <= index);
        let end = self.steps.get(after).copied().unwrap_or(self.calls.len());
        self.steps[after.saturating_sub(1)]..end
    }

    /// The text of a path's number.
    pub(crate) fn path_text(&self, path: u32) -> &str {
        &self.names.path_texts[path as usize]
    }

    /// The text of a place's number.
    pub(crate) fn place_text(&self, place: u32) -> &str {
        &self.names.place_texts[place as usize]
    }

    fn push(&mut self, operator: &Operator<'m>, roof: Option<(&Roof<'_>, MemoryLevel)>) {
        let (path, place) = self.names.number_path(operator.path);
        self.calls.push(Expected {
            kind: operator.kind,
            shape: operator.shape,
            dtype: operator.tensor.dtype,
            flops: operator.tensor.flops.saturating_add(operator.vector.flops),
            min_dram_bytes: operator.traffic.min_dram_bytes(),
            unfused: operator.traffic.total_bytes(),
            roofline: roof.and_then(|(roof, level)| roof.operator_times(operator, level).ok()),
            basis: operator.basis,
            path,
            place,
        });
    }
}
