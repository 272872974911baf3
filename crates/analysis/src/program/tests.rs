use llmprof_record::trace::{Host, HostKind, Kernel, Range, RangeKind, Trace, TraceBuilder};

use super::*;

/// A trace of host rows, ranges and kernels with these names on one thread.
fn trace(hosts: &[(&str, HostKind)], ranges: &[&str], kernels: &[&str]) -> Trace {
    let mut builder = TraceBuilder::default();
    let thread = builder.thread(7, 12);
    for (place, &(name, kind)) in hosts.iter().enumerate() {
        let name = builder.intern(name);
        builder.hosts.push(Host {
            start: 10 * place as i64,
            duration: 5,
            name,
            thread,
            kind,
            ..Host::default()
        });
    }
    for (place, name) in ranges.iter().enumerate() {
        let name = builder.intern(name);
        builder.ranges.push(Range {
            start: 10 * place as i64,
            duration: 5,
            name,
            thread,
            kind: RangeKind::ANNOTATION,
            ..Range::default()
        });
    }
    for (place, name) in kernels.iter().enumerate() {
        let name = builder.intern(name);
        builder.kernels.push(Kernel {
            start: 10 * place as i64,
            duration: 5,
            name,
            ..Kernel::default()
        });
    }
    builder.finish()
}

fn kind_of(hosts: &[(&str, HostKind)], ranges: &[&str], kernels: &[&str]) -> ProgramKind {
    Program::of_trace(&trace(hosts, ranges, kernels), false, None).kind
}

const OP: HostKind = HostKind::OPERATOR;
const PYTHON: HostKind = HostKind::PYTHON;

/// Forces of molecular dynamics, attacks, guidance: gradients by inputs, which nothing adds up.
#[test]
fn gradients_of_inputs_are_no_training() {
    let program = Program::of_trace(&trace(&[("SumBackward0", OP)], &[], &[]), false, None);
    assert_eq!(program.kind, ProgramKind::Other);
    assert!(matches!(program.proofs[..], [Proof::BackwardOps { .. }]));
    assert_eq!(
        kind_of(&[], &["MmBackward0, op_id = 4"], &[]),
        ProgramKind::Other
    );
    // An input that is a leaf gets its gradient added, one in each pass; `autograd.grad` only evaluates the node.
    let sum = ("torch::autograd::AccumulateGrad", OP);
    let evaluated = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    let pass = [("NllLossBackward0", OP), ("ConvolutionBackward0", OP), sum];
    assert_eq!(kind_of(&pass.repeat(5), &[], &[]), ProgramKind::Other);
    let asked = [("MaxBackward1", OP), (evaluated, OP), (evaluated, OP)];
    assert_eq!(kind_of(&asked, &[], &[]), ProgramKind::Other);
    // Attention has gradients by inputs; `wgrad` computes those of weights.
    assert_eq!(kind_of(&pass, &[], &["flash_bwd"]), ProgramKind::Other);
    let weights = "void cudnn::cnn::wgrad_alg0_engine<float, 128>(int)";
    assert_eq!(kind_of(&pass, &[], &[weights]), ProgramKind::Training);
    assert_eq!(kind_of(&[], &[], &["flash_bwd"]), ProgramKind::Training);
}

/// Solvers substitute, tomography projects and hidden Markov models pass backward.
#[test]
fn backward_kernels_of_other_fields_are_no_training() {
    for name in [
        "thomas_backward_substitution_kernel<double>(double*)",
        "ct_backward_projection_kernel<float>(float*)",
        "fft_backward_c2r<float>(float*)",
        "hmm_forward_backward_kernel<float>(float*)",
        "wgrad_density(float*)",
        "void cub::DeviceScanKernel<int, sweep_backward_op>(int)",
    ] {
        assert_eq!(kind_of(&[], &[], &[name]), ProgramKind::Unknown, "{name}");
    }
    for name in [
        "void at::native::(anonymous namespace)::max_pool_backward_nchw<float, float>(int)",
        "void (anonymous namespace)::softmax_warp_backward<float, float, float, 1>(float*)",
        "triton_poi_fused_native_dropout_backward_0",
        "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc",
        "split_embedding_backward_codegen_dense_unweighted_find_long_segments(int)",
    ] {
        assert_eq!(kind_of(&[], &[], &[name]), ProgramKind::Training, "{name}");
    }
}

/// Every `nn.LSTM` asks whether cuDNN could run it, on a CPU too.
#[test]
fn a_question_about_cudnn_uses_no_device() {
    let asks = trace(&[("aten::cudnn_is_acceptable", OP)], &[], &[]);
    assert!(!uses_device(&asks));
    let computes = trace(&[("aten::cudnn_convolution", OP)], &[], &[]);
    assert!(uses_device(&computes));
    // torch.compile runs this pass on a CPU too; a range may have any name.
    let compiles = "pass.post_grad_passes.move_constructors_to_cuda";
    let compiles = trace(&[(compiles, OP)], &["to_cuda_if_available"], &[]);
    assert!(!uses_device(&compiles));
    assert!(uses_device(&trace(&[("cudaLaunchKernel", OP)], &[], &[])));
    assert!(uses_device(&trace(&[], &["nccl:all_reduce"], &[])));
}

