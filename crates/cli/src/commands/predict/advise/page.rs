//! The page of advice.

use llmprof_report::{Document, Table, text::advise as text};
use llmprof_units::{Bytes, significant};

use super::{Advice, Advised, Figures, measured::Tried};

pub(super) fn document(advised: &Advised) -> Document {
    let mut document = Document::new(text::TITLE);
    document.subtitle = text::subtitle(&advised.model, &advised.device, &advised.efficiencies);
    document.summary = summary(advised);
    let mut table = Table::new(&text::COLUMNS, 3);
    for advice in &advised.advice {
        table.row(cells(advice, &advised.request));
    }
    let section = document.section("advice", "Changes");
    // Without rows nothing is known of any column.
    section.table(if advised.advice.is_empty() {
        table
    } else {
        table.without_empty_columns()
    });
    section.list(notes(advised));
    document
}

fn cells(advice: &Advice, before: &Figures) -> [String; 11] {
    let figures = &advice.figures;
    let interval = advice.speedup_low.zip(advice.speedup_high);
    [
        text::speedup(advice.speedup, interval.map(<[f64; 2]>::from)),
        text::change(advice.code.name()).to_owned(),
        text::overrides(&advice.overrides, &advice.alike),
        text::with_cost(figures.ttft_ns, before.ttft_ns),
        match figures.tpot_ns.zip(before.tpot_ns) {
            Some((after, before)) => text::with_cost(after, before),
            None => "–".to_owned(),
        },
        significant(figures.tokens_per_s),
        figures.devices.to_string(),
        Bytes(figures.memory_bytes).to_string(),
        text::fits(figures.fits),
        text::meets(advice.meets_target).to_owned(),
        text::runs(advice.runs).to_owned(),
    ]
}

fn summary(advised: &Advised) -> Vec<String> {
    let base = &advised.request;
    let best = advised.advice.first();
    let best = best.map(|best| (best.code.name(), best.overrides.as_slice(), best.speedup));
    let mut lines = vec![
        text::now(
            base.ttft_ns,
            base.tpot_ns,
            base.tokens_per_s,
            Bytes(base.memory_bytes),
            base.fits,
        ),
        text::best(best),
    ];
    lines.extend(advised.tried.as_ref().map(tried));
    lines
}

fn tried(tried: &Tried) -> String {
    let interval = tried.ci_low.zip(tried.ci_high);
    text::tried(
        &tried.overrides,
        tried.predicted_speedup,
        tried.measured_speedup,
        interval.map(<[f64; 2]>::from),
        &tried.comparison,
    )
}

fn notes(advised: &Advised) -> Vec<String> {
    let has_designs = advised.advice.iter().any(|advice| advice.code.is_design());
    // One reason stands for all changes that are refused for it.
    let mut refused: Vec<(String, &str)> = Vec::new();
    for advice in &advised.advice {
        let Some(why) = advice.refused.as_deref() else {
            continue;
        };
        if !refused.iter().any(|(_, known)| *known == why) {
            refused.push((advice.overrides.join(" "), why));
        }
    }
    text::notes(has_designs, &refused, advised.left_out)
}
