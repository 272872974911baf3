//! Tables that commands print by themselves.

mod run_results;
mod runs;
mod runs_csv;

use std::collections::BTreeSet;

use llmprof_analysis::kernel_ranking::PhaseRow;
use llmprof_theory::{Model, Operator, Pass, Workload};
use llmprof_units::{Bytes, Count, Flops, Nanos, Percent, format_significant};

pub use self::run_results::RunFiles;
pub use self::runs::{ListedRun, run_lines, runs};
pub use self::runs_csv::{RunRow, flat_row, runs_csv};
use crate::document::Table;
use crate::kernel_label::kernel_label;

/// A table of words alone.
fn listing<const N: usize>(
    headers: &[&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new(headers, N);
    for row in rows {
        table.row(row);
    }
    table
}

/// Datasets: name, the place of the data as they came, variants, file lists.
pub fn datasets(rows: impl IntoIterator<Item = [String; 4]>) -> Table {
    listing(&["NAME", "SOURCE-DATA", "VARIANTS", "FILE LISTS"], rows)
}

/// Sources of others: path, kind, the revision that is pinned, the one that is there, their state.
pub fn externals(rows: impl IntoIterator<Item = [String; 5]>) -> Table {
    listing(&["PATH", "KIND", "PINNED", "FOUND", "STATE"], rows)
}

/// What works on a machine: name, state, what was found, what would make it work.
pub fn checks(rows: impl IntoIterator<Item = [String; 4]>) -> Table {
    listing(&["Check", "State", "Found", "Fix"], rows)
}

/// Loads of other tools: file, tool, model, requests that completed and that failed; then rates and latencies.
pub fn loads(rows: impl IntoIterator<Item = ([String; 5], [Option<f64>; 6])>) -> Table {
    let headers = [
        "File",
        "Tool",
        "Model",
        "Completed",
        "Failed",
        "Requests/s",
        "Tokens/s",
        "TTFT p50, ms",
        "TTFT p99, ms",
        "TPOT p50, ms",
        "TPOT p99, ms",
    ];
    let mut table = Table::new(&headers, 3);
    for (words, numbers) in rows {
        let numbers = numbers.map(|number| number.map_or("–".to_owned(), format_significant));
        table.row(words.into_iter().chain(numbers));
    }
    table
}

/// Models by name, with their id on a hub and their parameters where they are known.
pub fn models(rows: impl IntoIterator<Item = (String, Option<String>, Option<u64>)>) -> Table {
    let mut table = Table::new(&["NAME", "HUB ID", "PARAMETERS"], 2);
    for (name, hub_id, parameters) in rows {
        let parameters = parameters.map(|parameters| match parameters as f64 {
            billions if billions >= 1e9 => format!("{} B", format_significant(billions / 1e9)),
            millions => format!("{} M", format_significant(millions / 1e6)),
        });
        table.row([
            name,
            hub_id.unwrap_or_default(),
            parameters.unwrap_or_default(),
        ]);
    }
    table
}

/// The operators of each pass of a workload, below what it is called.
pub fn layers(model: &Model, workload: &Workload) -> Vec<(String, Table)> {
    let mut listed = Vec::new();
    if model.encoder.is_some() {
        let tokens = model.encoder_tokens(workload);
        let table = operators(|row| model.lower_encoder(workload, row));
        listed.push((format!("ENCODER, {tokens} TOKENS"), table));
    }
    let of_pass = |pass: &Pass| operators(|row| model.lower_in_order(workload, pass, row));
    for pass in model.prefill_passes(workload) {
        listed.push((format!("PREFILL, {} TOKENS", pass.queries), of_pass(&pass)));
    }
    let step = model.decode_step(workload);
    listed.push((
        format!("DECODE STEP AT {} TOKENS", step.past),
        of_pass(&step),
    ));
    listed
}

/// Every operator that `lower` sends. Those of a decoder come in the order of execution, equal neighbours not collapsed; those of
/// an encoder's equal layers once.
fn operators<'m>(lower: impl FnOnce(&mut dyn FnMut(&Operator<'m>))) -> Table {
    let mut table = Table::new(
        &[
            "OPERATOR",
            "KIND",
            "M",
            "N",
            "K",
            "GROUPS",
            "PARAMETERS",
            "FLOPS",
            "WEIGHTS",
            "KV",
            "ACTIVATIONS",
        ],
        2,
    );
    lower(&mut |operator| {
        let traffic = &operator.traffic;
        table.row([
            operator.path.to_string(),
            operator.kind.to_string(),
            operator.shape.m.to_string(),
            operator.shape.n.to_string(),
            operator.shape.k.to_string(),
            operator.shape.groups.to_string(),
            operator.parameters.to_string(),
            Flops(operator.tensor.flops + operator.vector.flops).to_string(),
            Bytes(traffic.weights).to_string(),
            Bytes(traffic.kv_read + traffic.kv_write).to_string(),
            Bytes(traffic.activation_bytes()).to_string(),
        ]);
    });
    table
}

/// First uses that are not among the kernels of their phase.
pub fn first_uses_left_out(phase: &str) -> String {
    format!("the first {phase} took longer than the others and is left out, as in the report")
}

/// Kernels with the phase that launched them; shares are of `total`.
pub fn kernels_by_phase(rows: &[PhaseRow], total: Nanos) -> Table {
    let mut table = Table::new(&["#", "Phase", "Share", "Time", "Calls", "Kernel"], 6);
    for (rank, (phase, row)) in rows.iter().enumerate() {
        let share = Percent(row.total_ns.0 as f64 / total.0 as f64);
        table.row([
            (rank + 1).to_string(),
            phase.unwrap_or("-").to_owned(),
            share.to_string(),
            row.total_ns.to_string(),
            row.times.count.to_string(),
            kernel_label(&row.name),
        ]);
    }
    table
}

/// How much of the GPU time of `all` the rows in `listed` take. A kernel has a row for each of its phases.
pub fn kernel_coverage(listed: &[PhaseRow], all: &[PhaseRow]) -> String {
    let time = |rows: &[PhaseRow]| rows.iter().map(|(_, row)| row.total_ns).sum::<Nanos>();
    let names: BTreeSet<&str> = all.iter().map(|(_, row)| row.name.as_str()).collect();
    let kernels = Count(names.len() as u64, "kernel");
    let (of, what) = if names.len() < all.len() {
        let what = format!("; a row is a kernel in one phase, and there are {kernels}");
        (Count(all.len() as u64, "row"), what)
    } else {
        (kernels, String::new())
    };
    format!(
        "{} of {of} {} {} of {} GPU time{what}",
        listed.len(),
        if listed.len() == 1 { "takes" } else { "take" },
        Percent(time(listed).0 as f64 / time(all).0 as f64),
        time(all)
    )
}
