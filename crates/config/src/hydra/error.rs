//! What can be wrong with a composition, in terms of what the user wrote.

use crate::error::{Error as ValueError, ErrorKind};
use crate::grammar::{GrammarError, TextSpan};
use crate::near_names::nearest_name;
use crate::source::SourceSpan;

/// A composition that cannot be done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the fields are the words of the message above them"
)]
pub enum Error {
    /// The override does not follow the grammar.
    #[error("error in override '{line}': {error}")]
    OverrideGrammar { line: String, error: GrammarError },
    /// Several values, as in `a=1,2`, without `--multirun`.
    #[error("ambiguous value for argument '{line}'")]
    AmbiguousOverride { line: String },
    /// A sweep function without `--multirun`.
    #[error("sweep parameters '{line}' require --multirun")]
    SweepWithoutMultirun { line: String },
    #[error("sweeping over Hydra's configuration is not supported: '{line}'")]
    SweepOverHydra { line: String },
    /// A sweep that cannot be enumerated.
    #[error("the basic sweeper does not support '{line}': {reason}")]
    UnsupportedSweep { line: String, reason: String },
    /// A sweep that would be composed for minutes.
    #[error("the sweep has {jobs} jobs, at most {jobs_max} are composed at once")]
    TooManyJobs { jobs: usize, jobs_max: usize },

