//! Ranks of a job that never ran, with known faults: kernels of a published job, collectives that keep their promise (no rank leaves
//! before all have entered), clocks with offsets and drift.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

/// Neighbours that are tensor parallel.
const TENSOR_RANKS: u64 = 8;
/// Time that a collective transfers, µs.
const TRANSFER_US: f64 = 400.0;
/// Noise of each kernel and gap.
const NOISE: f64 = 0.01;

/// A job and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MadeJob {
    pub(crate) ranks: u64,
    pub(crate) steps: u64,
    /// Ranks whose longest kernel takes this many times as long.
    pub(crate) slow_kernels: Vec<(u64, f64)>,
    /// Ranks whose host is late by this many µs, once a step.
    pub(crate) slow_hosts: Vec<(u64, f64)>,
    /// A rank whose host is late by this many µs, in one step only.
    pub(crate) slow_once: Vec<(u64, u64, f64)>,
    /// Ranks whose clocks run faster, millionths.
    pub(crate) drifts: Vec<(u64, f64)>,
    /// The lower rank of a pair whose transfers take this many times as long.
    pub(crate) slow_pairs: Vec<(u64, f64)>,
    /// Operators around each kernel, which make a file as large as a real one.
    pub(crate) operators: usize,
}

/// Who takes part in a collective.
#[derive(Clone, Copy)]
enum RankGroup {
    Tensor,
    Data,
    Pair,
    World,
}

/// The collectives of a step in order. Real ones come between kernels at the same places.
const SEQUENCE: [RankGroup; 8] = [
    RankGroup::Tensor,
    RankGroup::Data,
    RankGroup::Tensor,
    RankGroup::Pair,
    RankGroup::Tensor,
    RankGroup::Data,
    RankGroup::Tensor,
    RankGroup::World,
];

/// A kernel before a collective: its name, the gap before it and its length, µs.
struct TemplateKernel {
    name: String,
    gap: f64,
    length: f64,
}

/// What one published rank did before each of its collectives.
pub(crate) struct RankTemplate {
    segments: Vec<Vec<TemplateKernel>>,
    /// Segment and place of its longest kernel.
    longest: (usize, usize),
}

impl RankTemplate {
    /// Reads a Kineto trace (`.json.gz`) with at least eight collectives.
    pub(crate) fn read(file: &Path) -> Self {
        let mut text = String::new();
        let packed = std::fs::File::open(file).expect("a fixture");
        let mut unpacked = flate2::read::GzDecoder::new(packed);
        unpacked.read_to_string(&mut text).expect("gzip of text");
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let mut kernels: Vec<(f64, f64, &str)> = events
            .iter()
            .filter(|event| event["cat"] == "kernel")
            .map(|event| {
                let number = |key: &str| event[key].as_f64().expect("a number");
                (
                    number("ts"),
                    number("dur"),
                    event["name"].as_str().expect("a name"),
                )
            })
            .collect();
        kernels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut segments: Vec<Vec<TemplateKernel>> = vec![Vec::new()];
        let mut until = kernels.first().map_or(0.0, |kernel| kernel.0);
        for (start, length, name) in kernels {
            if name.contains("nccl") {
                segments.push(Vec::new());
            } else if let Some(segment) = segments.last_mut() {
                segment.push(TemplateKernel {
                    name: name.to_owned(),
                    // Long gaps of the published job are its own faults.
                    gap: (start - until).clamp(1.0, 20.0),
                    length,
                });
            }
            until = start + length;
        }
        segments.truncate(SEQUENCE.len());
        let mut longest = (0, 0);
        let length = |at: (usize, usize), segments: &[Vec<TemplateKernel>]| {
            let kernel = segments[at.0].get(at.1);
            kernel.map_or(0.0, |kernel| kernel.length)
        };
        for segment in 0..segments.len() {
            for place in 0..segments[segment].len() {
                if length((segment, place), &segments) > length(longest, &segments) {
                    longest = (segment, place);
                }
            }
        }
        Self { segments, longest }
    }
}

/// Numbers that look random and are the same every time.
fn noise(rank: u64, step: u64, place: u64) -> f64 {
    let mut state = rank
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(step.wrapping_mul(0xbf58_476d_1ce4_e5b9))
        .wrapping_add(place.wrapping_mul(0x94d0_49bb_1331_11eb));
    state ^= state >> 31;
    state = state.wrapping_mul(0xd6e8_feb8_6659_fd93);
    state ^= state >> 32;
    (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
}

fn planted<T: Copy>(list: &[(u64, T)], rank: u64) -> Option<T> {
    let fault = list.iter().find(|(planted, _)| *planted == rank);
    fault.map(|(_, value)| *value)
}

/// The job as it runs: when each rank begins and ends each collective, µs.
pub(crate) struct JobTimeline<'a> {
    job: &'a MadeJob,
    template: &'a RankTemplate,
    /// By rank, then step and collective.
    calls: Vec<Vec<(f64, f64)>>,
}

