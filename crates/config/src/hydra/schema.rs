//! The types of Hydra's own configs, so that `hydra.job.num=abc` is a mistake and
//! `hydra.run.dir=3` is the string `'3'`.

use std::sync::Arc;

use crate::node::hint::{EnumType, Hint, HintKind, StructType};
use crate::node::{Node, Value};

static RUN_MODE: EnumType = EnumType {
    name: "RunMode",
    members: &[("RUN", 1), ("MULTIRUN", 2)],
};

/// The typed content of a config in Hydra's store.
pub(crate) fn store_config(path: &str) -> Option<Node> {
    let path = path.strip_suffix(".yaml").unwrap_or(path);
    let class = match path.trim_matches('/') {
        "hydra/config" => hydra_conf(),
        "hydra/launcher/basic" => StructType {
            name: "BasicLauncherConf",
            fields: vec![(
                "_target_",
                text_node("hydra._internal.core_plugins.basic_launcher.BasicLauncher"),
            )],
        },
        "hydra/launcher/submitit_local" => {
            submitit_launcher("LocalQueueConf", "LocalLauncher", Vec::new())
        }
        "hydra/launcher/submitit_slurm" => {
            submitit_launcher("SlurmQueueConf", "SlurmLauncher", slurm_fields())
        }
        "hydra/sweeper/basic" => StructType {
            name: "BasicSweeperConf",
            fields: vec![
                (
                    "_target_",
                    text_node("hydra._internal.core_plugins.basic_sweeper.BasicSweeper"),
                ),
                ("max_batch_size", optional_node(HintKind::Int, Value::Null)),
                ("params", optional_node(dict_of(HintKind::Str), Value::Null)),
            ],
        },
        _ => return None,
    };
    Some(Node {
        hint: None,
        ..default_instance(class)
    })
}

