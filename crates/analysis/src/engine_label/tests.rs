use super::*;

fn sums(sequences: u64, [new, total, new_squared, new_total]: [u64; 4]) -> Part {
    Part::Sums(SequenceSums {
        sequences,
        new,
        total,
        new_squared,
        new_total,
    })
}

fn counts_of(sequences: u64, new: u64) -> Part {
    Part::Counts { sequences, new }
}

fn groups(list: &[(u64, u64, u64)]) -> Part {
    let group = |&(count, new, cached): &(u64, u64, u64)| Sequences { count, new, cached };
    Part::Groups(list.iter().map(group).collect())
}

const NONE: [u64; 4] = [0; 4];

/// Labels of one engine with what theory is to cost: kind, prefill, decode.
fn assert_labels(engine: LabelEngine, cases: &[(&str, StepKind, Part, Part)]) {
    for (name, kind, prefill, decode) in cases {
        let label = EngineLabel::parse(name).unwrap_or_else(|| panic!("{name} is a label"));
        assert_eq!((label.engine, label.kind), (engine, *kind), "{name}");
        assert_eq!(label.number, None, "{name}");
        let shape = label.step.unwrap();
        let step = shape.step.unwrap();
        assert_eq!((&step.prefill, &step.decode), (prefill, decode), "{name}");
        assert_eq!(shape.sequences, step.sequences(), "{name}");
        assert_eq!(shape.prefill_sequences, Some(prefill.sequences()), "{name}");
        assert_eq!(shape.new_tokens, Some(step.new_tokens()), "{name}");
    }
}

#[test]
fn labels_of_vllm_that_theory_can_cost() {
    use StepKind::{Decode, Idle, Mixed, Prefill};
    assert_labels(
        LabelEngine::Vllm,
        &[
            (
                "execute_context_2(6144)_generation_3(3)",
                Mixed,
                counts_of(2, 6144),
                counts_of(3, 3),
            ),
            (
                "execute_context_0(0)_generation_32(128)",
                Decode,
                counts_of(0, 0),
                counts_of(32, 128),
            ),
            (
                "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)",
                Idle,
                sums(0, NONE),
                sums(0, NONE),
            ),
            (
                "execute_64_context_1(sq64sk64sqsq4096sqsk4096)_generation_0(sq0sk0sqsq0sqsk0)",
                Prefill,
                sums(1, [64, 64, 4096, 4096]),
                sums(0, NONE),
            ),
            (
                "execute_3_context_0(sq0sk0sqsq0sqsk0)_generation_3(sq3sk271sqsq3sqsk271)",
                Decode,
                sums(0, NONE),
                sums(3, [3, 271, 3, 271]),
            ),
            (
                "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)",
                Decode,
                sums(0, NONE),
                sums(16, [16, 8193, 16, 8193]),
            ),
            (
                "execute_15360_context_15(sq15360sk15360sqsq15728640sqsk15728640)_generation_0(sq0sk0sqsq0sqsk0)",
                Prefill,
                sums(15, [15360, 15360, 15_728_640, 15_728_640]),
                sums(0, NONE),
            ),
            (
                "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
                Mixed,
                sums(9, [8155, 8430, 7_475_785, 7_671_310]),
                sums(37, [37, 34489, 37, 34489]),
            ),
        ],
    );
}

#[test]
fn older_labels_of_vllm_count_requests_alone() {
    use StepKind::{Decode, Idle, Mixed, Prefill};
    for (name, kind, sequences, prefill) in [
        ("execute_new_2_cached_0", Prefill, 2, 2),
        ("execute_new_0_cached_16", Decode, 16, 0),
        ("execute_new_1_cached_15", Mixed, 16, 1),
        ("execute_new_0_cached_0", Idle, 0, 0),
    ] {
        let label = EngineLabel::parse(name).unwrap();
        assert_eq!(
            (label.engine, label.kind),
            (LabelEngine::Vllm, kind),
            "{name}"
        );
        let shape = label.step.unwrap();
        assert_eq!(
            (shape.sequences, shape.prefill_sequences),
            (sequences, Some(prefill)),
            "{name}"
        );
        assert_eq!((shape.new_tokens, shape.step), (None, None), "{name}");
    }
    for name in [
        "execute_new_2",
        "execute_new_2_cached_",
        "execute_new_2_cached_3_more",
        "execute_new__cached_3",
    ] {
        assert_eq!(EngineLabel::parse(name), None, "{name}");
    }
}

