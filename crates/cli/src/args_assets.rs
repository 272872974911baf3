//! Arguments of the commands around a project: init, bootstrap, dataset, externals.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{
    Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use llmprof_assets::dataset::SampleFormat;

/// How changes are made.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Consent {
    /// Print what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Where a project is made.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The directory; created if it does not exist.
    pub(crate) dir: PathBuf,
    /// Also in a directory that has files; none is overwritten.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Which links are made.
#[derive(Debug, clap::Args)]
pub(crate) struct BootstrapArgs {
    /// Which links: models, datasets, all, or names of models and datasets [default: all].
    #[arg(value_name = "PART|NAME")]
    pub(crate) parts: Vec<String>,
    /// Only check that everything is as declared; exit code 1 if not.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) check: bool,
    /// Print the links as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// What to do with datasets.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetCommand {
    /// Register a directory of data as a dataset of this project, or refresh its README and statistics.
    #[command(after_help = "\
Examples:
  llmprof dataset add openwebtext --source /data/openwebtext --yes
  llmprof run dataset=openwebtext")]
    Add {
        /// Its name in the project.
        name: String,
        /// The directory with the data; it is linked, not copied.
        #[arg(long, value_name = "DIR")]
        source: PathBuf,
        /// Where it is published.
        #[arg(long)]
        url: Option<String>,
        /// Its licence.
        #[arg(long)]
        license: Option<String>,
        /// Its version.
        #[arg(long = "dataset-version", value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        consent: Consent,
    },
    /// List datasets with their variants and file lists.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one dataset: where its data are, what they are, its variants.
    Show {
        /// Its name.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check links, statistics, variants, file lists and READMEs; exit code 1 if something is wrong.
    Verify {
        /// Datasets; all by default.
        names: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Prepare a variant beside source-data: a sample, a split, what a list names, token ids, or another file format.
    #[command(after_help = "\
Examples:
  llmprof dataset variant openwebtext --samples 1000 --seed 7       subset-1000
  llmprof dataset variant openwebtext --split train=0.9,val=0.1     split-train, split-val
  llmprof dataset variant openwebtext --tokenizer models/gpt2       tokenized-gpt2
  llmprof dataset variant omnidocbench dev-20 --samples 20 --list   subsets/dev-20.txt
  llmprof run dataset=openwebtext dataset.variant=subset-1000")]
    Variant(VariantArgs),
}

/// Which variant is made, from what.
#[derive(Debug, clap::Args)]
pub(crate) struct VariantArgs {
    /// The dataset.
    pub(crate) dataset: String,
    /// Name of the variant [default: subset-N, the list's name, tokenized-FOLDER, as-FORMAT].
    pub(crate) name: Option<String>,
    /// Take this many samples at random.
    #[arg(long, value_name = "N", group = "which")]
    pub(crate) samples: Option<usize>,
    /// Take the samples that a file names, one per line.
    #[arg(long, value_name = "FILE", group = "which")]
    pub(crate) filelist: Option<PathBuf>,
    /// Divide the samples at random: NAME=SHARE,NAME=SHARE.
    #[arg(long, value_name = "PARTS", group = "which", value_parser = split_part, value_delimiter = ',')]
    pub(crate) split: Vec<(String, f64)>,
    /// Seed of the random choice.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Store token ids instead of texts: a tokenizer.json, or its directory.
    #[arg(long, value_name = "PATH")]
    pub(crate) tokenizer: Option<PathBuf>,
    /// File format of the samples [default: jsonl].
    #[arg(long, value_parser = sample_format_parser(), conflicts_with = "list")]
    pub(crate) format: Option<SampleFormat>,
    /// Start from this variant.
    #[arg(long, value_name = "VARIANT", default_value = "source-data")]
    pub(crate) from: String,
    /// Write a file list, subsets/NAME.txt, and no data.
    #[arg(long)]
    pub(crate) list: bool,
    /// Replace an existing variant of that name.
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

fn sample_format_parser() -> impl TypedValueParser<Value = SampleFormat> {
    let by_extension = BTreeMap::from(SampleFormat::BY_EXTENSION);
    PossibleValuesParser::new(SampleFormat::BY_EXTENSION.map(|(extension, _)| extension))
        .map(move |extension| by_extension[extension.as_str()])
}

/// One part of a split: `train=0.9`.
fn split_part(text: &str) -> Result<(String, f64), String> {
    let (name, share) = text
        .split_once('=')
        .ok_or("NAME=SHARE, such as train=0.9")?;
    let share: f64 = share
        .parse()
        .map_err(|_| "a share is a number, such as 0.9")?;
    Ok((name.to_owned(), share))
}

/// What to do with the sources of others.
#[derive(Debug, Subcommand)]
pub(crate) enum ExternalsCommand {
    /// Check out each source that third_party/externals.yaml declares, at its pinned revision.
    Init(ExternalsArgs),
    /// Move pins to the newest revisions of their branches, and the sources with them.
    Update(ExternalsArgs),
    /// Download the source files of hub repositories.
    Snapshot(ExternalsArgs),
    /// Show revisions, drift and local edits.
    Status {
        /// Exit code 1 if one is not at its pin.
        #[arg(long)]
        check: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Refuse commits that edit externals, add undeclared submodules or link to storage outside; for a pre-commit hook.
    Guard {
        /// Install it as the pre-commit hook of this repository.
        #[arg(long)]
        install: bool,
        #[command(flatten)]
        consent: Consent,
    },
}

/// Which externals.
#[derive(Debug, clap::Args)]
pub(crate) struct ExternalsArgs {
    /// Their paths below third_party/; all by default.
    pub(crate) paths: Vec<String>,
    #[command(flatten)]
    pub(crate) consent: Consent,
}