impl MadeJob {
    /// The members of a group.
    fn members(&self, group: RankGroup, rank: u64) -> Vec<u64> {
        match group {
            RankGroup::World => (0..self.ranks).collect(),
            RankGroup::Pair => vec![rank & !1, rank | 1],
            RankGroup::Tensor => {
                let first = rank / TENSOR_RANKS * TENSOR_RANKS;
                (first..first + TENSOR_RANKS).collect()
            }
            RankGroup::Data => (rank % TENSOR_RANKS..self.ranks)
                .step_by(TENSOR_RANKS as usize)
                .collect(),
        }
    }

    /// Kernels of a rank before a collective: gap and length, with what is planted.
    fn kernels(
        &self,
        template: &RankTemplate,
        rank: u64,
        step: u64,
        place: usize,
    ) -> Vec<(f64, f64)> {
        let segment = &template.segments[place];
        let mut times = Vec::with_capacity(segment.len());
        for (index, kernel) in segment.iter().enumerate() {
            let number = (place * 1_000 + index) as u64;
            let mut gap = kernel.gap * (1.0 + NOISE * noise(rank, step, number));
            let mut length = kernel.length * (1.0 + NOISE * noise(rank, step, number + 500_000));
            if (place, index) == template.longest {
                length *= planted(&self.slow_kernels, rank).unwrap_or(1.0);
                gap += planted(&self.slow_hosts, rank).unwrap_or(0.0);
                let once = self
                    .slow_once
                    .iter()
                    .find(|once| once.0 == rank && once.1 == step);
                gap += once.map_or(0.0, |once| once.2);
            }
            times.push((gap, length));
        }
        times
    }

    pub(crate) fn run<'a>(&'a self, template: &'a RankTemplate) -> JobTimeline<'a> {
        let mut now = vec![0.0_f64; self.ranks as usize];
        let mut calls = vec![Vec::new(); self.ranks as usize];
        for step in 0..self.steps {
            for (place, group) in SEQUENCE.iter().enumerate() {
                for rank in 0..self.ranks {
                    let work = self.kernels(template, rank, step, place);
                    now[rank as usize] +=
                        work.iter().map(|(gap, length)| gap + length).sum::<f64>();
                }
                let starts = now.clone();
                for rank in 0..self.ranks {
                    let members = self.members(*group, rank);
                    if members[0] != rank {
                        continue;
                    }
                    let last = members
                        .iter()
                        .map(|&member| starts[member as usize])
                        .fold(0.0, f64::max);
                    let slow = match group {
                        RankGroup::Pair => planted(&self.slow_pairs, rank).unwrap_or(1.0),
                        _ => 1.0,
                    };
                    let transfer = TRANSFER_US * slow * (1.0 + NOISE * noise(rank, step, 7_777));
                    for member in members {
                        // Ranks see the end within a microsecond.
                        let seen = 0.5 * noise(member, step, 8_888 + place as u64);
                        let end = last + transfer + seen;
                        calls[member as usize].push((starts[member as usize], end));
                        now[member as usize] = end;
                    }
                }
            }
        }
        JobTimeline {
            job: self,
            template,
            calls,
        }
    }
}

