//! Datasets are added, listed, made into variants and verified.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use common::{made, write};
use llmprof_assets::dataset::{
    Dataset, NewDataset, SampleFormat, SampleSelection, SampleTokenizer, VariantRequest, add,
    samples::{DatasetSamples, SampleContent},
    variant_root, variants, verify,
};

fn request(selection: SampleSelection) -> VariantRequest {
    VariantRequest {
        name: None,
        parent: "source-data".to_owned(),
        selection,
        seed: 7,
        tokenizer: None,
        format: None,
        list: false,
        replace: false,
        today: "2026-01-20".to_owned(),
        cwd: "/".into(),
    }
}

/// A project with the dataset `texts` of ten texts.
fn project(root: &Path) -> Dataset {
    for number in 0..10 {
        write(
            root,
            &[(
                &format!("store/texts/{number}.txt"),
                &format!("a b {number}"),
            )],
        );
    }
    write(
        root,
        &[("store/texts/README.md", "about"), ("project/conf/x", "")],
    );
    let new = NewDataset {
        name: "texts".to_owned(),
        source: root.join("store/texts"),
        url: Some("https://example.org/texts".to_owned()),
        license: None,
        version: Some("1.0".to_owned()),
    };
    let project = root.join("project");
    assert!(made(add(&project, &new).unwrap()) > 4);
    assert_eq!(made(add(&project, &new).unwrap()), 0, "a second time");
    Dataset::open(&project, "texts").unwrap()
}

#[test]
fn a_dataset_is_added_with_what_others_need_to_find_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let dataset = project(&root);
    let readme = fs::read_to_string(dataset.folder.join("README.md")).unwrap();
    assert!(
        readme.contains("├── 0.txt") && readme.contains("└── README.md"),
        "{readme}"
    );
    let config = fs::read_to_string(root.join("project/conf/dataset/texts.yaml")).unwrap();
    assert!(config.contains("datasets/texts/source-data"), "{config}");
    let statistics = fs::read_to_string(dataset.folder.join("analysis/statistics.json")).unwrap();
    let statistics: serde_json::Value = serde_json::from_str(&statistics).unwrap();
    assert_eq!(statistics["source-data"]["samples"], 10);
    assert_eq!(statistics["source-data"]["text_characters"]["sum"], 50);
    let page = fs::read_to_string(dataset.folder.join("analysis/samples.html")).unwrap();
    assert!(page.contains("The first 10 of 10 samples."), "{page}");
    assert!(page.contains("<h2>3.txt</h2>\n<pre>a b 3</pre>"), "{page}");
    assert_eq!(verify(&dataset).unwrap(), []);
    // On another host the link is made again from what was written.
    let link = dataset.source();
    let target = fs::read_link(&link).unwrap();
    fs::remove_file(&link).unwrap();
    assert_eq!(
        verify(&dataset).unwrap().len(),
        2,
        "the link, and the README that shows it"
    );
    let planned = llmprof_assets::bootstrap::plan(
        &root.join("project"),
        llmprof_assets::bootstrap::BootstrapPart::Datasets,
        &[],
        &common::surroundings(&[]),
    )
    .unwrap();
    made(planned.changes().unwrap());
    assert_eq!(fs::read_link(&link).unwrap(), target);

    for (name, source) in [
        ("a/b", "store/texts"),
        ("..", "store/texts"),
        ("x", "absent"),
        ("x", "project/conf"),
    ] {
        let new = NewDataset {
            name: name.to_owned(),
            source: root.join(source),
            url: None,
            license: None,
            version: None,
        };
        assert!(add(&root.join("project"), &new).is_err(), "{name} {source}");
    }
}

