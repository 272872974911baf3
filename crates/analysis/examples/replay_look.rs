#![allow(clippy::print_stdout, clippy::unwrap_used)]
use llmprof_analysis::replay::*;
use llmprof_record::import::{Limits, Profile, import};
use llmprof_record::trace::RangeKind;
fn main() {
    let truth: serde_json::Value = std::fs::read("/work/shared/fixtures/faults/truth.json").map(|t| serde_json::from_slice(&t).unwrap()).unwrap();
    for file in std::env::args().skip(1) {
        let (_, Profile::Trace(trace)) = import(std::path::Path::new(&file), &Limits::default()).unwrap() else { continue };
        let name = file.rsplit('/').next().unwrap().trim_end_matches(".json.gz");
        let mut w: Vec<(String, Window)> = trace.ranges.rows().filter(|r| r.kind == RangeKind::ANNOTATION)
            .map(|r| (trace.text(r.name).to_owned(), Window { start: r.start, end: r.start + r.duration })).collect();
        w.sort_by_key(|x| x.1.start);
        let Some(g) = Graph::of(&trace, w.iter().map(|x| x.1).collect()) else { println!("{name}: none"); continue };
        let no = Edit::default();
        let res = g.window_times(&g.replay(Model::default(), &no), &no);
        print!("{name:24}");
        for (i, (rec, con)) in g.fidelity().iter().enumerate() {
            let n = if w[i].0 == "decode" { 6.0 } else { 1.0 };
            let ms = |x: i64| x as f64 / 1e6 / n;
            let key = if w[i].0 == "decode" { "decode_step" } else { "prefill" };
            let t = truth[name][key]["fault_ms"].as_f64().unwrap_or(f64::NAN);
            print!(" | {} rec {:.2} res {:+.2}% const {:+.2}% plain {:.2}:", w[i].0, ms(*rec), 100.0 * (res[i] as f64 / *rec as f64 - 1.0), 100.0 * (*con as f64 / *rec as f64 - 1.0), t);
            for c in [1.5, 2.5, 3.0, 3.5, 5.0] {
                let r = g.window_times(&g.replay(Model { event_cost_ns: c * 1e3, with_constants: false }, &no), &no);
                print!(" {:.2}", ms(r[i]));
            }
        }
        println!();
    }
}
