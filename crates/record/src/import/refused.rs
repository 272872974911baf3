//! Formats that are known and not read: what they are, and what to export instead.

use memchr::memmem;

/// A format that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// What it is.
    pub(super) format: &'static str,
    /// What holds the same and is read.
    pub(super) instead: &'static str,
}

const XPLANE: Refused = Refused {
    format: "an XPlane protobuf of XLA (`*.xplane.pb`)",
    instead: "the Chrome trace that the profiler writes beside it (`*.trace.json.gz` in plugins/profile/…), or that TensorBoard's and \
              XProf's trace viewer exports",
};
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
pub(super) fn refused(head: &[u8]) -> Option<Refused> {
    let has = |text: &[u8]| memmem::find(head, text).is_some();
    if head.trim_ascii_start().starts_with(b"{") {
        // PyTorch's ExecutionTraceObserver: `"schema": "1.1.1-chakra.0.0.4"`.
        return (has(b"chakra") && has(b"\"nodes\"")
            || has(b"\"schema\": \"1.") && has(b"\"ctrl_deps\""))
        .then_some(CHAKRA);
    }
    let body = length_delimited(head)?;
    // XSpace: field 1 is an XPlane, whose field 2 is its name.
    if head[0] == 0x0a
        && [&b"/device:"[..], b"/host:", b"/machine:"]
            .iter()
            .any(|name| memmem::find(body, name).is_some())
    {
        return Some(XPLANE);
    }
    // Chakra's protobuf begins with a GlobalMetadata message, whose field 1 is a version.
    if has(b"chakra") || has(b"comm_size") && has(b"num_ops") {
        return Some(CHAKRA);
    }
    // Trace: field 1 is a TracePacket, which a clock snapshot or a sequence id tells.
    (head[0] == 0x0a && (has(b"perfetto") || has(b"trace_uuid"))).then_some(PFTRACE)
}

/// The content of a first field with a length, as far as it is there; `None` where the bytes are no such message.
fn length_delimited(head: &[u8]) -> Option<&[u8]> {
    let mut rest = head;
    // Chakra's messages have their own length in front, others begin with the tag of a field.
    if rest.first()? & 7 == 2 {
        rest = &rest[1..];
    }
    let mut length = 0_u64;
    for (index, byte) in rest.iter().take(9).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let body = &rest[index + 1..];
            let end = usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(body.len());
            return (length > 0).then(|| &body[..end]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_formats_say_what_to_export() {
        let mut xplane = vec![0x0a, 0x20, 0x08, 0x01, 0x12, 0x0d];
        xplane.extend(b"/device:GPU:0");
        xplane.extend([0; 24]);
        assert_eq!(refused(&xplane), Some(XPLANE));
        let json =
            br#"{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1, "ctrl_deps": 0}]}"#;
        assert_eq!(refused(json), Some(CHAKRA));
        let mut et = vec![0x07, 0x0a, 0x05];
        et.extend(b"0.0.4");
        et.extend(b"\x40comm_size num_ops");
        assert_eq!(refused(&et), Some(CHAKRA));
        for other in [&b""[..], b"{}", b"hello", &[0x0a], &[0xff; 40]] {
            assert_eq!(refused(other), None, "{other:?}");
        }
    }
}
