//! What was launched, in order: one list for each thread that launches, or each stream where no calls are recorded.

use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::trace::{StrId, ThreadId, Trace};
use rustc_hash::FxHashMap;

use crate::timeline::autotune;
use crate::timeline::launches::{ApiKind, ApiKinds, is_api};

/// What a sequence of launches belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LaunchSource {
    /// A host thread that calls.
    Thread(ThreadId),
    /// Device, context and stream, of kernels without a call.
    Stream(u32, u32, u32),
}

/// One launch: a kernel, or a graph with all of its kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SequenceLaunch {
    /// When its call began, ns; when it began on the device where there is no call.
    pub(crate) at: i64,
    /// When the call, or the kernel in its place, ended.
    pub(crate) until: i64,
    /// When the first of its kernels began, ns.
    pub(crate) start: i64,
    /// When the last of them ended.
    pub(crate) end: i64,
    /// Number of kernels; 1 without a graph.
    pub(crate) kernels: u32,
    /// The sum of their times, ns.
    pub(crate) time: i64,
    /// Whether the thread waited for the device since the launch before.
    pub(crate) after_wait: bool,
    /// The slice of the capture that holds it.
    pub(crate) slice: u32,
}

/// What the names of kernels say of their place in a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// It chooses tokens: near the end of a step. Top-k alone does not say so, since it also chooses experts.
    pub(crate) chooses: bool,
    /// It looks up embeddings: near the beginning. Their gradient comes near the end.
    pub(crate) embeds: bool,
    /// Attention kernels: a graph may hold those of all layers.
    pub(crate) attention: u32,
}

impl Signs {
    fn from_name(name: &str) -> Self {
        let category = classify(name).category;
        let name = name.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        Self {
            chooses: category == Category::Sampling || has(&["argmax"]),
            embeds: (category == Category::Embedding || has(&["indexselect", "vectorized_gather"]))
                && !has(&["backward", "bwd", "grad"]),
            attention: u32::from(category == Category::Attention),
        }
    }
}

/// The launches of one source in order, each with a symbol that says what was launched: grids and arguments change with
/// the length of a cache, so that they are no part of it.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) source: LaunchSource,
    pub(crate) launches: Vec<SequenceLaunch>,
    /// A number for each launch; equal for the same kernel, or the same graph.
    pub(crate) symbols: Vec<u32>,
    /// What the kernels of each symbol say.
    pub(crate) signs: Vec<Signs>,
    /// Kernels, and the sum of their times, before each launch and in all.
    before: Vec<(u64, i64)>,
}

impl Sequence {
    fn of_source(source: LaunchSource, open: OpenSequence) -> Self {
        let sums = open.launches.iter().scan((0_u64, 0_i64), |sum, launch| {
            sum.0 += u64::from(launch.kernels);
            sum.1 = sum.1.saturating_add(launch.time);
            Some(*sum)
        });
        Self {
            source,
            before: std::iter::once((0, 0)).chain(sums).collect(),
            launches: open.launches,
            symbols: open.symbols,
            signs: open.signs,
        }
    }

    /// Kernels of the launches from `start` to before `end`.
    pub(crate) fn kernels(&self, start: usize, end: usize) -> u64 {
        self.before[end].0 - self.before[start].0
    }

    /// The sum of their times, ns.
    pub(crate) fn time(&self, start: usize, end: usize) -> i64 {
        self.before[end].1.saturating_sub(self.before[start].1)
    }

    pub(crate) fn len(&self) -> usize {
        self.launches.len()
    }
}

/// What a symbol stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Kernel(StrId),
    Graph(u32),
}

#[derive(Default)]
struct OpenSequence {
    launches: Vec<SequenceLaunch>,
    symbols: Vec<u32>,
    signs: Vec<Signs>,
    numbers: FxHashMap<What, u32>,
}

struct SequenceReader<'a> {
    trace: &'a Trace,
    slices: Vec<(i64, i64)>,
    /// Kernels that a compiler tried out, in order: they are of no step.
    tuning: Vec<u32>,
    signs: FxHashMap<StrId, Signs>,
    sequences: FxHashMap<LaunchSource, OpenSequence>,
}

/// The sequences of a trace, that with the most kernel time first: another thread may launch more, shorter kernels.
pub(crate) fn read_sequences(trace: &Trace) -> Vec<Sequence> {
    let mut reader = SequenceReader {
        trace,
        slices: crate::timeline::slices::recorded_slices(trace).unwrap_or_default(),
        tuning: autotune::tuned_kernels(trace),
        signs: FxHashMap::default(),
        sequences: FxHashMap::default(),
    };
    let alone = reader.read_calls(ByCorrelation::of_trace(trace));
    reader.read_streams(&alone);
    let mut sequences: Vec<Sequence> = reader
        .sequences
        .into_iter()
        .map(|(source, open)| Sequence::of_source(source, open))
        .collect();
    let time = |sequence: &Sequence| sequence.time(0, sequence.len());
    sequences.sort_by_key(|sequence| (std::cmp::Reverse(time(sequence)), sequence.source));
    sequences
}

/// Rows of kernels by correlation id.
struct ByCorrelation {
    rows: Vec<u32>,
    /// Each id with where its rows begin, in order of ids; after the last, where they end.
    groups: Vec<(u32, u32)>,
    /// The group of the last search: calls come nearly in the order of their ids.
    last: usize,
}

