//! Collectives: PyTorch writes their facts into the arguments of `record_param_comms`, Kineto copies them to the kernels.
//! Older versions have an annotation of the backend alone (`nccl:all_reduce`), whose shapes are those of the message.

use serde_json::Value;

use super::event::CollectiveArgs;
use super::rows::{Part, Placed};
use crate::import::torch_names::is_collective;
use crate::trace::{Collective, StrId, ThreadId};

impl Part {
    /// Adds the collective that an operator or a kernel describes, if it does.
    pub(super) fn collective(&mut self, placed: &Placed<'_, '_>, thread: ThreadId, at: u64) {
        let args = &placed.event.args;
        let facts = &args.collective;
        if facts.name.is_none() {
            return;
        }
        let ranks = facts.group_ranks.strip_prefix(b"\"");
        let ranks = ranks.and_then(|ranks| ranks.strip_suffix(b"\""));
        let ranks = String::from_utf8_lossy(ranks.unwrap_or(facts.group_ranks));
        let on_device = thread == ThreadId::NONE;
        let row = Collective {
            start: placed.start,
            duration: placed.duration,
            thread,
            correlation: if on_device { args.correlation } else { 0 },
            name: self.text(facts.name, at),
            process_group: self.process_group(facts, at),
            group_ranks: self.builder.intern(&ranks),
            group_size: facts.group_size,
            sequence: facts.sequence.unwrap_or(-1),
            in_elements: facts.in_elements.unwrap_or(-1),
            out_elements: facts.out_elements.unwrap_or(-1),
            dtype: self.text(facts.dtype, at),
        };
        self.builder.collectives.push(row);
    }

    /// The name of a process group with what the program calls it: `7 mesh_tp`. PyTorch numbers groups, and describes those that
    /// the program does not as `default_pg` and `undefined`.
    fn process_group(&mut self, facts: &CollectiveArgs<'_>, at: u64) -> StrId {
        let described = facts
            .group_description
            .filter(|text| !matches!(text.raw, b"" | b"default_pg" | b"undefined"));
        let (Some(name), Some(description)) = (facts.group, described) else {
            return self.text(facts.group, at);
        };
        let (name, description) = (name.decode().0, description.decode().0);
        self.builder.intern(&format!("{name} {description}"))
    }

    /// Adds the collective that an annotation is, if it is one.
    pub(super) fn annotated_collective(
        &mut self,
        placed: &Placed<'_, '_>,
        thread: ThreadId,
        at: u64,
    ) {
        let name = self.builder.strings.get(placed.name);
        if !is_collective(name) {
            return;
        }
        if placed.event.args.collective.name.is_some() {
            return self.collective(placed, thread, at);
        }
        let dtype = first_text(placed.event.args.inputs.dtypes);
        let row = Collective {
            start: placed.start,
            duration: placed.duration,
            thread,
            name: placed.name,
            sequence: -1,
            in_elements: element_count(placed.event.args.inputs.dims).unwrap_or(-1),
            out_elements: -1,
            dtype: dtype.map_or(StrId::EMPTY, |dtype| self.builder.intern(&dtype)),
            ..Collective::default()
        };
        self.builder.collectives.push(row);
    }
}

fn first_text(list: &[u8]) -> Option<String> {
    let list: Vec<Value> = serde_json::from_slice(list).ok()?;
    list.first()?.as_str().map(str::to_owned)
}

/// Elements of all tensors of `[[512, 512]]` or `[[[16], [8, 2]]]`; nothing for no list, or one without tensors.
fn element_count(dims: &[u8]) -> Option<i64> {
    fn of(value: &Value) -> Option<i64> {
        let list = value.as_array()?;
        if list.iter().all(Value::is_number) {
            let mut dims = list.iter().map(Value::as_i64);
            return dims.try_fold(1_i64, |all, dim| {
                all.checked_mul(dim.filter(|dim| *dim >= 0)?)
            });
        }
        let mut parts = list.iter().map(of);
        parts.try_fold(0_i64, |all, part| all.checked_add(part?))
    }
    let lists: Vec<Value> = serde_json::from_slice(dims).ok()?;
    let tensors = lists
        .iter()
        .filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
    let mut counts = tensors.map(of).peekable();
    counts.peek()?;
    counts.try_fold(0_i64, |all, count| all.checked_add(count?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_messages() {
        assert_eq!(element_count(b"[[394241]]"), Some(394_241));
        assert_eq!(element_count(b"[[512, 512], []]"), Some(262_144));
        assert_eq!(element_count(b"[[[16], [8, 2]]]"), Some(32));
        for none in [
            &b"[[], []]"[..],
            b"",
            b"[[-1]]",
            b"[[\"a\"]]",
            b"[[9223372036854775807, 3]]",
        ] {
            assert_eq!(element_count(none), None, "{none:?}");
        }
    }
}
