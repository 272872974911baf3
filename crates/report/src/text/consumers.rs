//! What the GPU time went to, whatever the bottleneck is.

use llmprof_units::{Count, Nanos, Percent};

use crate::analyzed::{
    Analysis, CollectiveKind, GroupKind, OperatorRow, OwnCollectives, PhaseAnalysis, TraceAnalysis,
    TracedPhase,
};
use crate::kernel_label::{distinct_labels, kernel_label};

const KERNELS_NAMED: usize = 5;
/// Categories that are named; the rest shares an entry.
const CATEGORIES_NAMED: usize = 5;
/// A smaller share of the GPU time is not named.
const MIN_NAMED_SHARE: f64 = 0.01;

/// Where less of the GPU time lies in phases, the rest (loading, warm-up) would hide what they do: shares are of the phases.
const MIN_SHARE_IN_PHASES: f64 = 0.9;

/// GPU time by category, and the kernels with most of it.
struct Consumers {
    /// What shares are of, as the line begins.
    basis: String,
    /// Summed times of kernels, copies and memsets.
    total_ns: Nanos,
    categories: Vec<(String, i64)>,
    kernels: Vec<ConsumingKernel>,
}

struct ConsumingKernel {
    name: String,
    time_ns: i64,
    calls: u64,
    /// Whether a phase may have more of it.
    is_least: bool,
}

impl Consumers {
    fn in_trace(timeline: &TraceAnalysis) -> Self {
        let kernels = timeline.kernels.iter().map(|kernel| ConsumingKernel {
            name: kernel.name.clone(),
            time_ns: kernel.total_ns.0,
            calls: kernel.calls,
            is_least: false,
        });
        let total_ns = timeline.totals.device_time_ns;
        Self {
            basis: format!("GPU time {total_ns}"),
            total_ns,
            categories: by_category(timeline),
            kernels: kernels.collect(),
        }
    }

    /// Those of the phases, where much lies outside of them.
    fn in_phases(timeline: &TraceAnalysis, phases: &[PhaseAnalysis]) -> Option<Self> {
        let traced: Vec<&TracedPhase> = phases
            .iter()
            .map(|phase| phase.traced.as_ref())
            .collect::<Option<_>>()?;
        let is_whole = traced.iter().any(|phase| phase.is_whole_trace);
        if traced.is_empty() || is_whole || timeline.scaled.is_some() {
            return None;
        }
        let mut sums = NamedTimes::default();
        for (phase, traced) in phases.iter().zip(&traced) {
            for row in &traced.categories {
                sums.add_time(row.category.to_string(), row.time_ns.0);
            }
            sums.add_time(COPIES.to_owned(), phase.waterfall.copies_ns.0);
        }
        let total_ns = Nanos(sums.rows.iter().map(|(_, time)| *time).sum());
        let recorded = timeline.totals.device_time_ns;
        let share = total_ns.0 as f64 / recorded.0.max(1) as f64;
        if total_ns.0 <= 0 || share >= MIN_SHARE_IN_PHASES {
            return None;
        }
        Some(Self {
            basis: format!("GPU time in phases {total_ns} (of {recorded} recorded)"),
            total_ns,
            categories: sums.sorted(),
            kernels: kernels_of_phases(&traced),
        })
    }
}

/// The longest kernels of all phases together.
fn kernels_of_phases(phases: &[&TracedPhase]) -> Vec<ConsumingKernel> {
    let mut kernels: Vec<ConsumingKernel> = Vec::new();
    for row in phases.iter().flat_map(|phase| &phase.longest_kernels) {
        match kernels.iter_mut().find(|kernel| kernel.name == row.name) {
            Some(kernel) => {
                kernel.time_ns = kernel.time_ns.saturating_add(row.time_ns.0);
                kernel.calls += row.calls;
            }
            None => kernels.push(ConsumingKernel {
                name: row.name.clone(),
                time_ns: row.time_ns.0,
                calls: row.calls,
                is_least: false,
            }),
        }
    }
    // Phases list their longest kernels, which are not always all.
    let lists_all = |phase: &TracedPhase| {
        let listed: i64 = phase.longest_kernels.iter().map(|row| row.time_ns.0).sum();
        let all: i64 = phase.categories.iter().map(|row| row.time_ns.0).sum();
        listed == all
    };
    for kernel in &mut kernels {
        kernel.is_least = phases.iter().any(|phase| {
            let mut rows = phase.longest_kernels.iter();
            rows.all(|row| row.name != kernel.name) && !lists_all(phase)
        });
    }
    kernels.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
    kernels
}

