use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{AssetError, Result};

/// The environment that roots of models and datasets are looked up in.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Environment variables whose name and value are UTF-8.
    pub env: BTreeMap<String, String>,
}

impl Surroundings {
    pub fn of_process() -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { env }
    }

    /// A variable that is set to something.
    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        let value = self.env.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// A path of a file: `~`, `$NAME` and `${NAME}` are filled in, and a relative one starts at `base`. A variable that is not
    /// set is an error: an empty one would name another place.
    pub(crate) fn path(&self, text: &str, base: &Path, file: &Path) -> Result<PathBuf> {
        let unset = |name: &str| {
            AssetError::bad(
                file,
                format!("`{text}`: the environment variable `{name}` is not set"),
            )
        };
        let mut out = String::new();
        let mut rest = text;
        if let Some(after) = rest.strip_prefix('~')
            && (after.is_empty() || after.starts_with('/'))
        {
            out += self.var("HOME").ok_or_else(|| unset("HOME"))?;
            rest = after;
        }
        while let Some(at) = rest.find('$') {
            out += &rest[..at];
            let after = &rest[at + 1..];
            let braced = after
                .strip_prefix('{')
                .and_then(|name| name.split_once('}'));
            let (name, tail) = braced.unwrap_or_else(|| {
                let end = after
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .unwrap_or(after.len());
                after.split_at(end)
            });
            out += self.var(name).ok_or_else(|| unset(name))?;
            rest = tail;
        }
        out += rest;
        Ok(base.join(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_home_are_filled_in() {
        let env = [("HOME", "/home/me"), ("ROOT", "/data"), ("EMPTY", "")];
        let surroundings = Surroundings {
            env: env
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        };
        let path = |text: &str| {
            surroundings
                .path(text, Path::new("/base"), Path::new("file.yaml"))
                .map(|path| path.to_string_lossy().into_owned())
        };
        assert_eq!(path("~/x").unwrap(), "/home/me/x");
        assert_eq!(path("~x").unwrap(), "/base/~x");
        assert_eq!(path("$ROOT/a").unwrap(), "/data/a");
        assert_eq!(path("${ROOT}a/$ROOT").unwrap(), "/dataa//data");
        assert_eq!(path("a/b").unwrap(), "/base/a/b");
        for wrong in ["$NOWHERE/x", "${EMPTY}", "$"] {
            let error = path(wrong).unwrap_err().to_string();
            assert!(error.contains("is not set"), "{error}");
        }
    }
}
