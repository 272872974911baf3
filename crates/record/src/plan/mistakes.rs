//! What is wrong with a request, found while nothing has been spent on it.

use super::{ModelPlace, Plan, RuntimeType, direct, nsight, serving, torch};

/// Something wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The config key it is about.
    pub key: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Mistake {
    fn new(key: &'static str, message: String, hint: Option<&str>) -> Self {
        Self {
            key,
            message,
            hint: hint.map(str::to_owned),
        }
    }
}

/// More threads than any machine has cores: a runtime that is asked for a hundred thousand stands still for minutes.
const THREADS_MAX: u32 = 4096;

/// More seconds than anybody waits, and few enough to add to any clock.
const DURATION_MAX_S: f64 = 1e9;

impl Plan {
    /// Everything wrong with the request as far as the request alone can tell; empty if it can start.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let mut wrong = |key, message: String, hint: Option<&str>| {
            mistakes.push(Mistake::new(key, message, hint));
        };
        for (key, value) in self.positive() {
            if value == 0 {
                wrong(key, "must be at least 1".to_owned(), None);
            }
        }
        if let Some((key, value, expected)) = self.parallel.find_mistake() {
            let key = match key {
                "tensor" => "parallel.tensor",
                "pipeline" => "parallel.pipeline",
                "expert" => "parallel.expert",
                _ => "parallel.data",
            };
            wrong(key, format!("{value}, but must be {expected}"), None);
        }
        if let Some((key, message)) = self.hardware.impossible_power() {
            wrong(key, message, None);
        }
        if let Some(shortest) = self.dataset.min_prompt_tokens
            && !(1..=self.workload.prompt_tokens).contains(&shortest)
        {
            wrong(
                "dataset.min_prompt_tokens",
                format!(
                    "must lie between 1 and workload.prompt_tokens, {}",
                    self.workload.prompt_tokens
                ),
                None,
            );
        }
        let without_root = [
            (
                "dataset.subset_filelist",
                self.dataset.subset_filelist.is_some(),
            ),
            ("dataset.variant", self.dataset.variant.is_some()),
        ];
        for (key, set) in without_root {
            if set && self.dataset.root.is_none() {
                wrong(
                    key,
                    "the dataset has no folder".to_owned(),
                    Some("dataset=text dataset.root=DIR"),
                );
            }
        }
        if self.workload.prompt_tokens == 0 && self.workload.images.count == 0 {
            wrong(
                "workload.prompt_tokens",
                "there is nothing to prefill".to_owned(),
                None,
            );
        }
        if let Some(longest) = self.model.max_seq_len {
            let asked = [
                self.workload.cached_tokens,
                self.workload.prompt_tokens,
                self.workload.new_tokens,
            ]
            .iter()
            .fold(0u64, |sum, &tokens| sum.saturating_add(tokens));
            if asked > longest {
                wrong(
                    "model.max_seq_len",
                    format!("the request needs {asked} positions, the model has {longest}"),
                    Some("lower workload.prompt_tokens or infer.max_new_tokens"),
                );
            }
        }
        if self.infer.do_sample
            && !(self.infer.temperature > 0.0 && self.infer.temperature.is_finite())
        {
            wrong(
                "infer.temperature",
                format!("{} cannot divide logits", self.infer.temperature),
                Some("a positive number, or infer.do_sample=false"),
            );
        }
        mistakes
    }

    /// Keys whose values must be at least 1.
    fn positive(&self) -> [(&'static str, u64); 5] {
        [
            // The one takes the other's value unless it is set itself.
            if self.runtime.batch_size == 0 {
                ("runtime.batch_size", 0)
            } else {
                ("workload.batch_size", self.workload.batch_size)
            },
            if self.infer.max_new_tokens == 0 {
                ("infer.max_new_tokens", 0)
            } else {
                ("workload.new_tokens", self.workload.new_tokens)
            },
            (
                "dataset.sampling.num_epochs",
                self.dataset.sampling.num_epochs,
            ),
            (
                "dataset.sampling.num_samples_per_epoch",
                self.dataset.sampling.num_samples_per_epoch.unwrap_or(1),
            ),
            (
                "workload.chunk_tokens",
                self.workload.chunk_tokens.unwrap_or(1),
            ),
        ]
    }

    /// Everything beyond that which stands against executing it.
    pub fn execution_mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let mut wrong = |key, message: String, hint: Option<&str>| {
            mistakes.push(Mistake::new(key, message, hint));
        };
        match self.runtime.kind {
            RuntimeType::Command if self.runtime.argv.is_empty() => wrong(
                "runtime.argv",
                "there is no command to run".to_owned(),
                Some("runtime.argv=[program,argument]"),
            ),
            RuntimeType::Worker if self.runtime.worker.is_empty() => wrong(
                "runtime.worker",
                "there is no worker to start".to_owned(),
                Some("runtime.worker=[python3,worker.py]"),
            ),
            RuntimeType::None if !self.pipeline.static_analysis.enable => wrong(
                "runtime.type",
                "nothing is executed and no stage is enabled, so there is nothing to do".to_owned(),
                Some("choose a runtime, or pipeline.static_analysis.enable=true"),
            ),
            RuntimeType::None
            | RuntimeType::Command
            | RuntimeType::Openai
            | RuntimeType::Vllm
            | RuntimeType::Sglang
            | RuntimeType::Tensorrtllm => {}
            RuntimeType::Native | RuntimeType::Pytorch | RuntimeType::Worker => {
                if self.runtime.repeats == 0 {
                    wrong("runtime.repeats", "must be at least 1".to_owned(), None);
                }
                let threads = self.runtime.threads;
                if threads.is_some_and(|threads| !(1..=THREADS_MAX).contains(&threads)) {
                    let message = format!("must lie between 1 and {THREADS_MAX}");
                    wrong("runtime.threads", message, None);
                }
                if self.model.reads_weights() && self.model.path.is_none() {
                    wrong(
                        "model.path",
                        "there is no directory to load weights from".to_owned(),
                        Some("model.path=DIR"),
                    );
                }
            }
        }
        if self.runtime.kind == RuntimeType::Native {
            self.native_mistakes(&mut wrong);
        }
        torch::mistakes(self, &mut wrong);
        serving::mistakes(self, &mut wrong);
        direct::mistakes(self, &mut wrong);
        self.hardware.mistakes(self, &mut wrong);
        self.pipeline.telemetry.mistakes(&mut wrong);
        self.pipeline.cupti.mistakes(self, &mut wrong);
        nsight::mistakes(self, &mut wrong);
        if self
            .runtime
            .timeout_s
            .is_some_and(|limit| !(limit > 0.0 && limit <= DURATION_MAX_S))
        {
            wrong(
                "runtime.timeout_s",
                format!("must be a positive number of seconds, at most {DURATION_MAX_S}"),
                None,
            );
        }
        if !self.parallel.is_single() {
            wrong(
                "parallel",
                "a run is on one device: only `predict` and `simulate` spread a model".to_owned(),
                Some("runtime.serving.tensor_parallel=N starts a server on N GPUs"),
            );
        }
        self.refused(&mut wrong);
        mistakes
    }

    /// What the native runtime cannot do.
    fn native_mistakes(&self, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
        let workload = &self.workload;
        let native = |what: &str| format!("the native runtime {what}");
        let own: [(&'static str, bool, &str); 3] = [
            (
                "workload.weights",
                workload.weights.is_some_and(|format| !format.is_native()),
                "keeps weights in workload.dtype, int8, int8_gN or int4_gN (N inputs to a scale, a multiple of 32)",
            ),
            (
                "workload.kv_dtype",
                workload.kv_dtype.is_some(),
                "keeps the KV cache in f32",
            ),
            (
                "workload.images.count",
                workload.images.count > 0,
                "runs text models only",
            ),
        ];
        for (key, set, what) in torch::of_both_runtimes(workload).into_iter().chain(own) {
            if set {
                wrong(key, native(what), None);
            }
        }
        if self.device != ModelPlace::Cpu {
            let hint = Some("runtime=pytorch runs on GPUs");
            wrong("device", native("runs on the CPU"), hint);
        }
    }

    /// Keys whose capability this version does not have: set to anything but their default they are refused, since
    /// ignoring them would run something else than was asked for.
    fn refused(&self, wrong: &mut impl FnMut(&'static str, String, Option<&str>)) {
        let absent = |what: &str| format!("this version of llmprof cannot {what} yet");
        let keys: [(&'static str, bool, &str); 2] = [
            (
                "model.preprocess",
                // The native runtime takes no images, so that nothing is to be prepared.
                self.model.preprocess.is_some()
                    && !matches!(
                        self.runtime.kind,
                        RuntimeType::Native
                            | RuntimeType::Pytorch
                            | RuntimeType::Worker
                            | RuntimeType::None
                    ),
                "prepare images with this runtime",
            ),
            (
                "model.load_format",
                self.model.reads_weights()
                    && !matches!(
                        self.runtime.kind,
                        RuntimeType::Native | RuntimeType::Pytorch | RuntimeType::Worker
                    )
                    && !self.runtime.kind.is_serving(),
                "load weights with this runtime",
            ),
        ];
        for (key, set, what) in keys {
            if set {
                wrong(key, absent(what), None);
            }
        }
    }
}
