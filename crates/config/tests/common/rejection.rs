//! Which of our kinds of error stands for which exceptions of Hydra.
//!
//! Our messages differ from Hydra's on purpose; the reason behind them must not. Hydra raises
//! `ConfigCompositionException` for most mistakes, so its message is looked at as well.

use super::Rejection;

/// Our kind; a class that must be among Hydra's exception and its causes; a part of Hydra's message.
const KINDS: &[(&str, &str, &str)] = &[
    // The command line.
    ("usage", "SystemExit", "2"),
    ("usage", "ValueError", "Only one of --run"),
    ("usage", "ValueError", "The --resolve flag"),
    ("package_not_found", "SystemExit", "1"),
    ("override_grammar", "OverrideParseException", ""),
    // Hydra takes any text in `${…}` on the command line and finds the mistake when it merges.
    (
        "override_grammar",
        "GrammarParseError",
        "Error merging override",
    ),
    (
        "ambiguous_override",
        "ConfigCompositionException",
        "Ambiguous value",
    ),
    (
        "sweep_without_multirun",
        "ConfigCompositionException",
        "requires --multirun",
    ),
    (
        "sweep_over_hydra",
        "ConfigCompositionException",
        "Sweeping over Hydra",
    ),
    (
        "unsupported_sweep",
        "HydraException",
        "does not support sweep type",
    ),
    (
        "unsupported_sweep",
        "ValueError",
        "range() arg 3 must not be zero",
    ),
    (
        "force_add_group",
        "ConfigCompositionException",
        "force-add of config groups",
    ),
    (
        "invalid_group_value",
        "ValueError",
        "Config group override must be",
    ),
    (
        "unknown_group",
        "ConfigCompositionException",
        "looks like a config group override",
    ),
    (
        "unused_override",
        "ConfigCompositionException",
        "Could not override",
    ),
    (
        "unused_deletion",
        "ConfigCompositionException",
        "No match in the defaults list",
    ),
    (
        "key_not_in_struct",
        "ConfigAttributeError",
        "Could not override",
    ),
    ("key_not_in_struct", "ConfigKeyError", "Could not override"),
    (
        "add_existing",
        "ConfigCompositionException",
        "Could not append to config",
    ),
    (
        "delete_missing",
        "ConfigCompositionException",
        "does not exist",
    ),
    (
        "delete_mismatch",
        "ConfigCompositionException",
        "Could not delete from config. The value",
    ),
    // Directories and files.
    (
        "missing_config_dir",
        "MissingConfigException",
        "Primary config directory",
    ),
    ("missing_config_dir", "SearchPathException", ""),
    ("config_path_is_file", "ValueError", "Using config_path"),
    (
        "invalid_searchpath",
        "ConfigCompositionException",
        "hydra.searchpath",
    ),
    ("missing_config", "MissingConfigException", ""),
    ("invalid_yaml", "ScannerError", ""),
    ("invalid_yaml", "ParserError", ""),
    ("invalid_yaml", "ComposerError", ""),
    ("invalid_yaml", "ReaderError", ""),
    ("invalid_yaml", "ConstructorError", ""),
    // An explicit tag whose text does not fit it.
    ("invalid_yaml", "ValueError", "could not convert"),
    ("invalid_yaml", "ValueError", "invalid literal"),
    ("duplicate_key", "ConstructorError", "found duplicate key"),
    ("not_a_mapping", "OSError", "Invalid loaded object type"),
    (
        "not_a_mapping",
        "ConfigCompositionException",
        "must be a DictConfig",
    ),
    ("invalid_header", "ValueError", "Too many components"),
    ("key_type", "KeyValidationError", ""),
    ("unsupported_value", "UnsupportedValueType", ""),
    ("limit", "RecursionError", ""),
    // The defaults list.
    (
        "missing_choice",
        "ConfigCompositionException",
        "You must specify",
    ),
    ("invalid_defaults", "ValueError", "in defaults"),
    ("invalid_defaults", "ValueError", "Invalid defaults list"),
    (
        "invalid_defaults",
        "ValueError",
        "Too many keys in default item",
    ),
    (
        "duplicate_self",
        "ConfigCompositionException",
        "Duplicate _self_",
    ),
    (
        "override_not_last",
        "ConfigCompositionException",
        "is defined before",
    ),
    (
        "defaults_interpolation",
        "ConfigCompositionException",
        "Error resolving interpolation",
    ),
    // Hydra asserts that an interpolated option has a name.
    ("defaults_interpolation", "AssertionError", ""),
    (
        "multiple_values",
        "ConfigCompositionException",
        "Multiple values for",
    ),
    (
        "duplicate_default",
        "ConfigCompositionException",
        "appears more than once",
    ),
    ("defaults_cycle", "RecursionError", ""),
    // Values.
    ("interpolation_grammar", "GrammarParseError", ""),
    ("interpolation_key", "InterpolationKeyError", ""),
    (
        "interpolation_to_missing",
        "InterpolationToMissingValueError",
        "",
    ),
    (
        "interpolation_cycle",
        "InterpolationResolutionError",
        "Recursive interpolation",
    ),
    (
        "interpolation_cycle",
        "InterpolationResolutionError",
        "Interpolation to parent node",
    ),
    (
        "interpolation_cycle",
        "InterpolationResolutionError",
        "RecursionError",
    ),
    ("interpolation_cycle", "RecursionError", ""),
    ("interpolation", "InterpolationResolutionError", ""),
    ("unknown_resolver", "UnsupportedInterpolationType", ""),
    (
        "interpolation_validation",
        "InterpolationValidationError",
        "",
    ),
    ("missing_mandatory", "MissingMandatoryValue", ""),
    ("validation", "ValidationError", ""),
    (
        "validation",
        "ConfigCompositionException",
        "ValidationError raised while composing",
    ),
    (
        "key_not_in_struct",
        "ConfigCompositionException",
        "ConfigKeyError raised while composing",
    ),
    ("type_mismatch", "ConfigTypeError", ""),
    (
        "type_mismatch",
        "ConfigCompositionException",
        "ConfigTypeError raised while composing",
    ),
    ("index_out_of_range", "ConfigIndexError", ""),
    ("readonly", "ReadonlyConfigError", ""),
    // Python trips over an index that is a text, or not a number.
    (
        "type_mismatch",
        "TypeError",
        "list indices must be integers",
    ),
    ("type_mismatch", "ValueError", "invalid literal for int()"),
    // Hydra's own config.
    ("missing_environment", "KeyError", ""),
    // `hydra: null` in the primary config takes away what Hydra writes to.
    (
        "hydra_config_changed",
        "AttributeError",
        "'NoneType' object",
    ),
    ("key_not_in_struct", "AttributeError", "'NoneType' object"),
];

/// Whether both refused for the same reason.
pub(crate) fn agrees(theirs: &Rejection, ours: &Rejection) -> bool {
    KINDS.iter().any(|(kind, class, part)| {
        ours.chain.iter().any(|ours| ours == kind)
            && theirs.chain.iter().any(|theirs| theirs == class)
            && theirs.message.contains(part)
    })
}