    /// The primary config directory does not exist.
    #[error("primary config directory not found: '{path}'")]
    MissingPrimaryDirectory { path: String },
    /// A directory given by `--config-dir` does not exist.
    #[error("additional config directory '{path}' not found")]
    MissingDirectory { path: String },
    /// The config path names a file.
    #[error(
        "the config path '{path}' names a config; give its directory, and its name with --config-name"
    )]
    ConfigPathIsFile { path: String },
    /// `hydra.searchpath` is not a list of strings, or names a scheme that does not exist.
    #[error("hydra.searchpath must be a list of paths: {reason}")]
    InvalidSearchPath { reason: String },
    /// `hydra.searchpath` in a config that is not the primary one.
    #[error("in '{config}': hydra.searchpath can only be set in the primary config")]
    SearchPathNotPrimary { config: String },

    /// The primary config does not exist.
    #[error("cannot find primary config '{config}'\nsearch path:\n{search_path}")]
    MissingPrimary {
        config: String,
        options: Vec<String>,
        search_path: String,
    },
    /// A config that a defaults list names does not exist.
    #[error("in '{parent}': could not find '{config}'{}\nsearch path:\n{search_path}", describe_available(.config, .options))]
    MissingConfig {
        parent: String,
        config: String,
        options: Vec<String>,
        search_path: String,
    },
    /// A group is at `???`.
    #[error("you must specify '{key}', e.g. {key}=<OPTION>\navailable options:{}", list_options(.options))]
    MissingChoice { key: String, options: Vec<String> },
    /// A config file cannot be read.
    #[error("cannot read '{file}': {reason}")]
    Unreadable { file: String, reason: String },
    /// A config file is not valid.
    #[error("in '{config}': {error}")]
    InvalidConfig { config: String, error: ValueError },
    /// The primary config is not a mapping.
    #[error("primary config '{config}' must be a mapping, got {found}")]
    PrimaryNotMapping { config: String, found: &'static str },
    /// The `# @package` header is malformed.
    #[error("in '{config}': {reason}")]
    InvalidHeader { config: String, reason: String },

    /// The `defaults` key does not hold what it should.
    #[error("in '{config}': {reason}")]
    InvalidDefaults {
        config: String,
        reason: String,
        origin: Option<SourceSpan>,
    },
    /// Two `_self_` in one list.
    #[error("duplicate _self_ in the defaults list of '{config}'")]
    DuplicateSelf { config: String },
    /// An `override` item before others.
    #[error(
        "in '{config}': override '{before}' stands before '{item}', but overrides must be at the end of the defaults list"
    )]
    OverrideNotLast {
        config: String,
        before: String,
        item: String,
    },
    /// An `override` item below an interpolated option.
    #[error(
        "in '{config}': override '{item}' is below an option chosen by interpolation, where overrides come too late"
    )]
    OverrideBelowInterpolation { config: String, item: String },
    /// `${…}` in a list of options.
    #[error("in '{config}': interpolation is not supported in a list of options: '{option}'")]
    InterpolationInOptions { config: String, option: String },
    /// `${…}` in an option cannot be resolved.
    #[error("error resolving interpolation '{text}' in a defaults list: {reason}")]
    DefaultsInterpolation {
        text: String,
        keys: Vec<String>,
        reason: String,
    },
    /// Two different options for one group.
    #[error("multiple values for {key}: '{previous}' was chosen before")]
    MultipleValues { key: String, previous: String },
    /// One group twice in the list.
    #[error("{key} appears more than once in the final defaults list")]
    DuplicateDefault { key: String },
    #[error(
        "defaults are nested deeper than {depth} levels at '{config}', which is most likely a cycle"
    )]
    TooDeep { config: String, depth: usize },
    /// An override of a group that no defaults list has.
    #[error("{}could not override '{key}': no match in the defaults list", in_config(.config.as_ref()))]
    UnusedOverride {
        key: String,
        config: Option<String>,
        choice: String,
        candidates: Vec<String>,
    },
    /// A deletion of a group that no defaults list has.
    #[error("could not delete '{key}': no match in the defaults list")]
    UnusedDeletion {
        key: String,
        chosen: Option<String>,
        known: Vec<String>,
    },
    #[error("force-add of config groups is not supported: '{line}'")]
    ForceAddGroup { line: String },
    /// A group set to something that cannot name an option.
    #[error("the value of the config group '{group}' must be {expected}: '{line}'")]
    InvalidGroupValue {
        line: String,
        group: String,
        expected: &'static str,
    },
    /// `key@package=value` where `key` is not a config group.
    #[error(
        "override '{line}' looks like a config group override, but there is no config group '{group}'"
    )]
    UnknownGroup {
        line: String,
        group: String,
        groups: Vec<String>,
    },

    #[error("in '{config}': {error}")]
    Merge { config: String, error: ValueError },
    #[error("error in override '{line}': {error}")]
    Override { line: String, error: ValueError },
    /// An override of a key that does not exist.
    #[error("unknown key `{key}`")]
    KeyNotInStruct {
        key: String,
        line: String,
        /// The keys that were most likely meant; several where nothing tells them apart.
        meant: Vec<String>,
        error: ValueError,
    },
    /// `+key=value` where there is a value already.
    #[error("could not append to the config: there is an item at '{key}' already")]
    AddExisting { key: String, line: String },
    #[error("could not delete '{key}' from the config: it does not exist")]
    DeleteMissing { key: String },
    /// `~key=value` where the key has another value.
    #[error("could not delete '{key}' from the config: its value is {found} and not {wanted}")]
    DeleteMismatch {
        key: String,
        found: String,
        wanted: String,
    },
    /// `hydra.job.env_copy` names a variable that is not set.
    #[error("hydra.job.env_copy names '{name}', which is not set in the environment")]
    MissingEnvironment { name: String },
    /// The config took away something that Hydra itself needs.
    #[error("the config leaves no usable '{key}', which Hydra fills in itself")]
    HydraChanged { key: String },
    /// A sweeper or launcher that is a Python class.
    #[error("{key} is '{target}', which is not built in")]
    UnsupportedPlugin { key: String, target: String },
    /// The flags do not fit together.
    #[error("{reason}")]
    Usage { reason: String },
    #[error("package '{package}' not found in config")]
    PackageNotFound { package: String },
    /// A value could not be resolved or written.
    #[error("{error}")]
    Value { error: ValueError },
}

