//! One phase of a trace on one lane.

use llmprof_record::issue::{Issue, IssueCode};
use llmprof_record::run::RunPhase;
use llmprof_theory::roofline::{MemoryLevel, PhaseRoofline};
use llmprof_theory::{Cost, Pass, Step};
use llmprof_units::{Basis, Nanos};

use crate::analyze::copies::exposed_copies;
use crate::analyze::first_use::{AttentionWaits, first_instance};
use crate::analyze::invariants;
use crate::analyze::kernels::{count_graph_kernels, count_kernels};
use crate::analyze::other_devices::busy_elsewhere;
use crate::analyze::phase_intervals::{PhaseInterval, TracePhase};
use crate::analyze::plain::{between_slices, plain_time};
use crate::analyze::tracing::TraceContext;
use crate::bottleneck::{ClassReason, Classification, PhaseSignals, classify};
use crate::latency::plain_wall;
use crate::matching::groups::OperatorGroup;
use crate::matching::lanes::WorkLane;
use crate::phase_analysis::PhaseAnalysis;
use crate::phase_facts::{CopyDirection, PhaseInstance, TracedPhase};
use crate::phases::PhaseSource;
use crate::roofline::{self, Residence, Utilization};
use crate::row_order::sort_descending_named;
use crate::stats::ValueDistribution;
use crate::telemetry::throttled_share;
use crate::thresholds::OPEN_RANGE_MIN_SHARE;
use crate::timeline::breakdown::DeviceBreakdown;
use crate::timeline::device_events::Class;
use crate::timeline::slices;
use crate::waterfall::Waterfall;
use crate::waterfall::idle_parts::NamedTime;

/// Host operators that are named.
const OPERATORS_LISTED_MAX: usize = 10;

/// The trace's own analysis of an interval, and the interval's number there; absent for the host.
type IntervalBreakdown<'b> = Option<(&'b DeviceBreakdown, usize)>;

/// What theory counts for a phase.
#[derive(Default)]
struct PhaseWork {
    cost: Cost,
    roofline: Option<PhaseRoofline>,
    residence: Option<Residence>,
}

