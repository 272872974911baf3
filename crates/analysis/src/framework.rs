//! What launched the kernels of a trace. Advice must fit it.

use llmprof_record::trace::{HostKind, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a program is built on, as far as its trace shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framework {
    Pytorch,
    /// JAX and others that XLA compiles.
    Xla,
    #[default]
    Unknown,
}

impl Framework {
    pub(crate) fn of(trace: &Trace) -> Self {
        let hosts = &trace.hosts;
        let has_operators = (0..hosts.len()).any(|row| hosts.kind[row] == HostKind::OPERATOR);
        let mut seen = rustc_hash::FxHashSet::default();
        let mut xla = false;
        for &name in trace.kernels.name.iter() {
            if !seen.insert(name) {
                continue;
            }
            let name = trace.text(name);
            if name.contains("at::native") {
                return Self::Pytorch;
            }
            xla |= is_fusion(name);
        }
        match (has_operators, xla) {
            (true, _) => Self::Pytorch,
            (false, true) => Self::Xla,
            (false, false) => Self::Unknown,
        }
    }
}

/// XLA's names: `loop_add_fusion_3`, `gemm_fusion_dot_12`, `input_reduce_fusion`, `wrapped_convert`.
fn is_fusion(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    stem.ends_with("_fusion") || name.starts_with("gemm_fusion_") || name.starts_with("wrapped_")
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Kernel, TraceBuilder};

    use super::*;

    fn of_kernels(names: &[&str]) -> Framework {
        let mut builder = TraceBuilder::default();
        for name in names {
            let name = builder.intern(name);
            builder.kernels.push(Kernel {
                name,
                duration: 1,
                ..Kernel::default()
            });
        }
        Framework::of(&builder.finish())
    }

    #[test]
    fn kernels_tell_the_framework() {
        let torch = "void at::native::vectorized_elementwise_kernel<4, int>(int)";
        assert_eq!(of_kernels(&["nvjet_x", torch]), Framework::Pytorch);
        assert_eq!(
            of_kernels(&["nvjet_x", "loop_add_fusion_3"]),
            Framework::Xla
        );
        assert_eq!(of_kernels(&["gemm_fusion_dot_12"]), Framework::Xla);
        assert_eq!(
            of_kernels(&["scale_values", "shift_values"]),
            Framework::Unknown
        );
    }
}
