//! Forward passes of a language model by the shapes of its operators.
//!
//! A lookup of `[batch, tokens]` ids in the table of tokens begins a pass. Attention says how many keys it meets, and with
//! that how many tokens are in the KV cache. So a trace with shapes tells batch, prompt and steps, whatever the user says.

use std::collections::BTreeMap;

use llmprof_record::kernel_name::{Category, classify};
use llmprof_record::trace::{HostKind, InputsId, StrId, ThreadId, Trace};
use llmprof_theory::Step;
use llmprof_units::Count;
use rustc_hash::FxHashSet;

use super::forward_pass::ForwardPass;
use super::pass_ranges::pass_starts;
use super::{PhaseSource, Phases};
use crate::labels::STEP;
use crate::matching::operator_category::operator_category;
use crate::row_order::sort_ascending;
use crate::timeline::nesting::module_name;

/// Name of passes of several tokens over a KV cache that do not read a prompt.
const CONTINUED_PASS: &str = "multi-token pass";
const LOOKUP: &str = "aten::embedding";
const ATTENTION: &str = "aten::scaled_dot_product_attention";

/// The fewest and the most keys that calls of attention in one pass meet.
type MetKeys = Option<(u64, u64)>;

/// The forward passes of one model on one thread, in order of time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForwardPasses {
    /// Rows and width of the table of tokens.
    pub(crate) table: (u64, u64),
    pub(crate) passes: Vec<ForwardPass>,
    thread: u32,
    /// Whether anything in the trace attends: a recurrent model looks tokens up one by one, too.
    attends: bool,
}

impl ForwardPasses {
    /// The passes through the largest table of tokens; nothing where no shapes were recorded.
    ///
    /// A model with a table of positions or of languages looks those up too: the table with most rows is that of tokens.
    pub(crate) fn of_trace(trace: &Trace) -> Option<Self> {
        let lookups = read_lookups(trace);
        let (&(table, thread), rows) = lookups.iter().max_by_key(|((table, thread), rows)| {
            (*table, rows.len(), std::cmp::Reverse(*thread))
        })?;
        let mut passes = rows.clone();
        add_draft_passes(trace, (table, thread), &lookups, &mut passes);
        let mut keys = count_attention(trace, thread, &mut passes);
        add_encoders(trace, thread, &mut passes, &mut keys);
        leave_cross_attention(&mut passes, &mut keys);
        fill_caches(&mut passes, &keys);
        Some(Self {
            table,
            passes,
            thread,
            attends: has_attention(trace),
        })
    }

    /// Whether the passes generate text: some have one new token after cached ones. A lookup alone may be that of a text
    /// encoder in front of another model.
    pub(crate) fn generate_text(&self) -> bool {
        self.attends && (0..self.passes.len()).any(|place| self.continues_cache(place))
    }

    /// Whether a pass of one new token meets what passes before it have left in the cache, of which a verification may have taken some
    /// tokens back. Keys of another length are not those of a cache.
    fn continues_cache(&self, place: usize) -> bool {
        let pass = &self.passes[place];
        let earlier = &self.passes[..place];
        let of_model = earlier
            .iter()
            .rfind(|before| before.model() == pass.model());
        let follows = |before: &ForwardPass| {
            let is_taken_back = 0 < before.cached && before.cached < pass.cached;
            pass.cached == before.length() || is_taken_back && pass.cached < before.length()
        };
        // A recording may begin with any pass.
        let may_follow = place == 0 || earlier.last().into_iter().chain(of_model).any(follows);
        pass.is_decode() && may_follow
    }

