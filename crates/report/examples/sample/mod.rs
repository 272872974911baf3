//! A made-up run that exercises every part of a page; the browser tests read it too.

use llmprof_record::issue::{Issue, Severity};
use llmprof_report::{
    Cell, Document, Drawing, FindingItem, Link, ReportTarget, Section, Table,
    view::{
        Band, Histogram, PartKind, PlottedOperator, Roofline, RooflineCeiling, Series, SeriesLine,
        StepLatency, StepLine, Timeline, TimelineEvent, TimelineWindow, Unit, ValueMark, Waterfall,
        WaterfallPart,
    },
};
use llmprof_units::{Basis, BytesPerSecond, FlopsPerSecond, Nanos, Percent};

/// A name that tries to leave every context it is written into.
pub(crate) const HOSTILE: &str =
    "void k<T, '\"`>(</script><script>throw 1</script><!-- & \u{2028}|**x**";

const KINDS: [&str; 7] = [
    "linear",
    "attention",
    "norm",
    "rope",
    "activation",
    "embedding",
    "sample",
];
const PHASES: [&str; 2] = ["prefill", "decode"];

/// A report whose timeline has at least `events` events.
pub(crate) fn report(events: usize) -> Document {
    let mut document = Document {
        title: "Qwen2.5-0.5B on a made-up device".to_owned(),
        subtitle: "Invented numbers: batch 1, prompt 512, 32 new tokens, `bf16`".to_owned(),
        caveats: Vec::new(),
        summary: vec![
            "TTFT 41 ms · TPOT 20.6 ms · 46.9 tok/s".to_owned(),
            "prefill 41 ms: compute-bound · at 41.5 % of roofline".to_owned(),
            "decode 640 ms: **host-bound** · GPU idle 84.5 %".to_owned(),
        ],
        findings: findings(),
        no_conclusion: vec![format!(
            "nothing can be said about {HOSTILE}: no model is named"
        )],
        issues: issues(),
        sections: Vec::new(),
    };
    let section = document.section("waterfall", "Where the time went");
    let prefill = waterfall(
        "prefill",
        41_000_000,
        [17.0, 12.4, 3.1, 0.4, 0.2, 8.1, -0.2],
    );
    let decode = waterfall(
        "decode",
        640_000_000,
        [42.0, 31.0, 22.0, 6.0, 1.5, 541.0, -3.5],
    );
    section.chart("waterfall_prefill", Drawing::Waterfall(prefill));
    section.chart("waterfall_decode", Drawing::Waterfall(decode));
    phases(document.section("phases", "Phases"));
    let section = document.section("latency", "Latency");
    let gaps = gaps();
    section.chart("token_latency", Drawing::StepLatency(step_latency(&gaps)));
    section.chart("token_gaps", Drawing::Histogram(latency(gaps)));
    document
        .section("timeline", "Timeline")
        .chart("timeline", Drawing::Timeline(timeline(events)));
    document
        .section("roofline", "Roofline")
        .chart("roofline", Drawing::Roofline(roofline()));
    document
        .section("operators", "Operators")
        .table(operators());
    let section = document.section("telemetry", "Telemetry");
    section.chart("telemetry_power", Drawing::Series(power()));
    section.chart("telemetry_cpu", Drawing::Series(utilization()));
    assumptions(document.section("assumptions", "Assumptions"));
    document
}

fn findings() -> Vec<FindingItem> {
    let to_row = Link {
        label: "phase row".to_owned(),
        target: ReportTarget::Anchor("phase-decode".to_owned()),
    };
    let to_timeline = Link {
        label: "decode on the timeline".to_owned(),
        target: ReportTarget::Phase("decode".to_owned()),
    };
    vec![FindingItem {
        key: "finding-1".to_owned(),
        title: "Decode is host-bound: GPU idle 84.5 %".to_owned(),
        gain: Some("Upper bound: run 6.30×.".to_owned()),
        knob: Some("Try: CUDA Graphs, or torch.compile.".to_owned()),
        evidence: vec!["idle share of wall time: 84.5 % (measured)".to_owned()],
        links: vec![to_row, to_timeline],
    }]
}

fn issues() -> Vec<Issue> {
    vec![
        Issue::new(
            Severity::Info,
            "telemetry.no_rapl".into(),
            "no energy counter is readable",
        )
        .with_hint("run as a user who may read `/sys/class/powercap`"),
        Issue::new(
            Severity::Warning,
            "trace.overlap".into(),
            "events of one stream overlap",
        )
        .counting(12),
        Issue::new(
            Severity::Error,
            "kernels.lost".into(),
            format!("records of {HOSTILE} were lost"),
        ),
    ]
}

/// Numbers that look random and are the same each time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    fn within(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() * (high - low) as f64) as i64
    }
}

