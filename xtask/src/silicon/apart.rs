//! Rows that prefill and decode on different GPUs, `fixtures/silicon/disaggregated.csv`: TTFT from prefill workers, TPOT from decode workers, both in one closed loop.

use std::error::Error;

use llmprof_predict::parallel::ParallelModel;
use llmprof_simulate::{
    SimulatedLoad, StepTimer,
    disaggregated::{Workers, simulate_split},
    predicted::Predicted,
};
use llmprof_theory::{Precision, Step, Workload, parallel::Parallel};
use llmprof_units::{DType, Nanos};

use super::{
    rows::{self, ServedTimes},
    served::{GradedServer, mean_times},
};

const ROWS: &str = include_str!("../../../fixtures/silicon/disaggregated.csv");

pub(crate) struct ApartRow {
    pub(crate) backend: &'static str,
    pub(crate) model: &'static str,
    concurrency: usize,
    prompt: u64,
    output: u64,
    /// Workers and the ranks of one, prefill before decode; `None` if the row does not state them.
    sides: Option<[(usize, Parallel); 2]>,
    pub(crate) measured: ServedTimes,
}

pub(crate) fn read_rows() -> Result<Vec<ApartRow>, Box<dyn Error>> {
    rows::read_csv(ROWS, parse_row)
}

fn parse_row(header: &[&str], line: &'static str) -> Result<ApartRow, Box<dyn Error>> {
    let cells: Vec<&str> = line.split(',').collect();
    let cell = |name: &str| {
        let place = header.iter().position(|column| *column == name);
        place.map_or("", |place| cells[place])
    };
    let side = |side: &str| {
        let count = |key: &str| cell(&format!("{side}_{key}")).parse::<u64>();
        let workers = count("num_workers").ok()? as usize;
        let data = count("attention_dp_size").unwrap_or(1);
        let by_width = if data > 1 {
            count("moe_tp_size").unwrap_or(1)
        } else {
            1
        };
        let parallel = Parallel {
            tensor: count("tp_size").unwrap_or(1),
            pipeline: 1,
            expert: count("moe_ep_size").unwrap_or(1) * by_width,
            data,
        };
        Some((workers, parallel))
    };
    let sides = side("prefill").zip(side("decode"));
    Ok(ApartRow {
        backend: cell("backend"),
        model: cell("model_path"),
        concurrency: cell("concurrency").parse()?,
        prompt: cell("isl").parse()?,
        output: cell("osl").parse()?,
        sides: sides.map(|(prefill, decode)| [prefill, decode]),
        measured: ServedTimes {
            ttft: cell("ttft_ms").parse()?,
            tpot: cell("tpot_ms").parse()?,
        },
    })
}

/// What the row is predicted to hold; `None` if it does not state its workers.
pub(crate) fn predict_served(
    row: &ApartRow,
    server: &GradedServer<'_>,
) -> Result<Option<ServedTimes>, Box<dyn Error>> {
    let client = &server.client;
    let Some([prefill, decode]) = row.sides else {
        return Ok(None);
    };
    let load = client.closed_loop(row.concurrency, 10, [row.prompt, row.output]);
    let workers = Workers {
        prefill: prefill.0,
        decode: decode.0,
        // A prompt for each group of ranks, as scripts set it.
        prefill_sequences: prefill.1.data as usize,
        decode_sequences: usize::MAX,
        transfer: Nanos(0),
    };
    let step = |parallel: Parallel, then: &mut dyn FnMut(&dyn StepTimer)| {
        let workload = Workload {
            precision: Precision {
                kv: (row.backend == "trtllm").then_some("fp8".parse::<DType>()?),
                ..Precision::default()
            },
            parallel,
            ..Workload::default()
        };
        let spread = ParallelModel::new(server.model, server.device, parallel)?;
        let predictor = spread.rank_predictor(server.device, server.profile);
        let predict = |step: &Step| spread.predict_step(&predictor, &workload, step);
        let predicted = Predicted::new(&predict, Nanos(0))?;
        then(&|step: &Step| client.step_time(step, predicted.step_time(step)));
        Ok::<(), Box<dyn Error>>(())
    };
    let mut outcome_times = None;
    let mut inner = Ok(());
    step(prefill.1, &mut |prefill_time| {
        inner = step(decode.1, &mut |decode_time| {
            let outcome = simulate_split(&load, workers, prefill_time, decode_time);
            outcome_times = Some(SimulatedLoad::of_outcomes(&[outcome], 1, &[]));
        });
    })?;
    inner?;
    let summary = outcome_times.ok_or("no request ended")?;
    Ok(Some(mean_times(&summary)?))
}