/// What the GPU time went to: by category, and by kernel.
pub fn lines(analysis: &Analysis) -> Vec<String> {
    let Some(timeline) = analysis.timeline.as_deref() else {
        return Vec::new();
    };
    if timeline.totals.device_time_ns <= Nanos(0) {
        return host_operators(timeline);
    }
    let consumers = Consumers::in_phases(timeline, &analysis.phases)
        .unwrap_or_else(|| Consumers::in_trace(timeline));
    let share = |time: Nanos| time.0 as f64 / consumers.total_ns.0 as f64;
    let mut categories = consumers.categories;
    let rest: i64 = categories
        .drain(CATEGORIES_NAMED.min(categories.len())..)
        .map(|(_, time)| time)
        .fold(0, i64::saturating_add);
    let mut parts: Vec<String> = categories
        .iter()
        .filter(|(_, time)| share(Nanos(*time)) >= MIN_NAMED_SHARE)
        .map(|(name, time)| format!("{name} {}", Percent(share(Nanos(*time)))))
        .collect();
    if share(Nanos(rest)) >= MIN_NAMED_SHARE {
        parts.push(format!("rest {}", Percent(share(Nanos(rest)))));
    }
    // Adapters multiply, too: among GEMMs nobody would see them.
    let of_adapters = consumers
        .kernels
        .iter()
        .filter(|kernel| is_of_adapters(&kernel.name));
    let of_adapters = of_adapters.fold(0, |sum: i64, kernel| sum.saturating_add(kernel.time_ns));
    if share(Nanos(of_adapters)) >= MIN_NAMED_SHARE {
        let share = Percent(share(Nanos(of_adapters)));
        parts.push(format!("LoRA kernels among them {share}"));
    }
    let mut lines = vec![format!("{}: {}.", consumers.basis, parts.join(", "))];
    let kernels = consumers.kernels.iter().take(KERNELS_NAMED);
    let kernels: Vec<&ConsumingKernel> = kernels
        .filter(|kernel| share(Nanos(kernel.time_ns)) >= MIN_NAMED_SHARE)
        .collect();
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let kernels: Vec<String> = kernels
        .iter()
        .zip(distinct_labels(&names))
        .map(|(kernel, label)| {
            let least = if kernel.is_least { "at least " } else { "" };
            format!(
                "`{label}` {least}{} ({} ×)",
                Percent(share(Nanos(kernel.time_ns))),
                kernel.calls
            )
        })
        .collect();
    if !kernels.is_empty() {
        lines.push(format!("Top kernels: {}.", kernels.join(", ")));
    }
    lines
}

/// Kernels that name LoRA in their own name: `_lora_shrink_kernel`, `bgmv_shrink`, `sgmv_expand`.
fn is_of_adapters(name: &str) -> bool {
    let name = name.split(['<', '(']).next().unwrap_or(name);
    let name = name.to_ascii_lowercase();
    name.contains("lora") || name.contains("bgmv") || name.contains("sgmv")
}

