//! Plans against simulations that are set up by hand, and against sums.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use llmprof_predict::{EfficiencyProfile, parallel::ParallelModel};
use llmprof_simulate::{
    RequestLoad,
    plan::{
        PlanAnswer, PlanQuestion, PlanReason, PlanTraffic, RequestSource, Requests, TrafficError,
        TriedFormats, plan_engines,
    },
    predicted::Predicted,
    search::on_replicas,
    shift::Shift,
};
use llmprof_theory::{
    Model, Step, Workload,
    device::{Catalog, Device},
};
use llmprof_traffic::{
    arrivals::Arrivals,
    lengths::Lengths,
    slo::{Slo, all_met},
};
use llmprof_units::Nanos;

fn model(name: &str) -> Model {
    let path = format!(
        "{}/../theory/tests/data/models/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    Model::from_config(&serde_json::from_str(&text).unwrap(), None).unwrap()
}

fn device(name: &str) -> Device {
    Catalog::embedded().by_name(name).unwrap()
}

const PROMPT: Lengths = Lengths::Fixed { tokens: 512 };
const OUTPUT: Lengths = Lengths::Fixed { tokens: 32 };

fn traffic(rate: f64) -> PlanTraffic {
    let source = RequestSource::Synthetic {
        arrivals: Arrivals::Poisson { rate },
        prompt: PROMPT,
        output: OUTPUT,
        shared_prefix: 0,
    };
    PlanTraffic::new(source, 7).unwrap()
}

fn slos(texts: &[&str]) -> Vec<Slo> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

struct Asked<'a> {
    model: &'a str,
    devices: &'a [&'a str],
    rate: f64,
    slos: &'a [&'a str],
    max_gpus: u64,
    prices: &'a [(&'a str, f64)],
    disaggregated: bool,
    shift: Shift,
}

fn planned(asked: &Asked<'_>) -> PlanAnswer {
    let devices: Vec<Device> = asked.devices.iter().map(|name| device(name)).collect();
    let prices: BTreeMap<String, f64> = asked
        .prices
        .iter()
        .map(|&(name, price)| (name.to_owned(), price))
        .collect();
    let question = PlanQuestion {
        model: &model(asked.model),
        devices: &devices,
        profile: &EfficiencyProfile::embedded("vllm").unwrap(),
        shift: asked.shift,
        base: Workload::default(),
        formats: TriedFormats {
            fp8_weights: false,
            fp8_kv: false,
        },
        traffic: &traffic(asked.rate),
        slos: &slos(asked.slos),
        max_gpus: asked.max_gpus,
        prices: &prices,
        gpu_memory_utilization: 0.9,
        block_size: 16,
        disaggregated: asked.disaggregated,
        engines_max: 4,
        requests: Requests {
            first: 200,
            most: 1600,
        },
    };
    plan_engines(&question, &mut |_, _| {}).unwrap()
}

const LLAMA_8B: Asked<'_> = Asked {
    model: "llama3_1_8b",
    devices: &["h100_sxm"],
    rate: 200.0,
    slos: &["ttft:p99<400ms", "tpot:p99<30ms"],
    max_gpus: 16,
    prices: &[],
    disaggregated: false,
    shift: Shift {
        prefill: 1.0,
        decode: 1.0,
    },
};

/// 32 tokens a request at 4 a second keep one H100 far below its limits, so that TPOT is the time of nearly empty steps.
#[test]
fn shifted_step_times_shift_latencies_and_bounds() {
    let of = |decode: f64| {
        let shift = Shift {
            decode,
            ..LLAMA_8B.shift
        };
        planned(&Asked {
            rate: 4.0,
            max_gpus: 1,
            shift,
            ..LLAMA_8B
        })
    };
    let tpot = |plan: &PlanAnswer| {
        plan.candidates[0]
            .steady
            .summary
            .figures
            .tpot_ms
            .unwrap()
            .p50
    };
    let [plain, slow] = [of(1.0), of(2.0)];
    let ratio = tpot(&slow) / tpot(&plain);
    assert!((1.7..2.1).contains(&ratio), "{ratio}");
    // 4.8 ms at the least × 10 are more than 30 ms.
    let hopeless = of(10.0);
    assert_eq!(
        hopeless.failed.get(&PlanReason::Tpot),
        Some(&hopeless.considered)
    );
}

/// The best engine meets the objectives in a simulation of all replicas, and one replica fewer does not.
#[test]
fn the_best_engine_is_enough_and_one_less_is_not() {
    let plan = planned(&LLAMA_8B);
    let best = &plan.candidates[0];
    assert!(best.is_met, "{best:?}");
    assert!(best.replicas > 1, "the load is for several: {best:?}");
    let (llama, h100) = (model("llama3_1_8b"), device("h100_sxm"));
    let spread = ParallelModel::new(&llama, &h100, best.parallel).unwrap();
    let profile = EfficiencyProfile::embedded("vllm").unwrap();
    let predictor = spread.rank_predictor(&h100, &profile);
    let workload = Workload {
        parallel: best.parallel,
        ..Workload::default()
    };
    let predict = |step: &Step| spread.predict_step(&predictor, &workload, step);
    let time = Predicted::new(&predict, Nanos(0)).unwrap();
    let slos = slos(LLAMA_8B.slos);
    let arrivals = Arrivals::Poisson {
        rate: LLAMA_8B.rate,
    };
    let load = RequestLoad::from_lengths(&arrivals, &PROMPT, &OUTPUT, 0, 8000, 8);
    let is_met = |replicas| {
        let summary = on_replicas(&load, &best.settings, &time, replicas, &slos).unwrap();
        all_met(&slos, &summary)
    };
    assert!(is_met(best.replicas));
    assert!(!is_met(best.replicas - 1));
    let rate = plan.highest_rate.unwrap();
    assert!(rate.met >= LLAMA_8B.rate && rate.missed.is_none_or(|missed| missed > rate.met));
}