impl JobTimeline<'_> {
    /// The profile of one rank as PyTorch would write it.
    pub(crate) fn profile(&self, rank: u64) -> String {
        let mut writer = KinetoWriter {
            text: String::new(),
            drift: 1.0 + planted(&self.job.drifts, rank).unwrap_or(0.0) * 1e-6,
            // Clocks of hosts are some milliseconds apart.
            offset: 1e6 + 5e3 * noise(rank, 0, 99),
            correlation: 0,
            operators: self.job.operators,
        };
        let _ = write!(
            writer.text,
            r#"{{"schemaVersion":1,"baseTimeNanoseconds":1763000000000000000,"deviceProperties":[{{"id":0,"name":"NVIDIA H100 80GB HBM3"}}],
"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{}}},"traceEvents":["#,
            self.job.ranks
        );
        let mut now = 0.0;
        for step in 0..self.job.steps {
            let begin = now;
            for place in 0..SEQUENCE.len() {
                let times = self.job.kernels(self.template, rank, step, place);
                for (kernel, (gap, length)) in self.template.segments[place].iter().zip(times) {
                    writer.kernel(&kernel.name, now, now + gap, length, "");
                    now += gap + length;
                }
                let (start, end) =
                    self.calls[rank as usize][step as usize * SEQUENCE.len() + place];
                self.collective(&mut writer, rank, step, place, (start, end));
                now = end;
            }
            // The host is ahead of the device by the time of a launch.
            writer.event(
                "user_annotation",
                &format!("ProfilerStep#{}", step + 10),
                1,
                begin - 15.0,
                now - begin - 1.0,
                "",
            );
        }
        writer.text.pop();
        writer.text += "\n]}\n";
        writer.text
    }

    fn collective(
        &self,
        writer: &mut KinetoWriter,
        rank: u64,
        step: u64,
        place: usize,
        at: (f64, f64),
    ) {
        let group = SEQUENCE[place];
        let (name, pick) = match group {
            RankGroup::Tensor => ("mesh_tp", 0),
            RankGroup::Data => ("mesh_dp", 1),
            RankGroup::Pair => ("41", 2),
            RankGroup::World => ("default_pg", 3),
        };
        let members = self.job.members(group, rank);
        let same =
            |other: &RankGroup| std::mem::discriminant(other) == std::mem::discriminant(&group);
        let per_step = SEQUENCE.iter().filter(|other| same(other)).count() as u64;
        let before = SEQUENCE[..place].iter().filter(|other| same(other)).count() as u64;
        let sequence = step * per_step + before;
        let listed: Vec<String> = members.iter().take(30).map(u64::to_string).collect();
        let rest = if members.len() > 30 { ", ..." } else { "" };
        let elements = 1_048_576 << pick;
        let arguments = format!(
            r#","Collective name":"allreduce","Process Group Name":"{name}","Process Group Ranks":"[{}{rest}]","Group size":{},"Seq":{sequence},"In msg nelems":{elements},"Out msg nelems":{elements},"dtype":"BFloat16""#,
            listed.join(", "),
            members.len()
        );
        writer.kernel(
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            at.0,
            at.0,
            at.1 - at.0,
            &arguments,
        );
    }
}

/// Events as Kineto writes them.
struct KinetoWriter {
    text: String,
    drift: f64,
    offset: f64,
    correlation: u64,
    operators: usize,
}

impl KinetoWriter {
    /// A kernel with its launch, which the host calls as late as it can, and the operators around it. The host was free at `free`.
    fn kernel(&mut self, name: &str, free: f64, start: f64, length: f64, arguments: &str) {
        self.correlation += 1;
        let id = self.correlation;
        let call = start - 6.0;
        let begin = (free - 5.0).min(call - 2.0);
        for depth in 0..self.operators {
            let inside = depth as f64 * 0.2;
            self.event(
                "cpu_op",
                ["aten::linear", "aten::matmul", "aten::mm", "aten::copy_"][depth % 4],
                1,
                begin + inside,
                (call + 3.0 - inside) - (begin + inside),
                &format!(r#""External id":{},"Sequence number":{id},"Fwd thread id":0,"Record function id":0,"Input Dims":[[64,512],[512,1024],[]],"Input type":["c10::BFloat16","c10::BFloat16","Scalar"]"#, id * 8 + depth as u64),
            );
        }
        let correlation = format!(r#""External id":{},"cbid":211,"correlation":{id}"#, id * 8);
        self.event(
            "cuda_runtime",
            "cudaLaunchKernel",
            1,
            call,
            2.5,
            &correlation,
        );
        let stream = if arguments.is_empty() { 7 } else { 20 };
        let about = format!(
            r#""External id":{},"device":0,"context":1,"stream":{stream},"correlation":{id},"registers per thread":32,"shared memory":0,"grid":[128,1,1],"block":[256,1,1],"est. achieved occupancy %":50{arguments}"#,
            id * 8
        );
        self.event("kernel", name, stream, start, length, &about);
    }

    fn event(
        &mut self,
        category: &str,
        name: &str,
        thread: u64,
        start: f64,
        length: f64,
        arguments: &str,
    ) {
        let start = start * self.drift + self.offset;
        let name = name.replace('\\', r"\\").replace('"', r#"\""#);
        let _ = write!(
            self.text,
            "\n{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{},\"tid\":{thread},\"ts\":{start:.3},\"dur\":{:.3},\"args\":{{{arguments}}}}},",
            if category == "kernel" { 0 } else { 4_242 },
            length * self.drift
        );
    }
}