impl TraceContext<'_> {
    /// The phase on lane `number`, with the passes that it ran.
    pub(super) fn analyze_phase(
        &self,
        phase: &TracePhase,
        number: usize,
        issues: &mut Vec<Issue>,
    ) -> (PhaseAnalysis, Vec<Pass>) {
        let lane = &self.lanes[number];
        let label = self.phase_label(phase, lane);
        let name = label.as_deref().unwrap_or(phase.phase.name());
        let mut instances = phase_instances(phase, lane);
        // A collective that waits for other devices is longer for their reasons.
        let first_use = if mostly_communicates(phase, lane) {
            None
        } else {
            first_instance(&mut instances)
        };
        let included: Vec<&PhaseInterval> = phase
            .intervals
            .iter()
            .zip(&instances)
            .filter(|(_, instance)| !instance.left_out)
            .map(|(interval, _)| interval)
            .collect();
        let breakdowns = self.interval_breakdowns(&included, lane);
        let waterfall = self.waterfall(&included, number, &breakdowns);
        let mut tables = self.tables(&included, number, waterfall.wall_ns.0);
        let rows = tables.by_kind.iter_mut().chain(&mut tables.by_path);
        rows.filter(|row| row.is_impossible())
            .for_each(OperatorGroup::forget_work);
        let mut traced = TracedPhase {
            instances,
            first_use,
            small_kernel_share: self.small_kernels(&included, lane, waterfall.busy_ns.0),
            exposed_copy_share: exposed_copies(&included, lane, waterfall.busy_ns),
            ..self.traced_phase(&included, number, &breakdowns)
        };
        if lane.device.is_none() && waterfall.communication_ns.0 > 0 {
            let exposed = waterfall.share(waterfall.exposed_communication_ns);
            traced.exposed_communication_share = Some(exposed);
        }
        if phase.phase != RunPhase::Other {
            add_waits(&mut traced, phase, lane);
        }

        let passes: Vec<Pass> = included
            .iter()
            .flat_map(|interval| interval.passes.iter().copied())
            .collect();
        let steps: Vec<Step> = included
            .iter()
            .filter_map(|interval| interval.step.clone())
            .collect();
        let stated = roofline::DecoderWork {
            passes: &passes,
            steps: &steps,
        };
        let work = self.counted_work(phase.phase, stated, issues);
        let has_context = steps.iter().all(|step| step.cached_tokens().is_some());
        if !has_context && work.cost.calls > 0 {
            issues.push(Issue::info(IssueCode::RunNoContext).with("phase", name));
        }
        let plain = plain_wall(self.record, phase.phase).filter(|plain| plain.0 > 0);
        let repeats = self.repeats(phase, &included);
        let plain_total = plain_time(self.record, self.captured, phase.phase, &included, repeats);
        // Without such passes the same steps between slices tell what recording does to them.
        traced.between_slices = self
            .lengths_between_slices(&included)
            .filter(|_| plain_total.is_none())
            .and_then(|plain| between_slices(&included, plain));
        let plain_total = plain_total.or_else(|| {
            let ratio = traced.between_slices?.ratio();
            Some(Nanos((waterfall.wall_ns.0 as f64 / ratio).round() as i64))
        });
        let signals = self.phase_signals(phase.phase, lane, &waterfall, &traced, plain_total);
        let is_partial = included.iter().any(|interval| !interval.is_whole);
        let signals = PhaseSignals {
            busy_elsewhere_share: busy_elsewhere(self.lanes, number, &included),
            is_cut: signals.is_cut || is_partial && slices::recorded_slices(self.trace).is_none(),
            ..signals
        };
        let mut analysis = PhaseAnalysis {
            phase: phase.phase,
            label: label.clone(),
            plain_wall_ns: plain,
            capture_ratio: plain_total.map(|plain| waterfall.wall_ns.0 as f64 / plain.0 as f64),
            utilization: self.utilization(&work, waterfall.wall_ns),
            plain_utilization: plain_total.and_then(|plain| self.utilization(&work, plain)),
            class: classify(&waterfall, work.roofline.as_ref(), &signals),
            roofline: work.roofline,
            residence: work.residence,
            waterfall,
            matched_calls: tables.calls,
            by_kind: tables.by_kind,
            by_path: tables.by_path,
            unmatched: tables.unmatched,
            missing: tables.missing,
            basis: work.cost.basis,
            experts_at_most: signals.experts_at_most,
            traced: Some(traced),
        };
        if signals.experts_at_most.is_some() {
            expect_experts(&mut analysis);
        }
        let used = analysis.utilization.iter_mut();
        for used in used.chain(&mut analysis.plain_utilization) {
            used.without_kv_cache = !has_context;
        }
        // A step that was recorded in part did less than the model's operators.
        if included.iter().any(|interval| !interval.is_whole) {
            invariants::forget_work(&mut analysis, &signals);
        }
        self.check_invariants(&mut analysis, name, &signals, lane, issues);
        (analysis, passes)
    }

    /// What is known about a phase beside its waterfall.
    fn phase_signals(
        &self,
        phase: RunPhase,
        lane: &WorkLane,
        waterfall: &Waterfall,
        traced: &TracedPhase,
        plain: Option<Nanos>,
    ) -> PhaseSignals {
        let theory = self.theory.as_ref();
        PhaseSignals {
            throttled_share: self.time_throttled(phase, lane.device),
            plain_idle_share: plain.filter(|_| lane.device.is_some()).map(|plain| {
                let idle = (plain.0 - waterfall.busy_ns.0).max(0);
                idle as f64 / plain.0.max(1) as f64
            }),
            exposed_communication_share: traced.exposed_communication_share,
            // Fills move nothing.
            exposed_copy_share: traced.exposed_copy_share.filter(|_| {
                let longest = traced.copies.first();
                longest.is_none_or(|copies| copies.direction != CopyDirection::Memset)
            }),
            small_kernel_share: traced.small_kernel_share,
            lone_host_uses_device: (lane.device.is_none() && !lane.is_exact)
                .then_some(self.uses_device),
            is_cut: self
                .trace
                .issues
                .iter()
                .any(|issue| issue.code.is_cut_file()),
            clocks_disagree: self.timeline.clocks_disagree,
            experts_at_most: theory.and_then(|(theory, _)| theory.experts_at_most(phase)),
            ..PhaseSignals::default()
        }
    }

    /// Holds a phase against what must be true of it.
    fn check_invariants(
        &self,
        analysis: &mut PhaseAnalysis,
        name: &str,
        signals: &PhaseSignals,
        lane: &WorkLane,
        issues: &mut Vec<Issue>,
    ) {
        let is_host_alone = matches!(analysis.class.why, ClassReason::HostAlone { .. });
        if self.timeline.phase_source == PhaseSource::Whole && !is_host_alone {
            analysis.class = Classification::unknown(ClassReason::NoPhases);
        }
        issues.extend(invariants::check_phase(analysis, signals));
        issues.extend(analysis.waterfall.issues(name));
        if lane.is_exact {
            issues.extend(report_mismatched(name, analysis));
        } else {
            issues.extend(report_fused(name, analysis));
        }
    }

    fn counted_work(
        &self,
        phase: RunPhase,
        stated: roofline::DecoderWork<'_>,
        issues: &mut Vec<Issue>,
    ) -> PhaseWork {
        let Some((theory, _)) = &self.theory else {
            return PhaseWork::default();
        };
        let mut cost = Cost::default();
        theory.lower_phase(phase, stated, &mut |operator| cost.add_operator(operator));
        let roofline = theory.roofline(phase, stated, issues);
        let roof = self.roof.filter(|_| cost.calls > 0);
        PhaseWork {
            roofline: roofline.map(|(roofline, _)| roofline),
            residence: roof
                .map(|roof| Residence::from_bytes(roof, theory.bytes_per_step(phase, stated))),
            cost,
        }
    }

    fn utilization(&self, work: &PhaseWork, wall: Nanos) -> Option<Utilization> {
        let roof = self.roof.filter(|_| work.cost.calls > 0)?;
        let roofline = work.roofline.as_ref();
        let level = roofline.map_or(MemoryLevel::Main, |roofline| roofline.memory_level);
        Some(Utilization::from_cost(roof, &work.cost, wall, level))
    }

    /// What the trace shows of some intervals beyond their waterfall.
    fn traced_phase(
        &self,
        included: &[&PhaseInterval],
        number: usize,
        breakdowns: &[IntervalBreakdown<'_>],
    ) -> TracedPhase {
        let lane = &self.lanes[number];
        let step_ns: Vec<Nanos> = included
            .iter()
            .flat_map(|interval| interval.steps.iter().copied().map(Nanos))
            .collect();
        let steps: Vec<f64> = step_ns.iter().map(|step| step.0 as f64).collect();
        TracedPhase {
            device: lane.device,
            is_whole_trace: self.timeline.phase_source == PhaseSource::Whole,
            by_module: self.by_module(included),
            by_identity: lane.is_exact,
            clocks_disagree: self.timeline.clocks_disagree,
            labelled_steps: included.iter().filter(|one| one.step.is_some()).count() as u64,
            steps: ValueDistribution::from_values(&steps),
            step_ns,
            kernels: count_kernels(included, lane),
            missing_kernels: included.iter().map(|one| one.missing_kernels).sum(),
            graph_kernels: count_graph_kernels(self.trace, included, lane),
            glue: self.glue(included, lane),
            in_modules_ns: self.in_modules(included, number),
            host_operators: host_operators(breakdowns),
            idle_ranges: self.idle_ranges(included, lane),
            exposed_communication_share: exposed_communication(included, breakdowns),
            longest_kernels: self.longest_kernels(included, lane),
            categories: Self::category_times(included, lane),
            copies: self.sum_copies(included, lane),
            training: self
                .training
                .filter(|_| self.program.of_device(lane.device).is_training())
                .and_then(|places| places.sum_parts(included, lane)),
            ..TracedPhase::default()
        }
    }

    /// Ranges that are open while nothing runs. Those of a run that llmprof measured are its own, around every module.
    fn idle_ranges(&self, included: &[&PhaseInterval], lane: &WorkLane) -> Vec<NamedTime> {
        if self.captured.is_some() {
            return Vec::new();
        }
        let mut gaps = Vec::new();
        for interval in included {
            let mut reached = interval.start;
            for item in &lane.items[lane.items_around(interval.window())] {
                if item.start > reached {
                    gaps.push((reached, item.start));
                }
                reached = reached.max(item.end);
            }
            if interval.end > reached {
                gaps.push((reached, interval.end));
            }
        }
        let lengths = || included.iter().map(|one| one.length());
        let wall = lengths().fold(0, i64::saturating_add);
        let longest = lengths().max().unwrap_or(0);
        let mut rows = self.open_ranges.during(self.trace, &gaps, longest);
        rows.retain(|row| row.time_ns.0 as f64 >= OPEN_RANGE_MIN_SHARE * wall as f64);
        rows
    }

    /// How long intervals of the same name took between slices.
    fn lengths_between_slices(&self, included: &[&PhaseInterval]) -> Option<&[i64]> {
        let name = included.first()?.name;
        let is_one = included.iter().all(|one| one.name == name);
        let lengths = self.plain.get(self.names.get(name)?)?;
        is_one.then_some(lengths.as_slice())
    }

    /// How often the phase ran as a whole. Steps that are phases of their own make up one decode for each prefill.
    fn repeats(&self, phase: &TracePhase, included: &[&PhaseInterval]) -> i64 {
        let steps = phase.phase == RunPhase::Decode
            && included.iter().all(|interval| {
                let length = interval.steps.first().copied();
                interval.steps.len() == 1 && length == Some(interval.length())
            });
        if steps {
            return self.prefills.clamp(1, included.len().max(1)) as i64;
        }
        included.len() as i64
    }

    /// Part of the time below its clock, where telemetry saw the device in the phase.
    fn time_throttled(&self, phase: RunPhase, device: Option<u32>) -> Option<f64> {
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
    fn phase_label(&self, phase: &TracePhase, lane: &WorkLane) -> Option<String> {
        let several = self.lanes.len() > 1;
        match (lane.device.filter(|_| several), &phase.label) {
            (Some(device), label) => {
                let name = label.as_deref().unwrap_or(phase.phase.name());
                Some(format!("{name} (device {device})"))
            }
            (None, label) => label.clone(),
        }
    }

    /// What the trace's own analysis says of the intervals, each with its number in the phase.
    fn interval_breakdowns<'b>(
        &'b self,
        included: &[&PhaseInterval],
        lane: &WorkLane,
    ) -> Vec<IntervalBreakdown<'b>> {
        included
            .iter()
            .map(|interval| {
                // Phases of which nothing was recorded have no row.
                let name = self.names.get(interval.name)?;
                let row = self.timeline.phases.iter().find(|row| row.name == *name)?;
                let of_device =
                    |breakdown: &&DeviceBreakdown| Some(breakdown.device) == lane.device;
                let breakdown = row.devices.iter().find(of_device)?;
                Some((breakdown, interval.order))
            })
            .collect()
    }

    /// Whether ranges of modules decided in any of these intervals.
    fn by_module(&self, included: &[&PhaseInterval]) -> bool {
        let windows = &self.matching.with_modules;
        included
            .iter()
            .any(|interval| windows.contains(&interval.window))
    }

    fn in_modules(&self, included: &[&PhaseInterval], number: usize) -> Option<Nanos> {
        if !self.by_module(included) {
            return None;
        }
        let inside = self.matching.in_module.get(number)?;
        let lane = &self.lanes[number];
        let mut time = 0_i64;
        for interval in included {
            for index in lane.items_around(interval.window()) {
                if inside[index] {
                    let clipped = lane.items[index].time_inside(interval.window());
                    time = time.saturating_add(clipped.unwrap_or(0));
                }
            }
        }
        Some(Nanos(time))
    }
}

