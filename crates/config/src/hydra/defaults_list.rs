//! The defaults list: the leaves of the defaults tree, in the order they are merged.

use std::collections::HashSet;

use super::element::Element;
use super::error::Error;
use super::tree::Tree;

/// One entry of the final defaults list: a config, and the package that it is merged into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultDefault {
    /// Path of the config from the root of the search path.
    pub config_path: String,
    /// The package it fills; empty for the root.
    pub package: String,
    /// Whether this is a config that has a defaults list, at the place of its `_self_`.
    pub is_self: bool,
    /// The config whose defaults list names it.
    pub parent: Option<String>,
    /// Whether this is the primary config.
    pub primary: bool,
}

/// Flattens a tree; a group that ends up in the list twice is an error.
pub(crate) fn flatten_tree(tree: &Tree) -> Result<Vec<ResultDefault>, Error> {
    let mut list = Vec::new();
    let mut keys = HashSet::new();
    walk_tree(tree, None, &mut list, &mut keys)?;
    Ok(list)
}

fn walk_tree<'a>(
    tree: &'a Tree,
    parents: Option<(&'a Element, Option<&'a Element>)>,
    list: &mut Vec<ResultDefault>,
    keys: &mut HashSet<String>,
) -> Result<(), Error> {
    if let Some(children) = &tree.children {
        for child in children {
            walk_tree(
                child,
                Some((&tree.element, parents.map(|p| p.0))),
                list,
                keys,
            )?;
        }
        return Ok(());
    }
    let element = &tree.element;
    if element.deleted || element.is_missing() || element.name().is_none() {
        return Ok(());
    }
    let item = match parents {
        Some((holder, above)) if element.is_self() => ResultDefault {
            config_path: holder.config_path(),
            package: holder.final_package(),
            is_self: true,
            parent: above.map(Element::config_path),
            primary: holder.primary,
        },
        _ => ResultDefault {
            config_path: element.config_path(),
            package: element.final_package(),
            is_self: false,
            parent: parents.map(|(holder, _)| holder.config_path()),
            primary: element.primary,
        },
    };
    if item.config_path == super::builtin::EMPTY_CONFIG {
        return Ok(());
    }
    if !item.is_self && element.is_group() && !keys.insert(element.override_key()) {
        return Err(Error::DuplicateDefault {
            key: element.override_key(),
        });
    }
    list.push(item);
    Ok(())
}
