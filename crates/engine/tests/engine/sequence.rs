//! What the engine executed is what theory counted, operator by operator.

use crate::support::{data, directories, engine};
use llmprof_engine::{
    EngineOptions, NativeEngine, OperatorEvent, Recorder, SUPPORTED_FAMILIES, WeightSource,
};
use llmprof_theory::{Kind, Logits, Model, Pass, Shape, Workload};
use llmprof_units::DType;

type Line = (String, Kind, Shape, DType);

fn counted(engine: &NativeEngine, workload: &Workload, pass: &Pass) -> Vec<Line> {
    let mut lines = Vec::new();
    engine
        .model()
        .lower_in_order(workload, pass, &mut |operator| {
            lines.push((
                operator.path.to_string(),
                operator.kind,
                operator.shape,
                operator.tensor.dtype,
            ));
        });
    lines
}

fn executed(engine: &NativeEngine, events: &[OperatorEvent]) -> Vec<Line> {
    events
        .iter()
        .map(|event| {
            let operator = &engine.operators()[event.operator as usize];
            (
                operator.path.to_string(),
                operator.kind,
                event.shape(),
                operator.dtype,
            )
        })
        .collect()
}

fn check(engine: &NativeEngine, name: &str) {
    for (batch, prompt, chunk, logits) in [
        (1, 21, None, Logits::Last),
        (2, 21, None, Logits::All),
        (3, 13, Some(5), Logits::Last),
    ] {
        let workload = Workload {
            batch: batch as u64,
            prompt: prompt as u64,
            chunk: chunk.map(|chunk: usize| chunk as u64),
            logits,
            precision: engine.theory_precision(),
            ..Workload::default()
        };
        let mut cache = engine.new_cache(batch, prompt + 2).unwrap();
        let mut recorder = Recorder::with_capacity(10 * engine.events_per_step());
        let mut past = 0;
        while past < prompt {
            let count = chunk.unwrap_or(prompt).min(prompt - past);
            let last = past + count == prompt;
            let wanted = (last || logits == Logits::All).then_some(logits);
            recorder.clear_events();
            engine
                .prefill(
                    &mut cache,
                    &vec![vec![1; count]; batch],
                    wanted,
                    &mut recorder,
                )
                .unwrap();
            let pass = Pass {
                logits: match wanted {
                    None => 0,
                    Some(Logits::Last) => 1,
                    Some(Logits::All) => count as u64,
                },
                ..Pass::prefill_chunks(batch as u64, count as u64, past as u64, None, logits)
                    .next()
                    .unwrap()
            };
            assert_eq!(
                executed(engine, recorder.events()),
                counted(engine, &workload, &pass),
                "{name}: {count} tokens after {past}"
            );
            past += count;
        }
        for step in 0..2 {
            recorder.clear_events();
            engine
                .decode_step(&mut cache, &vec![2; batch], &mut recorder)
                .unwrap();
            let pass = Pass::decode_steps(batch as u64, (prompt + step) as u64, 1);
            assert_eq!(
                executed(engine, recorder.events()),
                counted(engine, &workload, &pass),
                "{name}: decode step {step}"
            );
            assert_eq!(recorder.dropped(), 0);
            let ordered = recorder
                .events()
                .windows(2)
                .all(|pair| pair[0].end_ns <= pair[1].start_ns);
            assert!(ordered, "{name}: operators overlap");
        }
    }
}

#[test]
fn operators_run_in_the_order_and_shapes_that_theory_counts() {
    for directory in directories(&data()) {
        check(&engine(&directory), &directory.display().to_string());
    }
}

#[test]
fn the_same_with_made_up_bf16_weights() {
    for directory in directories(&data()) {
        let options = EngineOptions {
            weights: Some(DType::Bf16),
            threads: Some(1),
            ..EngineOptions::default()
        };
        let model = crate::support::model(&directory);
        let engine = NativeEngine::load(&model, &WeightSource::Dummy { seed: 3 }, options).unwrap();
        check(&engine, &directory.display().to_string());
    }
}

#[test]
fn experts_that_tokens_reach_are_counted() {
    let engine = engine(&data().join("mixtral"));
    let mut cache = engine.new_cache(1, 32).unwrap();
    let mut recorder = Recorder::with_capacity(1000);
    engine
        .prefill(&mut cache, &[vec![7]], None, &mut recorder)
        .unwrap();
    engine
        .prefill(
            &mut cache,
            &[(0..20).collect::<Vec<u32>>()],
            None,
            &mut recorder,
        )
        .unwrap();
    let touched: Vec<u32> = recorder
        .events()
        .iter()
        .filter(|event| engine.operators()[event.operator as usize].kind == Kind::Experts)
        .map(|event| event.touched)
        .collect();
    assert_eq!(touched.len(), 4);
    assert_eq!(touched[..2], [2, 2], "one token reaches top-k experts");
    assert!(touched[2..].iter().all(|count| (2..=4).contains(count)));
}

#[test]
fn other_families_are_named_in_the_refusal() {
    let config = serde_json::json!({ "model_type": "opt" });
    let model = Model::from_config(&config, None).unwrap();
    let error = NativeEngine::load(
        &model,
        &WeightSource::Dummy { seed: 0 },
        EngineOptions::default(),
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`opt`"), "{text}");
    for family in SUPPORTED_FAMILIES {
        assert!(text.contains(family), "{text}");
    }
}
