//! A project with the layout of keys that the sketches print: what Hydra composes, llmprof runs.

use std::os::unix::fs::symlink;

use super::{
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

/// The longer guide: models in parts, a dataset, several places for one key. Its files with `model:`, `infer:` and `hydra:` at their top are for the
/// package `_global_`; without that line Hydra refuses them too.
const GUIDE: &[(&str, &str)] = &[
    (
        "conf/config.yaml",
        "defaults:\n  - hydra: default\n  - model/qwen2_5_7b/arch: qwen2_5_7b.default\n  - model/qwen2_5_7b/infer: qwen2_5_7b.default\n  - runtime: pytorch\n  - profiling: minimal\n  - _self_\nexperiment: baseline\n",
    ),
    (
        "conf/hydra/default.yaml",
        "# @package _global_\nhydra:\n  run:\n    dir: runs/${experiment}/${model.name}/${now:%Y-%m-%d_%H-%M-%S}\n  job:\n    name: ${experiment}\n    chdir: true\n",
    ),
    (
        "conf/model/qwen2_5_7b/arch/qwen2_5_7b.default.yaml",
        "# @package _global_\nmodel:\n  name: qwen2_5_7b\n  path: ${hydra:runtime.cwd}/models/qwen2_5_7b\n  dtype: bf16\n  preprocess:\n    enable: true\n    base_size: 1024\n    image_size: 640\n    crop_mode: true\n    patch_size: 16\n    downsample_ratio: 4\n",
    ),
    (
        "conf/model/qwen2_5_7b/infer/qwen2_5_7b.default.yaml",
        "# @package _global_\ninfer:\n  temperature: 0.0\n  max_new_tokens: 8192\n  no_repeat_ngram_size: 20\n  do_sample: false\n",
    ),
    (
        "conf/dataset/openwebtext.yaml",
        "name: openwebtext\nroot: ${hydra:runtime.cwd}/datasets/openwebtext/source-data\nsubset_filelist: null\nsampling:\n  num_epochs: 1\n  num_samples_per_epoch: 3\n  randomize: false\n",
    ),
    (
        "conf/runtime/pytorch.yaml",
        "type: pytorch\nbatch_size: 1\nnum_new_tokens: 64\ntorch_profiler: { enabled: false }\n",
    ),
    ("conf/hardware/single_gpu.yaml", "device_index: 0\n"),
    (
        "conf/profiling/minimal.yaml",
        "nsys: { enable: false }\nncu:  { enable: false }\nnvml: { enable: true }\n",
    ),
    (
        "conf/profiling/full.yaml",
        "nsys: { enable: true, args: \"--trace=cuda,nvtx,osrt\" }\nncu:  { enable: true }\nnvml: { enable: true }\n",
    ),
];

/// What `--cfg job` of hydra-core 1.3 prints for them.
const GUIDE_COMPOSED: &str = "\
model:
  name: qwen2_5_7b
  path: ${hydra:runtime.cwd}/models/qwen2_5_7b
  dtype: bf16
  preprocess:
    enable: true
    base_size: 1024
    image_size: 640
    crop_mode: true
    patch_size: 16
    downsample_ratio: 4
infer:
  temperature: 0.0
  max_new_tokens: 8192
  no_repeat_ngram_size: 20
  do_sample: false
runtime:
  type: pytorch
  batch_size: 1
  num_new_tokens: 64
  torch_profiler:
    enabled: false
profiling:
  nsys:
    enable: false
  ncu:
    enable: false
  nvml:
    enable: true
experiment: baseline
";

#[test]
fn a_project_of_the_guide_runs() {
    let scene = Scene::new();
    let project = scene.root.join("guide");
    write(&project, GUIDE);
    write(
        &project,
        &[("models/readme", ""), ("datasets/openwebtext/readme", "")],
    );
    let snapshot = scene
        .root
        .join("hub/models--org--tiny/snapshots/0123456789abcdef0123456789abcdef01234567");
    symlink(snapshot, project.join("models/qwen2_5_7b")).unwrap();
    let texts = scene.root.join("data/texts");
    symlink(texts, project.join("datasets/openwebtext/source-data")).unwrap();
    assert_eq!(works(&project, &["run", "--cfg", "job"]), GUIDE_COMPOSED);
    // There is no GPU and no torch here, so the same config runs on llmprof's own engine.
    let words = [
        "run",
        "runtime.type=native",
        "model.dtype=f32",
        "+workload.prompt_tokens=8",
        "+hardware.spec=xeon_8480",
        "+dataset=openwebtext",
    ];
    let run = |more: &[&str]| {
        // Directories of this project's runs are named by the second.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let output = llmprof(&project, &[&words[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{more:?}: {said}");
        let run = project.join(works(&project, &["runs", "path"]).trim());
        (
            said,
            std::fs::read_to_string(run.join("inputs.yaml")).unwrap(),
        )
    };
    // Both keys say how many tokens; its own code reads the one of the runtime.
    let (said, inputs) = run(&[]);
    assert!(
        said.contains("the project has both: 64 counts, not 8192"),
        "{said}"
    );
    assert!(
        inputs.contains("new_tokens: 64") && inputs.contains("count: 3"),
        "{inputs}"
    );
    for typed in ["infer.max_new_tokens=3", "runtime.num_new_tokens=3"] {
        let (_, inputs) = run(&[typed]);
        assert!(inputs.contains("new_tokens: 3\n"), "{typed}: {inputs}");
    }
    // The device of its group, and one that the project names itself.
    let index = ["+hardware=single_gpu", "hardware.device_index=1"];
    let error = refused(&project, &[&words[..], &index].concat());
    assert!(
        error.contains("`hardware.device_index` is `device` now")
            && error.contains("runs on the CPU"),
        "{error}"
    );
    let error = refused(&project, &[&words[..], &index, &["+device=cpu"]].concat());
    assert!(
        error.contains("`hardware.device_index`: the project's `device` is cpu"),
        "{error}"
    );
    // Later rounds only measure, though the project has no key that says so.
    let side = [&words[1..], &["runtime.num_new_tokens=3"]]
        .concat()
        .join(" ");
    let compared = [
        "compare", "--json", "--run", &side, "--run", &side, "--rounds", "2", "--time", "1ms",
    ];
    let comparison: serde_json::Value = serde_json::from_str(&works(&project, &compared)).unwrap();
    assert_eq!(comparison["rounds"]["count"], 2, "{comparison}");
}