impl Error {
    /// A short, stable name of the kind of mistake.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::OverrideGrammar { .. } => "override_grammar",
            Self::AmbiguousOverride { .. } => "ambiguous_override",
            Self::SweepWithoutMultirun { .. } => "sweep_without_multirun",
            Self::SweepOverHydra { .. } => "sweep_over_hydra",
            Self::UnsupportedSweep { .. } => "unsupported_sweep",
            Self::TooManyJobs { .. } => "too_many_jobs",
            Self::MissingPrimaryDirectory { .. } | Self::MissingDirectory { .. } => {
                "missing_config_dir"
            }
            Self::ConfigPathIsFile { .. } => "config_path_is_file",
            Self::InvalidSearchPath { .. } | Self::SearchPathNotPrimary { .. } => {
                "invalid_searchpath"
            }
            Self::MissingPrimary { .. } | Self::MissingConfig { .. } => "missing_config",
            Self::MissingChoice { .. } => "missing_choice",
            Self::Unreadable { .. } => "unreadable",
            Self::PrimaryNotMapping { .. } => "not_a_mapping",
            Self::InvalidHeader { .. } => "invalid_header",
            Self::InvalidDefaults { .. } => "invalid_defaults",
            Self::DuplicateSelf { .. } => "duplicate_self",
            Self::OverrideNotLast { .. } => "override_not_last",
            Self::OverrideBelowInterpolation { .. } => "override_below_interpolation",
            Self::InterpolationInOptions { .. } => "interpolation_in_options",
            Self::DefaultsInterpolation { .. } => "defaults_interpolation",
            Self::MultipleValues { .. } => "multiple_values",
            Self::DuplicateDefault { .. } => "duplicate_default",
            Self::TooDeep { .. } => "defaults_cycle",
            Self::UnusedOverride { .. } => "unused_override",
            Self::UnusedDeletion { .. } => "unused_deletion",
            Self::ForceAddGroup { .. } => "force_add_group",
            Self::InvalidGroupValue { .. } => "invalid_group_value",
            Self::UnknownGroup { .. } => "unknown_group",
            Self::KeyNotInStruct { .. } => "key_not_in_struct",
            Self::AddExisting { .. } => "add_existing",
            Self::DeleteMissing { .. } => "delete_missing",
            Self::DeleteMismatch { .. } => "delete_mismatch",
            Self::MissingEnvironment { .. } => "missing_environment",
            Self::HydraChanged { .. } => "hydra_config_changed",
            Self::UnsupportedPlugin { .. } => "unsupported_plugin",
            Self::Usage { .. } => "usage",
            Self::PackageNotFound { .. } => "package_not_found",
            Self::InvalidConfig { error, .. }
            | Self::Merge { error, .. }
            | Self::Override { error, .. }
            | Self::Value { error } => value_kind(error.kind()),
        }
    }

    /// What would put it right, when that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::AmbiguousOverride { line } => {
                let key = line.split('=').next().unwrap_or("key");
                Some(format!(
                    "for a list write {key}=[a,b], for a string {key}=\\'a,b\\', to sweep add --multirun"
                ))
            }
            Self::SweepWithoutMultirun { .. } => Some("add --multirun".to_owned()),
            Self::TooManyJobs { .. } => Some("fewer values of a key, or several sweeps".to_owned()),
            Self::MissingPrimary {
                config, options, ..
            }
            | Self::MissingConfig {
                config, options, ..
            } => did_you_mean(split_config_path(config).1, options),
            Self::MultipleValues { key, previous } => Some(format!(
                "to change a choice write 'override {key}: {previous}'"
            )),
            Self::UnusedOverride {
                key,
                config,
                choice,
                candidates,
            } => {
                let mut hints = Vec::new();
                if !candidates.is_empty() {
                    hints.push(format!("did you mean {}?", candidates.join(" or ")));
                }
                if config.is_none() {
                    hints.push(format!(
                        "to append to your defaults list use +{key}={choice}"
                    ));
                }
                (!hints.is_empty()).then(|| hints.join("\n"))
            }
            Self::UnusedDeletion { key, chosen, known } => match chosen {
                Some(chosen) => Some(format!("the option chosen is '{chosen}'")),
                None => did_you_mean(key.split('=').next().unwrap_or(key), known),
            },
            Self::DefaultsInterpolation { keys, .. } if !keys.is_empty() => {
                Some(format!("possible interpolation keys: {}", keys.join(", ")))
            }
            Self::UnknownGroup { group, groups, .. } => did_you_mean(group, groups),
            // A key that was most likely meant stands alone: adding the misspelled one is what nobody wants.
            Self::KeyNotInStruct { line, meant, .. } => Some(
                ask_which(meant).unwrap_or_else(|| format!("to append to your config use +{line}")),
            ),
            Self::AddExisting { key, line } => Some(format!(
                "remove the + to change it: {}\nor write a second one to add or change '{key}': +{line}",
                line.strip_prefix('+').unwrap_or(line)
            )),
            // A file of a group stands in the package of that name already.
            Self::Merge { config, error }
                if config.starts_with("hydra/") && error.to_string().contains("`hydra.hydra`") =>
            {
                Some(format!(
                    "'{config}' is in the package `hydra` already: write its keys without the line `hydra:`, or begin the file with `# @package _global_`"
                ))
            }
            Self::InvalidConfig { error, .. }
            | Self::Merge { error, .. }
            | Self::Override { error, .. }
            | Self::Value { error } => error.hint().map(str::to_owned),
            _ => None,
        }
    }

    /// Where the mistake was written, when a config file is to blame.
    pub fn origin(&self) -> Option<&SourceSpan> {
        match self {
            Self::InvalidConfig { error, .. }
            | Self::Merge { error, .. }
            | Self::Override { error, .. }
            | Self::KeyNotInStruct { error, .. }
            | Self::Value { error } => error.origin(),
            Self::InvalidDefaults { origin, .. } => origin.as_ref(),
            _ => None,
        }
    }

    /// The override to blame and the place in it, when the command line is.
    pub fn override_span(&self) -> Option<(&str, TextSpan)> {
        match self {
            Self::OverrideGrammar { line, error } => Some((line, error.span())),
            Self::AmbiguousOverride { line }
            | Self::SweepWithoutMultirun { line }
            | Self::SweepOverHydra { line }
            | Self::UnsupportedSweep { line, .. }
            | Self::ForceAddGroup { line }
            | Self::InvalidGroupValue { line, .. }
            | Self::UnknownGroup { line, .. }
            | Self::Override { line, .. }
            | Self::KeyNotInStruct { line, .. }
            | Self::AddExisting { line, .. } => Some((line, TextSpan::new(0, line.len()))),
            _ => None,
        }
    }
}

