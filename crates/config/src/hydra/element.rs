//! One item of a defaults list: which config it names, where that lies and which package it fills.
//!
//! Paths and packages are relative to the config that holds the item, so they are known only
//! once [`Element::set_parent`] has said which config that is.

/// The option chosen for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupChoice {
    Null,
    Name(String),
    Options(Vec<String>),
}

/// What an [`Element`] refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DefaultsTarget {
    /// The root above Hydra's config and the primary config.
    Root,
    /// A config named by its path, `_self_` among them.
    Config(String),
    /// An option of a group.
    Group {
        group: String,
        choice: GroupChoice,
        /// Written with `override`: changes a choice made elsewhere.
        is_override: bool,
        /// Added by `+group=option` on the command line.
        external: bool,
    },
}

/// An item of a defaults list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) target: DefaultsTarget,
    pub(crate) optional: bool,
    pub(crate) primary: bool,
    /// Removed by `~group` or an optional config that does not exist.
    pub(crate) deleted: bool,
    package: Option<String>,
    package_header: Option<String>,
    parent_group: String,
    parent_package: String,
}

impl Element {
    fn new(target: DefaultsTarget, package: Option<String>) -> Self {
        let package = package.map(|package| {
            if package == "_here_" {
                String::new()
            } else {
                package
            }
        });
        Self {
            target,
            optional: false,
            primary: false,
            deleted: false,
            package,
            package_header: None,
            parent_group: String::new(),
            parent_package: String::new(),
        }
    }

    pub(crate) fn root() -> Self {
        Self::new(DefaultsTarget::Root, None)
    }

    pub(crate) fn config(path: impl Into<String>, package: Option<String>) -> Self {
        Self::new(DefaultsTarget::Config(path.into()), package)
    }

    pub(crate) fn self_element() -> Self {
        Self::config("_self_", None)
    }

    pub(crate) fn group(
        group: impl Into<String>,
        package: Option<String>,
        choice: GroupChoice,
        is_override: bool,
    ) -> Self {
        let target = DefaultsTarget::Group {
            group: group.into(),
            choice,
            is_override,
            external: false,
        };
        Self::new(target, package)
    }

    /// The same item, as added by `+group=option`.
    #[must_use]
    pub(crate) fn into_appended(mut self) -> Self {
        if let DefaultsTarget::Group { external, .. } = &mut self.target {
            *external = true;
        }
        self
    }

    /// The config that one of several options names, in the place of this item.
    pub(crate) fn with_option(&self, option: &str) -> Self {
        let DefaultsTarget::Group { group, .. } = &self.target else {
            return self.clone();
        };
        let mut element = Self::config(format!("{group}/{option}"), self.package.clone());
        element.optional = self.optional;
        element
    }

    /// Says which config holds this item; `_group_` in its package is then known.
    pub(crate) fn set_parent(&mut self, group: &str, package: &str) {
        group.clone_into(&mut self.parent_group);
        package.clone_into(&mut self.parent_package);
        if let Some(own) = &self.package
            && own.contains("_group_")
        {
            let resolved = own.replace("_group_", &self.default_package());
            self.package = Some(format!("_global_.{resolved}"));
        }
    }

    /// Puts a `_self_` item beside the config it stands for, where Hydra's tree shows it.
    pub(crate) fn stand_for(&mut self, config: &Self) {
        self.parent_group.clone_from(&config.parent_group);
    }

    /// Takes over the `# @package` header of the config this names; headers are absolute.
    pub(crate) fn set_header(&mut self, header: &str) {
        self.package_header = Some(match header {
            "" => "_global_".to_owned(),
            header if header == "_global_" || header.starts_with("_global_.") => header.to_owned(),
            header => format!("_global_.{header}"),
        });
    }

    pub(crate) fn is_self(&self) -> bool {
        self.name() == Some("_self_")
            && match &self.target {
                DefaultsTarget::Config(path) => path == "_self_",
                _ => true,
            }
    }

