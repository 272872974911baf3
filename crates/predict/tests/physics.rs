//! What holds of any hardware, over a grid of models, devices, ranks, formats, batches and lengths: more work takes no less time, and a narrower format or a
//! device with more of everything no more. What contradicts is listed point by point in `fixtures/contradictions`, with the kernel and the measured cells of tables
//! that it comes from.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, fs, path::Path, sync::Mutex};

use llmprof_predict::{
    Calibration, EfficiencyProfile, MeasuredCell, Predictor, parallel::ParallelModel,
};
use llmprof_theory::{
    Part, Precision, Sequences, Step, Workload,
    device::{Catalog, Device, DeviceKind, Engine},
    kernels::{Kernel, Stored},
    parallel::Parallel,
};
use llmprof_units::{DType, format_significant};

use crate::support::published_model;

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

/// The phase of a step, and its sequences by the tokens of each: cached ones in decode, new ones in prefill.
fn step_name(step: &Step) -> (&'static str, String) {
    let group = |part: &Part| match part {
        Part::Groups(groups) => groups.first().copied(),
        _ => None,
    };
    match (group(&step.decode), group(&step.prefill)) {
        (Some(decode), _) => ("decode", format!("{}x{}", decode.count, decode.cached)),
        (_, Some(prefill)) => ("prefill", format!("{}x{}", prefill.count, prefill.new)),
        _ => unreachable!("steps of the grid have one group"),
    }
}

/// A model on devices in formats, with an engine.
struct Setting<'a> {
    /// Model, ranks and number formats, for messages.
    name: String,
    spread: &'a ParallelModel,
    predictor: Predictor<'a>,
    workload: Workload,
}

