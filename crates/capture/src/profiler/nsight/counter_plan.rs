//! Which launches to profile, chosen from a timeline of the same program.
//!
//! Nsight Compute passes over `skip` launches of each (kernel, grid, block, shared memory) and profiles the next `count`.
//! Launches of one configuration may still do different work (a projection of 896 and of 4,864 columns in one grid), which
//! their times tell: those that differ are kinds of their own. The plan is the pair (skip, count), and where kernels are
//! chosen by name the names, by which the fewest launches cover the asked share of device time.
//!
//! Names are a last resort: a kernel with a C name (cuBLAS's nvjet kernels) has no demangled one, and with
//! `--kernel-name-base demangled` ncu 2025.3 profiles the launch after it. Inside an NVTX range no name is needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use llmprof_record::{
    counters::{ProfiledLaunch, StandsFor},
    kernel_list::name_pattern,
    kernel_name::canonical,
    plan::Tier,
    trace::{HostKind, Trace},
};
use llmprof_units::Nanos;

/// Times of launches that do the same differ less than this; times in between are noise of short kernels.
const SIMILAR_TIMES_MAX_RATIO: f64 = 1.35;
const NOISE_NS: i64 = 600;
/// Launches of one configuration that are passed over or profiled at most.
const SKIPPED_MAX: u64 = 48;
const COUNTED_MAX: u64 = 6;

/// What is to be covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoverageRequest<'a> {
    /// Share of device time, 0 to 1.
    pub coverage: f64,
    /// Only launches inside NVTX ranges of this name count.
    pub range: Option<&'a str>,
    /// Launches after this many ranges of the name `decode_step` will not come; all where absent.
    pub steps: Option<u64>,
    /// Only these kernels, by the names of the timeline; all where empty.
    pub kernels: &'a [String],
    /// Whether the tool itself sees only launches inside `range`, so that nothing is chosen by name and nothing skipped.
    pub is_gated: bool,
}

/// A launch that will be profiled, and what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenLaunch {
    /// As the timeline spells it.
    pub kernel: String,
    pub canonical: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Its number among launches of its configuration, from 0.
    pub index: u64,
    pub stands_for: StandsFor,
}

/// What Nsight Compute is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterPlan {
    /// Names that are chosen; empty where all are.
    pub kernels: Vec<String>,
    pub skip: u64,
    pub count: u64,
    /// In the order of launching.
    pub launches: Vec<ChosenLaunch>,
    /// Share of device time that they stand for.
    pub covered: f64,
    /// Device time of everything that counts.
    pub total_ns: Nanos,
}

impl CounterPlan {
    /// A pattern that matches the chosen names and nothing else; absent where all are chosen.
    pub fn name_pattern(&self) -> Option<String> {
        if self.kernels.is_empty() {
            return None;
        }
        let alternatives: Vec<String> = self
            .kernels
            .iter()
            .map(|name| {
                let own = name_pattern(name);
                own.trim_start_matches('^').trim_end_matches('$').to_owned()
            })
            .collect();
        Some(format!("^({})$", alternatives.join("|")))
    }

    /// Seconds that profiling them takes, about: the start of tool and program, and the replays of a launch, as on an H200.
    pub fn estimated_seconds(&self, tier: Tier) -> usize {
        let tenths = match tier {
            Tier::Basic | Tier::Roofline => 7,
            Tier::Full => 24,
        };
        15 + self.launches.len() * tenths / 10
    }

