//! A trace while it is being read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

use hashbrown::HashMap;
use llmprof_units::Nanos;
use rayon::slice::ParallelSliceMut;
use rustc_hash::FxBuildHasher;

use super::ids::InputsId;
use super::inputs::Inputs;
use super::raw_inputs::{RawInputLists, RawInputs};
use super::redact::without_user;
use super::stacks::FrameList;
use super::{
    AutogradSequences, Collectives, Column, Copies, DeviceProperties, FrameId, GraphNodes,
    HostSamples, Hosts, Interner, Kernels, LaunchedKernels, MemoryEvents, Memsets, OperatorCalls,
    Ranges, StackFrame, StackFrames, StrId, Strings, Syncs, Thread, ThreadId, Threads, Trace,
};
use super::{nest, order};
use crate::issue::{Issue, IssueCode};
use crate::secrets::redact;

/// Collects the events of a foreign profile in any order; [`finish`](Self::finish) makes the [`Trace`].
#[derive(Default)]
pub struct TraceBuilder {
    /// Where names get their ids.
    pub strings: Interner,
    /// See [`Trace::hosts`].
    pub hosts: Hosts,
    /// See [`Trace::kernels`].
    pub kernels: Kernels,
    /// See [`Trace::copies`].
    pub copies: Copies,
    /// See [`Trace::memsets`].
    pub memsets: Memsets,
    /// See [`Trace::ranges`].
    pub ranges: Ranges,
    /// See [`Trace::memory`].
    pub memory: MemoryEvents,
    /// See [`Trace::syncs`].
    pub syncs: Syncs,
    /// See [`Trace::graph_nodes`].
    pub graph_nodes: GraphNodes,
    /// See [`Trace::operator_calls`].
    pub operator_calls: OperatorCalls,
    /// See [`Trace::collectives`].
    pub collectives: Collectives,
    /// See [`Trace::autograd_sequences`].
    pub autograd_sequences: AutogradSequences,
    /// See [`Trace::launched_kernels`].
    pub launched_kernels: LaunchedKernels,
    /// See [`Trace::host_samples`].
    pub host_samples: HostSamples,
    /// See [`Trace::devices`].
    pub devices: Vec<DeviceProperties>,
    /// See [`Trace::clock_origin_ns`].
    pub clock_origin_ns: Option<Nanos>,
    /// See [`Trace::events_read`].
    pub events_read: u64,
    /// See [`Trace::metadata`].
    pub metadata: BTreeMap<String, String>,
    /// See [`Trace::issues`].
    pub issues: Vec<Issue>,
    /// Whether starts and durations were rounded apart, so that inner slices may end behind outer ones.
    pub are_ends_rounded: bool,
    inputs: RawInputLists,
    /// Those of a trace that was finished before.
    finished_inputs: Option<Inputs>,
    threads: ThreadList,
    frames: FrameList,
}

/// What a tool calls a thread: numbers, or a text in place of either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct ThreadKey {
    process: i64,
    thread: i64,
    process_label: StrId,
    label: StrId,
}

#[derive(Default)]
struct ThreadList {
    keys: Vec<ThreadKey>,
    lookup: HashMap<ThreadKey, u32, FxBuildHasher>,
    /// The thread of the row before, which is mostly the thread of this one.
    last: Option<(ThreadKey, ThreadId)>,
    names: HashMap<ThreadKey, StrId, FxBuildHasher>,
    process_names: HashMap<(i64, StrId), StrId, FxBuildHasher>,
}

impl ThreadList {
    fn id(&mut self, key: ThreadKey) -> ThreadId {
        if let Some((last, id)) = self.last
            && last == key
        {
            return id;
        }
        let keys = &mut self.keys;
        let number = *self.lookup.entry(key).or_insert_with(|| {
            keys.push(key);
            // 0 is "none".
            keys.len() as u32
        });
        let id = ThreadId(number);
        self.last = Some((key, id));
        id
    }

