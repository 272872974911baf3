//! One phase of a trace on one lane.

use llmprof_record::issue::{Issue, Severity};
use llmprof_record::trace::Trace;
use llmprof_theory::floor::{MemoryLevel, Roof};
use llmprof_theory::{Cost, Pass};
use llmprof_units::Nanos;
use rustc_hash::FxHashMap;

use crate::analyze::first_use::{AttentionWaits, first_instance};
use crate::analyze::glue::in_graphs;
use crate::analyze::plain::plain_time;
use crate::analyze::stretches::{Stretch, TracePhase};
use crate::bottleneck::{PhaseSignals, classify};
use crate::labels::phase_of_name;
use crate::latency::plain_wall;
use crate::matching::lanes::Lane;
use crate::matching::units::{Counted, Matching};
use crate::matching::unmatched::UnmatchedReason;
use crate::phase_analysis::PhaseAnalysis;
use crate::phase_facts::{PhaseInstance, TracedPhase};
use crate::phases::PhaseSource;
use crate::roofline::{Residence, Theory, Utilization};
use crate::stats::Distribution;
use crate::telemetry::{HostTelemetry, throttled_share};
use crate::timeline::breakdown::DeviceBreakdown;
use crate::timeline::device_events::Class;
use crate::trace::TraceAnalysis;
use crate::waterfall::idle_parts::NamedTime;
use crate::waterfall::{Event, EventClass, Floor, HostInterval, Input, Waterfall};
use llmprof_record::run::{RunPhase, RunRecord};

/// The name of idle time of a host without a device.
const BETWEEN_OPERATORS: &str = "between operators";
/// Host operators that are named.
const MOST_OPERATORS: usize = 10;

/// What all phases of a trace have in common.
pub(crate) struct Tracing<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) timeline: &'a TraceAnalysis,
    /// The names of the trace's phases.
    pub(crate) names: &'a [String],
    pub(crate) lanes: &'a [Lane],
    pub(crate) matching: &'a Matching,
    /// When each unit's first event began, by unit.
    pub(crate) first_events: &'a [i64],
    /// Absent without a model.
    pub(crate) theory: Option<(Theory<'a>, &'a Counted<'a>)>,
    pub(crate) record: &'a RunRecord,
    /// The pass that the trace was recorded in.
    pub(crate) captured: Option<usize>,
    pub(crate) telemetry: Option<&'a HostTelemetry>,
    /// Stretches of prefill in the whole trace.
    pub(crate) prefills: usize,
    pub(crate) roof: Option<&'a Roof<'a>>,
}