#[test]
fn labels_of_sglang_that_theory_can_cost() {
    use StepKind::{Decode, Idle, Mixed, Prefill};
    assert_labels(
        LabelEngine::Sglang,
        &[
            (
                "step[EXTEND bs=15 toks=15360]",
                Prefill,
                counts_of(15, 15360),
                Part::default(),
            ),
            (
                "step[DECODE bs=16]",
                Decode,
                Part::default(),
                counts_of(16, 16),
            ),
            (
                "step[EXTEND bs=2 toks=12 c_sq=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
                Prefill,
                sums(2, [12, 20, 80, 120]),
                Part::default(),
            ),
            (
                "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
                Prefill,
                sums(2, [12, 20, 80, 120]),
                Part::default(),
            ),
            (
                "step[DECODE bs=2 g_sq=2 g_sqsq=2 g_sqsk=30 g_sk=30]",
                Decode,
                Part::default(),
                sums(2, [2, 30, 2, 30]),
            ),
            (
                "step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]",
                Decode,
                Part::default(),
                sums(2, [2, 30, 2, 30]),
            ),
            (
                "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
                Mixed,
                sums(1, [5, 8, 25, 40]),
                sums(1, [1, 12, 1, 12]),
            ),
            (
                "step[MIXED bs=1 c=1 g=0 c_sq=3 c_sk=3 c_sqsq=9 c_sqsk=9 g_sq=0 g_sk=0 g_sqsq=0 g_sqsk=0]",
                Prefill,
                sums(1, [3, 3, 9, 9]),
                sums(0, NONE),
            ),
            ("step[IDLE bs=0]", Idle, Part::default(), Part::default()),
        ],
    );
}

#[test]
fn labels_of_tensorrt_llm_that_theory_can_cost() {
    use StepKind::Decode;
    assert_labels(
        LabelEngine::TensorRtLlm,
        &[(
            "[Executor] _forward_step: 0 ctx reqs, 8 gen reqs",
            Decode,
            counts_of(0, 0),
            counts_of(8, 8),
        )],
    );
}

#[test]
fn labels_of_the_harness_that_theory_can_cost() {
    use StepKind::{Decode, Mixed, Prefill};
    assert_labels(
        LabelEngine::Llmprof,
        &[
            (
                "llmprof.step decode batch=8 new=1 cached=512",
                Decode,
                Part::default(),
                groups(&[(8, 1, 512)]),
            ),
            (
                "llmprof.step prefill batch=2,1 new=100,37 cached=0,0",
                Prefill,
                groups(&[(2, 100, 0), (1, 37, 0)]),
                Part::default(),
            ),
            (
                "llmprof.step prefill batch=4 new=1 cached=0",
                Prefill,
                groups(&[(4, 1, 0)]),
                Part::default(),
            ),
            (
                "llmprof.step mixed batch=1,7 new=512,1 cached=0,640",
                Mixed,
                groups(&[(1, 512, 0)]),
                groups(&[(7, 1, 640)]),
            ),
            (
                "llmprof.step decode batch=2 new=5 cached=300",
                Decode,
                Part::default(),
                groups(&[(2, 5, 300)]),
            ),
        ],
    );
}

#[test]
fn labels_that_tell_less() {
    let cases = [
        (
            "[Executor] _forward_step 12: 2 ctx reqs, 30 gen reqs",
            StepKind::Mixed,
            Some((32, Some(2), None)),
            Some(12),
        ),
        (
            "[Executor] _forward_step 7: 1 ctx reqs, 512 ctx tokens, 3 gen reqs",
            StepKind::Mixed,
            Some((4, Some(1), Some(515))),
            Some(7),
        ),
        (
            "[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs",
            StepKind::Decode,
            Some((32, Some(0), Some(32))),
            Some(60000),
        ),
        (
            "step[MIXED bs=4]",
            StepKind::Mixed,
            Some((4, None, None)),
            None,
        ),
        (
            "step[TARGET_VERIFY bs=2 g_sq=6 g_sqsq=18 g_sqsk=90 g_sk=30]",
            StepKind::Decode,
            Some((2, Some(0), Some(6))),
            None,
        ),
        (
            "step[DECODE bs=2 g_sq=8 g_sqsq=32 g_sqsk=120 g_sk=30]",
            StepKind::Decode,
            Some((2, Some(0), Some(8))),
            None,
        ),
        (
            "step[TARGET_VERIFY bs=2]",
            StepKind::Decode,
            Some((2, Some(0), None)),
            None,
        ),
        (
            "step[SPLIT_PREFILL bs=3]",
            StepKind::Prefill,
            Some((3, Some(3), None)),
            None,
        ),
        (
            "step[DRAFT_EXTEND_V2 bs=2 c_sq=5 c_sqsq=13 c_sqsk=93 c_sk=35]",
            StepKind::Unknown,
            None,
            None,
        ),
        ("ProfilerStep#552", StepKind::Unknown, None, Some(552)),
        ("ProfilerStep#0", StepKind::Unknown, None, Some(0)),
    ];
    for (name, kind, shape, number) in cases {
        let label = EngineLabel::parse(name).unwrap_or_else(|| panic!("{name} is a label"));
        assert_eq!((label.kind, label.number), (kind, number), "{name}");
        let told = label
            .step
            .map(|shape| (shape.sequences, shape.prefill_sequences, shape.new_tokens));
        assert_eq!(told, shape, "{name}");
    }
}