impl From<ValueError> for Error {
    fn from(error: ValueError) -> Self {
        Self::Value { error }
    }
}

fn value_kind(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Yaml(_) | ErrorKind::MultipleDocuments => "invalid_yaml",
        ErrorKind::DuplicateKey(_) => "duplicate_key",
        ErrorKind::InvalidRoot(_) => "not_a_mapping",
        ErrorKind::Grammar(_) => "interpolation_grammar",
        ErrorKind::KeyType(_) => "key_type",
        ErrorKind::UnsupportedValue(_) => "unsupported_value",
        ErrorKind::Validation(_) => "validation",
        ErrorKind::InterpolationKey(_) => "interpolation_key",
        ErrorKind::InterpolationToMissing(_) => "interpolation_to_missing",
        ErrorKind::UnsupportedInterpolation(_) => "unknown_resolver",
        ErrorKind::Cycle(_) => "interpolation_cycle",
        ErrorKind::InterpolationResolution(_) => "interpolation",
        ErrorKind::MissingMandatory(_) => "missing_mandatory",
        ErrorKind::Key(_) => "key_not_found",
        ErrorKind::Struct { .. } => "key_not_in_struct",
        ErrorKind::NotContainer { .. } | ErrorKind::Type(_) => "type_mismatch",
        ErrorKind::Value(_) => "invalid_value",
        ErrorKind::Index(_) => "index_out_of_range",
        ErrorKind::Readonly => "readonly",
        ErrorKind::InterpolationValidation(_) => "interpolation_validation",
        ErrorKind::Limit(_) => "limit",
    }
}

/// "did you mean `a`, `b` or `c`?"
pub fn ask_which(names: &[String]) -> Option<String> {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let (last, before) = quoted.split_last()?;
    Some(if before.is_empty() {
        format!("did you mean {last}?")
    } else {
        format!("did you mean {} or {last}?", before.join(", "))
    })
}

fn did_you_mean(wanted: &str, candidates: &[String]) -> Option<String> {
    nearest_name(wanted, candidates.iter().map(String::as_str))
        .map(|near| format!("did you mean '{near}'?"))
}

fn list_options(options: &[String]) -> String {
    options
        .iter()
        .flat_map(|option| ["\n\t", option.as_str()])
        .collect()
}

/// The group and the name of a config path.
fn split_config_path(config: &str) -> (&str, &str) {
    config.rsplit_once('/').unwrap_or(("", config))
}

fn describe_available(config: &str, options: &[String]) -> String {
    if options.is_empty() {
        String::new()
    } else {
        let group = split_config_path(config).0;
        format!("\navailable options in '{group}':{}", list_options(options))
    }
}

fn in_config(config: Option<&String>) -> String {
    config.map_or_else(String::new, |config| format!("in '{config}': "))
}
