use std::path::Path;

use llmprof_analysis::statics::Statics;
use llmprof_config::hydra::RunMode;
use llmprof_record::store::write_atomically;
use llmprof_report::{Table, render::markdown, statics};
use llmprof_theory::{Operator, Pass};
use llmprof_units::{Bytes, Flops};

use crate::{
    app,
    args::ModelArgs,
    failure::Failure,
    output::Output,
    plan::{Purpose, plan},
    subject::Subject,
};

pub(crate) fn model(args: &ModelArgs, output: &mut Output) -> Result<(), Failure> {
    let host = app::host()?;
    let mut overrides = Vec::new();
    if let Some(config) = &args.config {
        let path = config
            .to_string_lossy()
            .replace('\\', r"\\")
            .replace('\'', r"\'");
        overrides.push("model=local".to_owned());
        overrides.push(format!("model.config='{path}'"));
    }
    overrides.extend(args.overrides.iter().cloned());
    let composed = app::llmprof(&host.cwd)
        .compose(&overrides, RunMode::Run, &host)
        .map_err(app::own_failure)?;
    let subject = Subject::of(&plan(&composed, Purpose::Paper)?, args.family.as_deref())?;
    let statics = subject.statics()?;
    if let Some(directory) = &args.output {
        write(directory, &statics)?;
    }
    if args.json {
        return output.json(&statics);
    }
    output.document(&statics::document(&statics))?;
    if args.layers {
        output.line("")?;
        let model = subject.counted()?;
        let workload = &subject.workload;
        if model.encoder.is_some() {
            let tokens = model.encoder_tokens(workload);
            output.line(&format!("ENCODER, {tokens} TOKENS"))?;
            output.table(&operators(|row| model.lower_encoder(workload, row)))?;
            output.line("")?;
        }
        let of_pass = |pass: &Pass| operators(|row| model.lower_in_order(workload, pass, row));
        for pass in model.prefill_passes(workload) {
            output.line(&format!("PREFILL, {} TOKENS", pass.queries))?;
            output.table(&of_pass(&pass))?;
        }
        let step = model.decode_step(workload);
        output.line(&format!("\nDECODE STEP AT {} TOKENS", step.past))?;
        output.table(&of_pass(&step))?;
    }
    Ok(())
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
            Bytes(traffic.activations()).to_string(),
        ]);
    });
    table
}

fn write(directory: &Path, statics: &Statics) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", directory.display())))?;
    let json = serde_json::to_string_pretty(statics)
        .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    write_atomically(
        &directory.join("static_compute.json"),
        (json + "\n").as_bytes(),
    )?;
    let text = markdown::document(&statics::document(statics));
    write_atomically(&directory.join("static_compute.md"), text.as_bytes())?;
    Ok(())
}
