//! Hydra's own configs: the `pkg://hydra.conf` tree and the typed configs of its store.
//!
//! The values are those of Hydra 1.3.8, since `--cfg hydra` prints them; only the layout of the
//! files is ours.

use super::source::FileTree;

/// The release whose behaviour is implemented, as `hydra.runtime.version` shows it.
pub(crate) const HYDRA_VERSION: &str = "1.3.8";

/// The `version_base` whose semantics are implemented.
pub(crate) const VERSION_BASE: &str = "1.3";

/// Name of the empty config that stands in when an application has no config name.
pub(crate) const EMPTY_CONFIG: &str = "_dummy_empty_config_";

/// Hydra's own configs, which Python's Hydra ships under `pkg://hydra.conf`.
pub(crate) const CONF: FileTree = &[
    ("hydra/env/default.yaml", ""),
    ("hydra/help/default.yaml", include_str!("conf/help.yaml")),
    (
        "hydra/hydra_help/default.yaml",
        include_str!("conf/hydra_help.yaml"),
    ),
    (
        "hydra/hydra_logging/default.yaml",
        include_str!("conf/hydra_logging.yaml"),
    ),
    ("hydra/hydra_logging/disabled.yaml", LOGGING_DISABLED),
    (
        "hydra/hydra_logging/hydra_debug.yaml",
        include_str!("conf/hydra_debug.yaml"),
    ),
    ("hydra/hydra_logging/none.yaml", LOGGING_NONE),
    (
        "hydra/job_logging/default.yaml",
        include_str!("conf/job_logging.yaml"),
    ),
    ("hydra/job_logging/disabled.yaml", LOGGING_DISABLED),
    ("hydra/job_logging/none.yaml", LOGGING_NONE),
    (
        "hydra/job_logging/stdout.yaml",
        include_str!("conf/job_logging_stdout.yaml"),
    ),
    (
        "hydra/output/default.yaml",
        include_str!("conf/output.yaml"),
    ),
];

/// Files of `structured://`. Only defaults lists are text; [`super::schema`] has the content.
pub(crate) const STORE: FileTree = &[
    ("_dummy_empty_config_.yaml", ""),
    ("hydra/config.yaml", include_str!("conf/config.yaml")),
    ("hydra/launcher/basic.yaml", ""),
    ("hydra/launcher/submitit_local.yaml", ""),
    ("hydra/launcher/submitit_slurm.yaml", ""),
    ("hydra/sweeper/basic.yaml", ""),
];

const LOGGING_NONE: &str = "{version: 1, root: null, disable_existing_loggers: false}";
const LOGGING_DISABLED: &str = "{version: 1, root: {level: ERROR}, disable_existing_loggers: true}";