    pub(crate) fn is_override(&self) -> bool {
        matches!(
            self.target,
            DefaultsTarget::Group {
                is_override: true,
                ..
            }
        )
    }

    pub(crate) fn is_external(&self) -> bool {
        matches!(self.target, DefaultsTarget::Group { external: true, .. })
    }

    pub(crate) fn is_group(&self) -> bool {
        matches!(self.target, DefaultsTarget::Group { .. })
    }

    /// Whether the option is still to be given (`???`).
    pub(crate) fn is_missing(&self) -> bool {
        self.name() == Some("???")
    }

    /// Whether the name holds an interpolation.
    pub(crate) fn is_interpolation(&self) -> bool {
        match &self.target {
            DefaultsTarget::Root => false,
            DefaultsTarget::Config(_) => self.config_path().contains("${"),
            DefaultsTarget::Group { .. } => self.name().is_some_and(|name| name.contains("${")),
        }
    }

    /// The choice of a group item.
    pub(crate) fn choice(&self) -> Option<&GroupChoice> {
        match &self.target {
            DefaultsTarget::Group { choice, .. } => Some(choice),
            _ => None,
        }
    }

    /// Replaces the choice of a group item.
    pub(crate) fn replace_choice(&mut self, new: GroupChoice) {
        if let DefaultsTarget::Group { choice, .. } = &mut self.target {
            *choice = new;
        }
    }

    /// Replaces an interpolated name by its value.
    pub(crate) fn set_resolved(&mut self, name: String) {
        match &mut self.target {
            DefaultsTarget::Root => {}
            DefaultsTarget::Config(path) => *path = name,
            DefaultsTarget::Group { choice, .. } => *choice = GroupChoice::Name(name),
        }
    }

    /// The option or the last part of the path; `None` for `null` and for several options.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.target {
            DefaultsTarget::Root => None,
            DefaultsTarget::Config(path) => {
                Some(path.rsplit_once('/').map_or(path, |(_, name)| name))
            }
            DefaultsTarget::Group { choice, .. } => match choice {
                GroupChoice::Name(name) => Some(name),
                GroupChoice::Null | GroupChoice::Options(_) => None,
            },
        }
    }

    /// The group that the config is in, from the root of the search path.
    pub(crate) fn group_path(&self) -> String {
        match &self.target {
            DefaultsTarget::Root => String::new(),
            DefaultsTarget::Config(path) => {
                let relative = path.strip_prefix('/').unwrap_or(path);
                let group = relative.rsplit_once('/').map_or("", |(group, _)| group);
                if path.starts_with('/') {
                    group.to_owned()
                } else {
                    join_nonempty(&self.parent_group, group, '/')
                }
            }
            DefaultsTarget::Group { group, .. } => match group.strip_prefix('/') {
                Some(absolute) => absolute.to_owned(),
                None => join_nonempty(&self.parent_group, group, '/'),
            },
        }
    }

    /// The path of the config, from the root of the search path.
    pub(crate) fn config_path(&self) -> String {
        match &self.target {
            DefaultsTarget::Root => "<root>".to_owned(),
            DefaultsTarget::Config(path) => match path.strip_prefix('/') {
                Some(absolute) => absolute.to_owned(),
                None if self.parent_group.is_empty() => path.clone(),
                None => format!("{}/{path}", self.parent_group),
            },
            DefaultsTarget::Group { .. } => {
                format!("{}/{}", self.group_path(), self.name().unwrap_or("None"))
            }
        }
    }

    /// The package a config of this group fills when nothing says otherwise.
    pub(crate) fn default_package(&self) -> String {
        self.group_path().replace('/', ".")
    }

    /// The package the config fills: the item's own, else the header's, else the group's.
    pub(crate) fn final_package(&self) -> String {
        self.resolve_package(self.package.as_ref().or(self.package_header.as_ref()))
    }

    /// `group` or `group@package`: the name by which overrides address this choice.
    pub(crate) fn override_key(&self) -> String {
        let group = self.group_path();
        let package = self.resolve_package(self.package.as_ref());
        if self.default_package() == package {
            group
        } else if package.is_empty() {
            format!("{group}@_global_")
        } else {
            format!("{group}@{package}")
        }
    }

    fn resolve_package(&self, own: Option<&String>) -> String {
        let own = own.cloned().unwrap_or_else(|| {
            match &self.target {
                DefaultsTarget::Root => String::new(),
                DefaultsTarget::Config(path) => path
                    .strip_prefix('/')
                    .unwrap_or(path)
                    .rsplit_once('/')
                    .map_or("", |(group, _)| group)
                    .to_owned(),
                DefaultsTarget::Group { group, .. } => {
                    group.strip_prefix('/').unwrap_or(group).to_owned()
                }
            }
            .replace('/', ".")
        });
        let joined = join_nonempty(&self.parent_package, &own, '.');
        const GLOBAL: &str = "_global_";
        match joined.rfind(GLOBAL) {
            None => joined,
            Some(at) => {
                let mut rest = joined[at + GLOBAL.len()..].chars();
                rest.next();
                rest.as_str().to_owned()
            }
        }
    }
}

