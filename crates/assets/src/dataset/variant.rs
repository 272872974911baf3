//! Variants: samples of the data or of another variant, chosen, split or tokenized, in a folder of their own.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use llmprof_units::hex_text;
use sha2::{Digest, Sha256};

use super::{
    ANALYSIS, DATA, Dataset, METADATA, SOURCE, SUBSETS, VariantMetadata, VariantSize, check_name,
    choose,
    format::{SampleFormat, SampleWriter},
    readme, sample_page,
    sample_row::{SampleRow, SampleValue},
    samples::{DatasetSamples, SampleContent, StoredSample},
    statistics::{self, Statistics},
    tokens::SampleTokenizer,
};
use crate::{AssetError, Change, Changes, Result, changes::make_folder, document};

#[derive(Clone, Debug, PartialEq)]
pub enum SampleSelection {
    All,
    /// This many samples, drawn at random with the request's seed.
    Random(usize),
    /// Those that a list names.
    Listed(PathBuf),
    /// Several variants, `split-NAME` each, by their shares.
    Split(Vec<(String, f64)>),
}

/// What is to be made.
#[derive(Clone)]
pub struct VariantRequest {
    /// Name of the variant; `None` derives it from the selection.
    pub name: Option<String>,
    /// What it is made from: `source-data` or a variant.
    pub parent: String,
    pub selection: SampleSelection,
    /// Seed of a random choice.
    pub seed: u64,
    /// Set if texts are to be stored as token ids.
    pub tokenizer: Option<SampleTokenizer>,
    /// The file format; `None` takes the default one.
    pub format: Option<SampleFormat>,
    /// Write the list `subsets/NAME.txt` instead of a folder with data.
    pub list: bool,
    /// Replace another variant of that name.
    pub replace: bool,
    /// Today, as it is written into the facts.
    pub today: String,
    /// Folder that relative paths of lists start from.
    pub cwd: PathBuf,
}

/// One variant of the request: the samples it has and how they were chosen.
struct Made {
    name: String,
    numbers: Vec<usize>,
    transform: String,
    seed: Option<u64>,
}

/// Works out what makes the variants.
pub fn variants(dataset: &Dataset, request: &VariantRequest) -> Result<Changes> {
    let root = dataset.variant_folder(&request.parent)?;
    let samples = match &request.selection {
        SampleSelection::Listed(list) => {
            DatasetSamples::read_list(&root, list, &[&request.cwd, &root])?
        }
        _ => DatasetSamples::find_below(&root)?,
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
fn select_samples(samples: &DatasetSamples, request: &VariantRequest) -> Result<Vec<Made>> {
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
    let converted = request
        .format
        .map(|format| format!("as-{}", format.extension()));
    Ok(match &request.selection {
        SampleSelection::All => vec![Made {
            name: named(tokenized.or(converted))?,
            numbers: (0..count).collect(),
            transform: format!("All {count} samples"),
            seed: None,
        }],
        SampleSelection::Random(take) => {
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
        SampleSelection::Listed(list) => vec![Made {
            name: named(
                list.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            )?,
            numbers: (0..count).collect(),
            transform: format!("The {count} samples that {} names", list.display()),
            seed: None,
        }],
        SampleSelection::Split(parts) => {
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
    samples: &DatasetSamples,
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
    let format = request.format.unwrap_or_default();
    format.check_writable()?;
    if let Some(format) = request.format {
        transform += &format!(", as {}", format.file_name());
    }
    let mut metadata = VariantMetadata {
        parent: request.parent.clone(),
        created: request.today.clone(),
        transform,
        seed: made.seed,
        tokenizer: tokenizer_file,
        format,
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
        let file = partial.join(DATA).join(format.file_name());
        let mut writer = SampleWriter::create(&file, format)?;
        metadata.size.tokens = write_samples(
            &samples,
            &made.numbers,
            tokenizer.as_ref(),
            &target,
            &mut |row| {
                writer
                    .write_row(row)
                    .map_err(AssetError::io("write", &file))
            },
        )?;
        let written = writer.finish().and_then(|()| File::open(&file)?.sync_all());
        written.map_err(AssetError::io("write", &file))?;
        let (bytes, hash) = hash_file(&file).map_err(AssetError::io("read", &file))?;
        metadata.size.disk_mb = (bytes as f64 / 1e3).round() / 1e3;
        metadata.sha256 = Some(hash);
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
    let file = folder.join(DATA).join(metadata.format.file_name());
    hash_file(&file).is_ok_and(|(_, hash)| hash == *expected)
}

/// What puts a variant into the statistics and the README.
fn describe_variant(dataset: &Dataset, variant: &str) -> Result<Changes> {
    let root = dataset.variant_folder(variant)?;
    let samples = DatasetSamples::find_below(&root)?;
    let statistics = Statistics::of_samples(&samples)?;
    let mut changes = Changes::default();
    sample_page::put_page(dataset, variant, (&root, &samples), &mut changes)?;
    changes.own_file(
        &dataset.folder.join(ANALYSIS).join(statistics::FILE),
        statistics::with_part(&dataset.folder, variant, &statistics),
    );
    readme::refresh_readme(dataset, &mut changes)?;
    Ok(changes)
}

/// Length and SHA-256 of a file.
fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    loop {
        let part = reader.fill_buf()?;
        let length = part.len();
        if length == 0 {
            break;
        }
        hash.update(part);
        bytes += length as u64;
        reader.consume(length);
    }
    Ok((bytes, hex_text(&hash.finalize())))
}

/// Hands the chosen samples to `write`; returns how many token ids they have, where they have any. Images stay where they are: rows
/// name them from the variant's final place.
fn write_samples(
    samples: &DatasetSamples,
    numbers: &[usize],
    tokenizer: Option<&SampleTokenizer>,
    target: &Path,
    write: &mut dyn FnMut(SampleRow) -> Result<()>,
) -> Result<Option<u64>> {
    let mut token_count = None;
    for &number in numbers {
        let StoredSample { id, content, .. } = samples.sample(number)?;
        let value = match (content, tokenizer) {
            (SampleContent::Text(text), Some(tokenizer)) => {
                SampleValue::Tokens(tokenizer.encode_text(&text, &id)?)
            }
            (SampleContent::Text(text), None) => SampleValue::Text(text),
            (SampleContent::Tokens(tokens), None) => SampleValue::Tokens(tokens),
            (SampleContent::Image(path), None) => {
                let path = from(target, &path);
                SampleValue::Image(path.to_string_lossy().into_owned())
            }
            (_, Some(_)) => {
                return Err(AssetError::refused(
                    format!("sample {id} is not text and cannot be tokenized"),
                    "leave --tokenizer out",
                ));
            }
        };
        if let SampleValue::Tokens(tokens) = &value {
            *token_count.get_or_insert(0) += tokens.len() as u64;
        }
        write(SampleRow { value, id })?;
    }
    Ok(token_count)
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