impl Tracing<'_> {
    /// The phase on lane `number`, with the passes that it ran.
    pub(crate) fn phase(
        &self,
        phase: &TracePhase,
        number: usize,
        issues: &mut Vec<Issue>,
    ) -> (PhaseAnalysis, Vec<Pass>) {
        let lane = &self.lanes[number];
        let mut instances = instances(phase, lane);
        let mut first = first_instance(&mut instances);
        let (included, left_out): (Vec<_>, Vec<_>) = phase
            .stretches
            .iter()
            .zip(&instances)
            .partition(|(_, instance)| !instance.left_out);
        let included: Vec<&Stretch> = included.into_iter().map(|(stretch, _)| stretch).collect();
        let breakdowns = self.breakdowns(&included, lane);

        let label = self.label(phase, lane);
        let name = label.as_deref().unwrap_or(phase.phase.name());
        let waterfall = self.waterfall(&included, number, &breakdowns);
        issues.extend(waterfall.issues(name));
        let tables = self.tables(&included, number, waterfall.wall_ns.0);

        let passes: Vec<Pass> = included
            .iter()
            .flat_map(|stretch| stretch.passes.iter().copied())
            .collect();
        let mut cost = Cost::default();
        let mut floor = None;
        let mut residence = None;
        if let Some((context, _)) = &self.theory {
            context.lower(phase.phase, &passes, &mut |operator| cost.add(operator));
            floor = context
                .floor(phase.phase, &passes, issues)
                .map(|(floor, _)| floor);
            residence = self
                .roof
                .filter(|_| cost.calls > 0)
                .map(|roof| Residence::of(roof, context.bytes_per_step(phase.phase, &passes)));
        }
        let level = floor
            .as_ref()
            .map_or(MemoryLevel::Main, |floor| floor.memory_level);
        let plain = plain_wall(self.record, phase.phase).filter(|plain| plain.0 > 0);
        let repeats = self.repeats(phase, &included);
        let plain_total = plain_time(self.record, self.captured, phase.phase, &included, repeats);
        let used = |cost: &Cost, wall: Nanos| {
            let roof = self.roof.filter(|_| cost.calls > 0)?;
            Some(Utilization::of(roof, cost, wall, level))
        };
        let (mut waits, mut first_waits) = (AttentionWaits::default(), AttentionWaits::default());
        if lane.device.is_some() {
            for stretch in &included {
                waits.add(lane, stretch.window());
            }
            for (stretch, _) in &left_out {
                first_waits.add(lane, stretch.window());
            }
        }
        if let Some(first) = &mut first {
            first.new_lengths = first_waits.unusual(&waits);
        }
        let step_ns: Vec<i64> = included
            .iter()
            .flat_map(|stretch| stretch.steps.iter().copied())
            .collect();
        let steps: Vec<f64> = step_ns.iter().map(|&step| step as f64).collect();
        let traced = TracedPhase {
            device: lane.device,
            is_whole_trace: self.timeline.phase_source == PhaseSource::Whole,
            by_module: self.by_module(&included),
            by_identity: lane.is_exact,
            steps: Distribution::of(&steps),
            step_ns,
            kernels: kernels(&included, lane),
            graph_kernels: in_graphs(&included, lane),
            glue: self.glue(&included, lane),
            in_modules_ns: self.in_modules(&included, number),
            host_operators: host_operators(&breakdowns),
            new_lengths: waits.unusual(&first_waits),
            first_use: first,
            small_kernel_share: self.small_kernels(&included, lane, waterfall.busy_ns.0),
            exposed_communication_share: exposed_communication(&included, &breakdowns),
            instances,
            recorded: None,
        };
        let signals = PhaseSignals {
            throttled_share: self.throttled(phase.phase, lane.device),
            plain_idle_share: plain_total.filter(|_| lane.device.is_some()).map(|plain| {
                let idle = (plain.0 - waterfall.busy_ns.0).max(0);
                idle as f64 / plain.0.max(1) as f64
            }),
            exposed_communication_share: traced.exposed_communication_share,
            small_kernel_share: traced.small_kernel_share,
        };
        let analysis = PhaseAnalysis {
            phase: phase.phase,
            label: label.clone(),
            plain_wall_ns: plain,
            capture_ratio: plain_total.map(|plain| waterfall.wall_ns.0 as f64 / plain.0 as f64),
            utilization: used(&cost, waterfall.wall_ns),
            plain_utilization: plain_total.and_then(|plain| used(&cost, plain)),
            class: classify(&waterfall, floor.as_ref(), &signals),
            floor,
            residence,
            waterfall,
            matched_calls: tables.calls,
            by_kind: tables.by_kind,
            by_path: tables.by_path,
            unmatched: tables.unmatched,
            missing: tables.missing,
            basis: cost.basis,
            traced: Some(traced),
        };
        if lane.is_exact {
            issues.extend(mismatched(name, &analysis));
        } else if let Some(missing) = analysis.missing.first() {
            let calls = analysis.missing.iter().map(|missing| missing.calls).sum();
            issues.push(
                Issue::new(
                    Severity::Info,
                    "run.missing_operators",
                    format!(
                        "{name}: calls of operators that theory counts have no event of their own, first `{}`: fused into others, or \
                         not recorded",
                        missing.path
                    ),
                )
                .counting(calls),
            );
        }
        (analysis, passes)
    }

    /// How often the phase ran as a whole. Steps that are phases of their own make up one decode for each prefill.
    fn repeats(&self, phase: &TracePhase, included: &[&Stretch]) -> i64 {
        let steps = phase.phase == RunPhase::Decode
            && included.iter().all(|stretch| {
                let length = stretch.steps.first().copied();
                stretch.steps.len() == 1 && length == Some(stretch.length())
            });
        if steps {
            return self.prefills.clamp(1, included.len().max(1)) as i64;
        }
        included.len() as i64
    }

    /// Part of the time below its clock, where telemetry saw the device in the phase.
    fn throttled(&self, phase: RunPhase, device: Option<u32>) -> Option<f64> {
        let captured = self.captured.map(|pass| &self.record.passes[pass]);
        let of_pass = self.record.samples.as_ref().zip(captured);
        let of_pass = of_pass.and_then(|(samples, pass)| throttled_share(samples, pass));
        of_pass.or_else(|| {
            let phases = &self.telemetry?.phases;
            let seen = phases.iter().find(|seen| seen.phase == phase)?;
            let gpu = seen.gpus.iter().find(|gpu| Some(gpu.index) == device)?;
            gpu.throttled_share
        })
    }

    /// What to call the phase: its label, and the device where there are several.
    fn label(&self, phase: &TracePhase, lane: &Lane) -> Option<String> {
        let several = self.lanes.len() > 1;
        match (lane.device.filter(|_| several), &phase.label) {
            (Some(device), label) => {
                let name = label.as_deref().unwrap_or(phase.phase.name());
                Some(format!("{name} (device {device})"))
            }
            (None, label) => label.clone(),
        }
    }

    /// What the trace's own analysis says of the stretches, each with its number in the phase.
    fn breakdowns<'b>(
        &'b self,
        included: &[&Stretch],
        lane: &Lane,
    ) -> Vec<Option<(&'b DeviceBreakdown, usize)>> {
        included
            .iter()
            .map(|stretch| {
                // Phases of which nothing was recorded have no row.
                let name = self.names.get(stretch.name)?;
                let row = self.timeline.phases.iter().find(|row| row.name == *name)?;
                let of_device = |found: &&DeviceBreakdown| Some(found.device) == lane.device;
                let breakdown = row.devices.iter().find(of_device)?;
                Some((breakdown, stretch.order))
            })
            .collect()
    }

    fn waterfall(
        &self,
        included: &[&Stretch],
        number: usize,
        breakdowns: &[Option<(&DeviceBreakdown, usize)>],
    ) -> Waterfall {
        let lane = &self.lanes[number];
        let mut whole_graphs = false;
        let mut sum: Option<Waterfall> = None;
        for (stretch, breakdown) in included.iter().zip(breakdowns) {
            let range = lane.around(stretch.window());
            // Numbers of units are those of the whole trace; a stretch needs few of them.
            let mut local: FxHashMap<u32, u32> = FxHashMap::default();
            let mut floors: Option<Vec<Floor>> =
                self.roof.and(self.theory.as_ref()).map(|_| Vec::new());
            let events: Vec<Event> = lane.items[range.clone()]
                .iter()
                .zip(&self.matching.verdicts[number][range])
                .filter(|(item, _)| lane.holds(item, stretch.window))
                .map(|(item, verdict)| {
                    let class = match verdict.class() {
                        EventClass::Matched(unit) => {
                            let next = local.len() as u32;
                            let place = *local.entry(unit).or_insert_with(|| {
                                let floor = self.floor_in(unit, stretch);
                                match (&mut floors, floor) {
                                    (Some(floors), Some(floor)) => floors.push(floor),
                                    (floors, _) => *floors = None,
                                }
                                next
                            });
                            EventClass::Matched(place)
                        }
                        class => class,
                    };
                    whole_graphs |= item.whole_graph && item.inside(stretch.window()).is_some();
                    Event {
                        start_ns: item.start,
                        end_ns: item.end,
                        launched_ns: item.launched,
                        class,
                    }
                })
                .collect();
            let host = self.host_intervals(lane, stretch);
            let mut waterfall = Waterfall::of(&Input {
                window: stretch.window(),
                events: &events,
                floors: floors.as_deref(),
                host: &host,
            });
            if let Some(instance) =
                breakdown.and_then(|(breakdown, order)| breakdown.instances.get(order))
            {
                waterfall = waterfall.with_idle_causes(&instance.idle);
            }
            match &mut sum {
                Some(sum) => sum.add(&waterfall),
                None => sum = Some(waterfall),
            }
        }
        let mut waterfall = sum.unwrap_or_default();
        if whole_graphs {
            waterfall.extra_abstains = Some(UnmatchedReason::WholeGraph.to_string());
        }
        waterfall
    }

    /// What the host did between the events of a lane. A device's idle time has causes of its own.
    fn host_intervals(&self, lane: &Lane, stretch: &Stretch) -> Vec<HostInterval> {
        if lane.device.is_some() {
            return Vec::new();
        }
        if !lane.is_exact {
            return vec![HostInterval {
                name: BETWEEN_OPERATORS.to_owned(),
                start_ns: stretch.start,
                end_ns: stretch.end,
            }];
        }
        // The engine marks what it does between operators, such as sampling, by ranges inside of its phases.
        let ranges = &self.trace.ranges;
        let mut found: Vec<HostInterval> = (0..ranges.len())
            .map(|row| {
                (
                    row,
                    ranges.start[row],
                    ranges.start[row].saturating_add(ranges.duration[row]),
                )
            })
            .filter(|&(row, start, end)| {
                start < stretch.end
                    && end > stretch.start
                    && phase_of_name(self.trace.text(ranges.name[row])).is_none()
            })
            .map(|(row, start_ns, end_ns)| HostInterval {
                name: self.trace.text(ranges.name[row]).to_owned(),
                start_ns,
                end_ns,
            })
            .collect();
        found.sort_by_key(|host| (host.start_ns, host.end_ns));
        found
    }

    /// The floor of a unit in a stretch: an operator counts where its first event began.
    fn floor_in(&self, unit: u32, stretch: &Stretch) -> Option<Floor> {
        let begins = self.first_events[unit as usize] >= stretch.start;
        let floor = self.matching.units[unit as usize].floor?;
        Some(if begins { floor } else { Floor::default() })
    }

    /// Whether ranges of modules decided in any of these stretches.
    fn by_module(&self, included: &[&Stretch]) -> bool {
        let windows = &self.matching.with_modules;
        included
            .iter()
            .any(|stretch| windows.contains(&stretch.window))
    }

    fn in_modules(&self, included: &[&Stretch], number: usize) -> Option<Nanos> {
        if !self.by_module(included) {
            return None;
        }
        let inside = self.matching.in_module.get(number)?;
        let lane = &self.lanes[number];
        let mut time = 0_i64;
        for stretch in included {
            for index in lane.around(stretch.window()) {
                if inside[index] {
                    let clipped = lane.items[index].inside(stretch.window());
                    time = time.saturating_add(clipped.unwrap_or(0));
                }
            }
        }
        Some(Nanos(time))
    }

    /// Part of the busy time in kernels that cannot fill the device.
    fn small_kernels(&self, included: &[&Stretch], lane: &Lane, busy: i64) -> Option<f64> {
        let device = lane.device?;
        let told = self.trace.devices.iter().find(|known| known.id == device);
        let units = told.and_then(|device| device.sm_count).map(f64::from);
        let units = units.or_else(|| {
            let device = self.roof?.device();
            device.units.as_ref().map(|units| units.count.value)
        })?;
        let kernels = &self.trace.kernels;
        let mut time = 0_i64;
        for stretch in included {
            for item in &lane.items[lane.around(stretch.window())] {
                let Some(row) = item.kernel.filter(|_| !item.whole_graph) else {
                    continue;
                };
                let blocks: f64 = kernels.grid[row as usize]
                    .iter()
                    .map(|&size| f64::from(size))
                    .product();
                if blocks > 0.0 && blocks < units {
                    let clipped = item.inside(stretch.window());
                    time = time.saturating_add(clipped.unwrap_or(0));
                }
            }
        }
        (busy > 0).then(|| (time as f64 / busy as f64).min(1.0))
    }
}