/// What was not counted by the recorder is an expectation, though a limited one.
fn expect_experts(analysis: &mut PhaseAnalysis) {
    let rows = analysis.by_kind.iter_mut().chain(&mut analysis.by_path);
    let bases = rows.map(|row| &mut row.basis).chain([&mut analysis.basis]);
    for basis in bases.filter(|basis| **basis == Basis::Measured) {
        *basis = Basis::Expected;
    }
}

/// Whether communication takes most of the time of a phase's events.
fn mostly_communicates(phase: &TracePhase, lane: &WorkLane) -> bool {
    let (mut exchanged, mut all) = (0_i64, 0_i64);
    for interval in &phase.intervals {
        for item in &lane.items[lane.items_around(interval.window())] {
            let time = item.time_inside(interval.window()).unwrap_or(0);
            all = all.saturating_add(time);
            if item.class == Class::Communication {
                exchanged = exchanged.saturating_add(time);
            }
        }
    }
    exchanged > all / 2
}

/// The intervals of a phase with the time of their events.
fn phase_instances(phase: &TracePhase, lane: &WorkLane) -> Vec<PhaseInstance> {
    phase
        .intervals
        .iter()
        .map(|interval| {
            let items = &lane.items[lane.items_around(interval.window())];
            let sum = items
                .iter()
                .filter_map(|item| item.time_inside(interval.window()))
                .fold(0, i64::saturating_add);
            PhaseInstance {
                start_ns: Nanos(interval.start),
                wall_ns: Nanos(interval.length()),
                sum_ns: Nanos(sum),
                left_out: false,
            }
        })
        .collect()
}

