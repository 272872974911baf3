//! Equal passes of a model that looks up no tokens, whose results are combined: the two of guidance in each step of a denoiser.

use crate::thresholds::{
    COMBINED_GROUPS_MIN, COMBINED_PASS_GEMMS_MAX, COMBINED_PASS_GEMMS_MIN, COMBINED_PASSES_MIN,
};
use std::ops::Range;

use super::cause::CauseKind;
use super::model_work::Gemm;
use super::{CauseCandidate, Scene};
use crate::replay::Edit;

/// Operators that combine two tensors of one shape.
const COMBINING: &[&str] = &["aten::add", "aten::sub", "aten::rsub", "aten::lerp"];

type Shape = (i64, i64, i64, i64);

/// Passes that follow each other, and what combines them.
struct Combined<'a> {
    /// Places of each pass among the outermost operators: from its first to its last GEMM.
    passes: Vec<Range<usize>>,
    /// How many passes one result combines.
    group: usize,
    /// Shape of the tensors that are combined.
    result: &'a [i64],
}

pub(super) fn find_combined_passes(scene: &Scene<'_>) -> Vec<CauseCandidate> {
    let repetitions = equal_passes(&scene.gemms).into_iter();
    let mut all = repetitions.filter_map(|(run, length)| read_combined(scene, run, length));
    let Some(combined) = all.next() else {
        return Vec::new();
    };
    // Whether the device has room for more rows is not known: its work stays, and at most all of a pass goes.
    let (mut edit, mut most) = (Edit::default(), Edit::default());
    for group in combined.passes.chunks(combined.group) {
        for pair in group.windows(2) {
            for &top in &scene.tops[pair[0].end..pair[1].end] {
                let next = scene.graph.segments_of_row(top).end;
                scene.remove_host(&mut edit, top);
                scene.remove(&mut most, top);
                if next < scene.graph.segment_count() && scene.is_code(next) {
                    edit.limit_segment(next, 0);
                    most.limit_segment(next, 0);
                }
            }
        }
    }
    let rows = scene.gemms.iter().map(|gemm| gemm.m).max().unwrap_or(1);
    let sequences = combined.result[0].max(1);
    vec![CauseCandidate {
        kind: CauseKind::RepeatedPasses {
            passes: combined.group as u64,
            sequences: sequences as u64,
            tokens: (rows / sequences) as u64,
        },
        place: scene.place(scene.tops[combined.passes[0].start]),
        count: (combined.passes.len() / combined.group) as u64,
        edit,
        partial: Some(vec![most]),
    }]
}

fn read_combined<'a>(
    scene: &'a Scene<'_>,
    run: Range<usize>,
    length: usize,
) -> Option<Combined<'a>> {
    let gemms = &scene.gemms[run];
    let rows = gemms[0].row..gemms[gemms.len() - 1].row;
    let mut forwards = scene.forwards.iter();
    if forwards.any(|forward| rows.contains(&forward.row)) {
        return None;
    }
    let place = |gemm: &Gemm| scene.tops.partition_point(|&top| top <= gemm.row) - 1;
    let passes = gemms.chunks(length);
    let passes: Vec<Range<usize>> = passes
        .map(|pass| place(&pass[0])..place(&pass[length - 1]) + 1)
        .collect();
    let between = |number: usize| &scene.tops[passes[number - 1].end..passes[number].start];
    let results: Vec<Option<&[i64]>> = (1..passes.len())
        .map(|number| {
            between(number)
                .iter()
                .find_map(|&top| combined_shape(scene, top))
        })
        .collect();
    let group = results.iter().position(Option::is_some)? + 1;
    let result = results[group - 1]?;
    // A pass whose input is computed from the result before it could not run together with that.
    let is_independent = |number: usize| {
        let touches = |&top: &usize| {
            let mut tensors = scene.tensors(top).into_iter();
            !scene.work_of(top).is_empty() && tensors.any(|(dims, _)| dims == result)
        };
        !between(number).iter().any(touches)
    };
    let is_alike = (1..passes.len()).all(|number| {
        if number.is_multiple_of(group) {
            results[number - 1] == Some(result)
        } else {
            is_independent(number)
        }
    });
    let is_proven = group > 1
        && passes.len().is_multiple_of(group)
        && passes.len() / group >= COMBINED_GROUPS_MIN
        && is_alike;
    is_proven.then_some(Combined {
        passes,
        group,
        result,
    })
}