#[test]
fn backward_ops_and_optimizers_prove_training() {
    let backward = "autograd::engine::evaluate_function: MseLossBackward0";
    let program = Program::of_trace(
        &trace(&[(backward, OP)], &["Optimizer.step#Adam.step"], &[]),
        false,
        None,
    );
    assert_eq!(program.kind, ProgramKind::Training);
    let threads = vec!["12".to_owned()];
    let op = "MseLossBackward0".to_owned();
    assert_eq!(
        program.proofs,
        [
            Proof::BackwardOps { op, threads },
            Proof::Optimizer {
                name: "Optimizer.step#Adam.step".to_owned()
            }
        ]
    );
    let sum = "torch::autograd::AccumulateGrad";
    assert_eq!(
        kind_of(&[("AddmmBackward0", OP), (sum, OP), (sum, OP)], &[], &[]),
        ProgramKind::Training
    );
    let ranges = [
        "AddmmBackward0, op_id = 4",
        "torch::autograd::AccumulateGrad, op_id = 5",
        "torch::autograd::AccumulateGrad, op_id = 6",
    ];
    assert_eq!(kind_of(&[], &ranges, &[]), ProgramKind::Training);
    assert_eq!(
        kind_of(&[], &[], &["flash_bwd_kernel"]),
        ProgramKind::Training
    );
    // A transposed convolution of an inference is the data gradient of another.
    assert_eq!(
        kind_of(&[], &[], &["cudnn_dgrad_engine"]),
        ProgramKind::Unknown
    );
}

#[test]
fn names_of_ranges_prove_generation_unless_the_program_trains() {
    assert_eq!(
        kind_of(&[], &["prefill", "decode"], &[]),
        ProgramKind::LlmInference
    );
    assert_eq!(
        kind_of(&[], &["decode_step_3"], &[]),
        ProgramKind::LlmInference
    );
    assert_eq!(
        kind_of(
            &[("aten::softmax", OP), ("aten::bmm", OP)],
            &["prefill"],
            &[]
        ),
        ProgramKind::LlmInference
    );
    // A convolutional network whose user calls its parts so, with the softmax of a classifier.
    for others in [
        [("aten::conv2d", OP), ("aten::softmax", OP)],
        [("aten::mm", OP); 2],
    ] {
        assert_eq!(
            kind_of(&others, &["prefill", "decode_step"], &[]),
            ProgramKind::Unknown
        );
    }
    // Images and videos are decoded too.
    assert_eq!(
        kind_of(&[], &["decode"], &["jpeg_kernel"]),
        ProgramKind::Unknown
    );
    // So is a latent image, with attention between convolutions.
    let attention = "flash_fwd_kernel";
    assert_eq!(
        kind_of(&[], &["decode"], &[attention]),
        ProgramKind::LlmInference
    );
    assert_eq!(
        kind_of(&[], &["decode"], &[attention, "cudnn_fprop_implicit_gemm"]),
        ProgramKind::Unknown
    );
    assert_eq!(
        kind_of(&[], &["vae.decode"], &["flash_fwd_splitkv_kernel"]),
        ProgramKind::Unknown
    );
    assert_eq!(
        kind_of(&[], &["decode"], &["vllm::paged_attention_v2_kernel"]),
        ProgramKind::LlmInference
    );
    let sum = "torch::autograd::AccumulateGrad";
    assert_eq!(
        kind_of(
            &[("AddmmBackward0", OP), (sum, OP), (sum, OP)],
            &["prefill", "decode"],
            &[]
        ),
        ProgramKind::Training
    );
    assert_eq!(
        kind_of(&[], &["## decoder fp8 None ##"], &[]),
        ProgramKind::Unknown
    );
}

#[test]
fn engine_labels_prove_serving() {
    for label in [
        "execute_context_1(888_788544)_generation_0(0)",
        "step[DECODE bs=16]",
        "[Executor] _forward_step 3: 1 ctx reqs, 2 gen reqs",
    ] {
        assert_eq!(kind_of(&[], &[label], &[]), ProgramKind::Serving, "{label}");
    }
    assert_eq!(
        kind_of(&[], &["llmprof.step decode batch=1 new=1 cached=8"], &[]),
        ProgramKind::LlmInference
    );
}

#[test]
fn modules_say_what_they_are() {
    let module = |name| [(name, PYTHON)];
    assert_eq!(
        kind_of(&module("nn.Module: LlamaForCausalLM_0"), &[], &[]),
        ProgramKind::LlmInference
    );
    let other = Program::of_trace(
        &trace(&module("nn.Module: UNet2DConditionModel_0"), &[], &[]),
        false,
        None,
    );
    assert_eq!(other.kind, ProgramKind::Other);
    let names = vec!["UNet2DConditionModel".to_owned()];
    assert_eq!(other.proofs, [Proof::Modules { names }]);
    assert_eq!(
        kind_of(&[], &["model.layers.0.self_attn", "lm_head"], &[]),
        ProgramKind::LlmInference
    );
    assert_eq!(kind_of(&[], &["forward"], &["gemm"]), ProgramKind::Unknown);
}

#[test]
fn a_model_that_agrees_proves_generation_but_not_of_training() {
    let mut program = Program::default();
    program.add_model("qwen3_8b");
    assert!(program.generates_text());
    let sum = "torch::autograd::AccumulateGrad";
    for (ops, kind) in [
        (
            &[("AddmmBackward0", OP), (sum, OP), (sum, OP)][..],
            ProgramKind::Training,
        ),
        (&[("AddmmBackward0", OP)], ProgramKind::Other),
    ] {
        let mut program = Program::of_trace(&trace(ops, &[], &[]), false, None);
        program.add_model("qwen3_8b");
        assert_eq!(program.kind, kind);
    }
}
