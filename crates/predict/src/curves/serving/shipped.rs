//! The shipped files: one for each device and engine, packed, read when they are first asked for.

use std::{
    io::Read,
    sync::{LazyLock, OnceLock},
};

use flate2::read::GzDecoder;

use super::{ServingClock, ServingEngine, file::ServingCurves};
use llmprof_theory::device::{Catalog, Device};

struct Shipped {
    device: &'static str,
    /// Compressed tables in the order of [`ServingEngine`]'s variants.
    packed: [&'static [u8]; 3],
    clocks: [OnceLock<ServingClock>; 3],
}

macro_rules! shipped {
    ($($device:literal),*) => {
        [$(Shipped {
            device: $device,
            packed: [
                include_bytes!(concat!("../../../data/curves/", $device, "_vllm.json.gz")),
                include_bytes!(concat!("../../../data/curves/", $device, "_sglang.json.gz")),
                include_bytes!(concat!("../../../data/curves/", $device, "_trtllm.json.gz")),
            ],
            clocks: [const { OnceLock::new() }; 3],
        }),*]
    };
}

/// The H200 first: what others have no table of is taken from it.
static SHIPPED: [Shipped; 9] = shipped![
    "h200",
    "a100_sxm_80gb",
    "b200",
    "b300",
    "gb200",
    "gb300",
    "h100_sxm",
    "l40s",
    "rtx_pro_6000_server"
];

/// The files of these devices.
static DEVICES: LazyLock<Vec<(&'static Shipped, Device)>> = LazyLock::new(|| {
    let catalog = Catalog::embedded();
    let with_device =
        |shipped: &'static Shipped| Some((shipped, catalog.by_name(shipped.device).ok()?));
    SHIPPED.iter().filter_map(with_device).collect()
});

impl Shipped {
    fn engine_clock(&'static self, engine: ServingEngine) -> &'static ServingClock {
        self.clocks[engine as usize].get_or_init(|| {
            let [h200, ..] = &SHIPPED;
            let others = || (self.device != h200.device).then(|| h200.engine_clock(engine));
            self.read_curves(engine)
                .and_then(|curves| ServingClock::new(&curves, others))
                .expect("the shipped file is whole, as tests read it")
        })
    }

    fn read_curves(&self, engine: ServingEngine) -> Option<ServingCurves> {
        let mut text = String::new();
        GzDecoder::new(self.packed[engine as usize])
            .read_to_string(&mut text)
            .ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// The tables of the device that is nearest to `device`, and whether it is that very device: of its architecture the one with the nearest bandwidth, else the H200.
fn nearest_device(device: &Device) -> (&'static Shipped, bool) {
    if let Some(own) = SHIPPED.iter().find(|known| known.device == device.name) {
        return (own, true);
    }
    let apart = |known: &Device| {
        (known.memory_bandwidth().0 / device.memory_bandwidth().0)
            .ln()
            .abs()
    };
    let relatives = DEVICES.iter().filter(|(_, known)| {
        known.architecture.is_some() && known.architecture == device.architecture
    });
    let near = relatives.min_by(|(_, a), (_, b)| apart(a).total_cmp(&apart(b)));
    let [h200, ..] = &SHIPPED;
    (near.map_or(h200, |(shipped, _)| *shipped), false)
}

/// The ratios of an engine for a device, and whether they were measured on it.
pub(super) fn device_clock(
    device: &Device,
    engine: ServingEngine,
) -> (&'static ServingClock, bool) {
    let (shipped, own) = nearest_device(device);
    (shipped.engine_clock(engine), own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_ratios(curves: &ServingCurves) -> Vec<f64> {
        let caches = [&curves.decode_attention, &curves.prefill_attention];
        let caches = caches.into_iter().flat_map(|tables| tables.cache.values());
        let mut all: Vec<f64> = caches.flat_map(|table| table.ratio.clone()).collect();
        all.extend(curves.gemm.values().flat_map(|table| table.ratio.clone()));
        all.extend(
            curves
                .experts
                .values()
                .flat_map(|table| table.ratio.clone()),
        );
        all
    }

    #[test]
    fn every_file_is_whole_and_names_its_source() {
        for shipped in &SHIPPED {
            let device = Catalog::embedded().by_name(shipped.device).unwrap();
            assert!(device.architecture.is_some(), "{}", device.name);
            for engine in ServingEngine::ALL {
                let curves = shipped.read_curves(engine).unwrap();
                let what = format!("{} {engine:?}", shipped.device);
                let named = format!("{engine:?} ").to_lowercase();
                for part in ["aiconfigurator-core 0.12.0", "Apache-2.0", &named] {
                    assert!(curves.source.contains(part), "{what}: {}", curves.source);
                }
                // Ratios are to the peaks of the device's file.
                let bytes = format!("and {} TB/s", device.memory_bandwidth().0 / 1e12);
                assert!(curves.source.ends_with(&bytes), "{what}: {}", curves.source);
                let ratios = all_ratios(&curves);
                assert!(ratios.len() > 3000, "{what}: {}", ratios.len());
                // Nothing is ten times as fast as the roofline, nor a thousand times as slow.
                for ratio in ratios {
                    assert!((0.1..1000.0).contains(&ratio), "{what}: {ratio}");
                }
                let _ = shipped.engine_clock(engine);
            }
        }
    }

    #[test]
    fn devices_without_tables_take_those_of_their_architecture() {
        let near = |name: &str| {
            let device = Catalog::embedded().by_name(name).unwrap();
            let (shipped, own) = nearest_device(&device);
            (shipped.device, own)
        };
        assert_eq!(near("h200"), ("h200", true));
        assert_eq!(near("gb300"), ("gb300", true));
        assert_eq!(near("h100_pcie"), ("h100_sxm", false));
        assert_eq!(near("h800_sxm"), ("h100_sxm", false));
        assert_eq!(near("a100_sxm_40gb"), ("a100_sxm_80gb", false));
        assert_eq!(near("rtx_4090"), ("l40s", false));
        // Its chip with less memory, not the B200.
        assert_eq!(near("rtx_5090"), ("rtx_pro_6000_server", false));
        assert_eq!(near("mi300x"), ("h200", false));
    }
}
