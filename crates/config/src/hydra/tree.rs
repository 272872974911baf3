//! The defaults tree: a config, the configs its defaults list names, and so on down.
//!
//! Items are visited from the last to the first and the primary config before Hydra's own, so
//! that an `override` item is known before the choice it changes is reached.

mod interpolation;

use super::choices::Choices;
use super::element::{Element, GroupChoice};
use super::error::Error;
use super::repository::Repository;
use crate::node::Node;

/// Deeper nesting is taken for a cycle; Python's recursion limit stops Hydra at some four times this.
const MAX_DEPTH: usize = 100;

/// An element with the configs below it; `None` for a leaf.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) element: Element,
    pub(crate) children: Option<Vec<Tree>>,
}

impl Tree {
    fn leaf(element: Element) -> Self {
        Self {
            element,
            children: None,
        }
    }
}

/// Evaluates an interpolated option against the choices known so far.
pub(crate) type ResolveOption<'a> = dyn Fn(Node, &str) -> Result<Node, crate::error::Error> + 'a;

/// What building a tree needs besides the choices.
pub(crate) struct TreeBuilder<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) choices: &'a mut Choices,
    /// Leave groups at `???` out instead of failing; used to compose for a sweep.
    pub(crate) skip_missing: bool,
    pub(crate) resolve: &'a ResolveOption<'a>,
    /// Remarks that do not stop composition.
    pub(crate) warnings: &'a crate::warnings::Warnings,
}

/// Facts about the way down to an element.
#[derive(Clone, Copy)]
struct ParentContext<'a> {
    parent: &'a str,
    depth: usize,
    /// Below an interpolated option, where `override` comes too late.
    interpolated: bool,
}

