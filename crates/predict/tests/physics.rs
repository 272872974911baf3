//! What holds of any hardware, over a grid of models, devices, ranks, formats, batches and lengths: more work takes no less time, and a narrower format or a
//! device with more of everything no more.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Mutex};

use llmprof_predict::{Calibration, EfficiencyProfile, Predictor, parallel::ParallelModel};
use llmprof_theory::{
    Model, Part, Precision, Sequences, Step, Workload,
    device::{Catalog, Device, DeviceKind, Engine},
    kernels::Kernel,
    parallel::Parallel,
};
use llmprof_units::DType;

/// Powers of two, which tables have, and what lies between them.
const BATCHES: [u64; 10] = [1, 2, 3, 8, 12, 16, 48, 64, 100, 256];
const CONTEXTS: [u64; 4] = [100, 900, 2048, 16384];
const PROMPTS: [u64; 9] = [16, 100, 128, 400, 512, 513, 1024, 1500, 6000];
const PROMPT_BATCHES: [u64; 2] = [1, 3];
const MODELS: [&str; 6] = [
    "llama3_1_8b",
    "qwen2_5_0_5b",
    "gemma2_9b",
    "mixtral_8x7b",
    "deepseek_v2_lite",
    "qwen3_next_80b_a3b",
];
const ENGINES: [&str; 3] = ["vllm", "sglang", "trtllm"];
/// Weights and KV cache, the wider format before the narrower.
const FORMATS: [(&str, Option<DType>); 4] = [
    ("bf16", None),
    ("bf16", Some(DType::F8E4m3)),
    ("fp8", None),
    ("fp8", Some(DType::F8E4m3)),
];

fn model(name: &str) -> Model {
    let folder = env!("CARGO_MANIFEST_DIR");
    let path = format!("{folder}/../theory/tests/data/models/{name}.json");
    let text = std::fs::read_to_string(path).unwrap();
    Model::from_config(&serde_json::from_str(&text).unwrap(), None).unwrap()
}

fn gpus() -> Vec<Device> {
    let catalog = Catalog::embedded();
    let devices = catalog.entries().into_iter();
    devices
        .map(|entry| catalog.by_name(&entry.name).unwrap())
        .filter(|device| device.kind == DeviceKind::Gpu)
        .collect()
}

fn has_fp8(device: &Device) -> bool {
    device.dense_peak(DType::F8E4m3, Engine::Tensor).is_ok()
}

fn decode(batch: u64, cached: u64) -> Step {
    Step::all_decode(Part::Groups(vec![Sequences {
        count: batch,
        new: 1,
        cached,
    }]))
}

fn prefill(batch: u64, new: u64) -> Step {
    Step::all_prefill(Part::Groups(vec![Sequences {
        count: batch,
        new,
        cached: 0,
    }]))
}

/// Steps by batch and length; each is followed by those with more of either.
fn steps() -> [Vec<Vec<Step>>; 2] {
    let by_batch = |batches: &[u64], lengths: &[u64], step: fn(u64, u64) -> Step| {
        let of_batch = |batch: &u64| lengths.iter().map(|length| step(*batch, *length)).collect();
        batches.iter().map(of_batch).collect()
    };
    [
        by_batch(&BATCHES, &CONTEXTS, decode),
        by_batch(&PROMPT_BATCHES, &PROMPTS, prefill),
    ]
}

/// A model on devices in formats, with an engine.
struct Setting<'a> {
    spread: &'a ParallelModel,
    predictor: Predictor<'a>,
    workload: Workload,
}

impl<'a> Setting<'a> {
    fn new(
        spread: &'a ParallelModel,
        device: &'a Device,
        software: &str,
        (weights, kv): (&str, Option<DType>),
    ) -> Self {
        let precision = Precision {
            weights: Some(weights.parse().unwrap()),
            kv,
            activations: Some(DType::Bf16),
            ..Precision::default()
        };
        Self {
            spread,
            predictor: spread
                .rank_predictor(device, &EfficiencyProfile::embedded(software).unwrap()),
            workload: Workload {
                precision,
                ..Workload::default()
            },
        }
    }