/// Numbers that deviate say nothing; the mode still says what ran.
#[test]
fn numbers_that_deviate_leave_the_kind() {
    let names = [
        "step[EXTEND bs=15]",
        "step[EXTEND bs=0 toks=5]",
        "step[EXTEND bs=15 bs=15 toks=15360]",
        "step[EXTEND bs=15 toks=15360 x=1]",
        "step[EXTEND bs=2 toks=13 c_sq=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
        "step[DECODE bs=16 toks=16]",
        "step[DECODE bs=2 g_sq=1 g_sqsq=1 g_sqsk=30 g_sk=30]",
        "step[MIXED bs=2 c=1 g=1]",
    ];
    for name in names {
        let label = EngineLabel::parse(name).unwrap_or_else(|| panic!("{name} is a label"));
        let kind = match &name[5..8] {
            "EXT" => StepKind::Prefill,
            "DEC" => StepKind::Decode,
            _ => StepKind::Mixed,
        };
        assert_eq!((label.kind, label.step), (kind, None), "{name}");
    }
}

#[test]
fn what_deviates_is_no_label() {
    let names = [
        "",
        "e",
        "step",
        "step[",
        "step[]",
        "ProfilerStep",
        "ProfilerStep#",
        "ProfilerStep#1a",
        "ProfilerStep#-1",
        "ProfilerStep #1",
        "ProfilerStep#18446744073709551616",
        "vllm/v1/worker/gpu_model_runner.py(3380): execute_model",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "execute_context_1(64)_generation_0(0) ",
        " execute_context_1(64)_generation_0(0)",
        "execute_context_1(64)_generation_0(0)_draft",
        "execute_context_1(64)",
        "execute_context_1_generation_0",
        "execute_context_2(1)_generation_0(0)",
        "execute_context_0(5)_generation_0(0)",
        "execute_context_1(64)_generation_0()",
        "execute_context_1(+64)_generation_0(0)",
        "Execute_context_1(64)_generation_0(0)",
        "execute_65_context_1(sq64sk64sqsq4096sqsk4096)_generation_0(sq0sk0sqsq0sqsk0)",
        "execute_64_context_1(sq64sk64sqsq4095sqsk4096)_generation_0(sq0sk0sqsq0sqsk0)",
        "execute_64_context_1(sq64sk63sqsq4096sqsk4096)_generation_0(sq0sk0sqsq0sqsk0)",
        "execute_64_context_1(sk64sq64sqsq4096sqsk4096)_generation_0(sq0sk0sqsq0sqsk0)",
        "execute_64_context_0(sq64sk64sqsq4096sqsk4096)_generation_0(sq0sk0sqsq0sqsk0)",
        "step[EXTEND bs=15 toks=15360",
        "step[EXTEND bs=15 toks=15360]]",
        "step[EXTEND  bs=15 toks=15360]",
        "step[EXTEND bs=15, toks=15360]",
        "step[DECODE bs=-1]",
        "step[DECODE]",
        "step[decode bs=16]",
        "step[DECODED bs=16]",
        "step[IDLE bs=4]",
        "step[TRAIN bs=4]",
        "[Executor] _forward_step 12: 2 ctx reqs",
        "[Executor] _forward_step 12: 2 ctx reqs, 30 gen reqs!",
        "[Executor] _forward_step 12: 2 ctx reqs, 1 ctx tokens, 30 gen reqs",
        "[Executor] _forward_step x: 2 ctx reqs, 30 gen reqs",
        "[Executor] _prepare_inputs 12: 2 ctx reqs, 30 gen reqs",
        "llmprof.step",
        "llmprof.step decode",
        "llmprof.step decode batch=8 new=1",
        "llmprof.step decode batch=8 new=1 cached=",
        "llmprof.step decode batch=8 new=1 cached=512 ",
        "llmprof.step decode  batch=8 new=1 cached=512",
        "llmprof.step decode batch=8 new=1 cached=-1",
        "llmprof.step decode batch=8, new=1 cached=512",
        "llmprof.step decode batch=1,7 new=1 cached=512",
        "llmprof.step decode batch=0 new=1 cached=512",
        "llmprof.step decode batch=8 new=0 cached=512",
        "llmprof.step verify batch=8 new=1 cached=512",
        "LLMPROF.STEP decode batch=8 new=1 cached=512",
        "x llmprof.step decode batch=8 new=1 cached=512",
        "llmprof.step decode batch=8 new=1 cached=٣",
    ];
    for name in names {
        assert_eq!(EngineLabel::parse(name), None, "{name}");
    }
}
