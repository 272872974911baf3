//! Exchange between devices that nothing hides.

use llmprof_record::kernel_name::Category;
use llmprof_units::Nanos;

use super::cause::{CauseKind, Place};
use super::{Candidate, Scene};
use crate::replay::Edit;

pub(super) fn find(scene: &Scene<'_>) -> Vec<Candidate> {
    let mut edit = Edit::default();
    let (mut count, mut time) = (0, 0);
    let mut longest: Option<(i64, &str)> = None;
    for (index, work) in scene.own_work() {
        if scene.category(work) != Category::Communication {
            continue;
        }
        edit.set_duration(index, 0);
        count += 1;
        time += work.duration;
        if longest.is_none_or(|(most, _)| work.duration > most) {
            longest = Some((work.duration, scene.work_name(work)));
        }
    }
    let Some((_, longest)) = longest else {
        return Vec::new();
    };
    vec![Candidate {
        kind: CauseKind::Communication {
            kernels_ns: Nanos(scene.a_step(time)),
            longest: longest.to_owned(),
        },
        place: Place::default(),
        count,
        edit,
        partial: None,
    }]
}