    fn ns(&self, step: &Step) -> i64 {
        let time = self
            .spread
            .predict_step(&self.predictor, &self.workload, step);
        time.unwrap().time_ns.0
    }

    /// Whether tables of this very device were measured in these formats.
    fn is_measured(&self) -> bool {
        let prediction = self.predictor.predict(&self.workload).unwrap();
        prediction.calibration == Calibration::PublicTables
    }

    fn kernels(&self, step: &Step) -> Vec<(Kernel, f64)> {
        let kernels = self
            .predictor
            .list_kernels(&self.workload, step)
            .into_iter();
        kernels
            .map(|(kernel, times, time)| (kernel, times * time.seconds()))
            .collect()
    }
}

/// Runs `each` with every model over so many devices.
fn for_each_spread(tensor: u64, mut each: impl FnMut(&str, &Device, &ParallelModel)) {
    let parallel = Parallel {
        tensor,
        ..Parallel::default()
    };
    for name in MODELS {
        let model = model(name);
        for device in gpus() {
            // Devices without links have no ranks.
            if let Ok(spread) = ParallelModel::new(&model, &device, parallel) {
                each(name, &device, &spread);
            }
        }
    }
}

/// Pairs of steps of which the second has more sequences or longer ones.
fn pairs(grid: &[Vec<Step>]) -> Vec<(&Step, &Step)> {
    let mut pairs = Vec::new();
    for (row, batch) in grid.iter().enumerate() {
        for (column, step) in batch.iter().enumerate() {
            let wider = grid.get(row + 1).map(|batch| &batch[column]);
            let longer = batch.get(column + 1);
            pairs.extend(
                [wider, longer]
                    .into_iter()
                    .flatten()
                    .map(|more| (step, more)),
            );
        }
    }
    pairs
}

/// Rounding of two times, and of those of a kernel relative to them.
const ROUNDING_NS: i64 = 2;
const ROUNDING: f64 = 1e-9;

/// Comparisons that contradict physics, by two names: a device and an engine, or two devices.
#[derive(Default)]
struct Contradictions(BTreeMap<[String; 2], Row>);

#[derive(Default)]
struct Row {
    compared: usize,
    by_kernel: BTreeMap<&'static str, usize>,
    /// The largest share of time that more work saves, or that a narrower format costs.
    worst: f64,
}

/// Kinds of kernels that tables have, as columns.
const TABULATED: [&str; 4] = ["GEMM", "experts", "attention", "gated delta"];

impl Contradictions {
    fn row(&mut self, names: [&str; 2]) -> &mut Row {
        self.0.entry(names.map(str::to_owned)).or_default()
    }

    /// A table of those that contradict somewhere.
    fn table(&self, [first, second, compared]: [&str; 3]) -> String {
        let kinds = TABULATED.join(" | ");
        let mut lines = vec![
            format!("| {first} | {second} | {compared} | contradict | {kinds} | largest |"),
            "|---|---|---|---|---|---|---|---|---|".to_owned(),
        ];
        for (names, row) in self.0.iter().filter(|(_, row)| !row.by_kernel.is_empty()) {
            let other = row.by_kernel.keys().find(|kind| !TABULATED.contains(kind));
            assert_eq!(other, None, "{names:?}: no table has such kernels");
            let counts = TABULATED.map(|kind| row.by_kernel.get(kind).copied().unwrap_or(0));
            lines.push(format!(
                "| `{}` | `{}` | {} | {} | {} | {:.1} % |",
                names[0],
                names[1],
                row.compared,
                counts.iter().sum::<usize>(),
                counts.map(|count| count.to_string()).join(" | "),
                row.worst * 100.0
            ));
        }
        lines.join("\n")
    }
}

