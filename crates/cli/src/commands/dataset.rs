use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use llmprof_assets::dataset::{
    self, Dataset, NewDataset, SOURCE, SampleTokenizer, Selection, Statistics, VariantRequest,
    samples::Samples,
};
use llmprof_capture::tokenizer::TokenizerProcess;
use llmprof_report::Table;
use schemars::JsonSchema;
use serde::Serialize;

use crate::changes::{DIFFERS, here, lock, make};
use crate::{
    args_assets::{DatasetCommand, VariantArgs},
    clock,
    failure::Failure,
    output::Output,
};

pub(crate) fn dataset(command: DatasetCommand, output: &mut Output) -> Result<ExitCode, Failure> {
    let project = here()?;
    match command {
        DatasetCommand::Add {
            name,
            source,
            url,
            license,
            version,
            consent,
        } => {
            let _lock = lock(&project)?;
            let new = NewDataset {
                name,
                source,
                url,
                license,
                version,
            };
            make(dataset::add(&project, &new)?, consent, output)
        }
        DatasetCommand::List { json } => list(&project, json, output),
        DatasetCommand::Show { name, json } => show(&Dataset::open(&project, &name)?, json, output),
        DatasetCommand::Verify { names, json } => verify(&project, &names, json, output),
        DatasetCommand::Variant(args) => variant(&project, args, output),
    }
}

fn variant(project: &Path, args: VariantArgs, output: &mut Output) -> Result<ExitCode, Failure> {
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::new(format!("cannot tell the working directory: {error}")))?;
    let selection = match (args.samples, args.filelist, args.split.is_empty()) {
        (Some(count), ..) => Selection::Random(count),
        (_, Some(list), _) => Selection::Listed(list),
        (.., false) => Selection::Split(args.split),
        _ => Selection::All,
    };
    let today = clock::now().chars().take("2026-01-01".len()).collect();
    let tokenizer = args
        .tokenizer
        .as_deref()
        .map(sample_tokenizer)
        .transpose()?;
    let request = VariantRequest {
        name: args.name,
        parent: args.from,
        selection,
        seed: args.seed,
        tokenizer,
        list: args.list,
        replace: args.replace,
        today,
        cwd,
    };
    let _lock = lock(project)?;
    let dataset = Dataset::open(project, &args.dataset)?;
    make(dataset::variants(&dataset, &request)?, args.consent, output)
}

fn sample_tokenizer(path: &Path) -> Result<SampleTokenizer, Failure> {
    let process = TokenizerProcess::start(path).map_err(Failure::new)?;
    Ok(SampleTokenizer {
        file: process.file().to_owned(),
        encode: Arc::new(move |text| process.encode(text, false)),
    })
}

/// A dataset of the project.
#[derive(Serialize, JsonSchema)]
pub(super) struct DatasetFacts {
    /// Name of the dataset.
    name: String,
    /// Where `source-data` links to; null where it is a folder of the project.
    source: Option<PathBuf>,
    /// Whether the source data are there.
    is_there: bool,
    /// Variants beside the source data.
    variants: Vec<String>,
    /// File lists.
    subsets: Vec<String>,
    /// Statistics of the source data and of each variant that can be read; `dataset show` only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    statistics: BTreeMap<String, Statistics>,
}

fn facts(dataset: &Dataset) -> Result<DatasetFacts, Failure> {
    let source = dataset.source();
    Ok(DatasetFacts {
        name: dataset.name.clone(),
        source: fs::read_link(&source).ok(),
        is_there: source.exists(),
        variants: dataset.variants()?,
        subsets: dataset.subsets(),
        statistics: BTreeMap::new(),
    })
}

fn list(project: &Path, json: bool, output: &mut Output) -> Result<ExitCode, Failure> {
    let datasets = Dataset::list(project)?;
    if json {
        let all: Vec<DatasetFacts> = datasets.iter().map(facts).collect::<Result<_, _>>()?;
        output.json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["NAME", "SOURCE-DATA", "VARIANTS", "FILE LISTS"], 4);
    for dataset in &datasets {
        table.row([
            dataset.name.clone(),
            place(dataset),
            dataset.variants()?.join(", "),
            dataset.subsets().join(", "),
        ]);
    }
    output.table(&table)?;
    Ok(ExitCode::SUCCESS)
}

fn place(dataset: &Dataset) -> String {
    let source = dataset.source();
    match (fs::read_link(&source), source.exists()) {
        (Ok(target), true) => target.display().to_string(),
        (Ok(target), false) => format!("{} (does not exist)", target.display()),
        (Err(_), true) => "a folder of the project".to_owned(),
        (Err(_), false) => "missing".to_owned(),
    }
}

fn show(dataset: &Dataset, json: bool, output: &mut Output) -> Result<ExitCode, Failure> {
    let mut parts = vec![SOURCE.to_owned()];
    parts.extend(dataset.variants()?);
    let statistics = |part: &str| -> Result<Statistics, llmprof_assets::AssetError> {
        Statistics::of(&Samples::found(&dataset.root(part)?)?)
    };
    if json {
        let mut facts = facts(dataset)?;
        for part in &parts {
            if let Ok(found) = statistics(part) {
                facts.statistics.insert(part.clone(), found);
            }
        }
        output.json(&facts)?;
        return Ok(ExitCode::SUCCESS);
    }
    output.line(&format!("{}: {}", dataset.name, place(dataset)))?;
    for part in &parts {
        let told = statistics(part).map_or_else(|error| error.to_string(), |found| found.line());
        output.line(&format!("  {part}: {told}"))?;
    }
    let subsets = dataset.subsets();
    if !subsets.is_empty() {
        output.line(&format!("  file lists: {}", subsets.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(
    project: &Path,
    names: &[String],
    json: bool,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let datasets = match names {
        [] => Dataset::list(project)?,
        names => names
            .iter()
            .map(|name| Dataset::open(project, name))
            .collect::<Result<_, _>>()?,
    };
    let mut faults = Vec::new();
    for dataset in &datasets {
        faults.extend(dataset::verify(dataset)?);
    }
    if json {
        output.json(&faults)?;
    } else if faults.is_empty() {
        output.line(&format!(
            "{}, nothing wrong",
            llmprof_units::Count(datasets.len() as u64, "dataset")
        ))?;
    }
    for fault in faults.iter().filter(|_| !json) {
        output.line(&format!(
            "{}: {}: {}",
            fault.dataset, fault.part, fault.what
        ))?;
    }
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DIFFERS)
    })
}