/// The host operators of a phase. A breakdown is of all intervals with one name, so each counts once.
fn host_operators(breakdowns: &[IntervalBreakdown<'_>]) -> Vec<NamedTime> {
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
                time_ns: row.idle_ns,
                count: row.gaps,
            });
        }
    }
    sort_descending_named(&mut rows, |row| (row.time_ns.0, &row.name));
    rows.truncate(OPERATORS_LISTED_MAX);
    rows
}

/// Part of the wall time in which only communication ran; absent where the trace has none.
fn exposed_communication(
    included: &[&PhaseInterval],
    breakdowns: &[IntervalBreakdown<'_>],
) -> Option<f64> {
    let (mut exposed, mut sum, mut wall) = (0.0, 0.0, 0.0);
    for (interval, breakdown) in included.iter().zip(breakdowns) {
        let (breakdown, order) = (*breakdown)?;
        let class = breakdown.instances.get(order)?.class(Class::Communication);
        exposed += class.exposed_ns.0 as f64;
        sum += class.sum_ns.0 as f64;
        wall += interval.length() as f64;
    }
    (sum > 0.0 && wall > 0.0).then(|| exposed / wall)
}

/// Counts waits for new lengths of the KV cache, in what is judged and in what is left out as first use.
fn add_waits(traced: &mut TracedPhase, phase: &TracePhase, lane: &WorkLane) {
    if lane.device.is_none() {
        return;
    }
    let (mut waits, mut first_waits) = (AttentionWaits::default(), AttentionWaits::default());
    for (interval, instance) in phase.intervals.iter().zip(&traced.instances) {
        let waits = if instance.left_out {
            &mut first_waits
        } else {
            &mut waits
        };
        waits.add_interval(lane, interval.window());
    }
    if let Some(first) = &mut traced.first_use {
        first.new_lengths = first_waits.find_unusual(&waits);
    }
    traced.new_lengths = waits.find_unusual(&first_waits);
}

/// Operators that have no event of their own, where nothing knows the operator of an event.
fn report_fused(name: &str, analysis: &PhaseAnalysis) -> Option<Issue> {
    let missing = analysis.missing.first()?;
    let calls = analysis.missing.iter().map(|missing| missing.calls).sum();
    let issue = Issue::info(IssueCode::RunMissingOperators).with("phase", name);
    let issue = issue.with("path", missing.path.as_str());
    Some(issue.with("fused", true).counting(calls))
}

/// Calls of known operators that do not agree with theory.
fn report_mismatched(name: &str, analysis: &PhaseAnalysis) -> Vec<Issue> {
    let unmatched = analysis.unmatched.first().map(|first| {
        let calls = analysis
            .unmatched
            .iter()
            .map(|operator| operator.calls)
            .sum();
        Issue::warning(IssueCode::RunUnmatchedOperators)
            .with("phase", name)
            .with("path", first.path.as_str())
            .with("reason", first.reason.code())
            .counting(calls)
    });
    let missing = analysis.missing.first().map(|first| {
        let calls = analysis.missing.iter().map(|operator| operator.calls).sum();
        Issue::warning(IssueCode::RunMissingOperators)
            .with("phase", name)
            .with("path", first.path.as_str())
            .counting(calls)
    });
    unmatched.into_iter().chain(missing).collect()
}