#[test]
fn variants_stand_beside_the_data_and_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let dataset = project(&root);
    let before: Vec<_> = fs::read_dir(root.join("store/texts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    let sample = request(SampleSelection::Random(4));
    assert_eq!(made(variants(&dataset, &sample).unwrap()), 1);
    let data = fs::read(dataset.folder.join("subset-4/data/samples.jsonl")).unwrap();
    assert_eq!(
        variant_root(&dataset.source(), "subset-4").unwrap(),
        dataset.folder.join("subset-4/data")
    );
    let samples = DatasetSamples::find_below(&dataset.variant_folder("subset-4").unwrap()).unwrap();
    assert_eq!(samples.len(), 4);
    let first = samples.sample(0).unwrap();
    assert!(
        first.id.contains(".txt")
            && matches!(first.content, SampleContent::Text(text) if text.starts_with("a b"))
    );
    let facts = fs::read_to_string(dataset.folder.join("subset-4/metadata.yaml")).unwrap();
    for line in [
        "parent: source-data",
        "created: '2026-01-20'",
        "transform: Random sample of 4 of 10 samples",
        "samples: 4",
    ] {
        assert!(facts.contains(line), "{line} in {facts}");
    }
    assert_eq!(
        made(variants(&dataset, &sample).unwrap()),
        0,
        "a second time"
    );
    let other = VariantRequest {
        seed: 8,
        ..sample.clone()
    };
    assert!(
        variants(&dataset, &other).is_err(),
        "another variant of that name"
    );
    made(
        variants(
            &dataset,
            &VariantRequest {
                replace: true,
                ..other
            },
        )
        .unwrap(),
    );
    assert_ne!(
        fs::read(dataset.folder.join("subset-4/data/samples.jsonl")).unwrap(),
        data
    );
    // What a killed call left is not in the way, and not a variant.
    write(
        &dataset.folder,
        &[(".subset-3.llmprof-partial/data/samples.jsonl", "{\"te")],
    );
    made(variants(&dataset, &request(SampleSelection::Random(3))).unwrap());
    assert_eq!(dataset.variants().unwrap(), ["subset-3", "subset-4"]);

    let split = request(SampleSelection::Split(vec![
        ("train".to_owned(), 0.7),
        ("val".to_owned(), 0.3),
    ]));
    assert_eq!(made(variants(&dataset, &split).unwrap()), 2);
    let ids = |name: &str| -> BTreeSet<String> {
        let samples = DatasetSamples::find_below(&dataset.variant_folder(name).unwrap()).unwrap();
        (0..samples.len())
            .map(|index| samples.sample(index).unwrap().id)
            .collect()
    };
    let (train, val) = (ids("split-train"), ids("split-val"));
    assert_eq!(
        (train.len(), val.len(), train.union(&val).count()),
        (7, 3, 10)
    );

    let list = VariantRequest {
        name: Some("dev-2".to_owned()),
        list: true,
        ..request(SampleSelection::Random(2))
    };
    made(variants(&dataset, &list).unwrap());
    assert_eq!(dataset.subsets(), ["dev-2"]);
    assert_eq!(verify(&dataset).unwrap(), [], "the README names the list");
    let listed = request(SampleSelection::Listed(
        dataset.folder.join("subsets/dev-2.txt"),
    ));
    made(variants(&dataset, &listed).unwrap());
    assert_eq!(ids("dev-2").len(), 2);
    let nested = VariantRequest {
        parent: "split-val".to_owned(),
        ..request(SampleSelection::Random(1))
    };
    made(variants(&dataset, &nested).unwrap());
    assert!(ids("subset-1").is_subset(&val));

    let after: Vec<_> = fs::read_dir(root.join("store/texts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(before, after, "the data as it came are never written to");
    let readme = fs::read_to_string(dataset.folder.join("README.md")).unwrap();
    assert!(
        readme.contains("| `split-val` | 3 | source-data |"),
        "{readme}"
    );
    assert_eq!(
        verify(&dataset)
            .unwrap()
            .iter()
            .filter(|fault| fault.part != "README.md")
            .count(),
        0
    );

    for wrong in [
        SampleSelection::Random(0),
        SampleSelection::Random(11),
        SampleSelection::Split(vec![("a".to_owned(), 1.5)]),
    ] {
        assert!(
            variants(&dataset, &request(wrong.clone())).is_err(),
            "{wrong:?}"
        );
    }
    for name in ["../x", "source-data", "analysis", ""] {
        let wrong = VariantRequest {
            name: Some(name.to_owned()),
            ..request(SampleSelection::Random(2))
        };
        assert!(variants(&dataset, &wrong).is_err(), "{name}");
    }
    assert!(
        variant_root(&dataset.source(), "absent")
            .unwrap_err()
            .hint()
            .unwrap()
            .contains("split-train")
    );
}

#[test]
fn texts_are_tokenized_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let dataset = project(&root);
    write(&root, &[("gpt2/tokenizer.json", "{}")]);
    let encode = |text: &str| {
        let word = |word: &str| ["a", "b"].iter().position(|known| *known == word);
        Ok(text
            .split_whitespace()
            .map(|text| word(text).map_or(0, |place| place as u32 + 1))
            .collect())
    };
    let tokenized = VariantRequest {
        tokenizer: Some(SampleTokenizer {
            file: root.join("gpt2/tokenizer.json"),
            encode: Arc::new(encode),
        }),
        ..request(SampleSelection::All)
    };
    made(variants(&dataset, &tokenized).unwrap());
    let samples =
        DatasetSamples::find_below(&dataset.variant_folder("tokenized-gpt2").unwrap()).unwrap();
    assert_eq!(
        samples.sample(3).unwrap().content,
        SampleContent::Tokens(vec![1, 2, 0])
    );
    let facts = fs::read_to_string(dataset.folder.join("tokenized-gpt2/metadata.yaml")).unwrap();
    assert!(
        facts.contains("tokens: 30") && facts.contains("sha256"),
        "{facts}"
    );
    let again = VariantRequest {
        name: Some("twice".to_owned()),
        parent: "tokenized-gpt2".to_owned(),
        ..tokenized.clone()
    };
    let error = variants(&dataset, &again)
        .unwrap()
        .apply(|_| {})
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot be tokenized"), "{error}");
    fs::remove_file(root.join("gpt2/tokenizer.json")).unwrap();
    assert!(variants(&dataset, &tokenized).is_err());
}

/// Every format holds the same samples and is read by the same code as published data.
#[test]
fn variants_convert_formats_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let store = [
        (
            "texts",
            r#"{"text": "a, \"b\"\n\nc,\r\n\u00e9 '1'", "id": "x,y"}"#,
            "7",
        ),
        ("tokens", r#"{"tokens": [0, 4294967295]}"#, "[1]"),
        ("images", r#"{"image": "p.png"}"#, "p.png"),
    ];
    for (name, first, second) in store {
        let key = name.trim_end_matches('s').replace("token", "tokens");
        let second = match name {
            "tokens" => second.to_owned(),
            _ => format!("\"{second}\""),
        };
        let lines = format!("{first}\n{{\"{key}\": {second}}}\n");
        let lines_file = format!("store/{name}/data.jsonl");
        let image = format!("store/{name}/p.png");
        write(
            &root,
            &[
                (&lines_file, &lines),
                (&image, "GIF89a\u{1}\u{0}\u{1}\u{0}"),
            ],
        );
        write(&root, &[("project/x", "")]);
        let new = NewDataset {
            name: name.to_owned(),
            source: root.join("store").join(name),
            url: None,
            license: None,
            version: None,
        };
        made(add(&root.join("project"), &new).unwrap());
        let dataset = Dataset::open(&root.join("project"), name).unwrap();
        let contents = |part: &str| {
            let samples =
                DatasetSamples::find_below(&dataset.variant_folder(part).unwrap()).unwrap();
            let read = (0..samples.len()).map(|index| samples.sample(index).unwrap());
            read.map(|sample| match sample.content {
                SampleContent::Image(path) => (
                    sample.id,
                    SampleContent::Image(path.canonicalize().unwrap()),
                ),
                content => (sample.id, content),
            })
            .collect::<Vec<_>>()
        };
        let published = contents("source-data");
        assert_eq!(published.len(), 2);
        for (extension, format) in SampleFormat::BY_EXTENSION {
            let asked = VariantRequest {
                format: Some(format),
                ..request(SampleSelection::All)
            };
            if format == SampleFormat::Parquet && !cfg!(feature = "parquet") {
                let error = variants(&dataset, &asked).err().unwrap();
                assert!(error.hint().unwrap().contains("--features parquet"));
                continue;
            }
            made(variants(&dataset, &asked).unwrap());
            let variant = format!("as-{extension}");
            let file = format!("{variant}/data/samples.{extension}");
            assert!(dataset.folder.join(&file).is_file(), "{file}");
            assert_eq!(contents(&variant), published, "{file}");
            assert_eq!(made(variants(&dataset, &asked).unwrap()), 0, "{file}");
            // Any format is a source of any other.
            let back = VariantRequest {
                name: Some(format!("from-{extension}")),
                parent: variant,
                ..request(SampleSelection::All)
            };
            made(variants(&dataset, &back).unwrap());
            assert_eq!(contents(&format!("from-{extension}")), published);
        }
        assert_eq!(verify(&dataset).unwrap(), []);
        let data = dataset.folder.join("as-jsonl.gz/data/samples.jsonl.gz");
        let mut bytes = fs::read(&data).unwrap();
        // The time in a gzip header changes no sample.
        bytes[4] ^= 1;
        fs::write(&data, bytes).unwrap();
        assert!(verify(&dataset).unwrap()[0].what.contains("sha256"));
    }
}

#[test]
fn a_table_holds_samples_of_one_kind() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    write(
        &root,
        &[
            ("store/mixed/a.jsonl", "\"text\"\n{\"tokens\": [1]}\n"),
            ("project/x", ""),
        ],
    );
    let new = NewDataset {
        name: "mixed".to_owned(),
        source: root.join("store/mixed"),
        url: None,
        license: None,
        version: None,
    };
    made(add(&root.join("project"), &new).unwrap());
    let dataset = Dataset::open(&root.join("project"), "mixed").unwrap();
    let table = VariantRequest {
        format: Some(SampleFormat::Csv),
        ..request(SampleSelection::All)
    };
    let changes = variants(&dataset, &table).unwrap();
    let error = changes.apply(|_| {}).unwrap_err().to_string();
    assert!(error.contains("do not fit one table"), "{error}");
    assert!(!dataset.folder.join("as-csv").exists());
}

/// Samples are text of others: none of it is markup of the page, and long ones are cut.
#[test]
fn the_page_of_samples_shows_text_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let long = format!("<script>alert(1)</script>&{}", "é".repeat(1_000));
    write(&root, &[("store/texts/a<b>.txt", &long), ("project/x", "")]);
    let new = NewDataset {
        name: "texts".to_owned(),
        source: root.join("store/texts"),
        url: None,
        license: None,
        version: None,
    };
    made(add(&root.join("project"), &new).unwrap());
    let page = root.join("project/datasets/texts/analysis/samples.html");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>a&lt;b&gt;.txt</h2>"), "{page}");
    assert!(
        page.contains("<pre>&lt;script&gt;alert(1)&lt;/script&gt;&amp;é"),
        "{page}"
    );
    assert!(page.contains("… 426 characters more</pre>"), "{page}");
}

#[test]
fn images_stay_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    write(
        &root,
        &[
            (
                "store/docs/OmniDocBench.json",
                r#"[{"page_info": {"image_path": "p.png"}}, {"page_info": {"image_path": "q.png"}}]"#,
            ),
            ("store/docs/images/q.png", "GIF89a\u{0}\u{1}\u{0}\u{1}"),
            ("project/x", ""),
        ],
    );
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0";
    fs::write(root.join("store/docs/images/p.png"), png).unwrap();
    let new = NewDataset {
        name: "docs".to_owned(),
        source: root.join("store/docs"),
        url: None,
        license: None,
        version: None,
    };
    made(add(&root.join("project"), &new).unwrap());
    let dataset = Dataset::open(&root.join("project"), "docs").unwrap();
    made(variants(&dataset, &request(SampleSelection::Random(2))).unwrap());
    for (name, address) in [
        ("samples.html", "../source-data/images/p.png"),
        (
            "samples-subset-2.html",
            "../subset-2/data/../../source-data/images/p.png",
        ),
    ] {
        let page = fs::read_to_string(dataset.folder.join("analysis").join(name)).unwrap();
        assert!(page.contains(&format!("src=\"{address}\"")), "{page}");
        let image = dataset.folder.join("analysis").join(address);
        assert_eq!(fs::read(image).unwrap(), png);
    }
    // The project moves, its links with it.
    fs::rename(root.join("project"), root.join("moved")).unwrap();
    let dataset = Dataset::open(&root.join("moved"), "docs").unwrap();
    let samples = DatasetSamples::find_below(&dataset.variant_folder("subset-2").unwrap()).unwrap();
    let sample = samples.sample(0).unwrap();
    assert_eq!(sample.id, "images/p.png");
    let SampleContent::Image(path) = sample.content else {
        panic!("{:?}", sample.content)
    };
    assert_eq!(fs::read(path).unwrap(), png);
    assert_eq!(verify(&dataset).unwrap(), []);
}