impl<'a> Setting<'a> {
    fn new(
        (model, spread): (&str, &'a ParallelModel),
        device: &'a Device,
        software: &str,
        (weights, kv): (&str, Option<DType>),
    ) -> Self {
        let cache = kv.map_or_else(String::new, |kv| format!(" kv {kv}"));
        let precision = Precision {
            weights: Some(weights.parse().unwrap()),
            kv,
            activations: Some(DType::Bf16),
            ..Precision::default()
        };
        Self {
            name: format!("{model} {weights}{cache}"),
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

/// Runs `each` with every model over each number of devices.
fn for_each_spread(tensor: u64, mut each: impl FnMut(&str, &Device, &ParallelModel)) {
    let parallel = Parallel {
        tensor,
        ..Parallel::default()
    };
    for name in MODELS {
        let model = published_model(name);
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
struct Contradictions {
    rows: BTreeMap<[String; 2], Row>,
    /// The steps that contradict, by what that comes from, and by setting and phase.
    steps: BTreeMap<Origin, BTreeMap<String, Vec<String>>>,
}

#[derive(Default)]
struct Row {
    compared: usize,
    by_kernel: BTreeMap<&'static str, usize>,
    /// The largest share of time that more work saves, or that a narrower format costs.
    worst: f64,
}

/// The kernel that makes most of a contradiction, and the measured cells between which its two times lie.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    names: [String; 2],
    kernel: String,
    slower: String,
    faster: String,
}

/// One side of a comparison: the step that should take no longer, or the one that should.
struct Side<'a> {
    setting: &'a Setting<'a>,
    step: &'a Step,
}

/// Kinds of kernels that tables have, as columns.
const TABULATED: [&str; 4] = ["GEMM", "experts", "attention", "gated delta"];

impl Contradictions {
    fn row(&mut self, names: [&str; 2]) -> &mut Row {
        self.rows.entry(names.map(str::to_owned)).or_default()
    }

    /// Adds a point at which `slower` takes longer than `faster`, by a share of one of them. The answer is the cells of either.
    fn add_point(
        &mut self,
        names: [&str; 2],
        [slower, faster]: [&Side<'_>; 2],
        share: f64,
    ) -> [Vec<MeasuredCell>; 2] {
        let [slow, fast] = [slower, faster].map(|side| side.setting.kernels(side.step));
        assert_eq!(slow.len(), fast.len(), "{names:?}");
        let more = |at: &usize| slow[*at].1 - fast[*at].1;
        let kernel = (0..slow.len()).max_by(|a, b| more(a).total_cmp(&more(b)));
        let kernel = kernel.filter(|at| more(at) > 0.0);
        let kernel = kernel.expect("ranks exchange as much or more");
        let (slow, fast) = (slow[kernel].0, fast[kernel].0);
        let row = self.row(names);
        *row.by_kernel.entry(kind(&slow)).or_default() += 1;
        row.worst = row.worst.max(share);
        let cells = [(slower, &slow), (faster, &fast)]
            .map(|(side, kernel)| side.setting.predictor.cells_around(kernel));
        let origin = Origin {
            names: names.map(str::to_owned),
            kernel: shape_name(&slow),
            slower: cells_text(&cells[0]),
            faster: cells_text(&cells[1]),
        };
        let [(phase, slow), (_, fast)] = [slower, faster].map(|side| step_name(side.step));
        let change = if slow == fast {
            slow
        } else {
            format!("{slow}>{fast}")
        };
        let setting = format!("{} {phase}", slower.setting.name);
        let of_origin = self.steps.entry(origin).or_default();
        of_origin.entry(setting).or_default().push(change);
        cells
    }

    /// A table of those that contradict somewhere.
    fn table(&self, [first, second, compared]: [&str; 3]) -> String {
        let kinds = TABULATED.join(" | ");
        let mut lines = vec![
            format!("| {first} | {second} | {compared} | contradict | {kinds} | largest |"),
            "|---|---|---|---|---|---|---|---|---|".to_owned(),
        ];
        for (names, row) in self
            .rows
            .iter()
            .filter(|(_, row)| !row.by_kernel.is_empty())
        {
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

    /// A line for each kernel and cells, with all steps that come from them.
    fn list(&self, [first, second]: [&str; 2]) -> String {
        let mut text = format!("{first},{second},kernel,slower,faster,steps,where\n");
        for (origin, settings) in &self.steps {
            let Origin {
                names: [first, second],
                kernel,
                slower,
                faster,
            } = origin;
            let count: usize = settings.values().map(Vec::len).sum();
            let settings = settings.iter();
            let places: Vec<String> = settings
                .map(|(setting, steps)| format!("{setting}: {}", steps.join(" ")))
                .collect();
            let places = places.join("; ");
            text += &format!("{first},{second},{kernel},{slower},{faster},{count},{places}\n");
        }
        text
    }
}

/// A kernel by its kind and the sizes that the model decides.
fn shape_name(kernel: &Kernel) -> String {
    let format = |stored: Stored| match stored {
        Stored::Plain => "16 bits",
        Stored::EightByBlocks => "8 bits by blocks",
        Stored::Eight => "8 bits",
        _ => unreachable!("formats of the grid"),
    };
    match *kernel {
        Kernel::Gemm { n, k, stored, .. } => format!("GEMM n={n} k={k} {}", format(stored)),
        Kernel::Grouped { n, k, stored, .. } => format!("experts n={n} k={k} {}", format(stored)),
        Kernel::Attention {
            heads,
            kv_heads,
            key_dim,
            queries,
            cached,
            ..
        } => {
            let phase = if queries > 1.0 { "prefill" } else { "decode" };
            let bits = 8.0 * cached;
            format!("{phase} attention heads={heads} kv={kv_heads} dim={key_dim} {bits} bits")
        }
        Kernel::CausalConv { channels, .. } => format!("convolution channels={channels}"),
        Kernel::DeltaRule {
            heads, key_heads, ..
        } => {
            format!("delta rule heads={heads} key={key_heads}")
        }
        Kernel::Stream { .. } => "stream".to_owned(),
    }
}

/// Measured cells as `rows=µs`, with what is done at once before the rows where it is not one: `32x1024=41.3`.
fn cells_text(cells: &[MeasuredCell]) -> String {
    let text = |cell: &MeasuredCell| {
        let [first, second] = cell.sizes.map(format_significant);
        let sizes = if first == "1" {
            second
        } else {
            format!("{first}x{second}")
        };
        format!("{sizes}={}", format_significant(cell.seconds * 1e6))
    };
    let texts: Vec<String> = cells.iter().map(text).collect();
    texts.join(" ")
}

/// `fixtures/contradictions` has this list; `LLMPROF_UPDATE_DOCS=1` writes it anew.
fn check_points(name: &str, list: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/contradictions");
    let path = folder.join(name);
    if std::env::var_os("LLMPROF_UPDATE_DOCS").is_some() {
        fs::create_dir_all(folder).unwrap();
        fs::write(path, list).unwrap();
        return;
    }
    let listed = fs::read_to_string(path).unwrap();
    let differ = listed
        .lines()
        .zip(list.lines())
        .find(|(one, other)| one != other);
    let is_same = listed == list;
    assert!(
        is_same,
        "{name}: run this test with LLMPROF_UPDATE_DOCS=1; {differ:?}"
    );
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
                    let ranks = format!("{name} tp{tensor}");
                    let setting = Setting::new((&ranks, spread), device, engine, format);
                    for (less, more) in grids.iter().flat_map(|grid| pairs(grid)) {
                        let names = [device.name.as_str(), engine];
                        falls.row(names).compared += 1;
                        let [one, other] = [less, more].map(|step| setting.ns(step));
                        if one <= other + ROUNDING_NS {
                            continue;
                        }
                        assert!(
                            setting.is_measured(),
                            "{name} {engine} {} tensor {tensor} {format:?}: {less:?} {one} ns, {more:?} {other} ns",
                            device.name
                        );
                        let sides = [less, more].map(|step| Side {
                            setting: &setting,
                            step,
                        });
                        let share = 1.0 - other as f64 / one as f64;
                        let [less, more] = falls.add_point(names, sides.each_ref(), share);
                        // A smaller cell took longer than a larger one: it was measured so.
                        let is_larger = |one: &MeasuredCell, other: &MeasuredCell| {
                            one.sizes[0] <= other.sizes[0] && one.sizes[1] <= other.sizes[1]
                        };
                        let is_measured = less.iter().any(|one| {
                            let larger = more.iter().filter(|other| is_larger(one, other));
                            larger.into_iter().any(|other| other.seconds < one.seconds)
                        });
                        assert!(is_measured, "{} {names:?}: {less:?} {more:?}", setting.name);
                    }
                }
            }
        });
    }
    check_listed(
        "more work, less time",
        &falls.table(["device", "engine", "pairs of steps"]),
    );
    check_points("more_work.csv", &falls.list(["device", "engine"]));
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
            let settings =
                FORMATS.map(|format| Setting::new((name, spread), device, engine, format));
            for (wide, narrow) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
                let [wide, narrow] = [&settings[wide], &settings[narrow]];
                for step in grids.iter().flatten().flatten() {
                    let names = [device.name.as_str(), engine];
                    slower_steps.row(names).compared += 1;
                    let [one, other] = [narrow, wide].map(|setting| setting.ns(step));
                    if one <= other + ROUNDING_NS {
                        continue;
                    }
                    let what = format!("{name} {engine} {}: {step:?}", device.name);
                    assert!(narrow.is_measured(), "{what}: {one} ns, {other} ns");
                    let sides = [narrow, wide].map(|setting| Side { setting, step });
                    let share = one as f64 / other as f64 - 1.0;
                    let [slow, fast] = slower_steps.add_point(names, sides.each_ref(), share);
                    assert!(!slow.is_empty() && !fast.is_empty(), "{what}");
                    let [narrow, wide] = [narrow, wide].map(|setting| setting.kernels(step));
                    let mut slower = narrow
                        .iter()
                        .zip(&wide)
                        .filter(|((_, one), (_, other))| *one > other * (1.0 + ROUNDING));
                    assert!(slower.all(|((one, _), (other, _))| one != other), "{what}");
                }
            }
        }
    });
    check_listed(
        "8 bits, more time",
        &slower_steps.table(["device", "engine", "steps"]),
    );
    check_points("eight_bits.csv", &slower_steps.list(["device", "engine"]));
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
                let [less, more] = [device, &more]
                    .map(|device| Setting::new((name, spread), device, engine, FORMATS[0]));
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
        let model = published_model(name);
        let spread = |device| ParallelModel::new(&model, device, Parallel::default()).unwrap();
        let spreads: Vec<ParallelModel> = devices.iter().map(spread).collect();
        for engine in ENGINES {
            let settings: Vec<(&Device, Setting<'_>)> = devices
                .iter()
                .zip(&spreads)
                .map(|(device, spread)| {
                    let named = format!("{name} {engine}");
                    (
                        device,
                        Setting::new((&named, spread), device, engine, FORMATS[0]),
                    )
                })
                .collect();
            for (less, with_less) in &settings {
                for (more, with_more) in &settings {
                    if less.name == more.name || !has_no_less(more, less) {
                        continue;
                    }
                    for step in &steps {
                        let names = [less.name.as_str(), &more.name];
                        slower.row(names).compared += 1;
                        let [one, other] = [with_less, with_more].map(|setting| setting.ns(step));
                        if other <= one + ROUNDING_NS {
                            continue;
                        }
                        let sides = [with_more, with_less].map(|setting| Side { setting, step });
                        slower.add_point(names, sides.each_ref(), other as f64 / one as f64 - 1.0);
                    }
                }
            }
        }
    }
    let names = ["device", "with more of everything", "steps"];
    check_listed("more of everything, more time", &slower.table(names));
    check_points(
        "more_of_everything.csv",
        &slower.list(["device", "with more"]),
    );
}
