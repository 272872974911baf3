//! Which kernels do the work of which operators.
//!
//! A device trace without modules does not say which operator a kernel belongs to, but its name says what it does.
//! [`WorkGroup`]s are the finest sets of operators that kernels can then be told apart by: an elementwise kernel may be a
//! part of a norm, a rotation, an activation or a residual addition. A kernel of a purpose that no operator of the phase
//! has is extra work.

use std::borrow::Cow;

use llmprof_record::kernel_name::Category;
use llmprof_record::trace::Trace;
use llmprof_theory::floor::{MemoryLevel, Roof};
use llmprof_theory::{Kind, Model, Pass, Workload};

use super::waterfall::{Event, EventClass, Floor};
use crate::device_events::{Class, DeviceEvent, DeviceEvents};
use crate::launches::Launches;

/// Operators whose kernels look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkGroup {
    /// Products with weights.
    Products,
    /// Attention.
    Attention,
    /// Rows of tables.
    Lookups,
    /// Norms, rotations, activations, additions.
    Elementwise,
    /// Convolutions.
    Convolutions,
    /// Rearrangements.
    Reorders,
}

impl WorkGroup {
    /// All groups; an event's number in the waterfall is the place of its group here.
    pub const ALL: [Self; 6] = [
        Self::Products,
        Self::Attention,
        Self::Lookups,
        Self::Elementwise,
        Self::Convolutions,
        Self::Reorders,
    ];

    /// The group of an operator.
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Linear | Kind::Route | Kind::Experts => Self::Products,
            Kind::Attention => Self::Attention,
            Kind::Embedding | Kind::PositionEmbedding => Self::Lookups,
            Kind::Norm
            | Kind::RopeTable
            | Kind::Rope
            | Kind::Activation
            | Kind::Add
            | Kind::Scale => Self::Elementwise,
            Kind::Conv2d => Self::Convolutions,
            Kind::Reorder => Self::Reorders,
        }
    }
}

/// What a kernel of some category is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The operators of a group.
    Operators(WorkGroup),
    /// None that a model needs: casts, concatenations, masks, index work.
    Extra,
    /// The name does not tell.
    Unknown,
}

/// The purpose of a kernel, by its category and name.
pub fn purpose(category: Category, name: &str) -> Purpose {
    match category {
        Category::Gemm | Category::Gemv | Category::Moe => Purpose::Operators(WorkGroup::Products),
        Category::Attention | Category::Softmax | Category::Cache => {
            Purpose::Operators(WorkGroup::Attention)
        }
        Category::Embedding => Purpose::Operators(WorkGroup::Lookups),
        // torch looks embeddings up with its kernel for `index_select`.
        Category::Index if name.to_ascii_lowercase().contains("indexselect") => {
            Purpose::Operators(WorkGroup::Lookups)
        }
        Category::Elementwise | Category::Norm | Category::Rope | Category::Reduce => {
            Purpose::Operators(WorkGroup::Elementwise)
        }
        Category::Conv => Purpose::Operators(WorkGroup::Convolutions),
        Category::Copy
        | Category::Cat
        | Category::Index
        | Category::Scan
        | Category::Sort
        | Category::Sampling
        | Category::Quantize
        | Category::Random
        | Category::Resample
        | Category::Communication
        | Category::Memset => Purpose::Extra,
        Category::Recurrence | Category::Other => Purpose::Unknown,
    }
}

/// The least times of the groups in some passes; absent for a group that the model has no operators of.
pub fn group_floors(
    model: &Model,
    workload: &Workload,
    passes: &[Pass],
    roof: &Roof<'_>,
    level: MemoryLevel,
) -> [Option<Floor>; WorkGroup::ALL.len()] {
    let mut floors = [None; WorkGroup::ALL.len()];
    for pass in passes {
        model.lower(workload, pass, &mut |operator| {
            let floor = floors[WorkGroup::of(operator.kind) as usize].get_or_insert_default();
            if let Ok(limits) = roof.operator(operator, level) {
                Floor::add(floor, &limits);
            }
        });
    }
    floors
}

/// The events of one device in the parts of a waterfall. `present` says which groups the phase has operators of.
pub fn device_events(
    trace: &Trace,
    classes: &DeviceEvents,
    events: &[DeviceEvent],
    launches: &Launches,
    present: impl Fn(WorkGroup) -> bool,
) -> Vec<Event> {
    let class_of = |event: &DeviceEvent| match event.class {
        Class::Copy | Class::Memset => EventClass::Copy,
        Class::Communication => EventClass::Extra,
        Class::Compute => {
            let name = trace.text(event.name);
            match purpose(classes.class_of(event.name).category, name) {
                Purpose::Operators(group) if present(group) => EventClass::Matched(group as u32),
                Purpose::Operators(_) | Purpose::Extra => EventClass::Extra,
                Purpose::Unknown => EventClass::Unattributed(Cow::Borrowed(
                    "the kernel's name does not say what it does",
                )),
            }
        }
    };
    events
        .iter()
        .map(|event| Event {
            start_ns: event.start,
            end_ns: event.end,
            launched_ns: launches
                .call(event)
                .map(|call| trace.hosts.start[call as usize]),
            class: class_of(event),
        })
        .collect()
}