impl TreeBuilder<'_> {
    /// The tree of Hydra's config and the primary config.
    pub(crate) fn build_tree(&mut self, primary: &str) -> Result<Tree, Error> {
        let root = Element::root();
        let path = root.config_path();
        let place = ParentContext {
            parent: &path,
            depth: 0,
            interpolated: false,
        };
        let mut element = Element::config(primary, None);
        element.primary = true;
        let primary = self.expand_element(element, place)?;
        let hydra = self.expand_element(Element::config("hydra/config", None), place)?;
        Ok(Tree {
            element: root,
            children: Some(vec![hydra, primary]),
        })
    }

    fn expand_element(
        &mut self,
        mut element: Element,
        place: ParentContext<'_>,
    ) -> Result<Tree, Error> {
        if place.depth > MAX_DEPTH {
            return Err(Error::TooDeep {
                config: element.config_path(),
                depth: MAX_DEPTH,
            });
        }
        let path = element.config_path();
        if element.primary && !self.repository.config_exists(&path) {
            return Err(self.not_found(&element, place.parent));
        }
        if !element.is_missing()
            && let Some(loaded) = self.repository.load_config(&path)?
            && let Some(header) = &loaded.package
        {
            element.set_header(header);
        }
        if self.choices.apply_deletion(&mut element) {
            return Ok(Tree::leaf(element));
        }
        self.choices.learn_choice(&element)?;
        if element.name().is_none() || self.is_left_out(&element)? {
            return Ok(Tree::leaf(element));
        }
        let Some(loaded) = self.repository.load_config(&path)? else {
            if element.optional {
                element.deleted = true;
                return Ok(Tree::leaf(element));
            }
            return Err(self.not_found(&element, place.parent));
        };

        let mut items = loaded.defaults.clone();
        let mut implicit_self = false;
        if !items.is_empty() || (element.primary && !self.choices.appended.is_empty()) {
            implicit_self = self.place_self(&element, &mut items, loaded.has_content)?;
        }
        if element.primary {
            items.extend(self.choices.appended.iter().cloned());
        }
        self.collect_overrides(&element, &mut items, place.interpolated)?;
        let below = ParentContext {
            parent: &path,
            depth: place.depth + 1,
            ..place
        };
        let children = self.expand_items(&element, items, implicit_self, below)?;
        Ok(Tree {
            element,
            children: (!children.is_empty()).then_some(children),
        })
    }

    /// Appends `_self_` where a defaults list does not mention it; says whether it did not.
    fn place_self(
        &mut self,
        element: &Element,
        items: &mut Vec<Element>,
        has_content: bool,
    ) -> Result<bool, Error> {
        let selves = items.iter().filter(|item| item.is_self()).count();
        let has_non_override = items.iter().any(|item| !item.is_override());
        if selves > 1 {
            return Err(Error::DuplicateSelf {
                config: element.config_path(),
            });
        }
        if (selves == 0 && has_non_override) || items.is_empty() {
            if element.primary && has_content && has_non_override {
                self.warnings.add_once(format!(
                    "In '{}': Defaults list is missing `_self_`, so the config itself is merged last.",
                    element.config_path()
                ));
            }
            items.push(Element::self_element());
        }
        Ok(selves == 0)
    }

    /// Tells every item its parent and notes the `override` ones, which must come last.
    fn collect_overrides(
        &mut self,
        parent: &Element,
        items: &mut [Element],
        interpolated: bool,
    ) -> Result<(), Error> {
        let (group, package) = (parent.group_path(), parent.final_package());
        let mut last_override: Option<String> = None;
        for item in items.iter_mut().filter(|item| !item.is_self()) {
            item.set_parent(&group, &package);
            if let Some(before) = &last_override
                && !item.is_override()
                && !item.is_external()
            {
                return Err(Error::OverrideNotLast {
                    config: parent.config_path(),
                    before: before.clone(),
                    item: describe_element(item),
                });
            }
            if item.is_override() {
                last_override = Some(describe_element(item));
                if interpolated {
                    return Err(Error::OverrideBelowInterpolation {
                        config: parent.config_path(),
                        item: describe_element(item),
                    });
                }
                self.choices.add_override(&parent.config_path(), item);
            }
        }
        Ok(())
    }

    /// Expands the items of one defaults list; the result is in the order of the list.
    fn expand_items(
        &mut self,
        parent: &Element,
        mut items: Vec<Element>,
        implicit_self: bool,
        place: ParentContext<'_>,
    ) -> Result<Vec<Tree>, Error> {
        let (group, package) = (parent.group_path(), parent.final_package());
        let mut children = Vec::new();
        for item in items.iter_mut().rev() {
            if item.is_self() {
                item.stand_for(parent);
                children.push(Tree::leaf(item.clone()));
                continue;
            }
            if item.is_override() {
                continue;
            }
            self.choices.apply_choice(item);
            if let Some(GroupChoice::Options(options)) = item.choice() {
                for option in options.iter().rev() {
                    if option.contains("${") {
                        return Err(Error::InterpolationInOptions {
                            config: place.parent.to_owned(),
                            option: option.clone(),
                        });
                    }
                    let mut element = item.with_option(option);
                    element.set_parent(&group, &package);
                    children.push(self.expand_element(element, place)?);
                }
            } else if item.is_interpolation() {
                children.push(Tree::leaf(item.clone()));
            } else {
                children.push(self.expand_element(item.clone(), place)?);
            }
        }

        let known = self.interpolation_scope(&items, implicit_self);
        let place = ParentContext {
            interpolated: true,
            ..place
        };
        for child in &mut children {
            if child.children.is_none() && child.element.is_interpolation() {
                let mut element = child.element.clone();
                self.resolve_name(&mut element, &known)?;
                *child = self.expand_element(element, place)?;
            }
        }
        children.reverse();
        Ok(children)
    }

    fn is_left_out(&self, element: &Element) -> Result<bool, Error> {
        let path = element.config_path();
        if !path.ends_with("???") {
            return Ok(false);
        }
        if self.skip_missing {
            return Ok(true);
        }
        if !element.is_group() {
            return Err(Error::InvalidDefaults {
                config: path,
                reason: "a config that is named without its group cannot be ???".to_owned(),
                origin: None,
            });
        }
        Err(Error::MissingChoice {
            key: element.override_key(),
            options: self.repository.group_options(&element.group_path()),
        })
    }

    fn not_found(&self, element: &Element, parent: &str) -> Error {
        let path = element.config_path();
        let search_path = self.repository.describe_sources();
        if element.primary {
            let group = path.rsplit_once('/').map_or("", |(group, _)| group);
            return Error::MissingPrimary {
                options: self.repository.group_options(group),
                config: path,
                search_path,
            };
        }
        Error::MissingConfig {
            options: self.repository.group_options(&element.group_path()),
            config: path,
            parent: parent.to_owned(),
            search_path,
        }
    }
}

fn describe_element(element: &Element) -> String {
    let name = match element.choice() {
        Some(GroupChoice::Options(options)) => format!("[{}]", options.join(", ")),
        Some(GroupChoice::Null) => "null".to_owned(),
        _ => element.name().unwrap_or_default().to_owned(),
    };
    if element.is_group() {
        format!("{}: {name}", element.override_key())
    } else {
        element.config_path()
    }
}

#[cfg(test)]
mod tests;