fn waterfall(phase: &str, wall_ns: i64, millis: [f64; 7]) -> Waterfall {
    let labels = [
        ("roofline time", PartKind::Roofline),
        ("kernel inefficiency", PartKind::Inefficiency),
        ("overhead ops", PartKind::Overhead),
        ("copies", PartKind::Copies),
        ("unattributed", PartKind::Unattributed),
        ("idle: host busy before the launch", PartKind::Idle),
        ("overlap", PartKind::Overlap),
    ];
    let parts = labels
        .into_iter()
        .zip(millis)
        .map(|((label, kind), millis)| WaterfallPart {
            label: label.to_owned(),
            duration_ns: Nanos((millis * 1e6) as i64),
            kind,
        });
    Waterfall {
        phase: phase.to_owned(),
        wall_ns: Nanos(wall_ns),
        parts: parts.collect(),
    }
}

fn phases(section: &mut Section) {
    let mut table = Table::new(&["Phase", "Wall time", "Busy", "MFU", "MBU"], 1);
    table.keyed(
        "phase-prefill".to_owned(),
        ["prefill", "41 ms", "32.9 ms", "41.5 %", "12.2 %"],
    );
    table.keyed(
        "phase-decode".to_owned(),
        ["decode", "640 ms", "99 ms", "0.6 %", "9.1 %"],
    );
    section.paragraph("MFU is model FLOPs ÷ (peak × wall time); MBU is weights and KV bytes ÷ (bandwidth × wall time).");
    section.table(table);
}

fn roofline() -> Roofline {
    let roof = |label: &str, peak, bandwidth, basis| RooflineCeiling {
        label: label.to_owned(),
        peak_flops_per_s: FlopsPerSecond(peak),
        bandwidth: BytesPerSecond(bandwidth),
        is_own: basis == Basis::Measured,
        basis,
    };
    let mut noise = Noise(7);
    let mut points = Vec::new();
    for (phase_index, phase) in PHASES.iter().enumerate() {
        for (kind_index, kind) in KINDS.iter().enumerate() {
            for number in 0..4 {
                let base: f64 = if phase_index == 0 { 300.0 } else { 1.0 };
                let intensity = base / 3f64.powi(kind_index as i32) * (0.5 + noise.next());
                let reached = 0.08 + 0.6 * noise.next();
                let label = match (kind_index, number) {
                    (0, 3) => HOSTILE.to_owned(),
                    _ => format!("layers.*.{kind}.{number}"),
                };
                points.push(PlottedOperator {
                    label,
                    kind: (*kind).to_owned(),
                    phase: (*phase).to_owned(),
                    intensity: if kind_index == 5 { 0.0 } else { intensity },
                    flops_per_s: FlopsPerSecond(reached * (intensity * 4.2e12).min(780e12)),
                    time_ns: Nanos(noise.within(20_000, 9_000_000) / (kind_index as i64 + 1)),
                    calls: 24,
                    anchor: None,
                });
            }
        }
    }
    Roofline {
        titles: None,
        roofs: vec![
            roof("bf16 tensor", 989.5e12, 4.8e12, Basis::Datasheet),
            roof("f32 vector", 66.9e12, 4.8e12, Basis::Datasheet),
            roof("bf16 tensor", 780e12, 4.2e12, Basis::Measured),
            roof("f32 vector", 60.2e12, 4.2e12, Basis::Measured),
        ],
        points,
        own_lacks_peak: false,
    }
}

fn timeline(events: usize) -> Timeline {
    let mut noise = Noise(3);
    let lanes = vec![
        "thread 4711 (python)".to_owned(),
        "stream 7".to_owned(),
        "copies".to_owned(),
    ];
    let mut names: Vec<String> = KINDS.iter().map(|kind| format!("{kind}_kernel")).collect();
    names.extend([
        "step".to_owned(),
        "memcpy HtoD".to_owned(),
        HOSTILE.to_owned(),
    ]);
    let mut timeline = Timeline::new(
        lanes,
        names,
        PHASES.iter().map(|&phase| phase.to_owned()).collect(),
    );
    let mut now = 1_000_000_000_i64;
    let mut step = 0;
    let mut windows = Vec::new();
    while timeline.len() < events {
        let begun = now;
        for layer in 0..24 {
            let layer_begun = now;
            for kind in 0..6 {
                let host = noise.within(4_000, 30_000);
                let device = noise.within(1_500, 12_000);
                let mut push = |lane, start, duration, name| {
                    timeline.push(TimelineEvent {
                        lane,
                        start_ns: Nanos(start),
                        duration_ns: Nanos(duration),
                        name,
                        phase: u32::from(step > 0),
                    });
                };
                push(0, now, host, kind);
                push(
                    1,
                    now + host + 3_000,
                    device,
                    if layer == 23 && kind == 5 { 9 } else { kind },
                );
                if layer == 0 {
                    push(2, now + 500, 900, 8);
                }
                now += host + noise.within(500, 4_000);
            }
            timeline.push(TimelineEvent {
                lane: 0,
                start_ns: Nanos(layer_begun),
                duration_ns: Nanos(now - layer_begun),
                name: 7,
                phase: u32::from(step > 0),
            });
        }
        timeline.push(TimelineEvent {
            lane: 0,
            start_ns: Nanos(begun),
            duration_ns: Nanos(now - begun),
            name: 7,
            phase: u32::from(step > 0),
        });
        windows.push(TimelineWindow {
            phase: u32::from(step > 0),
            start_ns: Nanos(begun),
            end_ns: Nanos(now),
        });
        now += noise.within(20_000, 400_000);
        step += 1;
    }
    timeline.windows = windows;
    timeline
}