    /// Plans from a timeline; `None` where it has no kernel that counts.
    pub fn from_trace(trace: &Trace, wanted: &CoverageRequest<'_>) -> Option<Self> {
        let kinds = Kinds::from_trace(trace, wanted);
        if kinds.total_ns.0 <= 0 {
            return None;
        }
        if wanted.is_gated {
            let choices = (1..=COUNTED_MAX).map(|count| kinds.choose_first(count));
            let mut choices: Vec<LaunchChoice> = choices.collect();
            let enough = choices
                .iter()
                .position(|choice| choice.covered >= wanted.coverage);
            let choice = choices.swap_remove(enough.unwrap_or(COUNTED_MAX as usize - 1));
            let mut plan = kinds.plan_from(&choice);
            plan.kernels.clear();
            return Some(plan);
        }
        let mut best: Option<LaunchChoice> = None;
        for count in 1..=COUNTED_MAX {
            for skip in 0..=SKIPPED_MAX {
                let Some(choice) = kinds.choose_covering(skip, count, wanted.coverage) else {
                    break;
                };
                let is_better = best.as_ref().is_none_or(|best| {
                    let enough = |choice: &LaunchChoice| choice.covered >= wanted.coverage;
                    match (enough(&choice), enough(best)) {
                        (true, false) => true,
                        (false, true) => false,
                        (true, true) => choice.cost < best.cost,
                        (false, false) => choice.covered > best.covered + 1e-9,
                    }
                });
                if is_better {
                    best = Some(choice);
                }
            }
        }
        best.map(|choice| kinds.plan_from(&choice))
    }

    /// Tells profiled launches what they stand for, by configuration and order. The answer has how many were not expected.
    pub fn join_launches(&self, launches: &mut [ProfiledLaunch]) -> usize {
        type Key<'a> = (&'a str, Option<[u32; 3]>, Option<[u32; 3]>);
        let mut waiting: HashMap<Key<'_>, Vec<&ChosenLaunch>> = HashMap::new();
        for chosen in self.launches.iter().rev() {
            let key = (
                chosen.canonical.as_str(),
                Some(chosen.grid),
                Some(chosen.block),
            );
            waiting.entry(key).or_default().push(chosen);
        }
        let mut unexpected = 0;
        for launch in launches {
            let key = (launch.canonical.as_str(), launch.grid, launch.block);
            let Some(chosen) = waiting.get_mut(&key) else {
                unexpected += 1;
                continue;
            };
            // The tool may profile more of a configuration than it was asked for.
            if let Some(chosen) = chosen.pop()
                && chosen.stands_for.launches > 0
            {
                launch.stands_for = Some(chosen.stands_for);
            }
        }
        unexpected
    }
}

/// Launches of one configuration that do the same.
#[derive(Debug, Default)]
struct LaunchKind {
    /// Launches that count, and their time.
    launches: u64,
    total_ns: Nanos,
}

#[derive(Debug)]
struct Configuration {
    kernel: u32,
    grid: [u32; 3],
    block: [u32; 3],
    /// Kind and time of each launch, in order.
    launches: Vec<(usize, i64)>,
    kinds: Vec<LaunchKind>,
}

struct Kinds<'a> {
    trace: &'a Trace,
    configurations: Vec<Configuration>,
    total_ns: Nanos,
}

struct LaunchChoice {
    skip: u64,
    count: u64,
    kernels: BTreeSet<u32>,
    cost: u64,
    covered: f64,
}

impl<'a> Kinds<'a> {
    fn from_trace(trace: &'a Trace, wanted: &CoverageRequest<'_>) -> Self {
        let windows = CountedWindows::find_windows(trace, wanted);
        let mut configurations: Vec<Configuration> = Vec::new();
        let mut known: HashMap<_, usize> = HashMap::new();
        // Whether each launch counts, beside the configuration's launches.
        let mut counts: Vec<Vec<bool>> = Vec::new();
        let mut launches: Vec<(i64, usize)> = (0..trace.kernels.len())
            .map(|row| (windows.launch_time(trace, row), row))
            .collect();
        launches.sort_unstable();
        let mut total_ns = 0;
        for (at, row) in launches {
            if windows.is_over(at) || (wanted.is_gated && !windows.is_inside(at)) {
                continue;
            }
            let kernels = &trace.kernels;
            let name = kernels.name[row];
            let listed = wanted.kernels.is_empty()
                || wanted.kernels.iter().any(|one| one == trace.text(name));
            let is_counted = windows.is_inside(at);
            if is_counted {
                total_ns += kernels.duration[row];
            }
            if !listed {
                continue;
            }
            let shared = kernels.static_shared[row].wrapping_add(kernels.dynamic_shared[row]);
            let key = (name, kernels.grid[row], kernels.block[row], shared);
            let index = *known.entry(key).or_insert_with(|| {
                configurations.push(Configuration {
                    kernel: name.0,
                    grid: kernels.grid[row],
                    block: kernels.block[row],
                    launches: Vec::new(),
                    kinds: Vec::new(),
                });
                counts.push(Vec::new());
                configurations.len() - 1
            });
            configurations[index]
                .launches
                .push((0, kernels.duration[row]));
            counts[index].push(is_counted);
        }
        for (configuration, counts) in configurations.iter_mut().zip(&counts) {
            configuration.tell_apart(counts);
        }
        Self {
            trace,
            configurations,
            total_ns: Nanos(total_ns),
        }
    }

