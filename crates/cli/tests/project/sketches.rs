//! A project with the layout of keys that the sketches print: what Hydra composes, llmprof runs.

use std::os::unix::fs::symlink;

use crate::{
    common::{json, llmprof, refused, works},
    scene::{Scene, write},
};

const FILES: &[(&str, &str)] = &[
    (
        "conf/config.yaml",
        "defaults:\n  - hydra: default\n  - model: qwen2_5_7b\n  - runtime: pytorch\n  - hardware: single_gpu\n  - profiling: minimal\n  - _self_\nexperiment: baseline\n",
    ),
    (
        "conf/hydra/default.yaml",
        "# @package _global_\nhydra:\n  run:\n    dir: runs/${experiment}/${model.name}/${now:%Y-%m-%d_%H-%M-%S-%f}\n  job:\n    name: ${experiment}\n    chdir: true\n",
    ),
    (
        "conf/model/qwen2_5_7b.yaml",
        "name: qwen2_5_7b\npath: ${oc.env:PROJECT_ROOT,${hydra:runtime.cwd}}/models/qwen2_5_7b\ndtype: f32\nmax_seq_len: 4096\ntokenizer: ${model.path}\nimpl_src:\n  transformers_dir: ${oc.env:PROJECT_ROOT,${hydra:runtime.cwd}}/third_party/github/transformers\n  notes: reference\n",
    ),
    (
        "conf/runtime/pytorch.yaml",
        "type: pytorch\nimpl: \"vanilla\"\nbatch_size: 1\nnum_new_tokens: 5\nnvtx_ranges: true\ntorch_profiler:\n  enabled: true\n  warmup: 5\n  steps: 50\n",
    ),
    (
        "conf/hardware/single_gpu.yaml",
        "device_index: 0\npower_limit_w: null\n",
    ),
    (
        "conf/profiling/minimal.yaml",
        "nsys: { enable: false }\nncu:  { enable: false }\nnvml: { enable: true, interval_s: 0.5 }\noutputs:\n  write_ops_csv: true\n",
    ),
];

#[test]
fn a_project_of_the_sketches_runs() {
    let scene = Scene::new();
    let project = scene.root.join("sketch");
    write(&project, FILES);
    write(&project, &[("models/readme", "")]);
    let snapshot = scene
        .root
        .join("hub/models--org--tiny/snapshots/0123456789abcdef0123456789abcdef01234567");
    symlink(snapshot, project.join("models/qwen2_5_7b")).unwrap();
    let shown = works(&project, &["run", "--cfg", "job"]);
    assert!(
        shown.contains("num_new_tokens: 5"),
        "as Hydra shows it: {shown}"
    );
    // There is no GPU and no torch here, so the same config runs on llmprof's own engine.
    let words = [
        "run",
        "runtime.type=native",
        "runtime.torch_profiler.enabled=false",
        "+device=cpu",
        "+workload.prompt_tokens=8",
        "+hardware.spec=xeon_8480",
    ];
    let output = llmprof(&project, &words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    for note in [
        "`runtime.num_new_tokens` is `infer.max_new_tokens` now",
        "`profiling.nvml.interval_s` is `pipeline.telemetry.hz` now",
    ] {
        assert!(said.contains(note), "{note}: {said}");
    }
    let run = works(&project, &["runs", "path"]);
    let run = project.join(run.trim());
    let metrics = json(&run.join("metrics.json"));
    assert!(metrics.to_string().contains("tpot"), "{metrics}");
    let inputs = std::fs::read_to_string(run.join("inputs.yaml")).unwrap();
    assert!(inputs.contains("new_tokens: 5"), "{inputs}");
    let manifest = json(&run.join("run.json"));
    assert!(
        manifest.to_string().contains("model.source_missing"),
        "the reference is not there: {manifest}"
    );

    // What an alias cannot mean is refused by its old name.
    for (change, says) in [
        ("runtime.impl=vllm", "runtime.impl"),
        // A limit is for a GPU; this run has none.
        ("hardware.power_limit_w=250", "hardware.power_limit_w"),
        ("profiling.nvml.interval_s=0", "profiling.nvml.interval_s"),
        ("profiling.nsys.enable=true", "nsys"),
    ] {
        let error = refused(&project, &[&words[..], &[change]].concat());
        assert!(error.contains(says), "{change}: {error}");
    }
}

#[test]
fn moved_keys_work_on_the_command_line() {
    let scene = Scene::new();
    let output = llmprof(
        &scene.root,
        &[
            "run",
            "runtime=none",
            "runtime.num_new_tokens=7",
            "hardware.spec=h200",
        ],
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("`runtime.num_new_tokens` is `infer.max_new_tokens` now"),
        "{said}"
    );
    let error = refused(
        &scene.root,
        &["run", "runtime=none", "runtime.num_new_token=7"],
    );
    assert!(error.contains("num_new_token"), "{error}");
}
