//! Variants: samples of the data or of another variant, chosen, split or tokenized, in a folder of their own.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use llmprof_units::hex_text;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    ANALYSIS, DATA, Dataset, METADATA, SOURCE, SUBSETS, VariantMetadata, VariantSize, check_name,
    choose, readme, sample_page,
    samples::{Content, Samples},
    statistics::{self, Statistics},
    tokens::SampleTokenizer,
};
use crate::{AssetError, Change, Changes, Result, changes::make_folder, document};

/// File of a variant's samples.
pub(super) const SAMPLES: &str = "samples.jsonl";

/// Which samples are taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    All,
    /// So many, at random.
    Random(usize),
    /// Those that a list names.
    Listed(PathBuf),
    /// Several variants, `split-NAME` each, by their shares.
    Split(Vec<(String, f64)>),
}

/// What is to be made.
#[derive(Clone)]
pub struct VariantRequest {
    /// Name of the variant; `None` where a split or a tokenizer names it.
    pub name: Option<String>,
    /// What it is made from: `source-data` or a variant.
    pub parent: String,
    pub selection: Selection,
    /// Seed of a random choice.
    pub seed: u64,
    /// Texts become token ids.
    pub tokenizer: Option<SampleTokenizer>,
    /// Write the list `subsets/NAME.txt` instead of a folder with data.
    pub list: bool,
    /// Make it anew where there is another variant of that name.
    pub replace: bool,
    /// Today, as it is written into the facts.
    pub today: String,
    /// Where relative lists start.
    pub cwd: PathBuf,
}

/// One variant, worked out.
struct Made {
    name: String,
    numbers: Vec<usize>,
    transform: String,
    seed: Option<u64>,
}

/// Works out what makes the variants.
pub fn variants(dataset: &Dataset, request: &VariantRequest) -> Result<Changes> {
    let root = dataset.root(&request.parent)?;
    let samples = match &request.selection {
        Selection::Listed(list) => Samples::listed(&root, list, &[&request.cwd, &root])?,
        _ => Samples::found(&root)?,
    };
    let mut changes = Changes::default();
    for made in select_samples(&samples, request)? {
        check_name(&made.name, "variant")?;
        if [SOURCE, ANALYSIS, SUBSETS].contains(&made.name.as_str()) {
            return Err(AssetError::refused(
                format!("`{}` is a folder of every dataset", made.name),
                "another name",
            ));
        }
        if request.list {
            let ids: Vec<&str> = samples.ids().collect();
            let mut lines = String::new();
            for &at in &made.numbers {
                lines.push_str(ids[at]);
                lines.push('\n');
            }
            let path = dataset
                .folder
                .join(SUBSETS)
                .join(format!("{}.txt", made.name));
            changes.own_file(&path, lines);
            name_in_readme(dataset, &made.name, &mut changes);
            continue;
        }
        plan_folder(dataset, request, &samples, made, &mut changes)?;
    }
    Ok(changes)
}

/// The README lists file lists: it is brought up to date once the list is there, also where an earlier call ended between the two.
fn name_in_readme(dataset: &Dataset, list: &str, changes: &mut Changes) {
    let is_named = dataset.subsets().iter().any(|known| known == list);
    let is_stale = || matches!(readme::is_current(dataset), Ok(Some(false)));
    if (is_named && !is_stale()) || !dataset.folder.join("README.md").is_file() {
        return;
    }
    let dataset = dataset.clone();
    let what = format!(
        "name {list} in {}",
        dataset.folder.join("README.md").display()
    );
    changes.push(Change::new(what, move || {
        let mut changes = Changes::default();
        readme::refresh_readme(&dataset, &mut changes)?;
        changes.apply(|_| {})
    }));
}