    /// The threads with their names, "none" first, ids as they were given out.
    fn rows(&self) -> Threads {
        let mut threads = Threads::default();
        threads.push(Thread::default());
        for key in &self.keys {
            let process_name = self.process_names.get(&(key.process, key.process_label));
            threads.push(Thread {
                process: key.process,
                thread: key.thread,
                process_label: key.process_label,
                label: key.label,
                process_name: process_name.copied().unwrap_or_default(),
                name: self.names.get(key).copied().unwrap_or_default(),
            });
        }
        threads
    }
}

/// The ids that strings and threads of a builder got in the one that took it in.
pub struct Renumbering {
    strings: Vec<StrId>,
    threads: Vec<ThreadId>,
}

impl Renumbering {
    pub(crate) fn string(&self, old: StrId) -> StrId {
        self.strings[old.0 as usize]
    }

    pub(crate) fn thread(&self, old: ThreadId) -> ThreadId {
        self.threads[old.0 as usize]
    }
}

/// Keeps the name that sorts last, so that the choice does not depend on the order of events.
fn keep_name<K: std::hash::Hash + Eq, S: BuildHasher>(
    names: &mut HashMap<K, StrId, S>,
    strings: &Interner,
    key: K,
    name: StrId,
) {
    let kept = names.entry(key).or_insert(name);
    if strings.get(name) > strings.get(*kept) {
        *kept = name;
    }
}

impl TraceBuilder {
    /// A finished trace, to which events without inputs are added.
    pub(crate) fn reopen(trace: Trace) -> Self {
        let mut builder = Self {
            hosts: trace.hosts,
            kernels: trace.kernels,
            copies: trace.copies,
            memsets: trace.memsets,
            ranges: trace.ranges,
            memory: trace.memory,
            syncs: trace.syncs,
            graph_nodes: trace.graph_nodes,
            operator_calls: trace.operator_calls,
            collectives: trace.collectives,
            autograd_sequences: trace.autograd_sequences,
            launched_kernels: trace.launched_kernels,
            devices: trace.devices,
            clock_origin_ns: trace.clock_origin_ns,
            events_read: trace.events_read,
            metadata: trace.metadata,
            issues: trace.issues,
            finished_inputs: Some(trace.inputs),
            ..Self::default()
        };
        // In their order strings, threads and frames get the numbers that they have.
        for text in trace.strings.iter() {
            builder.strings.intern(text);
        }
        for thread in trace.threads.rows().skip(1) {
            let key = ThreadKey {
                process: thread.process,
                thread: thread.thread,
                process_label: thread.process_label,
                label: thread.label,
            };
            builder.threads.id(key);
            let process = (thread.process, thread.process_label);
            for (name, is_process) in [(thread.name, false), (thread.process_name, true)] {
                if name != StrId::EMPTY && is_process {
                    builder.threads.process_names.insert(process, name);
                } else if name != StrId::EMPTY {
                    builder.threads.names.insert(key, name);
                }
            }
        }
        for frame in trace.stack_frames.rows().skip(1) {
            builder.frame(frame);
        }
        builder.host_samples = trace.host_samples;
        builder
    }

    /// The threads so far, by id, with their names.
    pub(crate) fn thread_rows(&self) -> Threads {
        self.threads.rows()
    }

    /// Whether no event table has a row.
    pub(crate) fn has_no_rows(&self) -> bool {
        self.hosts.is_empty()
            && self.kernels.is_empty()
            && self.copies.is_empty()
            && self.memsets.is_empty()
            && self.ranges.is_empty()
    }

    /// The id of `text`.
    pub fn intern(&mut self, text: &str) -> StrId {
        self.strings.intern(text)
    }

    /// The id of a thread that has numbers.
    pub fn thread(&mut self, process: i64, thread: i64) -> ThreadId {
        self.threads.id(ThreadKey {
            process,
            thread,
            ..ThreadKey::default()
        })
    }

    /// The id of a thread of which the tool wrote a text in place of a number.
    pub(crate) fn labelled_thread(
        &mut self,
        process: Result<i64, &str>,
        thread: Result<i64, &str>,
    ) -> ThreadId {
        let key = self.thread_key(process, thread);
        self.threads.id(key)
    }