/// `docs/prediction-evidence.md` has this table after a comment with its name; `LLMPROF_UPDATE_DOCS=1` writes it anew.
fn check_listed(name: &str, table: &str) {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/prediction-evidence.md"
    );
    static PAGE: Mutex<()> = Mutex::new(());
    let _alone = PAGE.lock();
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(&format!("<!-- {name} -->\n\n")).unwrap();
    let (listed, after) = rest.split_once("\n\n<!-- end -->").unwrap();
    if std::env::var_os("LLMPROF_UPDATE_DOCS").is_some() {
        let page = format!("{before}<!-- {name} -->\n\n{table}\n\n<!-- end -->{after}");
        std::fs::write(path, page).unwrap();
    } else {
        assert_eq!(
            listed, table,
            "{name}: run this test with LLMPROF_UPDATE_DOCS=1"
        );
    }
}

/// The kind of kernel that takes more time in one step than in another, by most.
fn slower_kind(one: &[(Kernel, f64)], other: &[(Kernel, f64)]) -> &'static str {
    let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
    for (kernel, time) in one {
        *seconds.entry(kind(kernel)).or_default() += time;
    }
    for (kernel, time) in other {
        *seconds.entry(kind(kernel)).or_default() -= time;
    }
    let most = seconds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|(_, more)| *more > 0.0)
        .map_or("collectives", |(kind, _)| kind)
}

fn kind(kernel: &Kernel) -> &'static str {
    match kernel {
        Kernel::Gemm { .. } => "GEMM",
        Kernel::Grouped { .. } => "experts",
        Kernel::Attention { .. } => "attention",
        Kernel::CausalConv { .. } | Kernel::DeltaRule { .. } => "gated delta",
        Kernel::Stream { .. } => "stream",
    }
}

/// Two cells of a table, one of which is larger in rows, sequences or keys and took less time, are kept as they were measured. Nothing else falls.
#[test]
fn more_sequences_and_longer_ones_take_less_time_only_where_tables_say_so() {
    let grids = steps();
    let mut falls = Contradictions::default();
    for tensor in [1, 4] {
        for_each_spread(tensor, |name, device, spread| {
            for engine in ENGINES {
                for format in FORMATS.into_iter().filter(|format| {
                    *format == FORMATS[0] || (has_fp8(device) && *format == FORMATS[3])
                }) {
                    let setting = Setting::new(spread, device, engine, format);
                    for (less, more) in grids.iter().flat_map(|grid| pairs(grid)) {
                        let row = falls.row([&device.name, engine]);
                        row.compared += 1;
                        let [one, other] = [less, more].map(|step| setting.ns(step));
                        if one <= other + ROUNDING_NS {
                            continue;
                        }
                        assert!(
                            setting.is_measured(),
                            "{name} {engine} {} tensor {tensor} {format:?}: {less:?} {one} ns, {more:?} {other} ns",
                            device.name
                        );
                        let kind = slower_kind(&setting.kernels(less), &setting.kernels(more));
                        *row.by_kernel.entry(kind).or_default() += 1;
                        row.worst = row.worst.max(1.0 - other as f64 / one as f64);
                    }
                }
            }
        });
    }
    check_listed(
        "more work, less time",
        &falls.table(["device", "engine", "pairs of steps"]),
    );
}

/// Kernels in 8 bits that engines run more slowly than those in 16 are in the tables of some devices; elsewhere there are none.
#[test]
fn eight_bits_take_longer_than_16_only_where_a_device_was_measured_so() {
    let grids = steps();
    let mut slower_steps = Contradictions::default();
    for_each_spread(1, |name, device, spread| {
        if !has_fp8(device) {
            return;
        }
        for engine in ENGINES {
            let settings = FORMATS.map(|format| Setting::new(spread, device, engine, format));
            for (wide, narrow) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
                let [wide, narrow] = [&settings[wide], &settings[narrow]];
                for step in grids.iter().flatten().flatten() {
                    let row = slower_steps.row([&device.name, engine]);
                    row.compared += 1;
                    let [one, other] = [narrow, wide].map(|setting| setting.ns(step));
                    if one <= other + ROUNDING_NS {
                        continue;
                    }
                    let what = format!("{name} {engine} {}: {step:?}", device.name);
                    assert!(narrow.is_measured(), "{what}: {one} ns, {other} ns");
                    let [narrow, wide] = [narrow, wide].map(|setting| setting.kernels(step));
                    let mut slower = narrow
                        .iter()
                        .zip(&wide)
                        .filter(|((_, one), (_, other))| *one > other * (1.0 + ROUNDING));
                    assert!(slower.all(|((one, _), (other, _))| one != other), "{what}");
                    let kind = slower_kind(&narrow, &wide);
                    *row.by_kernel.entry(kind).or_default() += 1;
                    row.worst = row.worst.max(one as f64 / other as f64 - 1.0);
                }
            }
        }
    });
    check_listed(
        "8 bits, more time",
        &slower_steps.table(["device", "engine", "steps"]),
    );
}

