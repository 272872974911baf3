//! Snapshots of torch's caching allocators: `torch.cuda.memory._dump_snapshot`, a pickle.
//!
//! The pickle is read by a machine that builds plain data and cannot execute anything ([`pickle`]).

mod frames;
pub mod pickle;
mod snapshot;

use super::{ImportError, Importer, Profile, Source};
use crate::{
    issue::{Issue, IssueCode},
    memory::MemoryHistory,
};

pub(crate) const IMPORTER: Importer = Importer {
    name: "torch_memory",
    sniff,
    read: |source| read(source).map(|history| Profile::Memory(Box::new(history))),
};

const FORMAT: &str = "a memory snapshot of torch";

/// A dictionary that begins with `segments`, in any protocol. The name follows within a few bytes of framing.
fn sniff(head: &[u8]) -> bool {
    let start = &head[..head.len().min(64)];
    let is_pickle = match start {
        [0x80, protocol, ..] => *protocol <= 5,
        [b'(', b'd', ..] | [b'}', ..] => true,
        _ => false,
    };
    is_pickle && memchr::memmem::find(start, b"segments").is_some()
}

pub fn read(source: &Source) -> Result<MemoryHistory, ImportError> {
    let bytes = source.bytes();
    let pickle = pickle::load(bytes, &pickle::Limits::default())
        .map_err(|error| source.unusable(FORMAT, error.to_string()))?;
    let history = snapshot::read(&pickle.heap, pickle.root).filter(|_| !pickle.heap.is_spent());
    if pickle.heap.is_spent() {
        let limit = pickle::STEPS_PER_BYTE;
        let what = format!(
            "it names the same values so often that reading it takes more than {limit} steps a byte"
        );
        return Err(source.unusable(FORMAT, what));
    }
    let mut history =
        history.ok_or_else(|| source.unusable(FORMAT, "it has no list of segments"))?;
    history.issues.extend(source.issues().iter().cloned());
    if pickle.end < bytes.len() {
        let left = (bytes.len() - pickle.end) as u64;
        history
            .issues
            .push(Issue::warning(IssueCode::TorchMemoryTrailingBytes).counting(left));
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_known_by_content() {
        assert!(sniff(
            b"\x80\x04\x95\0\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]"
        ));
        assert!(sniff(b"(dp0\nVsegments\np1\n(lp2\n"));
        assert!(sniff(b"}q\0(U\x08segments"));
        assert!(!sniff(
            b"\x80\x04\x95\0\0\0\0\0\0\0\0}\x94(\x8c\x05state\x94]"
        ));
        assert!(!sniff(b"{\"segments\": []}"));
        assert!(!sniff(b""));
    }
}