    /// The process and thread numbers behind an id.
    pub(crate) fn thread_numbers(&self, id: ThreadId) -> (i64, i64) {
        let index = (id.0 as usize).checked_sub(1);
        index
            .and_then(|index| self.threads.keys.get(index))
            .map_or((-1, -1), |key| (key.process, key.thread))
    }

    /// Says what a thread is called. It need not have events, before or after.
    pub fn name_thread(
        &mut self,
        process: Result<i64, &str>,
        thread: Result<i64, &str>,
        name: &str,
    ) {
        let key = self.thread_key(process, thread);
        let name = self.strings.intern(name);
        keep_name(&mut self.threads.names, &self.strings, key, name);
    }

    /// Says what a process is called.
    pub(crate) fn name_process(&mut self, process: Result<i64, &str>, name: &str) {
        let key = self.thread_key(process, Ok(0));
        let name = self.strings.intern(name);
        keep_name(
            &mut self.threads.process_names,
            &self.strings,
            (key.process, key.process_label),
            name,
        );
    }

    /// The id of a list of operator inputs. The texts are parsed once per distinct list, in [`finish`](Self::finish).
    pub fn inputs(&mut self, raw: RawInputs<'_>) -> InputsId {
        self.inputs.id(raw)
    }

    /// The id of a frame of a sampled stack. Its `parent` was given out before.
    pub fn frame(&mut self, frame: StackFrame) -> FrameId {
        self.frames.id(frame)
    }

    fn thread_key(&mut self, process: Result<i64, &str>, thread: Result<i64, &str>) -> ThreadKey {
        let (process, process_label) = self.number_or_label(process);
        let (thread, label) = self.number_or_label(thread);
        ThreadKey {
            process,
            thread,
            process_label,
            label,
        }
    }

    fn number_or_label(&mut self, id: Result<i64, &str>) -> (i64, StrId) {
        match id {
            Ok(number) => (number, StrId::EMPTY),
            Err(text) => (-1, self.strings.intern(text)),
        }
    }

    /// Adds all that another builder collected, renumbering its ids. Parts of one file that were read at the same
    /// time come together here.
    pub fn absorb(&mut self, mut other: Self) -> Renumbering {
        let strings = self.strings.absorb(&other.strings);
        let string = |id: StrId| strings[id.0 as usize];
        let inputs = self.inputs.absorb(&other.inputs);
        let key = |key: ThreadKey| ThreadKey {
            process_label: string(key.process_label),
            label: string(key.label),
            ..key
        };
        let mut threads = vec![ThreadId::NONE];
        threads.extend(
            other
                .threads
                .keys
                .iter()
                .map(|&old| self.threads.id(key(old))),
        );
        for (&old, &name) in &other.threads.names {
            keep_name(
                &mut self.threads.names,
                &self.strings,
                key(old),
                string(name),
            );
        }
        for (&(process, label), &name) in &other.threads.process_names {
            keep_name(
                &mut self.threads.process_names,
                &self.strings,
                (process, string(label)),
                string(name),
            );
        }

        let frames = self.frames.absorb(&other.frames, string);
        other.renumber(&strings, &inputs, &threads, &frames);
        self.hosts.append(other.hosts);
        self.kernels.append(other.kernels);
        self.copies.append(other.copies);
        self.memsets.append(other.memsets);
        self.ranges.append(other.ranges);
        self.memory.append(other.memory);
        self.syncs.append(other.syncs);
        self.graph_nodes.append(other.graph_nodes);
        self.operator_calls.append(other.operator_calls);
        self.collectives.append(other.collectives);
        self.autograd_sequences.append(other.autograd_sequences);
        self.launched_kernels.append(other.launched_kernels);
        self.host_samples.append(other.host_samples);
        self.devices.append(&mut other.devices);
        self.clock_origin_ns = self.clock_origin_ns.or(other.clock_origin_ns);
        self.events_read += other.events_read;
        self.metadata.append(&mut other.metadata);
        self.issues.append(&mut other.issues);
        Renumbering { strings, threads }
    }

