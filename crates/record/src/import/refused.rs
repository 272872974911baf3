//! Formats that are known and not read: what they are, and what to export instead.

use memchr::memmem;

/// A format that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) format: &'static str,
    /// What holds the same and is read.
    pub(super) instead: &'static str,
}

const CHAKRA: Refused = Refused {
    format: "a Chakra execution trace",
    instead: "the Kineto trace of the same run (`prof.export_chrome_trace`, or the device trace that was recorded with it): an execution \
              trace has operators and their dependencies, and no device times",
};
const PFTRACE: Refused = Refused {
    format: "a Perfetto protobuf",
    instead: "JSON: `traceconv json FILE`; of rocprofv3, `--output-format json`",
};

/// What content that no importer knows is, by its beginning.
pub(super) fn refused_format(head: &[u8]) -> Option<Refused> {
    let has = |text: &[u8]| memmem::find(head, text).is_some();
    if head.trim_ascii_start().starts_with(b"{") {
        // PyTorch's ExecutionTraceObserver: `"schema": "1.1.1-chakra.0.0.4"`.
        return (has(b"chakra") && has(b"\"nodes\"")
            || has(b"\"schema\": \"1.") && has(b"\"ctrl_deps\""))
        .then_some(CHAKRA);
    }
    if !is_length_delimited(head) {
        return None;
    }
    // Chakra's protobuf begins with a GlobalMetadata message, whose field 1 is a version.
    if has(b"chakra") || has(b"comm_size") && has(b"num_ops") {
        return Some(CHAKRA);
    }
    // Trace: field 1 is a TracePacket, which a clock snapshot or a sequence id tells.
    (head[0] == 0x0a && (has(b"perfetto") || has(b"trace_uuid"))).then_some(PFTRACE)
}

/// Whether the bytes begin with a field that has a length, other than 0.
fn is_length_delimited(head: &[u8]) -> bool {
    // Chakra's messages have their own length in front, others begin with the tag of a field.
    let length = match head {
        [tag, rest @ ..] if tag & 7 == 2 => rest,
        _ => head,
    };
    let more = length.iter().take_while(|byte| **byte & 0x80 != 0).count();
    let end = length.get(more).copied();
    more < 9 && end.is_some_and(|last| more > 0 || last > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_say_what_to_export() {
        let json =
            br#"{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "ctrl_deps": 0}]}"#;
        assert_eq!(refused_format(json), Some(CHAKRA));
        let mut et = vec![0x07, 0x0a, 0x05];
        et.extend(b"0.0.4");
        et.extend(b"\x40comm_size num_ops");
        assert_eq!(refused_format(&et), Some(CHAKRA));
        for other in [&b""[..], b"{}", b"hello", &[0x0a], &[0xff; 40]] {
            assert_eq!(refused_format(other), None, "{other:?}");
        }
    }
}