    /// The first `count` launches of every configuration.
    fn choose_first(&self, count: u64) -> LaunchChoice {
        let offers = self
            .configurations
            .iter()
            .map(|one| one.offer_window(0, count));
        let (gained, cost) = offers.fold((0, 0), |sum, offer| (sum.0 + offer.0, sum.1 + offer.1));
        LaunchChoice {
            skip: 0,
            count,
            kernels: self.configurations.iter().map(|one| one.kernel).collect(),
            cost,
            covered: gained as f64 / self.total_ns.0 as f64,
        }
    }

    /// Names that cover the asked share with the fewest launches, for one pair; `None` where nothing is left to profile.
    fn choose_covering(&self, skip: u64, count: u64, coverage: f64) -> Option<LaunchChoice> {
        let mut names: BTreeMap<u32, (i64, u64)> = BTreeMap::new();
        for configuration in &self.configurations {
            let (gain, cost) = configuration.offer_window(skip, count);
            let sum = names.entry(configuration.kernel).or_default();
            *sum = (sum.0 + gain, sum.1 + cost);
        }
        let mut offers: Vec<(u32, i64, u64)> = names
            .into_iter()
            .filter(|(_, (gain, _))| *gain > 0)
            .map(|(name, (gain, cost))| (name, gain, cost))
            .collect();
        if offers.is_empty() {
            return None;
        }
        let by_price = |offer: &(u32, i64, u64)| offer.1 as f64 / offer.2.max(1) as f64;
        offers.sort_by(|a, b| by_price(b).total_cmp(&by_price(a)));
        let wanted = coverage * self.total_ns.0 as f64;
        let mut chosen: Vec<(u32, i64, u64)> = Vec::new();
        let mut gained = 0;
        for offer in offers {
            if gained as f64 >= wanted {
                break;
            }
            gained += offer.1;
            chosen.push(offer);
        }
        // A dear one at the end may make earlier ones unnecessary.
        chosen.sort_by_key(|offer| offer.1);
        let mut kept = Vec::new();
        for offer in chosen {
            if (gained - offer.1) as f64 >= wanted {
                gained -= offer.1;
            } else {
                kept.push(offer);
            }
        }
        Some(LaunchChoice {
            skip,
            count,
            cost: kept.iter().map(|offer| offer.2).sum(),
            kernels: kept.iter().map(|offer| offer.0).collect(),
            covered: gained as f64 / self.total_ns.0 as f64,
        })
    }

    fn plan_from(&self, choice: &LaunchChoice) -> CounterPlan {
        let mut launches = Vec::new();
        let text = |id: u32| self.trace.text(llmprof_record::trace::StrId(id)).to_owned();
        for configuration in &self.configurations {
            if !choice.kernels.contains(&configuration.kernel) {
                continue;
            }
            let kernel = text(configuration.kernel);
            let mut told = BTreeSet::new();
            for index in choice.skip..choice.skip + choice.count {
                let Some(&(kind, duration)) = configuration.launches.get(index as usize) else {
                    break;
                };
                // Further launches of a kind are profiled all the same and stand for nothing.
                let is_first = told.insert(kind);
                let whole = &configuration.kinds[kind];
                launches.push(ChosenLaunch {
                    canonical: canonical(&kernel),
                    kernel: kernel.clone(),
                    grid: configuration.grid,
                    block: configuration.block,
                    index,
                    stands_for: StandsFor {
                        launches: if is_first { whole.launches } else { 0 },
                        total_ns: if is_first { whole.total_ns } else { Nanos(0) },
                        duration_ns: Nanos(duration),
                    },
                });
            }
        }
        CounterPlan {
            kernels: choice.kernels.iter().map(|id| text(*id)).collect(),
            skip: choice.skip,
            count: choice.count,
            launches,
            covered: choice.covered,
            total_ns: self.total_ns,
        }
    }
}