    /// The thread, and the intervals of passes that generate text: those that continue a cache, and the one that filled it. What the last
    /// of them is followed by is not theirs: it is as long as the longest other one at most.
    pub(crate) fn generation_spans(&self) -> (ThreadId, Vec<(i64, i64)>) {
        let count = self.passes.len();
        let continues = |place: &usize| self.attends && self.continues_cache(*place);
        let fills = |place: &usize| {
            let pass = &self.passes[*place];
            let next = place + 1;
            next < count && continues(&next) && self.passes[next].cached == pass.length()
        };
        let places: Vec<usize> = (0..count)
            .filter(|one| continues(one) || fills(one))
            .collect();
        let is_inside = |place: usize| places.binary_search(&(place + 1)).is_ok();
        let length = |place: usize| self.passes[place].end - self.passes[place].start;
        let inside = places.iter().copied().filter(|&place| is_inside(place));
        let longest = inside.map(length).max().unwrap_or(0);
        let spans = places.iter().map(|&place| {
            let pass = &self.passes[place];
            let length = length(place);
            let length = if is_inside(place) {
                length
            } else {
                length.min(longest)
            };
            (pass.start, pass.start.saturating_add(length))
        });
        (ThreadId(self.thread), spans.collect())
    }

    pub(crate) fn decoder_passes(&self) -> u64 {
        let passes = self.passes.iter();
        passes.filter(|pass| !pass.is_encoder).count() as u64
    }

    /// The passes that begin in a window of the host.
    pub(crate) fn begun_within(&self, start: i64, end: i64) -> &[ForwardPass] {
        let first = self.passes.partition_point(|pass| pass.start < start);
        let last = self.passes.partition_point(|pass| pass.start < end);
        &self.passes[first..last.max(first)]
    }

    /// Each pass as a phase with its step.
    pub(super) fn to_phases(&self, trace: &Trace) -> Phases {
        let mut phases = Phases::empty(PhaseSource::Shapes);
        let starts = pass_starts(trace, self.thread, &self.passes);
        let names = self.pass_names();
        let smaller_models = self.smaller_models();
        for (place, pass) in self.passes.iter().enumerate() {
            let (start, end) = (starts[place], starts.get(place + 1).copied());
            let end = end.unwrap_or(pass.end);
            let name = names[place];
            if smaller_models.contains(&pass.model()) && !pass.is_encoder {
                let layers = pass.attentions;
                let name = if name == STEP { "decode" } else { name };
                phases.push(&format!("{name} ({})", Count(layers, "layer")), start, end);
                continue;
            }
            phases.push(name, start, end);
            if !pass.is_encoder {
                phases.state_step(Step::of_sequences([pass.sequences()]));
            }
        }
        if self.ends_within_pass() {
            let last = phases.windows.last_mut();
            if let Some(last) = last {
                last.is_whole = false;
            }
        }
        phases
    }

    /// Smaller models than the largest that look tokens up, as a draft model does: their table is narrower, or passes call attention less
    /// often, and more than one of them does.
    fn smaller_models(&self) -> Vec<(u64, u64)> {
        let mut passes = BTreeMap::<(u64, u64), u64>::new();
        for pass in self.passes.iter().filter(|pass| !pass.is_encoder) {
            *passes.entry(pass.model()).or_default() += 1;
        }
        passes.pop_last();
        let several = passes
            .into_iter()
            .filter(|((_, layers), count)| *layers > 0 && *count > 1);
        several.map(|(model, _)| model).collect()
    }

    /// Whether the recording ends before the last pass does: it calls attention less often than any other.
    fn ends_within_pass(&self) -> bool {
        self.passes.split_last().is_some_and(|(last, before)| {
            let own = before.iter().filter(|pass| !pass.is_encoder);
            !last.is_encoder
                && own
                    .map(|pass| pass.attentions)
                    .min()
                    .is_some_and(|fewest| last.attentions < fewest)
        })
    }

