//! What engines were started with. Rows do not say; the launch scripts of the dashboards do (SemiAnalysisAI/InferenceX, Apache-2.0, `benchmarks/`, as they
//! were when the rows were measured). Of sweeps only the tool is known.

use llmprof_predict::EfficiencyProfile;
use llmprof_simulate::Settings;

use super::rows::{RowSource, ServedRow};

pub(crate) struct LaunchSettings {
    /// New tokens of a step of one data-parallel group.
    tokens: u64,
    wait_steps: u64,
    wait_tokens: u64,
    /// Share of memory: of all of it for weights and KV cache, or with TensorRT-LLM of what weights leave for the KV cache.
    pub(crate) memory: f64,
    pub(crate) eight_bit_cache: bool,
    /// Steps with prompts that vLLM captures, where the script states how many tokens they may have.
    captured_tokens: Option<u64>,
    /// Requests for each one in flight.
    pub(crate) rounds: usize,
}

impl LaunchSettings {
    pub(crate) fn of_row(row: &ServedRow) -> Self {
        let plain = Self {
            tokens: 8192,
            wait_steps: 0,
            wait_tokens: 0,
            memory: 0.9,
            eight_bit_cache: row.backend == "trtllm" || row.model.starts_with("nvidia/"),
            captured_tokens: None,
            rounds: 10,
        };
        if row.source == RowSource::Sweep {
            // Their public runner (ai-dynamo/aiconfigurator, `eval/benchmarks/genai_perf_runner.py`) sends ten requests for each one in flight. TTFT of SGLang 0.5.1 is
            // half of the prefill of all requests (Qwen3-32B): they start together, once.
            let is_once = row.backend == "sglang" && row.version.starts_with("0.5.1.");
            return Self {
                rounds: if is_once { 1 } else { 10 },
                ..plain
            };
        }
        let has = |name: &str| row.model.contains(name);
        match row.backend {
            "trtllm" if has("Llama") => Self {
                tokens: if row.device == "b200" {
                    16_384
                } else {
                    row.prompt + row.output + 200
                },
                ..plain
            }
            .with_waiting(row),
            "trtllm" if has("gpt-oss") => Self {
                tokens: 20_000,
                memory: 0.85,
                eight_bit_cache: row.device == "b200",
                ..plain
            },
            // A step has room for one prompt beside what decodes.
            "trtllm" => Self {
                tokens: (row.concurrency as u64 + row.prompt + 64).next_multiple_of(64),
                memory: if row.device == "b200" { 0.8 } else { 0.75 },
                ..plain
            },
            "sglang" if has("GLM") && row.device == "h200" => Self {
                memory: 0.85,
                rounds: 5,
                ..plain
            },
            "sglang" if has("Qwen3.5") && row.device == "h200" => Self {
                tokens: 16_384,
                memory: 0.8,
                eight_bit_cache: true,
                ..plain
            },
            "sglang" => Self {
                tokens: 32_768,
                memory: if has("GLM") { 0.85 } else { 0.82 },
                eight_bit_cache: row.device == "b200",
                ..plain
            },
            _ => Self {
                memory: if row.device == "h200" && (has("Kimi") || has("MiniMax")) {
                    0.95
                } else {
                    0.9
                },
                eight_bit_cache: has("Llama"),
                captured_tokens: has("gpt-oss").then_some(2048),
                ..plain
            },
        }
    }

    /// Llama with prompts and answers of 1024 on less than eight GPUs: prompts are held back for up to 20 steps.
    fn with_waiting(self, row: &ServedRow) -> Self {
        if (row.prompt, row.output) != (1024, 1024) || row.parallel.tensor >= 8 {
            return self;
        }
        Self {
            wait_steps: 20,
            wait_tokens: self.tokens * 9 / 10,
            ..self
        }
    }

    /// The profile of an engine that was started so.
    pub(crate) fn put_into(&self, profile: &EfficiencyProfile) -> EfficiencyProfile {
        let mut profile = profile.clone();
        if let (Some(graph), Some(tokens)) = (&mut profile.graph, self.captured_tokens) {
            graph.prefill_tokens = tokens;
        }
        profile
    }

    pub(crate) fn engine_settings(
        &self,
        row: &ServedRow,
        [kv_blocks, sequence_blocks]: [u64; 2],
    ) -> Settings {
        let is_dashboard = row.source == RowSource::Dashboard;
        let is_trtllm = is_dashboard && row.backend == "trtllm";
        let max_num_batched_tokens = self.tokens * row.parallel.data;
        Settings {
            kv_blocks,
            sequence_blocks,
            // More than any row has in flight for a rank, as benchmarks set it.
            max_num_seqs: 1024.min(max_num_batched_tokens),
            max_num_batched_tokens,
            chunked_prefill: !is_trtllm,
            reserve_answer: is_trtllm,
            async_scheduling: is_dashboard,
            wait_steps: self.wait_steps,
            wait_tokens: self.wait_tokens,
            ..Settings::default()
        }
    }
}