fn operators() -> Table {
    let headers = Table::new(
        &[
            "Operator",
            "Kind",
            "Phase",
            "Calls",
            "Time",
            "Share",
            "% of roofline",
        ],
        3,
    );
    let mut noise = Noise(11);
    let mut table = Table::sortable("operators", headers.columns);
    for phase in PHASES {
        for (index, kind) in KINDS.iter().enumerate() {
            for number in 0..6 {
                let time = noise.within(10_000, 90_000_000) / (index as i64 + 1);
                let share = time as f64 / 700e6;
                let name = if index + number == 0 {
                    Cell::Name {
                        label: "k<T>".to_owned(),
                        full: HOSTILE.to_owned(),
                    }
                } else {
                    Cell::from(format!("layers.{number}.{kind}"))
                };
                let roof = noise.next();
                table.row([
                    name,
                    Cell::from(*kind),
                    Cell::from(phase),
                    Cell::number(24.0, 24),
                    Cell::number(time as f64, Nanos(time)),
                    Cell::number(share, Percent(share)),
                    if number == 5 {
                        Cell::Missing
                    } else {
                        Cell::number(roof, Percent(roof))
                    },
                ]);
            }
        }
    }
    table
}

/// The first token of a request waits, and a few later ones.
fn gaps() -> Vec<f64> {
    let mut noise = Noise(5);
    let mut gaps: Vec<f64> = (0..620)
        .map(|_| 18e6 + (0..6).map(|_| noise.next()).sum::<f64>() * 1.2e6)
        .collect();
    for (place, gap) in [(0, 41e6), (100, 34e6), (400, 35e6)] {
        gaps.insert(place, gap);
    }
    gaps
}

fn marks(sorted: &[f64]) -> Vec<ValueMark> {
    let mark = |label: &str, share: f64| ValueMark {
        label: label.to_owned(),
        value: sorted[((sorted.len() - 1) as f64 * share).round() as usize],
    };
    vec![mark("p50", 0.5), mark("p90", 0.9), mark("p99", 0.99)]
}

fn step_latency(gaps: &[f64]) -> StepLatency {
    let mut sorted = gaps.to_vec();
    sorted.sort_by(f64::total_cmp);
    StepLatency {
        title: "ITL by token".to_owned(),
        noun: "gap",
        lines: vec![StepLine {
            label: "request 1".to_owned(),
            values_ns: gaps.to_vec(),
        }],
        marks: marks(&sorted),
    }
}

fn latency(mut gaps: Vec<f64>) -> Histogram {
    gaps.sort_by(f64::total_cmp);
    Histogram::from_values("ITL distribution", Unit::Nanoseconds, &gaps, marks(&gaps))
}

fn bands() -> Vec<Band> {
    let band = |label: &str, start: i64, end: i64| Band {
        label: label.to_owned(),
        start_ns: Nanos(start * 1_000_000),
        end_ns: Nanos(end * 1_000_000),
    };
    vec![
        band("load", 1_000, 1_800),
        band("prefill", 2_000, 2_300),
        band("decode", 2_300, 5_600),
    ]
}

fn power() -> Series {
    let mut noise = Noise(13);
    let mut line = |label: &str, base: f64, swing: f64| SeriesLine {
        is_held: false,
        label: label.to_owned(),
        samples: (0..500)
            .map(|i| {
                let busy = if (200..560).contains(&i) { swing } else { 0.0 };
                let value = base + busy * (0.8 + 0.2 * noise.next());
                (
                    Nanos(1_000_000_000 + i * 10_000_000),
                    if (300..312).contains(&i) {
                        f64::NAN
                    } else {
                        value
                    },
                )
            })
            .collect(),
    };
    Series {
        key: "power".to_owned(),
        title: "Power".to_owned(),
        unit: Unit::Watts,
        lines: vec![line("package", 38.0, 92.0), line("memory", 9.0, 14.0)],
        bands: bands(),
    }
}

fn utilization() -> Series {
    let mut noise = Noise(17);
    let mut line = |label: String| SeriesLine {
        is_held: false,
        label,
        samples: (0..500)
            .map(|i| {
                (
                    Nanos(1_000_000_000 + i * 10_000_000),
                    0.4 + 0.6 * noise.next(),
                )
            })
            .collect(),
    };
    Series {
        key: "cpu".to_owned(),
        title: "CPU utilization".to_owned(),
        unit: Unit::Fraction,
        lines: (0..2).map(|core| line(format!("core {core}"))).collect(),
        bands: bands(),
    }
}

fn assumptions(section: &mut Section) {
    section.list(vec![
        "A multiply-add is 2 FLOPs.".to_owned(),
        "Activations between operators count nothing: name a device with `hardware.spec`."
            .to_owned(),
    ]);
}