    /// What each pass is: that of an encoder, the prompt or a part of it, one new token, or several new tokens over a cache that other
    /// tokens than the prompt's have filled, as a draft and its verification are.
    fn pass_names(&self) -> Vec<&'static str> {
        let mut names = vec![""; self.passes.len()];
        let mut models: Vec<(u64, u64)> = self.passes.iter().map(ForwardPass::model).collect();
        models.sort_unstable();
        models.dedup();
        for model in models {
            let is_own = |place: &usize| self.passes[*place].model() == model;
            let places: Vec<usize> = (0..self.passes.len()).filter(is_own).collect();
            let mut chunk = None;
            for (order, &place) in places.iter().enumerate() {
                let pass = &self.passes[place];
                let before = order
                    .checked_sub(1)
                    .map(|before| &self.passes[places[before]]);
                let next = places.get(order + 1).map(|&next| &self.passes[next]);
                // What filled the cache before the first recorded pass is not known: the prefix of a prompt, for one.
                let follows = before.is_none_or(|before| before.length() == pass.cached);
                names[place] = if pass.is_encoder {
                    "encoder"
                } else if pass.is_decode() {
                    chunk = None;
                    STEP
                } else if pass.cached == 0 {
                    chunk = Some(pass.new);
                    "prefill"
                } else if follows && pass.is_part_of_prompt(chunk, next) {
                    chunk = chunk.filter(|chunk| *chunk == pass.new);
                    "prefill"
                } else {
                    chunk = None;
                    CONTINUED_PASS
                };
            }
        }
        names
    }
}

/// Whether an operator or a kernel is attention, or a softmax that attention is made of.
fn has_attention(trace: &Trace) -> bool {
    let is_attention = |category| matches!(category, Category::Attention | Category::Softmax);
    let distinct = |names: &[StrId]| names.iter().copied().collect::<FxHashSet<_>>();
    let kernels = distinct(&trace.kernels.name);
    let hosts = distinct(&trace.hosts.name);
    kernels
        .into_iter()
        .any(|name| is_attention(classify(trace.text(name)).category))
        || hosts
            .into_iter()
            .any(|name| is_attention(operator_category(trace.text(name))))
}

type Lookups = BTreeMap<((u64, u64), u32), Vec<ForwardPass>>;

/// Embedding calls with `[batch, tokens]` ids by table and thread, in order of time.
fn read_lookups(trace: &Trace) -> Lookups {
    let hosts = &trace.hosts;
    let mut lookups = Lookups::new();
    let Some(name) = trace.strings.find(LOOKUP) else {
        return lookups;
    };
    let mut last_end = BTreeMap::<u32, i64>::new();
    for row in 0..hosts.len() {
        let thread = hosts.thread[row].0;
        let end = hosts.start[row].saturating_add(hosts.duration[row]);
        let last = last_end.entry(thread).or_insert(end);
        *last = (*last).max(end);
        if hosts.name[row] != name {
            continue;
        }
        let [Some(table), Some(ids)] = first_shapes(trace, hosts.inputs[row]) else {
            continue;
        };
        let (&[rows, width], &[batch, new]) = (table, ids) else {
            continue;
        };
        let [rows, width, batch, new] =
            [rows, width, batch, new].map(|dim| u64::try_from(dim).unwrap_or(0));
        if rows == 0 || batch == 0 || new == 0 {
            continue;
        }
        let of_table = lookups.entry(((rows, width), thread)).or_default();
        of_table.push(ForwardPass {
            start: hosts.start[row],
            end,
            batch,
            new,
            cached: 0,
            attentions: 0,
            width,
            is_encoder: false,
        });
    }
    for ((_, thread), rows) in &mut lookups {
        sort_ascending(rows, |row| row.start);
        let starts: Vec<i64> = rows.iter().skip(1).map(|row| row.start).collect();
        let ends = starts.into_iter().chain(last_end.get(thread).copied());
        for (row, end) in rows.iter_mut().zip(ends) {
            row.end = end;
        }
    }
    lookups
}

/// Counts the calls of attention of each pass. Returns how many keys they meet.
fn count_attention(trace: &Trace, thread: u32, passes: &mut [ForwardPass]) -> Vec<MetKeys> {
    let mut keys = vec![None; passes.len()];
    let Some(name) = trace.strings.find(ATTENTION) else {
        return keys;
    };
    let hosts = &trace.hosts;
    let rows = (0..hosts.len())
        .filter(|&row| hosts.name[row] == name && hosts.thread[row] == ThreadId(thread));
    for row in rows {
        let place = passes.partition_point(|pass| pass.start <= hosts.start[row]);
        let Some(pass) = place.checked_sub(1) else {
            continue;
        };
        let [Some(queries), Some(met)] = first_shapes(trace, hosts.inputs[row]) else {
            continue;
        };
        let (&[batch, _, new, _], &[_, _, met, _]) = (queries, met) else {
            continue;
        };
        // An image tower attends in shapes of its own.
        let own = u64::try_from(batch) == Ok(passes[pass].batch)
            && u64::try_from(new) == Ok(passes[pass].new);
        if let (true, Ok(met)) = (own, u64::try_from(met)) {
            passes[pass].attentions += 1;
            let (fewest, most) = keys[pass].unwrap_or((met, met));
            keys[pass] = Some((fewest.min(met), most.max(met)));
        }
    }
    keys
}

