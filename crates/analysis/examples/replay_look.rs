#![allow(clippy::print_stdout, clippy::unwrap_used)]
use llmprof_analysis::causes::*;
use llmprof_analysis::replay::*;
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::run::RunPhase;
use llmprof_record::trace::RangeKind;
use llmprof_theory::device::Catalog;
fn main() {
    for file in std::env::args().skip(1) {
        let path = std::path::Path::new(&file);
        let truth: serde_json::Value = std::fs::read(path.with_file_name("truth.json")).ok().map(|t| serde_json::from_slice(&t).unwrap()).unwrap_or_default();
        let (_, Profile::Trace(trace)) = import(path, &Limits::default()).unwrap() else { continue };
        let name = file.rsplit('/').next().unwrap().trim_end_matches(".json.gz");
        let mut phases: Vec<PhaseInput> = Vec::new();
        for r in trace.ranges.rows().filter(|r| r.kind == RangeKind::ANNOTATION) {
            let n = trace.text(r.name);
            let phase = match n { "prefill" => RunPhase::Prefill, "decode" => RunPhase::Decode, _ => continue };
            phases.push(PhaseInput { phase, label: None, windows: PhaseWindows { windows: vec![Window { start: r.start, end: r.start + r.duration }], steps: 0 }, plain_ns: None });
        }
        let device = Catalog::embedded().by_driver_name("NVIDIA H200").ok();
        let subject = Subject { weights: Some(llmprof_units::DType::Bf16) };
        let Some(d) = diagnose(&trace, &phases, device.as_ref(), Some(&subject)) else { println!("{name}: none"); continue };
        println!("=== {name}");
        for p in &d.phases {
            let t = &truth[name][if p.phase == RunPhase::Decode { "decode_step" } else { "prefill" }];
            let (f, b) = (t["fault_ms"].as_f64().unwrap_or(f64::NAN), t["base_ms"].as_f64().unwrap_or(f64::NAN));
            println!("  {} steps {} recorded {:.2} err {:+.2}% plain {:.2} (true {:.2}) all removed {:.2}; TRUE SAVING {:.2} = {:.1} %", p.phase.name(), p.steps, p.recorded_ns.0 as f64 / 1e6, 100.0 * p.error, p.plain_ns.0 as f64 / 1e6, f, p.without_causes_ns.0 as f64 / 1e6, f - b, 100.0 * (f - b) / f);
        }
        for c in &d.causes {
            print!("  {:22} {:6.1}x {:?}", c.kind.code(), c.count, c.place.operator);
            for g in &c.gains { print!(" | {} saves {:.2} ({:.2}-{:.2}) {:.1}%", g.phase.name(), g.saved_ns.0 as f64 / 1e6, g.low_ns.0 as f64 / 1e6, g.high_ns.0 as f64 / 1e6, 100.0 * g.share()); }
            println!(" same {:?}", c.same_time_as);
        }
    }
}