impl ByCorrelation {
    fn of_trace(trace: &Trace) -> Self {
        let correlation = &trace.kernels.correlation[..];
        let mut rows: Vec<u32> = (0..correlation.len() as u32).collect();
        // Kernels of one stream come nearly in this order, which makes the sort cheap; equal ids stay in order of time.
        rows.sort_by_key(|&row| correlation[row as usize]);
        let mut groups: Vec<(u32, u32)> = Vec::with_capacity(rows.len() + 1);
        for (place, &row) in rows.iter().enumerate() {
            let id = correlation[row as usize];
            if groups.last().is_none_or(|&(known, _)| known != id) {
                groups.push((id, place as u32));
            }
        }
        groups.push((0, rows.len() as u32));
        Self {
            rows,
            groups,
            last: 0,
        }
    }

    /// The places in `rows` of the kernels with an id.
    fn find_rows(&mut self, id: u32) -> Option<(usize, usize)> {
        let known = &self.groups[..self.groups.len() - 1];
        let next = self.last + 1;
        let group = if known.get(next).is_some_and(|group| group.0 == id) {
            next
        } else {
            known.binary_search_by_key(&id, |group| group.0).ok()?
        };
        self.last = group;
        Some((
            self.groups[group].1 as usize,
            self.groups[group + 1].1 as usize,
        ))
    }
}

impl SequenceReader<'_> {
    /// Reads calls and what they launched; returns the rows of kernels without a call.
    fn read_calls(&mut self, mut kernels: ByCorrelation) -> Vec<u32> {
        let hosts = &self.trace.hosts;
        let mut kinds = ApiKinds::default();
        let mut has_call = vec![false; kernels.rows.len()];
        let mut waited: Option<ThreadId> = None;
        // Rows come by thread, then start; a runtime call comes before the driver call inside it.
        for row in 0..hosts.len() {
            if !is_api(hosts.kind[row]) {
                continue;
            }
            let thread = hosts.thread[row];
            let launched = match hosts.correlation[row] {
                0 => None,
                correlation => kernels.find_rows(correlation),
            };
            let Some((first, last)) = launched else {
                if kinds.get(self.trace, hosts.name[row]) == ApiKind::Sync {
                    waited = Some(thread);
                }
                continue;
            };
            if std::mem::replace(&mut has_call[first], true) {
                continue;
            }
            has_call[first..last].fill(true);
            let at = hosts.start[row];
            let call = (at, at.saturating_add(hosts.duration[row]));
            let after_wait = waited.take() == Some(thread);
            self.push_launch(
                LaunchSource::Thread(thread),
                Some(call),
                after_wait,
                &kernels.rows[first..last],
            );
        }
        let alone = kernels.rows.iter().zip(has_call);
        alone
            .filter(|&(_, has)| !has)
            .map(|(&row, _)| row)
            .collect()
    }

    /// Reads kernels without a call, by stream and start; those of one launch of a graph together.
    fn read_streams(&mut self, rows: &[u32]) {
        let kernels = &self.trace.kernels;
        let mut rows = rows.to_vec();
        let source = |row: u32| {
            let row = row as usize;
            LaunchSource::Stream(
                kernels.device[row],
                kernels.context[row],
                kernels.stream[row],
            )
        };
        rows.sort_by_key(|&row| (source(row), kernels.start[row as usize]));
        let together = |&a: &u32, &b: &u32| {
            let (x, y) = (a as usize, b as usize);
            kernels.graph[x] != 0
                && kernels.graph[x] == kernels.graph[y]
                && kernels.correlation[x] != 0
                && kernels.correlation[x] == kernels.correlation[y]
                && source(a) == source(b)
        };
        for group in rows.chunk_by(together) {
            self.push_launch(source(group[0]), None, false, group);
        }
    }

    fn push_launch(
        &mut self,
        source: LaunchSource,
        call: Option<(i64, i64)>,
        after_wait: bool,
        kernels: &[u32],
    ) {
        let table = &self.trace.kernels;
        let (mut start, mut end, mut time) = (i64::MAX, i64::MIN, 0_i64);
        for &row in kernels {
            let row = row as usize;
            start = start.min(table.start[row]);
            end = end.max(table.start[row].saturating_add(table.duration[row]));
            time = time.saturating_add(table.duration[row]);
        }
        if self.tuning.binary_search(&kernels[0]).is_ok() {
            return;
        }
        let first = kernels[0] as usize;
        let what = match table.graph[first] {
            0 => What::Kernel(table.name[first]),
            graph => What::Graph(graph),
        };
        let (at, until) = call.unwrap_or((start, end));
        let slice = crate::timeline::slices::nearest_slice(&self.slices, at);
        let trace = self.trace;
        let open = self.sequences.entry(source).or_default();
        let next = open.numbers.len() as u32;
        let symbol = *open.numbers.entry(what).or_insert(next);
        if symbol == next {
            let mut signs = Signs::default();
            let named = match what {
                What::Kernel(_) => &kernels[..1],
                What::Graph(_) => kernels,
            };
            for &row in named {
                let name = table.name[row as usize];
                let own = *self
                    .signs
                    .entry(name)
                    .or_insert_with(|| Signs::from_name(trace.text(name)));
                signs.chooses |= own.chooses;
                signs.embeds |= own.embeds;
                signs.attention += own.attention;
            }
            open.signs.push(signs);
        }
        open.symbols.push(symbol);
        open.launches.push(SequenceLaunch {
            at,
            until,
            start,
            end,
            kernels: kernels.len() as u32,
            time,
            after_wait,
            slice: slice as u32,
        });
    }
}
