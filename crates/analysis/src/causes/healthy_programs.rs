//! Programs without a fault, with habits that look like one: no cause may state 5 % of a phase.

use llmprof_record::trace::CopyKind;

use super::cause::PhaseGain;
use super::sketch::{Sketch, Tensors};

const BF16: &str = "c10::BFloat16";
const SILU: &str = "void at::native::vectorized_elementwise_kernel<8, silu>";
const STATED_MIN_SHARE: f64 = 0.05;

/// A decoder of one size.
#[derive(Clone, Copy, Debug)]
struct DecoderSize {
    sequences: i64,
    hidden: i64,
    layers: usize,
    steps: u64,
}

const SIZES: [DecoderSize; 3] = [
    DecoderSize {
        sequences: 1,
        hidden: 1024,
        layers: 12,
        steps: 3,
    },
    DecoderSize {
        sequences: 16,
        hidden: 2048,
        layers: 24,
        steps: 4,
    },
    DecoderSize {
        sequences: 64,
        hidden: 4096,
        layers: 8,
        steps: 7,
    },
];

/// What a program does beside its layers: before a step, in a layer, after a step.
#[derive(Clone, Copy)]
struct Habit {
    name: &'static str,
    before_step: fn(&mut Sketch, DecoderSize, u64),
    in_layer: fn(&mut Sketch, DecoderSize),
    after_step: fn(&mut Sketch, DecoderSize),
}

const NO_HABIT: Habit = Habit {
    name: "none",
    before_step: |_, _, _| {},
    in_layer: |_, _| {},
    after_step: |_, _| {},
};

const HABITS: &[Habit] = &[
    NO_HABIT,
    Habit {
        name: "reads its tokens after each step",
        after_step: |sketch, _| sketch.synchronizing_copy(CopyKind::DEVICE_TO_HOST, 8),
        ..NO_HABIT
    },
    Habit {
        name: "runs 0.1 ms of Python between steps",
        after_step: |sketch, _| sketch.pause(100),
        ..NO_HABIT
    },
    Habit {
        name: "encodes an image before the first step alone",
        before_step: |sketch, size, step| {
            if step == 0 {
                sketch.matrix_product(577 * size.sequences, 1024, 1024, 20);
            }
        },
        ..NO_HABIT
    },
    Habit {
        name: "asks for free memory once a step",
        after_step: |sketch, _| sketch.call("cudaMemGetInfo", 20),
        ..NO_HABIT
    },
    Habit {
        name: "allocates in its first step",
        before_step: |sketch, _, step| {
            if step == 0 {
                sketch.call("cudaMalloc", 60);
            }
        },
        ..NO_HABIT
    },
    Habit {
        name: "has gradients enabled for tensors that need none",
        in_layer: |sketch, _| sketch.operator_of_autograd("aten::view", 4, false),
        ..NO_HABIT
    },
    Habit {
        name: "selects rows of activations",
        in_layer: |sketch, size| {
            let tensors: Tensors<'_> = &[
                (&[size.sequences, 12, size.hidden], BF16),
                (&[size.sequences], "long int"),
            ];
            sketch.operator("aten::index", tensors, &[("index_elementwise_kernel", 3)]);
        },
        ..NO_HABIT
    },
    Habit {
        name: "clones a hidden state",
        in_layer: |sketch, size| {
            let tensors: Tensors<'_> = &[(&[size.sequences, size.hidden], BF16)];
            sketch.operator("aten::clone", tensors, &[("direct_copy_kernel", 2)]);
        },
        ..NO_HABIT
    },
    Habit {
        name: "copies the next tokens to the device",
        before_step: |sketch, _, _| sketch.copy(CopyKind::HOST_TO_DEVICE, 64, 1),
        ..NO_HABIT
    },
];

fn sketch_program(size: DecoderSize, habit: &Habit) -> Sketch {
    let DecoderSize {
        sequences, hidden, ..
    } = size;
    let mut sketch = Sketch::with_prompt(sequences, 256, hidden, 32_000);
    sketch.steps = size.steps;
    for step in 0..size.steps {
        (habit.before_step)(&mut sketch, size, step);
        sketch.look_up(sequences, 1, 32_000, hidden);
        for _ in 0..size.layers {
            sketch.matrix_product(sequences, hidden, 3 * hidden, 12);
            sketch.matrix_product(sequences, hidden, hidden, 6);
            (habit.in_layer)(&mut sketch, size);
            sketch.operator("aten::silu", &[], &[(SILU, 3)]);
        }
        sketch.matrix_product(sequences, hidden, 32_000, 40);
        (habit.after_step)(&mut sketch, size);
    }
    sketch.synchronize();
    sketch
}

#[test]
fn habits_of_healthy_programs_are_no_causes() {
    for size in SIZES {
        for habit in HABITS {
            let diagnosed = sketch_program(size, habit).diagnose();
            let special = diagnosed
                .0
                .causes
                .iter()
                .filter(|cause| !cause.kind.is_general());
            for cause in special {
                let share = cause.gains.iter().map(PhaseGain::share);
                let share = share.fold(0.0, f64::max);
                let code = cause.kind.code();
                assert!(
                    share < STATED_MIN_SHARE,
                    "{}, {size:?}: {code} {share:.3}",
                    habit.name
                );
            }
        }
    }
}