    fn renumber(
        &mut self,
        strings: &[StrId],
        inputs: &[InputsId],
        threads: &[ThreadId],
        frames: &[FrameId],
    ) {
        for column in [
            &mut self.hosts.name,
            &mut self.kernels.name,
            &mut self.kernels.mangled,
            &mut self.copies.name,
            &mut self.memsets.name,
            &mut self.ranges.name,
            &mut self.ranges.domain,
            &mut self.syncs.name,
            &mut self.graph_nodes.ranges,
            &mut self.operator_calls.kind,
            &mut self.operator_calls.dtype,
            &mut self.collectives.name,
            &mut self.collectives.process_group,
            &mut self.collectives.group_ranks,
            &mut self.collectives.dtype,
            &mut self.launched_kernels.kernel,
            &mut self.host_samples.call,
        ] {
            renumber_strings(column, strings);
        }
        for id in self.hosts.inputs.make_mut() {
            *id = inputs[id.0 as usize];
        }
        for column in [
            &mut self.hosts.thread,
            &mut self.ranges.thread,
            &mut self.memory.thread,
            &mut self.graph_nodes.thread,
            &mut self.collectives.thread,
            &mut self.host_samples.thread,
            &mut self.host_samples.gil_holder,
        ] {
            for id in column.make_mut() {
                *id = threads[id.0 as usize];
            }
        }
        for id in self.host_samples.stack.make_mut() {
            *id = frames[id.0 as usize];
        }
    }

    /// Which strings some row refers to: names of threads without events, for one, are not.
    fn used_strings(&self, threads: &Threads, inputs: &mut Inputs) -> Vec<bool> {
        let mut used = vec![false; self.strings.len()];
        used[0] = true;
        let of_rows: [&Column<StrId>; 23] = [
            &self.hosts.name,
            &self.kernels.name,
            &self.kernels.mangled,
            &self.copies.name,
            &self.memsets.name,
            &self.ranges.name,
            &self.ranges.domain,
            &self.syncs.name,
            &self.graph_nodes.ranges,
            &self.operator_calls.kind,
            &self.operator_calls.dtype,
            &self.collectives.name,
            &self.collectives.process_group,
            &self.collectives.group_ranks,
            &self.collectives.dtype,
            &self.launched_kernels.kernel,
            &self.host_samples.call,
            &self.frames.frames.function,
            &self.frames.frames.file,
            &threads.process_label,
            &threads.label,
            &threads.process_name,
            &threads.name,
        ];
        let of_inputs = inputs.string_columns();
        for column in of_rows
            .into_iter()
            .chain(of_inputs.iter().map(|column| &**column))
        {
            for id in column.iter() {
                used[id.0 as usize] = true;
            }
        }
        used
    }

    /// The frames with their final strings; nothing where no stack was sampled. The map gives the new id of an old one.
    fn sorted_frames(&mut self, strings: &[StrId]) -> (StackFrames, Vec<FrameId>) {
        let read = std::mem::take(&mut self.frames);
        if read.frames.len() == 1 {
            return (StackFrames::default(), vec![FrameId::NONE]);
        }
        // Paths that differed by the name of a user are equal now, and so may be frames.
        let mut renamed = FrameList::default();
        let first = renamed.absorb(&read, |id| strings[id.0 as usize]);
        let (frames, second) = renamed.sorted();
        let map = first.iter().map(|id| second[id.0 as usize]).collect();
        (frames, map)
    }

