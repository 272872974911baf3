//! Tables that commands print by themselves.

use llmprof_record::summary::TimeRow;
use llmprof_theory::Operator;
use llmprof_units::{Bytes, Flops, Nanos, Percent, format_significant};

use crate::document::{Cell, Table};
use crate::kernel_label::kernel_label;

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

/// Every operator that `lower` sends. Those of a decoder come in the order of execution, equal neighbours not collapsed; those of
/// an encoder's equal layers once.
pub fn operators<'m>(lower: impl FnOnce(&mut dyn FnMut(&Operator<'m>))) -> Table {
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

/// Kernels with the phase that launched them, where it is known; shares are of `total`.
pub fn kernels_by_phase<'k>(
    rows: impl IntoIterator<Item = (Option<&'k str>, &'k TimeRow)>,
    total: Nanos,
) -> Table {
    let mut table = Table::new(&["#", "Phase", "Share", "Time", "Calls", "Kernel"], 6);
    for (rank, (phase, row)) in rows.into_iter().enumerate() {
        let share = Percent(row.total_ns.0 as f64 / total.0 as f64);
        table.row([
            Cell::from((rank + 1).to_string().as_str()),
            Cell::from(phase.unwrap_or("-")),
            Cell::from(share.to_string().as_str()),
            Cell::from(row.total_ns.to_string().as_str()),
            Cell::from(row.times.count.to_string().as_str()),
            Cell::from(kernel_label(&row.name).as_str()),
        ]);
    }
    table
}