/// The first two arguments, where each is one tensor.
fn first_shapes(trace: &Trace, inputs: InputsId) -> [Option<&[i64]>; 2] {
    let mut arguments = trace.inputs.arguments(inputs);
    [(); 2].map(|()| Some(arguments.next()?.tensors().next()?.dims))
}

/// Adds the passes of models with the same vocabulary and a narrower table, as a draft model has. A table without attention between
/// lookups is a part of the same model.
fn add_draft_passes(
    trace: &Trace,
    (table, thread): ((u64, u64), u32),
    lookups: &Lookups,
    passes: &mut Vec<ForwardPass>,
) {
    let others = lookups
        .iter()
        .filter(|((other, on), _)| *on == thread && other.0 == table.0 && other.1 < table.1);
    for (_, drafts) in others {
        let mut all: Vec<ForwardPass> = passes.iter().chain(drafts).copied().collect();
        sort_ascending(&mut all, |pass| pass.start);
        for place in 1..all.len() {
            let next = all[place].start;
            all[place - 1].end = next;
        }
        let mut counted = all.clone();
        count_attention(trace, thread, &mut counted);
        if counted.iter().all(|pass| pass.attentions > 0) {
            *passes = all;
        }
    }
}

/// A call of attention in which tokens attend to each other alone.
struct SelfAttention {
    time: i64,
    batch: u64,
    tokens: u64,
}

/// Adds the passes of an encoder that looks no tokens up, such as one of sound: its tokens attend to each other, and the pass of the
/// decoder that follows attends to as many.
fn add_encoders(
    trace: &Trace,
    thread: u32,
    passes: &mut Vec<ForwardPass>,
    keys: &mut Vec<MetKeys>,
) {
    let calls = self_attention(trace, thread);
    let mut added = Vec::new();
    for (place, next) in passes.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| passes[before]);
        let from = before.map_or(i64::MIN, |before| before.start);
        let Some((_, tokens)) = keys[place].filter(|met| is_first_decoder_pass(next, *met)) else {
            continue;
        };
        let own: Vec<&SelfAttention> = calls
            .iter()
            .filter(|call| from < call.time && call.time < next.start && call.tokens == tokens)
            .collect();
        // Tokens that were looked up are a pass already.
        let is_known = before.is_some_and(|before| before.new == tokens);
        let Some(first) = own.first().filter(|_| !is_known) else {
            continue;
        };
        let encoder = ForwardPass {
            start: module_start(trace, thread, first.time, from),
            end: next.start,
            batch: first.batch,
            new: tokens,
            cached: 0,
            attentions: own.len() as u64,
            width: next.width,
            is_encoder: false,
        };
        added.push((place, encoder));
    }
    for (place, encoder) in added.into_iter().rev() {
        if let Some(before) = place.checked_sub(1) {
            passes[before].end = encoder.start;
        }
        passes.insert(place, encoder);
        keys.insert(place, Some((encoder.new, encoder.new)));
    }
}

/// Whether a pass meets its own new tokens alone, and elsewhere the more tokens of an encoder.
fn is_first_decoder_pass(pass: &ForwardPass, (fewest, most): (u64, u64)) -> bool {
    fewest == pass.new && most > fewest
}