#[test]
fn every_fault_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let dataset = project(&root);
    made(variants(&dataset, &request(SampleSelection::Random(4))).unwrap());
    write(&dataset.folder, &[("subsets/dev.txt", "0.txt\n")]);
    made(
        add(
            &root.join("project"),
            &NewDataset {
                name: "texts".to_owned(),
                source: root.join("store/texts"),
                url: None,
                license: None,
                version: None,
            },
        )
        .unwrap(),
    );
    assert_eq!(verify(&dataset).unwrap(), []);
    let fault = |part: &str| {
        let faults = verify(&dataset).unwrap();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].part, part);
        faults[0].what.clone()
    };
    let data = dataset.folder.join("subset-4/data/samples.jsonl");
    let good = fs::read(&data).unwrap();
    fs::write(&data, &good[..good.len() - 2]).unwrap();
    assert!(fault("subset-4").contains("sha256"));
    fs::write(&data, &good).unwrap();
    write(&dataset.folder, &[("subsets/dev.txt", "absent.txt\n")]);
    assert!(fault("subsets/dev.txt").contains("absent.txt"));
    write(&dataset.folder, &[("subsets/dev.txt", "0.txt\n")]);
    let facts = dataset.folder.join("metadata.yaml");
    let before = fs::read_to_string(&facts).unwrap();
    fs::write(&facts, "name: other\n").unwrap();
    assert!(fault("metadata.yaml").contains("other"));
    fs::write(&facts, before).unwrap();
    write(&root, &[("store/texts/new.txt", "new")]);
    assert!(fault("README.md").contains("out of date"));
}
