//! The defaults tree and list over small trees in memory.

use super::*;
use crate::error::ErrorKind;
use crate::grammar::overrides::{KeepOrder, parse_override};
use crate::hydra::builtin;
use crate::hydra::defaults_list::flatten_tree;
use crate::hydra::source::{ConfigSource, FileTree};

/// `path@package` of every config that is merged besides Hydra's own.
fn defaults(files: FileTree, overrides: &[&str]) -> Result<Vec<String>, Error> {
    let repository = Repository::new(vec![
        ConfigSource::files("hydra", "pkg", "hydra.conf", builtin::CONF),
        ConfigSource::files("main", "pkg", "test", files),
        ConfigSource::files("schema", "structured", "", builtin::STORE),
    ]);
    let overrides: Vec<_> = overrides
        .iter()
        .map(|line| parse_override(line, &mut KeepOrder).expect("a valid override"))
        .collect();
    let mut choices = Choices::new(&repository, &overrides)?;
    // Enough of an evaluator for `${group}` alone.
    let resolve = |scope: Node, text: &str| {
        let key = text.trim_start_matches("${").trim_end_matches('}');
        scope
            .get(key)
            .cloned()
            .ok_or_else(|| ErrorKind::InterpolationKey(key.to_owned()).into())
    };
    let tree = TreeBuilder {
        repository: &repository,
        choices: &mut choices,
        skip_missing: false,
        resolve: &resolve,
        warnings: &crate::warnings::Warnings::default(),
    }
    .build_tree("config")?;
    let list = flatten_tree(&tree)?;
    choices.ensure_all_used()?;
    Ok(list
        .into_iter()
        .filter(|item| !item.config_path.starts_with("hydra/"))
        .map(|item| format!("{}@{}", item.config_path, item.package))
        .collect())
}

const NESTED: FileTree = &[
    ("config.yaml", "defaults: [server: apache, _self_]\na: 1"),
    (
        "server/apache.yaml",
        "defaults: [db: mysql, /db@backup: sqlite]\nb: 1",
    ),
    ("server/db/mysql.yaml", ""),
    ("server/db/sqlite.yaml", ""),
    ("db/sqlite.yaml", "# @package other"),
    ("db/none.yaml", ""),
];

#[test]
fn nested_groups_are_relative_and_self_is_last_when_not_said() {
    assert_eq!(
        defaults(NESTED, &[]).expect("composes"),
        [
            "server/db/mysql@server.db",
            "db/sqlite@server.backup",
            "server/apache@server",
            "config@"
        ]
    );
}

#[test]
fn overrides_address_group_and_package() {
    assert_eq!(
        defaults(NESTED, &["server/db=sqlite", "db@server.backup=none"]).expect("composes")[..2],
        ["server/db/sqlite@server.db", "db/none@server.backup"]
    );
    let error = defaults(NESTED, &["db=none"]).expect_err("no such choice");
    assert_eq!(error.kind(), "unused_override");
    let hint = error.hint().expect("the key it has");
    assert!(
        hint.contains("db@server.backup") && hint.contains("+db=none"),
        "{hint}"
    );
}

#[test]
fn groups_are_deleted_and_appended() {
    assert_eq!(
        defaults(
            NESTED,
            &["~server/db", "~db@server.backup=sqlite", "+db=sqlite"]
        )
        .expect("composes"),
        ["server/apache@server", "config@", "db/sqlite@other"]
    );
    let error = defaults(NESTED, &["~server=nginx"]).expect_err("another option");
    assert_eq!(error.kind(), "unused_deletion");
}

const EXPERIMENT: FileTree = &[
    (
        "config.yaml",
        "defaults: [db: mysql, optional extra: none, joint: '${db}', _self_]",
    ),
    ("db/mysql.yaml", ""),
    ("db/sqlite.yaml", ""),
    ("joint/mysql.yaml", ""),
    ("joint/sqlite.yaml", ""),
    (
        "experiment/fast.yaml",
        "# @package _global_\ndefaults: [override /db: sqlite]",
    ),
    (
        "experiment/late.yaml",
        "defaults: [override /db: sqlite, /joint@x: mysql]",
    ),
];

#[test]
fn an_appended_config_overrides_a_choice_made_before_it() {
    assert_eq!(
        defaults(EXPERIMENT, &["+experiment=fast"]).expect("composes"),
        [
            "db/sqlite@db",
            "joint/sqlite@joint",
            "config@",
            "experiment/fast@"
        ]
    );
    assert_eq!(
        defaults(EXPERIMENT, &["db=sqlite"]).expect("composes"),
        ["db/sqlite@db", "joint/sqlite@joint", "config@"]
    );
    let error = defaults(EXPERIMENT, &["+experiment=late"]).expect_err("override first");
    assert_eq!(error.kind(), "override_not_last");
}

#[test]
fn missing_options_are_listed() {
    let error = defaults(NESTED, &["server/db=sqlit"]).expect_err("no such option");
    assert_eq!(error.kind(), "missing_config");
    assert_eq!(error.hint().as_deref(), Some("did you mean 'sqlite'?"));
    assert!(error.to_string().contains("\tmysql\n\tsqlite"), "{error}");
}

#[test]
fn a_cycle_ends_in_an_error() {
    const CYCLE: FileTree = &[
        ("config.yaml", "defaults: [/a@x: b]"),
        ("a/b.yaml", "defaults: [/a@x: b]"),
    ];
    assert_eq!(
        defaults(CYCLE, &[]).expect_err("cycle").kind(),
        "defaults_cycle"
    );
    assert_eq!(
        defaults(
            &[("config.yaml", "defaults: [{g: '???'}]"), ("g/a.yaml", "")],
            &[]
        )
        .expect_err("not chosen")
        .kind(),
        "missing_choice"
    );
}