/// A device with more bandwidth, more operations or both, and the tables of the same one. Those without tables take others with another bandwidth.
#[test]
fn a_device_with_more_of_everything_is_not_slower() {
    let grids = steps();
    for_each_spread(1, |name, device, spread| {
        for [operations, bandwidth] in [[1.0, 1.4], [1.7, 1.0], [2.0, 2.0]] {
            let mut more = device.clone();
            more.memory.bandwidth_bytes_per_s.value.0 *= bandwidth;
            for peak in &mut more.peaks {
                peak.dense_flops_per_s.0 *= operations;
            }
            for engine in ENGINES {
                let [less, more] =
                    [device, &more].map(|device| Setting::new(spread, device, engine, FORMATS[0]));
                if !less.is_measured() {
                    continue;
                }
                for step in grids.iter().flatten().flatten() {
                    let [one, other] = [more.ns(step), less.ns(step)];
                    assert!(
                        one <= other + ROUNDING_NS,
                        "{name} {engine} {} × {operations} × {bandwidth}: {step:?} {one} ns, {other} ns",
                        device.name
                    );
                }
            }
        }
    });
}

/// Whether a device has at least the bandwidth, the memory and every peak of another.
fn has_no_less(device: &Device, other: &Device) -> bool {
    let memory = |device: &Device| {
        let bytes = device.memory.capacity_bytes.as_ref();
        bytes.map_or(0, |bytes| bytes.value.0)
    };
    let bandwidth = |device: &Device| device.memory.bandwidth_bytes_per_s.value.0;
    let has_peaks = other.peaks.iter().all(|peak| {
        let same = device.dense_peak(peak.dtype, peak.engine);
        same.is_ok_and(|same| same.dense_flops_per_s.0 >= peak.dense_flops_per_s.0)
    });
    has_peaks && memory(device) >= memory(other) && bandwidth(device) >= bandwidth(other)
}

/// Two devices of the catalog take tables of different devices, or one of them its own: ratios of one may be better than those of the other.
#[test]
fn devices_of_the_catalog_that_are_slower_with_more_of_everything_are_listed() {
    let devices = gpus();
    let grids = steps();
    let steps: Vec<&Step> = grids.iter().flatten().flatten().collect();
    let mut slower = Contradictions::default();
    for name in MODELS {
        let model = model(name);
        let spread = |device| ParallelModel::new(&model, device, Parallel::default()).unwrap();
        let spreads: Vec<ParallelModel> = devices.iter().map(spread).collect();
        for engine in ENGINES {
            let settings: Vec<(&Device, Setting<'_>)> = devices
                .iter()
                .zip(&spreads)
                .map(|(device, spread)| (device, Setting::new(spread, device, engine, FORMATS[0])))
                .collect();
            for (less, with_less) in &settings {
                for (more, with_more) in &settings {
                    if less.name == more.name || !has_no_less(more, less) {
                        continue;
                    }
                    for step in &steps {
                        let row = slower.row([&less.name, &more.name]);
                        row.compared += 1;
                        let [one, other] = [with_less, with_more].map(|setting| setting.ns(step));
                        if other <= one + ROUNDING_NS {
                            continue;
                        }
                        let [fast, slow] =
                            [with_less, with_more].map(|setting| setting.kernels(step));
                        *row.by_kernel.entry(slower_kind(&slow, &fast)).or_default() += 1;
                        row.worst = row.worst.max(other as f64 / one as f64 - 1.0);
                    }
                }
            }
        }
    }
    let names = ["device", "with more of everything", "steps"];
    check_listed("more of everything, more time", &slower.table(names));
}