/// Operators of the host by their own time, of which the share is given, the longest first; and the time of all.
fn own_times(timeline: &TraceAnalysis) -> (Vec<(&OperatorRow, Percent)>, i64) {
    let own = |row: &OperatorRow| row.times.host_self_ns;
    let all = timeline.operators.iter().map(|row| own(row).0);
    let all = all.fold(0, i64::saturating_add);
    let mut rows: Vec<&OperatorRow> = timeline.operators.iter().collect();
    rows.sort_by(|a, b| own(b).cmp(&own(a)).then_with(|| a.name.cmp(&b.name)));
    let share = |row: &OperatorRow| Percent(own(row).0 as f64 / all.max(1) as f64);
    (rows.into_iter().map(|row| (row, share(row))).collect(), all)
}

/// The operator of the host with most time of its own, and its share of that of all.
pub(crate) fn largest_host_operator(timeline: &TraceAnalysis) -> Option<(String, Percent)> {
    let (rows, _) = own_times(timeline);
    let (row, share) = rows.first()?;
    Some((kernel_label(&row.name), *share))
}

/// Operators of the host by their own time, where no device was recorded.
fn host_operators(timeline: &TraceAnalysis) -> Vec<String> {
    let (rows, all) = own_times(timeline);
    if all <= 0 {
        return Vec::new();
    }
    let rows = rows.iter().take(KERNELS_NAMED);
    let rows: Vec<String> = rows
        .filter(|(_, share)| share.0 >= MIN_NAMED_SHARE)
        .map(|(row, share)| {
            let label = kernel_label(&row.name);
            format!("`{label}` {share} ({} ×)", row.times.calls)
        })
        .collect();
    vec![format!(
        "Host time in ops, all threads, {}: {}.",
        Nanos(all),
        rows.join(", ")
    )]
}

/// Collectives of one rank: calls, time, bytes and bus bandwidth.
pub fn collectives(analysis: &Analysis) -> Option<String> {
    let rows = analysis.collectives.iter().take(KERNELS_NAMED);
    let rows: Vec<String> = rows.map(collective).collect();
    (!rows.is_empty()).then(|| {
        format!(
            "Communication of this rank, waiting for other ranks included: {}.",
            rows.join("; ")
        )
    })
}

fn collective(row: &OwnCollectives) -> String {
    let group = match row.group_size {
        0 => String::new(),
        size => format!(" among {size} ranks"),
    };
    let group = match row.group {
        Some(kind) => format!("{group} ({})", group_kind(kind)),
        None => group,
    };
    let calls = Count(row.calls, "call");
    let calls = match row.kind {
        CollectiveKind::Other => format!("{calls} of unknown kind"),
        kind => format!("{} {calls}", kind.name()),
    };
    let mut text = format!("{calls}{group}, {} in all", row.time_ns);
    if let (Some(bytes), Some(rate)) = (row.bytes, row.bus_bytes_per_s) {
        text += &format!(", {bytes}, bus bandwidth at least {rate}");
    }
    text
}

/// The time of each category of kernels, of copies and of memsets, the longest first.
fn by_category(timeline: &TraceAnalysis) -> Vec<(String, i64)> {
    let mut sums = NamedTimes::default();
    for kernel in &timeline.kernels {
        sums.add_time(kernel.category.to_string(), kernel.total_ns.0);
    }
    for transfer in &timeline.transfers {
        sums.add_time(COPIES.to_owned(), transfer.total_ns.0);
    }
    sums.sorted()
}

const COPIES: &str = "copies and memsets";

#[derive(Default)]
struct NamedTimes {
    rows: Vec<(String, i64)>,
}

impl NamedTimes {
    fn add_time(&mut self, name: String, time: i64) {
        match self.rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(time),
            None => self.rows.push((name, time)),
        }
    }

    fn sorted(mut self) -> Vec<(String, i64)> {
        self.rows
            .sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        self.rows
    }
}

/// What a process group is for.
pub(crate) fn group_kind(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::World => "all ranks",
        GroupKind::Tensor => "tensor parallel",
        GroupKind::Pipeline => "pipeline parallel",
        GroupKind::Data => "data parallel",
        GroupKind::Expert => "expert parallel",
        GroupKind::Context => "context parallel",
        GroupKind::Unknown => "not known",
    }
}