impl Configuration {
    /// Gives every launch its kind, by gaps between sorted times.
    fn tell_apart(&mut self, counts: &[bool]) {
        let mut order: Vec<usize> = (0..self.launches.len()).collect();
        order.sort_by_key(|&at| self.launches[at].1);
        let mut before: Option<i64> = None;
        for at in order {
            let duration = self.launches[at].1;
            let is_new = before.is_none_or(|before| {
                duration as f64 > SIMILAR_TIMES_MAX_RATIO * before as f64
                    && duration - before > NOISE_NS
            });
            if is_new {
                self.kinds.push(LaunchKind::default());
            }
            before = Some(duration);
            let kind = self.kinds.len() - 1;
            self.launches[at].0 = kind;
            if counts[at] {
                self.kinds[kind].launches += 1;
                self.kinds[kind].total_ns += Nanos(duration);
            }
        }
    }

    /// Time that the launches of a window stand for, and how many they are.
    fn offer_window(&self, skip: u64, count: u64) -> (i64, u64) {
        let begin = (skip as usize).min(self.launches.len());
        let end = ((skip + count) as usize).min(self.launches.len());
        let kinds: BTreeSet<usize> = self.launches[begin..end]
            .iter()
            .map(|(kind, _)| *kind)
            .collect();
        let gain = kinds.iter().map(|kind| self.kinds[*kind].total_ns.0).sum();
        (gain, (end - begin) as u64)
    }
}

/// When launches count, on the clock of the trace.
struct CountedWindows {
    calls: HashMap<u32, i64>,
    /// Ranges that count; absent where all launches do.
    ranges: Option<Vec<(i64, i64)>>,
    /// Launches after this time do not count.
    end: i64,
}

impl CountedWindows {
    fn find_windows(trace: &Trace, wanted: &CoverageRequest<'_>) -> Self {
        let named = |name: &str| {
            let rows =
                (0..trace.ranges.len()).filter(|&row| trace.text(trace.ranges.name[row]) == name);
            let mut spans: Vec<(i64, i64)> = rows
                .map(|row| {
                    let start = trace.ranges.start[row];
                    (start, start.saturating_add(trace.ranges.duration[row]))
                })
                .collect();
            spans.sort_unstable();
            spans
        };
        let mut calls = HashMap::new();
        for row in 0..trace.hosts.len() {
            let kind = trace.hosts.kind[row];
            let correlation = trace.hosts.correlation[row];
            if correlation != 0 && (kind == HostKind::RUNTIME || kind == HostKind::DRIVER) {
                calls.entry(correlation).or_insert(trace.hosts.start[row]);
            }
        }
        let steps = named("decode_step");
        let last = wanted.steps.and_then(|count| {
            let index = usize::try_from(count).ok()?.checked_sub(1)?;
            steps.get(index)
        });
        Self {
            calls,
            ranges: wanted.range.map(named),
            end: last.map_or(i64::MAX, |(_, end)| *end),
        }
    }

    /// When a kernel was launched, or where that is not recorded, when it began.
    fn launch_time(&self, trace: &Trace, row: usize) -> i64 {
        let call = self.calls.get(&trace.kernels.correlation[row]);
        call.copied().unwrap_or(trace.kernels.start[row])
    }

    fn is_over(&self, at: i64) -> bool {
        at > self.end
    }

    fn is_inside(&self, at: i64) -> bool {
        match &self.ranges {
            None => true,
            Some(ranges) => ranges.iter().any(|(start, end)| *start <= at && at <= *end),
        }
    }
}