/// Names the variants and chooses their samples.
fn select_samples(samples: &Samples, request: &VariantRequest) -> Result<Vec<Made>> {
    let count = samples.len();
    let unnamed = || {
        AssetError::refused(
            "the variant has no name",
            "llmprof dataset variant DATASET NAME …",
        )
    };
    let named = |usual: Option<String>| request.name.clone().or(usual).ok_or_else(unnamed);
    let tokenized = request.tokenizer.as_ref().map(|tokenizer| {
        let folder = tokenizer.file.parent().and_then(Path::file_name);
        format!("tokenized-{}", folder.unwrap_or_default().to_string_lossy())
    });
    Ok(match &request.selection {
        Selection::All => vec![Made {
            name: named(tokenized)?,
            numbers: (0..count).collect(),
            transform: format!("All {count} samples"),
            seed: None,
        }],
        Selection::Random(take) => {
            if *take == 0 || *take > count {
                return Err(AssetError::refused(
                    format!("{take} samples cannot be taken of {count}"),
                    "--samples between 1 and their number",
                ));
            }
            vec![Made {
                name: named(Some(format!("subset-{take}")))?,
                numbers: choose::random_sample(count, *take, request.seed),
                transform: format!("Random sample of {take} of {count} samples"),
                seed: Some(request.seed),
            }]
        }
        Selection::Listed(list) => vec![Made {
            name: named(
                list.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            )?,
            numbers: (0..count).collect(),
            transform: format!("The {count} samples that {} names", list.display()),
            seed: None,
        }],
        Selection::Split(parts) => {
            if request.name.is_some() {
                return Err(AssetError::refused(
                    "a split names its variants itself: split-NAME",
                    "leave the name out",
                ));
            }
            let shares: Vec<f64> = parts.iter().map(|(_, share)| *share).collect();
            let chosen = choose::split_samples(count, &shares, request.seed)?;
            parts
                .iter()
                .zip(chosen)
                .map(|((name, share), numbers)| Made {
                    name: format!("split-{name}"),
                    transform: format!("Split `{name}`: {share} of {count} samples, at random"),
                    numbers,
                    seed: Some(request.seed),
                })
                .collect()
        }
    })
}

/// A variant's folder: made beside its name, which it gets when it is complete.
fn plan_folder(
    dataset: &Dataset,
    request: &VariantRequest,
    samples: &Samples,
    made: Made,
    changes: &mut Changes,
) -> Result<()> {
    let tokenizer = request.tokenizer.clone();
    let tokenizer_file = match &tokenizer {
        Some(tokenizer) => Some(tokenizer.tokenizer_facts()?),
        None => None,
    };
    let mut transform = made.transform;
    if let Some(tokenizer) = &tokenizer {
        transform += &format!(", tokenized with {}", tokenizer.file.display());
    }
    let mut metadata = VariantMetadata {
        parent: request.parent.clone(),
        created: request.today.clone(),
        transform,
        seed: made.seed,
        tokenizer: tokenizer_file,
        size: VariantSize {
            samples: made.numbers.len() as u64,
            disk_mb: 0.0,
            tokens: None,
        },
        sha256: None,
    };
    let target = dataset.folder.join(&made.name);
    if target.symlink_metadata().is_ok() {
        match VariantMetadata::read_metadata(&target) {
            Ok(before) if before.is_same(&metadata) && is_whole(&target, &before) => {
                // A call that was killed may have made the variant and no more.
                changes.extend(describe_variant(dataset, &made.name)?);
                return Ok(());
            }
            _ if request.replace => {}
            _ => {
                return Err(AssetError::refused(
                    format!(
                        "{} is there already and is another variant",
                        target.display()
                    ),
                    "--replace makes it anew; or choose another name",
                ));
            }
        }
    }
    let what = format!(
        "create {}/ with {} of {} ({})",
        target.display(),
        llmprof_units::Count(made.numbers.len() as u64, "sample"),
        request.parent,
        metadata.transform
    );
    let (dataset, samples) = (dataset.clone(), samples.clone());
    changes.push(Change::new(what, move || {
        let partial = dataset
            .folder
            .join(format!(".{}.llmprof-partial", made.name));
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(AssetError::io("remove", &partial))?;
        }
        make_folder(&partial.join(DATA))?;
        let written = write_samples(
            &samples,
            &made.numbers,
            tokenizer.as_ref(),
            &partial,
            &target,
        )?;
        metadata.size.disk_mb = (written.bytes as f64 / 1e3).round() / 1e3;
        metadata.size.tokens = written.tokens;
        metadata.sha256 = Some(written.sha256);
        let path = partial.join(METADATA);
        fs::write(&path, document::to_yaml(&metadata)).map_err(AssetError::io("write", &path))?;
        if target.exists() {
            fs::remove_dir_all(&target).map_err(AssetError::io("remove", &target))?;
        }
        fs::rename(&partial, &target).map_err(AssetError::io("create", &target))?;
        describe_variant(&dataset, &made.name)?.apply(|_| {})
    }));
    Ok(())
}

