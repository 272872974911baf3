//! Groups that are shipped for what projects usually have: datasets in their places, and a model's design.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    common::works,
    scene::{Scene, told, write},
};

/// A worker that answers every page; it needs no weights.
const ANSWERS: &str = include_str!("../direct/scripted.py");

/// The directory of the last run.
fn last(project: &Path) -> PathBuf {
    project.join(works(project, &["runs", "path"]).trim())
}

#[test]
fn datasets_of_the_seeds_are_found_where_they_stand() {
    let scene = Scene::new();
    let project = scene.project();
    scene.in_project(&["bootstrap", "models", "--yes"]);
    for name in ["c4", "openwebtext"] {
        let folder = project.join("datasets").join(name);
        fs::create_dir_all(&folder).unwrap();
        symlink(scene.root.join("data/texts"), folder.join("source-data")).unwrap();
        scene.in_project(&["dataset", "variant", name, "--samples", "3", "--yes"]);
        for (variant, count) in [("null", 4), ("subset-3", 3)] {
            scene.in_project(&[
                "run",
                &format!("dataset={name}"),
                &format!("dataset.variant={variant}"),
                "model=local",
                "model.path=models/tiny-hub",
                "model.dtype=f32",
                "workload.prompt_tokens=8",
                "infer.max_new_tokens=2",
                "runtime.repeats=1",
                "runtime.warmup=0",
            ]);
            let inputs = fs::read_to_string(last(&project).join("inputs.yaml")).unwrap();
            assert!(
                inputs.contains(&format!("count: {count}\n")),
                "{variant}: {inputs}"
            );
            let place = match variant {
                "null" => format!("datasets/{name}/source-data/1.txt"),
                variant => format!("datasets/{name}/{variant}/data/samples.jsonl"),
            };
            assert!(inputs.contains(&place), "{place}: {inputs}");
        }
    }
}

#[test]
fn pages_of_omnidocbench_are_those_that_its_file_names() {
    let scene = Scene::new();
    let project = scene.project();
    let data = scene.root.join("data/OmniDocBench");
    write(
        &data,
        &[(
            "OmniDocBench.json",
            r#"[{"page_info": {"image_path": "q.png"}}, {"page_info": {"image_path": "p, 1.jpg"}}]"#,
        )],
    );
    fs::create_dir(data.join("images")).unwrap();
    for name in ["p, 1.jpg", "q.png", "unnamed.png"] {
        image::RgbImage::from_pixel(60, 80, image::Rgb([255, 255, 255]))
            .save(data.join("images").join(name))
            .unwrap();
    }
    let folder = project.join("datasets/omnidocbench");
    fs::create_dir_all(&folder).unwrap();
    symlink(&data, folder.join("source-data")).unwrap();
    write(&project, &[("worker.py", ANSWERS)]);
    // The list of an older project.
    write(&folder, &[("subsets/dev-1.txt", "images/p, 1.jpg\n")]);
    let run = |more: &[&str]| {
        let words = [
            "run",
            "+preset=direct_inference",
            "dataset=omnidocbench",
            "runtime=worker",
            "runtime.worker=[python3,worker.py]",
            "infer.prompt=Read.",
        ];
        let output = scene.command(&[&words, more].concat()).output().unwrap();
        told(&output, &format!("{more:?}"));
        let text = fs::read_to_string(last(&project).join("predictions/predictions.jsonl"));
        let text = text.unwrap();
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut ids: Vec<String> = lines
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    assert_eq!(run(&[]), ["images/p, 1.jpg", "images/q.png"]);
    let list = "dataset.subset_filelist=datasets/omnidocbench/subsets/dev-1.txt";
    assert_eq!(run(&[list]), ["images/p, 1.jpg"]);
}

#[test]
fn llama_3_70b_has_its_parameters() {
    let scene = Scene::new();
    let text = scene.works(&["model", "model=llama3_70b", "--json"]);
    let model: Value = serde_json::from_str(&text).unwrap();
    // Meta's checkpoint: 70,553,706,496.
    assert!(text.contains("70553706496"), "{model}");
}
