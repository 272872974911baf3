//! What devices did.

use llmprof_wire::{Copy, Kernel, Memset, Sync};

use super::Process;
use crate::import::wire::names;
use crate::kernel_name::demangle::demangle;
use crate::trace::{self, StrId};

/// Where and when on a device.
struct WirePlace {
    start: i64,
    end: i64,
    device: u32,
    context: u32,
    correlation: u32,
    graph: u32,
    graph_node: u64,
}

struct PlacedWork {
    start: i64,
    duration: i64,
    device: u32,
    context: u32,
    correlation: u32,
    graph: u32,
    graph_node: u64,
}

impl Process<'_> {
    /// None for what may have wrong times.
    fn placed(&mut self, place: &WirePlace) -> Option<PlacedWork> {
        self.builder.events_read += 1;
        if place.graph_node != 0 && !self.edges.hold(place.start, place.end) {
            self.past_edge += 1;
            return None;
        }
        self.see(place.end);
        self.backwards += u64::from(place.end < place.start);
        let graph_node = self.node(place.graph_node);
        if place.graph_node != 0 {
            self.used_nodes.insert(place.graph_node);
        }
        Some(PlacedWork {
            start: place.start,
            duration: place.end.saturating_sub(place.start).max(0),
            device: self
                .devices
                .get(&place.device)
                .copied()
                .unwrap_or(place.device),
            context: self.context(place.context),
            correlation: self.correlation(place.correlation),
            graph: self.graph(place.graph),
            graph_node,
        })
    }

    pub(super) fn kernel(&mut self, kernel: &Kernel) {
        let Some(at) = self.placed(&WirePlace {
            start: kernel.start,
            end: kernel.end,
            device: kernel.device,
            context: kernel.context,
            correlation: kernel.correlation,
            graph: kernel.graph,
            graph_node: kernel.graph_node,
        }) else {
            return;
        };
        let (name, mangled) = self.kernel_name(kernel.name);
        self.builder.kernels.push(trace::Kernel {
            start: at.start,
            duration: at.duration,
            name,
            mangled,
            device: at.device,
            context: at.context,
            stream: kernel.stream,
            correlation: at.correlation,
            external: 0,
            graph: at.graph,
            graph_node: at.graph_node,
            grid: kernel.grid,
            block: kernel.block,
            registers: u32::from(kernel.registers),
            static_shared: kernel.static_shared,
            dynamic_shared: kernel.dynamic_shared,
            occupancy: f32::NAN,
        });
    }

    fn kernel_name(&mut self, id: u32) -> (StrId, StrId) {
        let Some(name) = self.texts.get_mut(&id) else {
            self.unnamed += 1;
            return (self.builder.intern("(unnamed kernel)"), StrId::EMPTY);
        };
        if let Some(kernel) = name.kernel {
            return (kernel, name.text);
        }
        let text = self.builder.strings.get(name.text).to_owned();
        let kernel = match demangle(&text) {
            Some(demangled) => self.builder.intern(&demangled),
            None => name.text,
        };
        name.kernel = Some(kernel);
        (kernel, name.text)
    }

    pub(super) fn copy(&mut self, copy: &Copy) {
        let Some(at) = self.placed(&WirePlace {
            start: copy.start,
            end: copy.end,
            device: copy.device,
            context: copy.context,
            correlation: copy.correlation,
            graph: copy.graph,
            graph_node: copy.graph_node,
        }) else {
            return;
        };
        let (kind, direction) = names::copy_kind(copy.kind);
        let (source, from) = names::memory_kind(copy.source);
        let (target, to) = names::memory_kind(copy.target);
        let name = format!("Memcpy {direction} ({from} -> {to})");
        self.builder.copies.push(trace::Copy {
            start: at.start,
            duration: at.duration,
            name: self.builder.strings.intern(&name),
            kind,
            source,
            target,
            device: at.device,
            context: at.context,
            stream: copy.stream,
            correlation: at.correlation,
            external: 0,
            graph: at.graph,
            graph_node: at.graph_node,
            bytes: copy.bytes,
        });
    }

    pub(super) fn memset(&mut self, memset: &Memset) {
        let Some(at) = self.placed(&WirePlace {
            start: memset.start,
            end: memset.end,
            device: memset.device,
            context: memset.context,
            correlation: memset.correlation,
            graph: memset.graph,
            graph_node: memset.graph_node,
        }) else {
            return;
        };
        let (target, kind) = names::memory_kind(memset.target);
        let name = format!("Memset ({kind})");
        self.builder.memsets.push(trace::Memset {
            start: at.start,
            duration: at.duration,
            name: self.builder.strings.intern(&name),
            target,
            device: at.device,
            context: at.context,
            stream: memset.stream,
            correlation: at.correlation,
            external: 0,
            graph: at.graph,
            graph_node: at.graph_node,
            bytes: memset.bytes,
        });
    }

    pub(super) fn sync(&mut self, sync: &Sync) {
        let (kind, name) = names::sync_kind(sync.kind);
        let Some(at) = self.placed(&WirePlace {
            start: sync.start,
            end: sync.end,
            device: 0,
            context: sync.context,
            correlation: sync.correlation,
            graph: 0,
            graph_node: 0,
        }) else {
            return;
        };
        self.builder.syncs.push(trace::Sync {
            start: at.start,
            duration: at.duration,
            name: self.builder.strings.intern(name),
            kind,
            device: at.device,
            context: at.context,
            stream: sync.stream,
            correlation: at.correlation,
            external: 0,
        });
    }
}