/// The stretches of a phase with the time of their events.
fn instances(phase: &TracePhase, lane: &Lane) -> Vec<PhaseInstance> {
    phase
        .stretches
        .iter()
        .map(|stretch| {
            let items = &lane.items[lane.around(stretch.window())];
            let sum = items
                .iter()
                .filter_map(|item| item.inside(stretch.window()))
                .fold(0, i64::saturating_add);
            PhaseInstance {
                start_ns: Nanos(stretch.start),
                wall_ns: Nanos(stretch.length()),
                sum_ns: Nanos(sum),
                left_out: false,
            }
        })
        .collect()
}

/// How many kernels reach into some stretches.
fn kernels(included: &[&Stretch], lane: &Lane) -> u64 {
    let of = |stretch: &&Stretch| {
        let items = lane.items[lane.around(stretch.window())].iter();
        items
            .filter(|item| matches!(item.class, Class::Compute | Class::Communication))
            .filter(|item| item.inside(stretch.window()).is_some())
            .count() as u64
    };
    included.iter().map(of).sum()
}

/// The host operators of a phase. A breakdown is of all stretches with one name, so each counts once.
fn host_operators(breakdowns: &[Option<(&DeviceBreakdown, usize)>]) -> Vec<NamedTime> {
    let mut rows: Vec<NamedTime> = Vec::new();
    let mut seen: Vec<*const DeviceBreakdown> = Vec::new();
    for (breakdown, _) in breakdowns.iter().flatten() {
        let address = std::ptr::from_ref::<DeviceBreakdown>(breakdown);
        if seen.contains(&address) {
            continue;
        }
        seen.push(address);
        for row in &breakdown.host_operators {
            let Some(name) = &row.operator else { continue };
            rows.push(NamedTime {
                name: name.clone(),
                time_ns: Nanos(row.idle_ns),
                count: row.gaps,
            });
        }
    }
    rows.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(MOST_OPERATORS);
    rows
}