    /// Sorts strings, inputs, threads and events into the order that a [`Trace`] promises.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        let (mut inputs, input_map, unreadable) = match self.finished_inputs.take() {
            Some(inputs) => {
                let same = (0..inputs.len() as u32).map(InputsId).collect();
                (inputs, same, 0)
            }
            None => self.inputs.finish(&mut self.strings),
        };
        if unreadable > 0 {
            self.issues
                .push(Issue::warning(IssueCode::TraceInputsUnreadable).counting(unreadable));
        }
        let mut threads = self.threads.rows();
        let used = self.used_strings(&threads, &mut inputs);
        let (strings, string_map) = sorted_strings(&self.strings, &used);
        self.strings = Interner::default();
        for column in [
            &mut threads.process_label,
            &mut threads.label,
            &mut threads.process_name,
            &mut threads.name,
        ] {
            renumber_strings(column, &string_map);
        }
        let thread_map = order::sort_threads(&mut threads);
        for column in inputs.string_columns() {
            renumber_strings(column, &string_map);
        }
        let (stack_frames, frame_map) = self.sorted_frames(&string_map);
        self.renumber(&string_map, &input_map, &thread_map, &frame_map);
        rayon::scope(|scope| {
            scope.spawn(|_| order::sort_hosts(&mut self.hosts));
            scope.spawn(|_| order::sort_kernels(&mut self.kernels));
            scope.spawn(|_| order::sort_copies(&mut self.copies));
            scope.spawn(|_| order::sort_memsets(&mut self.memsets));
            scope.spawn(|_| order::sort_ranges(&mut self.ranges));
            scope.spawn(|_| order::sort_memory(&mut self.memory));
            scope.spawn(|_| order::sort_syncs(&mut self.syncs));
            scope.spawn(|_| order::sort_graph_nodes(&mut self.graph_nodes));
            scope.spawn(|_| order::sort_operator_calls(&mut self.operator_calls));
            scope.spawn(|_| order::sort_collectives(&mut self.collectives));
            scope.spawn(|_| order::sort_autograd_sequences(&mut self.autograd_sequences));
            scope.spawn(|_| order::sort_launched_kernels(&mut self.launched_kernels));
            scope.spawn(|_| order::sort_host_samples(&mut self.host_samples));
        });
        if self.are_ends_rounded {
            nest::nest_hosts(&mut self.hosts);
            nest::nest_ranges(&mut self.ranges);
            order::sort_hosts(&mut self.hosts);
            order::sort_ranges(&mut self.ranges);
        }
        self.devices
            .sort_by(|a, b| (a.id, &a.name).cmp(&(b.id, &b.name)));
        self.devices.dedup();
        Trace {
            strings,
            inputs,
            threads,
            hosts: self.hosts,
            kernels: self.kernels,
            copies: self.copies,
            memsets: self.memsets,
            ranges: self.ranges,
            memory: self.memory,
            syncs: self.syncs,
            graph_nodes: self.graph_nodes,
            operator_calls: self.operator_calls,
            collectives: self.collectives,
            autograd_sequences: self.autograd_sequences,
            launched_kernels: self.launched_kernels,
            stack_frames,
            host_samples: self.host_samples,
            devices: self.devices,
            clock_origin_ns: self.clock_origin_ns,
            events_read: self.events_read,
            metadata: self.metadata,
            issues: self.issues,
        }
    }
}

fn renumber_strings(column: &mut Column<StrId>, map: &[StrId]) {
    for id in column.make_mut() {
        *id = map[id.0 as usize];
    }
}

/// Every string without names of users in paths, and without what looks like a credential.
fn clean_strings(interner: &Interner) -> Vec<Cow<'_, str>> {
    let texts = (0..interner.len()).map(|index| interner.get(StrId(index as u32)));
    let mut clean: Vec<_> = texts.map(without_user).collect();
    // One look at all of them is cheaper than one at each, and nearly always enough.
    if let Cow::Owned(_) = redact(&clean.join("\n")) {
        for text in &mut clean {
            if let Cow::Owned(other) = redact(text) {
                *text = Cow::Owned(other);
            }
        }
    }
    clean
}

/// Sorts the strings that are used; the map gives the new id of an old one.
fn sorted_strings(interner: &Interner, used: &[bool]) -> (Strings, Vec<StrId>) {
    let clean = clean_strings(interner);
    let mut order: Vec<u32> = (0..clean.len() as u32)
        .filter(|&id| used[id as usize])
        .collect();
    order.par_sort_unstable_by(|&a, &b| clean[a as usize].cmp(&clean[b as usize]));
    let mut map = vec![StrId::EMPTY; clean.len()];
    let mut distinct: Vec<u32> = Vec::new();
    for &old in &order {
        let same = distinct
            .last()
            .is_some_and(|&last| clean[last as usize] == clean[old as usize]);
        if !same {
            distinct.push(old);
        }
        map[old as usize] = StrId(distinct.len() as u32 - 1);
    }
    let strings = Strings::from_sorted(distinct.iter().map(|&old| &*clean[old as usize]));
    (strings, map)
}