/// Feasible engines come first, by GPUs, and no engine has more than allowed.
#[test]
fn candidates_are_ranked() {
    let plan = planned(&Asked {
        devices: &["l40s", "h100_sxm"],
        rate: 4.0,
        ..LLAMA_8B
    });
    let met = plan.candidates.iter().take_while(|one| one.is_met).count();
    assert!(met >= 2, "{plan:?}");
    assert!(plan.candidates[met..].iter().all(|one| !one.is_met));
    let gpus: Vec<u64> = plan.candidates[..met].iter().map(|one| one.gpus).collect();
    assert!(
        gpus.is_sorted() && gpus.iter().all(|&gpus| gpus <= 16),
        "{gpus:?}"
    );
    let failed: usize = plan.failed.values().sum();
    assert_eq!(
        failed + met + plan.not_simulated,
        plan.considered,
        "{plan:?}"
    );
}

/// One GPU of either kind is enough; prices say which.
#[test]
fn prices_decide() {
    for (prices, cheapest) in [
        ([("l40s", 1.0), ("h100_sxm", 3.0)], "l40s"),
        ([("l40s", 9.0), ("h100_sxm", 3.0)], "h100_sxm"),
    ] {
        let plan = planned(&Asked {
            devices: &["l40s", "h100_sxm"],
            rate: 1.0,
            slos: &["tpot:p99<60ms"],
            prices: &prices,
            ..LLAMA_8B
        });
        let best = &plan.candidates[0];
        assert_eq!((best.device.as_str(), best.is_met), (cheapest, true));
        let price = prices.iter().find(|(name, _)| *name == cheapest).unwrap().1;
        assert_eq!(best.cost_per_hour, Some(best.gpus as f64 * price));
    }
}

/// 141 GB of weights do not fit an L4; 16 GB at 3.35 TB/s take 4.8 ms to read, so that no step of an 8B model takes 1 ms.
#[test]
fn what_cannot_work_has_its_reason() {
    let too_large = planned(&Asked {
        model: "llama3_1_70b",
        devices: &["l4"],
        max_gpus: 2,
        ..LLAMA_8B
    });
    assert!(too_large.candidates.is_empty());
    assert_eq!(
        too_large.failed,
        BTreeMap::from([(PlanReason::Memory, too_large.considered)])
    );
    let too_slow = planned(&Asked {
        slos: &["tpot:p50<1ms"],
        max_gpus: 1,
        ..LLAMA_8B
    });
    assert_eq!(too_slow.failed, BTreeMap::from([(PlanReason::Tpot, 1)]));
    let too_many = planned(&Asked {
        rate: 10_000.0,
        max_gpus: 1,
        ..LLAMA_8B
    });
    assert_eq!(too_many.failed, BTreeMap::from([(PlanReason::Gpus, 1)]));
}

/// Decode engines compute no prompts: TPOT hardly exceeds that of a decode step, while a KV cache of 512 × 131,072 bytes passes NVLink.
#[test]
fn prefill_and_decode_apart() {
    let plan = planned(&Asked {
        rate: 40.0,
        disaggregated: true,
        ..LLAMA_8B
    });
    let apart = plan.candidates.iter().find(|one| one.split.is_some());
    let apart = apart.unwrap();
    let split = apart.split.unwrap();
    assert!(apart.is_met, "{apart:?}");
    assert_eq!(
        apart.gpus,
        (split.prefill + split.decode) * apart.parallel.rank_count()
    );
    let same = |one: &&llmprof_simulate::plan::PlanCandidate| {
        one.split.is_none() && one.parallel == apart.parallel
    };
    let together = plan.candidates.iter().find(same).unwrap();
    let tpot = |one: &llmprof_simulate::plan::PlanCandidate| {
        one.steady.summary.figures.tpot_ms.unwrap().p99
    };
    assert!(
        tpot(apart) < tpot(together),
        "{} {}",
        tpot(apart),
        tpot(together)
    );
}

#[test]
fn a_load_needs_a_rate() {
    let source = |arrivals| RequestSource::Synthetic {
        arrivals,
        prompt: PROMPT,
        output: OUTPUT,
        shared_prefix: 0,
    };
    let closed = PlanTraffic::new(source(Arrivals::Closed { concurrency: 4 }), 0);
    assert_eq!(closed.err(), Some(TrafficError::Closed));
    let all_at_once = PlanTraffic::new(
        source(Arrivals::Poisson {
            rate: f64::INFINITY,
        }),
        0,
    );
    assert_eq!(all_at_once.err(), Some(TrafficError::NoRate));
}