fn join_nonempty(parent: &str, child: &str, separator: char) -> String {
    match (parent, child) {
        ("", child) => child.to_owned(),
        (parent, "") => parent.to_owned(),
        (parent, child) => format!("{parent}{separator}{child}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, package: Option<&str>, parent: (&str, &str)) -> Element {
        let choice = GroupChoice::Name("x".to_owned());
        let mut element = Element::group(name, package.map(str::to_owned), choice, false);
        element.set_parent(parent.0, parent.1);
        element
    }

    #[test]
    fn packages_follow_the_parent_unless_global() {
        for (name, package, parent, path, final_package, key) in [
            ("db", None, ("", ""), "db/x", "db", "db"),
            (
                "db",
                None,
                ("server", "server"),
                "server/db/x",
                "server.db",
                "server/db",
            ),
            (
                "/db",
                None,
                ("server", "server"),
                "db/x",
                "server.db",
                "db@server.db",
            ),
            (
                "db",
                Some("_here_"),
                ("server", "server"),
                "server/db/x",
                "server",
                "server/db@server",
            ),
            (
                "db",
                Some("_global_"),
                ("server", "server"),
                "server/db/x",
                "",
                "server/db@_global_",
            ),
            (
                "db",
                Some("_group_"),
                ("server", "other"),
                "server/db/x",
                "server.db",
                "server/db",
            ),
            ("db", Some("src"), ("", ""), "db/x", "src", "db@src"),
            (
                "db",
                Some("_global_.a.b"),
                ("s", "s"),
                "s/db/x",
                "a.b",
                "s/db@a.b",
            ),
            (
                "db",
                Some("_name_"),
                ("", ""),
                "db/x",
                "_name_",
                "db@_name_",
            ),
        ] {
            let element = group(name, package, parent);
            assert_eq!(element.config_path(), path);
            assert_eq!(element.final_package(), final_package, "{name} {package:?}");
            assert_eq!(element.override_key(), key);
        }
    }

    #[test]
    fn headers_are_absolute_and_weaker_than_an_own_package() {
        let mut element = group("db", None, ("server", "server"));
        element.set_header("foo");
        assert_eq!(element.final_package(), "foo");
        assert_eq!(element.override_key(), "server/db");
        let mut element = group("db", Some("own"), ("server", "server"));
        element.set_header("_global_");
        assert_eq!(element.final_package(), "server.own");
    }

    #[test]
    fn configs_keep_their_directory_as_group() {
        let mut element = Element::config("sub/b", None);
        element.set_parent("a", "a");
        assert_eq!(element.config_path(), "a/sub/b");
        assert_eq!(element.group_path(), "a/sub");
        assert_eq!(element.final_package(), "a.sub");
        let mut absolute = Element::config("/sub/b", None);
        absolute.set_parent("a", "a");
        assert_eq!(absolute.config_path(), "sub/b");
        assert_eq!(absolute.final_package(), "a.sub");
    }
}