/// A launcher of the plugin hydra-submitit-launcher 1.2, with its keys in its order.
fn submitit_launcher(
    name: &'static str,
    launcher: &str,
    more: Vec<(&'static str, Node)>,
) -> StructType {
    let target = format!("hydra_plugins.hydra_submitit_launcher.submitit_launcher.{launcher}");
    let whole = |value: i64| Node::new(value).with_hint(Hint::required(HintKind::Int));
    let number = || optional_node(HintKind::Int, Value::Null);
    let mut fields = vec![
        (
            "submitit_folder",
            text_node("${hydra.sweep.dir}/.submitit/%j"),
        ),
        ("timeout_min", whole(60)),
        ("cpus_per_task", number()),
        ("gpus_per_node", number()),
        ("tasks_per_node", whole(1)),
        ("mem_gb", number()),
        ("nodes", whole(1)),
        ("name", text_node("${hydra.job.name}")),
        (
            "stderr_to_stdout",
            Node::new(false).with_hint(Hint::required(HintKind::Bool)),
        ),
        ("_target_", text_node(&target)),
    ];
    fields.extend(more);
    StructType { name, fields }
}

fn slurm_fields() -> Vec<(&'static str, Node)> {
    let word = || optional_node(HintKind::Str, Value::Null);
    let number = || optional_node(HintKind::Int, Value::Null);
    let whole = |value: i64| Node::new(value).with_hint(Hint::required(HintKind::Int));
    let lines = HintKind::List(Arc::new(Hint::required(HintKind::Str)));
    vec![
        ("partition", word()),
        ("qos", word()),
        ("comment", word()),
        ("constraint", word()),
        ("exclude", word()),
        ("gres", word()),
        ("cpus_per_gpu", number()),
        ("gpus_per_task", number()),
        ("mem_per_gpu", word()),
        ("mem_per_cpu", word()),
        ("account", word()),
        ("signal_delay_s", whole(120)),
        ("max_num_timeout", whole(0)),
        ("additional_parameters", empty_dict(HintKind::Any)),
        ("array_parallelism", whole(256)),
        ("setup", optional_node(lines, Value::Null)),
    ]
}

fn hydra_conf() -> StructType {
    StructType {
        name: "HydraConf",
        fields: vec![
            (
                "mode",
                optional_node(HintKind::Enum(&RUN_MODE), Value::Null),
            ),
            ("searchpath", string_list()),
            ("run", required_texts("RunDir", &["dir"])),
            ("sweep", required_texts("SweepDir", &["dir", "subdir"])),
            ("hydra_logging", missing_node(dict_of(HintKind::Any))),
            ("job_logging", missing_node(dict_of(HintKind::Any))),
            ("sweeper", Node::missing().with_hint(Hint::any())),
            ("launcher", Node::missing().with_hint(Hint::any())),
            ("callbacks", empty_dict(HintKind::Any)),
            (
                "help",
                required_texts("HelpConf", &["app_name", "header", "footer", "template"]),
            ),
            (
                "hydra_help",
                required_texts("HydraHelpConf", &["hydra_help", "template"]),
            ),
            ("output_subdir", optional_node(HintKind::Str, ".hydra")),
            (
                "overrides",
                default_instance(StructType {
                    name: "OverridesConf",
                    fields: vec![("hydra", string_list()), ("task", string_list())],
                }),
            ),
            ("job", default_instance(job_conf())),
            ("runtime", default_instance(runtime_conf())),
            ("verbose", Node::new(false).with_hint(Hint::any())),
        ],
    }
}

fn job_conf() -> StructType {
    let override_dirname = default_instance(StructType {
        name: "OverrideDirname",
        fields: vec![
            ("kv_sep", text_node("=")),
            ("item_sep", text_node(",")),
            ("exclude_keys", string_list()),
        ],
    });
    StructType {
        name: "JobConf",
        fields: vec![
            ("name", missing_node(HintKind::Str)),
            ("chdir", optional_node(HintKind::Bool, Value::Null)),
            ("override_dirname", missing_node(HintKind::Str)),
            ("id", missing_node(HintKind::Str)),
            ("num", missing_node(HintKind::Int)),
            (
                "config_name",
                optional_node(HintKind::Str, crate::node::MISSING),
            ),
            ("env_set", empty_dict(HintKind::Str)),
            ("env_copy", string_list()),
            (
                "config",
                default_instance(StructType {
                    name: "JobConfig",
                    fields: vec![("override_dirname", override_dirname)],
                }),
            ),
        ],
    }
}

fn runtime_conf() -> StructType {
    let source = StructType {
        name: "ConfigSourceInfo",
        fields: vec![
            ("path", missing_node(HintKind::Str)),
            ("schema", missing_node(HintKind::Str)),
            ("provider", missing_node(HintKind::Str)),
        ],
    };
    let sources = HintKind::List(Arc::new(Hint::required(HintKind::Struct(Arc::new(source)))));
    StructType {
        name: "RuntimeConf",
        fields: vec![
            ("version", missing_node(HintKind::Str)),
            ("version_base", missing_node(HintKind::Str)),
            ("cwd", missing_node(HintKind::Str)),
            ("config_sources", missing_node(sources)),
            ("output_dir", missing_node(HintKind::Str)),
            ("choices", empty_dict(HintKind::Any)),
        ],
    }
}

/// A mapping of the class with its defaults.
fn default_instance(class: StructType) -> Node {
    let mut node = Node::empty_dict();
    for (name, default) in &class.fields {
        node.insert(name, default.clone());
    }
    let class = Arc::new(class);
    node.class = Some(Arc::clone(&class));
    node.with_hint(Hint::required(HintKind::Struct(class)))
}

fn required_texts(name: &'static str, fields: &[&'static str]) -> Node {
    default_instance(StructType {
        name,
        fields: fields
            .iter()
            .map(|field| (*field, missing_node(HintKind::Str)))
            .collect(),
    })
}

fn missing_node(kind: HintKind) -> Node {
    Node::missing().with_hint(Hint::required(kind))
}

fn text_node(value: &str) -> Node {
    Node::new(value).with_hint(Hint::required(HintKind::Str))
}

fn optional_node(kind: HintKind, value: impl Into<Value>) -> Node {
    Node::new(value).with_hint(Hint::optional(kind))
}

fn string_list() -> Node {
    let element = Arc::new(Hint::required(HintKind::Str));
    Node::empty_list().with_hint(Hint::required(HintKind::List(element)))
}

fn dict_of(kind: HintKind) -> HintKind {
    let optional = kind == HintKind::Any;
    HintKind::Dict(Arc::new(Hint { kind, optional }))
}

fn empty_dict(kind: HintKind) -> Node {
    Node::empty_dict().with_hint(Hint::required(dict_of(kind)))
}