/// Part of the wall time in which only communication ran; absent where the trace has none.
fn exposed_communication(
    included: &[&Stretch],
    breakdowns: &[Option<(&DeviceBreakdown, usize)>],
) -> Option<f64> {
    let (mut exposed, mut sum, mut wall) = (0.0, 0.0, 0.0);
    for (stretch, breakdown) in included.iter().zip(breakdowns) {
        let (breakdown, order) = (*breakdown)?;
        let class = breakdown.instances.get(order)?.class(Class::Communication);
        exposed += class.exposed_ns as f64;
        sum += class.sum_ns as f64;
        wall += stretch.length() as f64;
    }
    (sum > 0.0 && wall > 0.0).then(|| exposed / wall)
}

/// Says which calls of known operators do not agree with theory.
fn mismatched(name: &str, analysis: &PhaseAnalysis) -> Vec<Issue> {
    let warning = |code: &str, text: String, calls: u64| {
        Issue::new(Severity::Warning, code, text).counting(calls)
    };
    let unmatched = analysis.unmatched.first().map(|first| {
        let calls = analysis
            .unmatched
            .iter()
            .map(|operator| operator.calls)
            .sum();
        let text = format!(
            "{name}: operator calls are not matched to theory, first `{}`: {}",
            first.path, first.reason
        );
        warning("run.unmatched_operators", text, calls)
    });
    let missing = analysis.missing.first().map(|first| {
        let calls = analysis.missing.iter().map(|operator| operator.calls).sum();
        let text = format!(
            "{name}: operator calls that theory counts did not run, first `{}`",
            first.path
        );
        warning("run.missing_operators", text, calls)
    });
    unmatched.into_iter().chain(missing).collect()
}