/// GEMMs that repeat passes, and how many each has. What begins and ends like its layers is no pass but layers.
fn equal_passes(gemms: &[Gemm]) -> Vec<(Range<usize>, usize)> {
    let shapes: Vec<Shape> = gemms
        .iter()
        .map(|gemm| (gemm.groups, gemm.m, gemm.n, gemm.k))
        .collect();
    let longest = COMBINED_PASS_GEMMS_MAX.min(shapes.len() / COMBINED_PASSES_MIN);
    let lengths = COMBINED_PASS_GEMMS_MIN..=longest;
    let runs = lengths.map(|length| (longest_repetition(&shapes, length), length));
    runs.filter(|(run, length)| {
        run.len() >= COMBINED_PASSES_MIN * length && is_pass(&shapes[run.start..][..*length])
    })
    .collect()
}

/// Where a sequence repeats itself longest, in whole multiples of a length.
fn longest_repetition(shapes: &[Shape], length: usize) -> Range<usize> {
    let mut longest = 0..0;
    let mut start = 0;
    for (at, pair) in shapes.iter().zip(&shapes[length..]).enumerate() {
        if pair.0 != pair.1 {
            start = at + 1;
        } else if at + 1 - start > longest.len() {
            longest = start..at + 1;
        }
    }
    let passes = longest.len() / length + 1;
    longest.start..longest.start + passes * length
}

fn is_pass(shapes: &[Shape]) -> bool {
    let is_single = |shape: &Shape| shapes.iter().filter(|other| *other == shape).count() == 1;
    let has_ends = is_single(&shapes[0]) && is_single(&shapes[shapes.len() - 1]);
    has_ends && !shapes.iter().all(is_single)
}

/// The shape of two tensors that an operator combines.
fn combined_shape<'a>(scene: &'a Scene<'_>, top: usize) -> Option<&'a [i64]> {
    let tensors = scene.tensors(top);
    let (&(left, _), &(right, _)) = (tensors.first()?, tensors.get(1)?);
    (COMBINING.contains(&scene.name(top)) && left.len() > 1 && left == right).then_some(left)
}

#[cfg(test)]
mod tests {
    use crate::causes::ProgramPurpose;
    use crate::causes::sketch::Sketch;

    const LATENT: &[i64] = &[1, 16, 32, 32];

    fn pass(sketch: &mut Sketch) {
        sketch.operator("aten::cos", &[(&[1, 128], "float")], &[("cos", 2)]);
        sketch.matrix_product(256, 64, 1152, 4);
        for _ in 0..6 {
            sketch.matrix_product(256, 1152, 3456, 6);
            sketch.matrix_product(256, 1152, 1152, 4);
            let hidden: &[i64] = &[1, 256, 1152];
            let tensors = [(hidden, "float"); 2];
            sketch.operator("aten::add", &tensors, &[("add", 2)]);
        }
        sketch.matrix_product(256, 1152, 64, 3);
    }

    fn update(sketch: &mut Sketch) {
        for name in ["aten::sub", "aten::mul", "aten::add"] {
            sketch.operator(name, &[(LATENT, "float"); 2], &[("elementwise", 2)]);
        }
    }

    /// Four steps, each of `passes`; where `is_chain`, each updates the latents.
    fn sketch_steps(passes: usize, is_chain: bool) -> Sketch {
        let mut sketch = Sketch::default();
        sketch.purpose = ProgramPurpose::RunsModel;
        // A text encoder.
        sketch.look_up(1, 77, 49_408, 768);
        for _ in 0..12 {
            sketch.matrix_product(77, 768, 768, 4);
        }
        for _ in 0..4 {
            for number in 0..passes {
                pass(&mut sketch);
                if is_chain && number + 1 < passes {
                    sketch.operator("aten::mul", &[(LATENT, "float")], &[("elementwise", 2)]);
                }
            }
            update(&mut sketch);
        }
        sketch.synchronize();
        sketch
    }

    #[test]
    fn passes_that_are_combined_are_a_cause() {
        let diagnosed = sketch_steps(2, false).diagnose();
        let (saved, now) = diagnosed.gain_of("repeated_passes").unwrap();
        assert!((0.25..0.55).contains(&(saved / now)), "{saved} of {now} ms");
    }

    #[test]
    fn one_pass_in_each_step_and_passes_on_results_are_none() {
        for sketch in [sketch_steps(1, false), sketch_steps(2, true)] {
            assert_eq!(sketch.diagnose().gain_of("repeated_passes"), None);
        }
    }
}