/// Whether the data are those that the facts were written with.
pub(super) fn is_whole(folder: &Path, metadata: &VariantMetadata) -> bool {
    let Some(expected) = &metadata.sha256 else {
        return true;
    };
    fs::read(folder.join(DATA).join(SAMPLES))
        .is_ok_and(|bytes| hex_text(&Sha256::digest(&bytes)) == *expected)
}

/// What puts a variant into the statistics and the README.
fn describe_variant(dataset: &Dataset, variant: &str) -> Result<Changes> {
    let root = dataset.root(variant)?;
    let samples = Samples::found(&root)?;
    let statistics = Statistics::of(&samples)?;
    let mut changes = Changes::default();
    sample_page::put_page(dataset, variant, (&root, &samples), &mut changes)?;
    changes.own_file(
        &dataset.folder.join(ANALYSIS).join(statistics::FILE),
        statistics::with_part(&dataset.folder, variant, &statistics),
    );
    readme::refresh_readme(dataset, &mut changes)?;
    Ok(changes)
}

struct Written {
    bytes: u64,
    tokens: Option<u64>,
    sha256: String,
}

/// Writes `data/samples.jsonl`. Images stay where they are; their lines name them from the variant's final place.
fn write_samples(
    samples: &Samples,
    numbers: &[usize],
    tokenizer: Option<&SampleTokenizer>,
    partial: &Path,
    target: &Path,
) -> Result<Written> {
    let path = partial.join(DATA).join(SAMPLES);
    let file = File::create(&path).map_err(AssetError::io("create", &path))?;
    let mut file = BufWriter::new(file);
    let (mut hash, mut bytes, mut tokens) = (Sha256::new(), 0u64, None);
    for &number in numbers {
        let sample = samples.sample(number)?;
        let mut line: Value = match (sample.content, tokenizer) {
            (Content::Text(text), Some(tokenizer)) => {
                json!({"tokens": tokenizer.encode_text(&text, &sample.id)?})
            }
            (Content::Text(text), None) => json!({"text": text}),
            (Content::Tokens(tokens), None) => json!({"tokens": tokens}),
            (Content::Image(path), None) => json!({"image": from(target, &path)}),
            (_, Some(_)) => {
                return Err(AssetError::refused(
                    format!("sample {} is no text and cannot be tokenized", sample.id),
                    "leave --tokenizer out",
                ));
            }
        };
        if let Some(list) = line.get("tokens").and_then(Value::as_array) {
            *tokens.get_or_insert(0) += list.len() as u64;
        }
        line["id"] = Value::from(sample.id);
        let mut line = line.to_string();
        line.push('\n');
        hash.update(&line);
        bytes += line.len() as u64;
        file.write_all(line.as_bytes())
            .map_err(AssetError::io("write", &path))?;
    }
    let file = file
        .into_inner()
        .map_err(|error| AssetError::io("write", &path)(error.into_error()))?;
    file.sync_all().map_err(AssetError::io("write", &path))?;
    Ok(Written {
        bytes,
        tokens,
        sha256: hex_text(&hash.finalize()),
    })
}

/// The path of an image as its line names it: relative to the line's file where it is inside the dataset, so that the project can
/// move.
fn from(target: &Path, image: &Path) -> PathBuf {
    let dataset = target.parent().unwrap_or(target);
    match image.strip_prefix(dataset) {
        Ok(below) => Path::new("../..").join(below),
        Err(_) => image.to_owned(),
    }
}
