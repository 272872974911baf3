use std::{path::Path, process::ExitCode, sync::Arc};

use llmprof_assets::dataset::{
    self, Dataset, DatasetFacts, NewDataset, SampleSelection, SampleTokenizer, VariantRequest,
};
use llmprof_capture::tokenizer::TokenizerProcess;
use llmprof_report::compose::listings;

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
        (Some(count), ..) => SampleSelection::Random(count),
        (_, Some(list), _) => SampleSelection::Listed(list),
        (.., false) => SampleSelection::Split(args.split),
        _ => SampleSelection::All,
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
        format: args.format,
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

fn list(project: &Path, json: bool, output: &mut Output) -> Result<ExitCode, Failure> {
    let datasets = Dataset::list(project)?;
    if json {
        let all = datasets.iter().map(Dataset::facts);
        let all: Vec<DatasetFacts> = all.collect::<Result<_, _>>()?;
        output.json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    for dataset in datasets {
        let (variants, subsets) = (dataset.variants()?, dataset.subsets());
        let place = dataset.place();
        rows.push([dataset.name, place, variants.join(", "), subsets.join(", ")]);
    }
    output.table(&listings::datasets(rows))?;
    Ok(ExitCode::SUCCESS)
}

fn show(dataset: &Dataset, json: bool, output: &mut Output) -> Result<ExitCode, Failure> {
    if json {
        output.json(&dataset.facts_with_statistics()?)?;
    } else {
        output.text(&dataset.description()?)?;
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
        output.line(&fault.to_string())?;
    }
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DIFFERS)
    })
}