fn self_attention(trace: &Trace, thread: u32) -> Vec<SelfAttention> {
    let hosts = &trace.hosts;
    let Some(name) = trace.strings.find(ATTENTION) else {
        return Vec::new();
    };
    let rows = (0..hosts.len())
        .filter(|&row| hosts.name[row] == name && hosts.thread[row] == ThreadId(thread));
    rows.filter_map(|row| {
        let [Some(&[batch, _, tokens, _]), Some(&[_, _, met, _])] =
            first_shapes(trace, hosts.inputs[row])
        else {
            return None;
        };
        (tokens == met && tokens > 1).then_some(SelfAttention {
            time: hosts.start[row],
            batch: u64::try_from(batch).ok()?,
            tokens: u64::try_from(tokens).ok()?,
        })
    })
    .collect()
}

/// When the outermost module that runs at a time began, of those that began after `from`; the time itself where no modules were recorded.
fn module_start(trace: &Trace, thread: u32, time: i64, from: i64) -> i64 {
    let hosts = &trace.hosts;
    let is_around = |row: &usize| {
        let start = hosts.start[*row];
        hosts.thread[*row] == ThreadId(thread)
            && hosts.kind[*row] == HostKind::PYTHON
            && from < start
            && start <= time
            && time < start.saturating_add(hosts.duration[*row])
            && module_name(trace.text(hosts.name[*row])).is_some()
    };
    let mut around = (0..hosts.len()).filter(is_around);
    around.next().map_or(time, |row| hosts.start[row])
}

/// A decoder behind an encoder meets the keys of the encoder's tokens in every pass, and those of its own cache, which begins empty: only
/// the latter are kept.
fn leave_cross_attention(passes: &mut [ForwardPass], keys: &mut [MetKeys]) {
    let mut encoded = None;
    for place in 0..passes.len() {
        let next = passes.get(place + 1).zip(keys.get(place + 1));
        let pass = passes[place];
        let is_encoder = |(next, met): (&ForwardPass, &MetKeys)| {
            met.is_some_and(|met| is_first_decoder_pass(next, met) && met.1 == pass.new)
        };
        if pass.new > 1 && next.is_some_and(is_encoder) {
            passes[place].is_encoder = true;
            encoded = Some(pass.new);
        } else if let (Some(tokens), Some((fewest, most))) = (encoded, keys[place]) {
            // A cache may have grown beyond the tokens of the encoder.
            let own = if fewest == tokens { most } else { fewest };
            if pass.new > 1 && most != tokens {
                encoded = None;
            } else {
                keys[place] = Some((own, own));
            }
        }
    }
}

/// A cache that grows shows its length as keys. One of fixed size shows its size in every pass: there, a pass with several
/// new tokens begins anew and one with a single token follows the pass before it.
fn fill_caches(passes: &mut [ForwardPass], keys: &[MetKeys]) {
    let most = |met: &MetKeys| met.map(|(_, most)| most);
    let first = keys.first().and_then(most);
    let is_fixed = passes.len() > 1 && first.is_some() && keys.iter().all(|met| most(met) == first);
    let mut length = 0;
    for (pass, keys) in passes.iter_mut().zip(keys) {
        let shown = keys.filter(|_| !is_fixed);
        let shown = shown.and_then(|(fewest, most)| match most.checked_sub(pass.new) {
            // Tokens that attend to each other alone have no cache; more keys elsewhere are those of an encoder.
            Some(_) if fewest <= pass.new => Some(0),
            cached => cached,
        });
        let follows = if pass.new == 1 { length } else { 0 };
        pass.cached = shown.unwrap_or(follows);
        length = pass.cached.saturating_add(pass.new);
    }
}

#[cfg(test)]
mod tests {
    use llmprof_record::trace::{Host, RawInputs, TraceBuilder};

    use super::*;

    /// A trace of calls `(time, name, shapes)` on one thread.
    fn trace(calls: &[(i64, &str, &str)]) -> Trace {
        let mut builder = TraceBuilder::default();
        let thread = builder.thread(1, 1);
        for &(start, name, dims) in calls {
            let inputs = builder.inputs(RawInputs {
                dims: dims.as_bytes(),
                ..RawInputs::default()
            });
            let name = builder.intern(name);
            builder.hosts.push(Host {
                start,
                duration: 5,
                name,
                thread,
                kind: HostKind::OPERATOR,
                inputs,
                ..Host::default()
            });
        }
        builder.finish()
    }

