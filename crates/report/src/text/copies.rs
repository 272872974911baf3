//! Copies: direction, bytes, rate and what limits it.

use llmprof_units::{Count, Percent};

use crate::analyzed::{CopyDirection, CopyTime, Framework};

use super::runtime::Runtime;

pub(crate) fn direction(direction: CopyDirection) -> &'static str {
    match direction {
        CopyDirection::HostToDevice => "host to device",
        CopyDirection::DeviceToHost => "device to host",
        CopyDirection::OnDevice => "inside device memory",
        CopyDirection::Peer => "between devices",
        CopyDirection::Memset => "memset",
        CopyDirection::Other => "of unknown direction",
    }
}

/// The words for the code of a direction.
pub(crate) fn of_code(code: &str) -> &str {
    let known = [
        CopyDirection::HostToDevice,
        CopyDirection::DeviceToHost,
        CopyDirection::OnDevice,
        CopyDirection::Peer,
        CopyDirection::Memset,
        CopyDirection::Other,
    ];
    match known.into_iter().find(|known| known.code() == code) {
        Some(known) => direction(known),
        None => code,
    }
}

/// What the table of copies holds.
pub(crate) const BASIS: &str = "Copies and memsets that begin in a phase; times are summed, also where copies overlap. The peak is that of one direction of the \
                                link; inside device memory each byte is read and written, so it is half of the DRAM bandwidth.";

/// `12 copies host to device, 3 GiB at 24.1 GB/s, 37.7 % of PCIe 5.0 x16 (64 GB/s each way)`.
pub(crate) fn rate(copies: &CopyTime) -> String {
    let mut text = match copies.direction {
        CopyDirection::Memset => Count(copies.copies, "memset").to_string(),
        other => format!("{} {}", Count(copies.copies, "copy"), direction(other)),
    };
    let Some(rate) = copies.rate() else {
        return text;
    };
    text.push_str(&format!(", {} at {rate}", copies.bytes));
    if let Some(limit) = &copies.limit {
        let share = Percent(rate.0 / limit.bytes_per_s.0.max(1.0));
        let each = if copies.is_on_device() {
            ""
        } else {
            " each way"
        };
        text.push_str(&format!(
            ", {share} of {} ({}{each})",
            limit.name, limit.bytes_per_s
        ));
    }
    if copies.pageable_ns.0 > copies.time_ns.0 / 2 {
        text.push_str(", from or to pageable memory");
    }
    text
}

/// What to change, by the direction that takes most time.
pub(crate) fn knob(
    longest: Option<&CopyTime>,
    is_on_device: bool,
    runtime: Runtime,
) -> &'static str {
    if longest.is_some_and(|copies| copies.direction == CopyDirection::Memset) {
        return "Try: allocate without filling (torch.empty) what is written before it is read; fill once and reuse.";
    }
    if is_on_device {
        return if runtime == Runtime::Gpu(Framework::Xla) {
            "Try: unroll `lax.scan` over layers (it slices weights and caches), donate buffers that are updated."
        } else {
            "Try: update buffers in place (preallocated) instead of copying them."
        };
    }
    let is_xla = matches!(
        runtime,
        Runtime::Gpu(Framework::Xla)
            | Runtime::Hip(Framework::Xla)
            | Runtime::Other(Framework::Xla)
    );
    match longest {
        // XLA decides where copies go; the program decides where arrays are kept.
        Some(copies) if is_xla && copies.direction == CopyDirection::Other => {
            "Try: keep arrays in device memory (no host offloading), or start their copies earlier."
        }
        Some(copies) if copies.direction == CopyDirection::Peer && copies.gains_by_joining() => {
            "Try: overlap copies between devices with kernels (another stream); fewer, larger copies."
        }
        Some(copies) if copies.direction == CopyDirection::Peer => {
            "Try: overlap copies between devices with kernels (another stream)."
        }
        Some(copies) if copies.pageable_ns.0 > copies.time_ns.0 / 2 => {
            "Try: pinned host memory (cudaHostAlloc, pin_memory) and asynchronous copies; keep data on the GPU."
        }
        Some(copies) if copies.gains_by_joining() => {
            "Try: keep data on the GPU, or overlap copies with kernels on another stream; fewer, larger copies."
        }
        _ => "Try: keep data on the GPU, or overlap copies with kernels on another stream.",
    }
}

#[cfg(test)]
mod tests {
    use llmprof_analysis::phase_facts::LinkLimit;
    use llmprof_units::{Bytes, BytesPerSecond, Nanos};

    use super::*;

    fn copies(pageable_ns: i64) -> CopyTime {
        CopyTime {
            direction: CopyDirection::HostToDevice,
            copies: 12,
            time_ns: Nanos(1_000_000_000),
            bytes: Bytes(16 << 30),
            pageable_ns: Nanos(pageable_ns),
            limit: Some(LinkLimit {
                name: "PCIe 5.0 x16".to_owned(),
                bytes_per_s: BytesPerSecond(64e9),
            }),
        }
    }

    #[test]
    fn a_rate_stands_beside_its_limit() {
        assert_eq!(
            rate(&copies(0)),
            "12 copies host to device, 16 GiB at 17.18 GB/s, 26.8 % of PCIe 5.0 x16 (64 GB/s each way)"
        );
        let unknown = CopyTime {
            bytes: Bytes(0),
            ..copies(0)
        };
        assert_eq!(rate(&unknown), "12 copies host to device");
        assert_eq!(of_code("device_to_host"), "device to host");
    }

    #[test]
    fn pageable_memory_asks_for_pinned() {
        let gpu = Runtime::Gpu(Framework::Unknown);
        let of = |copies: &CopyTime| knob(Some(copies), false, gpu);
        assert!(of(&copies(900_000_000)).contains("pinned"));
        let large = of(&copies(0));
        assert!(large.contains("overlap") && !large.contains("larger"));
        let small = CopyTime {
            copies: 1 << 20,
            ..copies(0)
        };
        assert!(of(&small).contains("fewer, larger copies"));
        let at_link_speed = CopyTime {
            time_ns: Nanos(320_000_000),
            ..small
        };
        assert!(!of(&at_link_speed).contains("larger"));
        assert!(knob(None, true, gpu).contains("in place"));
        let fills = CopyTime {
            direction: CopyDirection::Memset,
            ..copies(0)
        };
        let fills = knob(Some(&fills), true, gpu);
        assert!(
            fills.contains("filling") && !fills.contains("cop"),
            "{fills}"
        );
    }
}