    fn shapes_of(trace: &Trace) -> Vec<(u64, u64, u64)> {
        let forward = ForwardPasses::of_trace(trace).unwrap();
        let passes = forward.passes.iter();
        passes
            .map(|pass| (pass.batch, pass.new, pass.cached))
            .collect()
    }

    #[test]
    fn a_growing_cache_shows_its_length() {
        let trace = trace(&[
            (0, LOOKUP, "[[1000, 64], [2, 8]]"),
            (10, ATTENTION, "[[2, 4, 8, 16], [2, 1, 8, 16]]"),
            (100, LOOKUP, "[[1000, 64], [2, 1]]"),
            (110, ATTENTION, "[[2, 4, 1, 16], [2, 1, 9, 16]]"),
            (120, ATTENTION, "[[2, 4, 1, 16], [2, 1, 9, 16]]"),
            (200, LOOKUP, "[[1000, 64], [2, 1]]"),
            (210, ATTENTION, "[[2, 4, 1, 16], [2, 1, 10, 16]]"),
        ]);
        assert_eq!(shapes_of(&trace), [(2, 8, 0), (2, 1, 8), (2, 1, 9)]);
        let forward = ForwardPasses::of_trace(&trace).unwrap();
        assert!(forward.generate_text());
        assert_eq!(forward.passes[1].attentions, 2);
        assert_eq!((forward.passes[0].end, forward.passes[2].end), (100, 215));
        assert_eq!(forward.begun_within(50, 200).len(), 1);
    }

    #[test]
    fn a_cache_of_fixed_size_is_followed() {
        let trace = trace(&[
            (0, LOOKUP, "[[1000, 64], [1, 8]]"),
            (10, ATTENTION, "[[1, 4, 8, 16], [1, 1, 64, 16]]"),
            (100, LOOKUP, "[[1000, 64], [1, 1]]"),
            (110, ATTENTION, "[[1, 4, 1, 16], [1, 1, 64, 16]]"),
            (200, LOOKUP, "[[1000, 64], [1, 1]]"),
            (210, ATTENTION, "[[1, 4, 1, 16], [1, 1, 64, 16]]"),
        ]);
        assert_eq!(shapes_of(&trace), [(1, 8, 0), (1, 1, 8), (1, 1, 9)]);
    }

    #[test]
    fn an_encoder_is_no_prefill_of_its_decoder() {
        let mut calls = vec![
            (0, LOOKUP, "[[1000, 64], [1, 7]]".to_owned()),
            (10, ATTENTION, "[[1, 4, 7, 16], [1, 4, 7, 16]]".to_owned()),
        ];
        for step in 1..4 {
            let start = 100 * step;
            let own = format!("[[1, 4, 1, 16], [1, 4, {step}, 16]]");
            let crossed = "[[1, 4, 1, 16], [1, 4, 7, 16]]".to_owned();
            calls.push((start, LOOKUP, "[[1000, 64], [1, 1]]".to_owned()));
            calls.push((start + 10, ATTENTION, own));
            calls.push((start + 20, ATTENTION, crossed));
        }
        let calls: Vec<(i64, &str, &str)> = calls
            .iter()
            .map(|(start, name, dims)| (*start, *name, dims.as_str()))
            .collect();
        let trace = trace(&calls);
        assert_eq!(
            shapes_of(&trace),
            [(1, 7, 0), (1, 1, 0), (1, 1, 1), (1, 1, 2)]
        );
        let forward = ForwardPasses::of_trace(&trace).unwrap();
        assert!(forward.generate_text());
        assert_eq!(forward.decoder_passes(), 3);
        let phases = forward.to_phases(&trace);
        let names = phases.windows.iter();
        let names: Vec<&str> = names
            .map(|window| phases.names[window.name].as_str())
            .collect();
        assert_eq!(names, ["encoder", "prefill", STEP, STEP]);
    }

    fn names_of(trace: &Trace) -> Vec<(String, bool)> {
        let phases = ForwardPasses::of_trace(trace).unwrap().to_phases(trace);
        let windows = phases.windows.iter();
        windows
            .map(|window| (phases.names[window.name].clone(), window.is_whole))
            .collect()
    }

    /// Passes of `(layers, new tokens, keys)`.
    fn trace_of_passes(passes: &[(usize, u64, u64)]) -> Trace {
        let mut calls = Vec::new();
        for (number, &(layers, new, keys)) in passes.iter().enumerate() {
            let start = 100 * number as i64;
            calls.push((start, LOOKUP, format!("[[1000, 64], [1, {new}]]")));
            for layer in 0..layers {
                let shapes = format!("[[1, 4, {new}, 16], [1, 4, {keys}, 16]]");
                calls.push((start + 10 + layer as i64, ATTENTION, shapes));
            }
        }
        let calls: Vec<(i64, &str, &str)> = calls
            .iter()
            .map(|(start, name, dims)| (*start, *name, dims.as_str()))
            .collect();
        trace(&calls)
    }

    #[test]
    fn drafts_and_their_verification_are_no_prefill() {
        let trace = trace_of_passes(&[
            (1, 24, 24),
            (3, 25, 25),
            (1, 2, 25),
            (3, 2, 26),
            (1, 2, 26),
            (3, 2, 27),
            (3, 1, 27),
        ]);
        let names = names_of(&trace);
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "prefill (1 layer)",
                "prefill",
                "multi-token pass (1 layer)",
                CONTINUED_PASS,
                "multi-token pass (1 layer)",
                CONTINUED_PASS,
                STEP,
            ]
        );
    }

    #[test]
    fn chunks_and_later_prompts_are_prefill() {
        let chunked = trace_of_passes(&[(3, 32, 32), (3, 32, 64), (3, 9, 73), (3, 1, 74)]);
        let conversation = trace_of_passes(&[(3, 40, 40), (3, 1, 41), (3, 12, 53), (3, 1, 54)]);
        for (trace, expected) in [
            (chunked, ["prefill", "prefill", "prefill", STEP]),
            (conversation, ["prefill", STEP, "prefill", STEP]),
        ] {
            let names: Vec<String> = names_of(&trace).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, expected);
        }
    }

    /// An LSTM looks one token up after another.
    #[test]
    fn without_attention_nothing_has_a_kv_cache() {
        let trace = trace_of_passes(&[(0, 1, 0), (0, 1, 0), (0, 1, 0)]);
        assert!(!ForwardPasses::of_trace(&trace).unwrap().generate_text());
    }

    fn phase_names(trace: &Trace) -> Vec<String> {
        let found = ForwardPasses::of_trace(trace).unwrap();
        let phases = found.to_phases(trace);
        let windows = phases.windows.iter();
        windows
            .map(|window| phases.names[window.name].clone())
            .collect()
    }

    /// An encoder of sound looks no tokens up; each clip has one, and a decoder that begins with an empty cache.
    #[test]
    fn each_encoder_of_sound_is_a_pass() {
        let crossed = "[[1, 4, 1, 16], [1, 4, 50, 16]]";
        let mut calls = Vec::new();
        for clip in 0..2 {
            let start = 1000 * clip;
            calls.push((
                start,
                ATTENTION,
                "[[1, 4, 50, 16], [1, 4, 50, 16]]".to_owned(),
            ));
            for step in 1..4 {
                let start = start + 100 * step;
                let own = format!("[[1, 4, 1, 16], [1, 4, {step}, 16]]");
                calls.push((start, LOOKUP, "[[1000, 64], [1, 1]]".to_owned()));
                calls.push((start + 10, ATTENTION, own));
                calls.push((start + 20, ATTENTION, crossed.to_owned()));
            }
        }
        let calls: Vec<(i64, &str, &str)> = calls
            .iter()
            .map(|(start, name, dims)| (*start, *name, dims.as_str()))
            .collect();
        let trace = trace(&calls);
        let clip = ["encoder", "prefill", STEP, STEP];
        assert_eq!(phase_names(&trace), [clip, clip].concat());
        let found = ForwardPasses::of_trace(&trace).unwrap();
        assert_eq!(found.decoder_passes(), 6);
        assert_eq!((found.passes[3].end, found.passes[4].start), (1000, 1000));
    }

    /// A draft model has a narrower table of the same tokens; a table without attention is none of a model.
    #[test]
    fn passes_of_a_draft_model_are_counted_apart() {
        let mut calls = Vec::new();
        for step in 0..3_i64 {
            let start = 200 * step;
            let (new, keys) = if step == 0 { (8, 8) } else { (2, 8 + step) };
            for (start, width) in [(start, 32), (start + 100, 64)] {
                calls.push((start, LOOKUP, format!("[[1000, {width}], [1, {new}]]")));
                calls.push((start + 5, LOOKUP, format!("[[1000, 8], [1, {new}]]")));
                let shapes = format!("[[1, 4, {new}, 16], [1, 4, {keys}, 16]]");
                calls.push((start + 10, ATTENTION, shapes));
            }
        }
        let calls: Vec<(i64, &str, &str)> = calls
            .iter()
            .map(|(start, name, dims)| (*start, *name, dims.as_str()))
            .collect();
        let trace = trace(&calls);
        assert_eq!(
            phase_names(&trace),
            [
                "prefill (1 layer)",
                "prefill",
                "multi-token pass (1 layer)",
                CONTINUED_PASS,
                "multi-token pass (1 layer)",
                CONTINUED_PASS,
            ]
        );
        assert_eq!(ForwardPasses::of_trace(&trace).unwrap().decoder_passes(), 6);
    }

    /// A decoder that runs over all of its tokens again in every pass, with the keys of an encoder beside its own.
    #[test]
    fn keys_of_an_encoder_are_no_cache() {
        let mut calls = vec![(0, LOOKUP, "[[1000, 64], [1, 7]]".to_owned())];
        for new in 1..4 {
            let start = 100 * new;
            calls.push((start, LOOKUP, format!("[[1000, 64], [1, {new}]]")));
            for keys in [new, 7] {
                let shapes = format!("[[1, 4, {new}, 16], [1, 4, {keys}, 16]]");
                calls.push((start + 10 + keys, ATTENTION, shapes));
            }
        }
        let calls: Vec<(i64, &str, &str)> = calls
            .iter()
            .map(|(start, name, dims)| (*start, *name, dims.as_str()))
            .collect();
        let forward = ForwardPasses::of_trace(&trace(&calls)).unwrap();
        assert!(!forward.generate_text(), "{forward:?}");
    }

    /// The same where the decoder attends to its own tokens by another operator, so that only the keys of the encoder are shown.
    #[test]
    fn keys_of_one_length_are_no_cache() {
        let trace = trace_of_passes(&[(0, 20, 0), (2, 1, 20), (2, 2, 20), (2, 3, 20)]);
        let forward = ForwardPasses::of_trace(&trace).unwrap();
        assert!(!forward.generate_text(), "{forward:?}");
    }

    #[test]
    fn a_last_pass_with_fewer_layers_was_cut() {
        let names = names_of(&trace_of_passes(&[(10, 1, 515), (10, 1, 516), (3, 1, 517)]));
        let whole: Vec<bool> = names.iter().map(|(_, is_whole)| *is_whole).collect();
        assert_eq!(whole, [true, true, false]);
    }

    #[test]
    fn positions_and_towers_are_left_out() {
        let trace = trace(&[
            (0, LOOKUP, "[[1000, 64], [1, 8]]"),
            (5, LOOKUP, "[[77, 64], [1, 8]]"),
            (10, ATTENTION, "[[1, 4, 256, 16], [1, 4, 256, 16]]"),
            (20, ATTENTION, "[[1, 4, 8, 16], [1, 4, 8, 16]]"),
        ]);
        let forward = ForwardPasses::of_trace(&trace).unwrap();
        assert_eq!((forward.passes.len(), forward.passes[0].attentions), (1, 1));
        // One pass over a text may be that of an encoder.
        assert!(!forward.generate_text());
    }

    #[test]
    fn without_shapes_there_are_none() {
        assert!(ForwardPasses::of_trace(&trace(&[(0, LOOKUP, "")])).is_none());
        assert!(ForwardPasses::of_trace(&trace(&[(0, LOOKUP, "[[10, 4], [7]]")])).is_none());
    }
}
