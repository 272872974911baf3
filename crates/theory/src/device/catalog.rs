use std::{collections::BTreeMap, fs, io, path::Path};

use llmprof_units::bounded_file::{CONFIG_MAX_BYTES, read_text_bounded};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Device,
    error::DeviceError,
    load,
    nearest::{nearest_names, normalize_name},
    schema::DeviceFile,
};

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../devices/", $name, ".yaml")))),*]
    };
}

/// The device files inside the program, by spec name.
const EMBEDDED: &[(&str, &str)] = embedded![
    "a10",
    "a100_pcie_40gb",
    "a100_pcie_80gb",
    "a100_sxm_40gb",
    "a100_sxm_80gb",
    "apple_m2_ultra",
    "apple_m3_max",
    "apple_m4_max",
    "b200",
    "b300",
    "custom_npu",
    "gaudi3",
    "gb200",
    "gb300",
    "h100_pcie",
    "h100_sxm",
    "h20",
    "h200",
    "h800_sxm",
    "l4",
    "l40s",
    "mi210",
    "mi250x",
    "mi250x_gcd",
    "mi300x",
    "mi325x",
    "mi350x",
    "mi355x",
    "rtx_3090",
    "rtx_4090",
    "rtx_5090",
    "rtx_pro_6000_server",
    "snapdragon_x_elite",
    "t4",
    "tpu_v5e",
    "tpu_v5p",
    "v100_sxm",
    "xeon_8480",
];

/// Where a device file comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Embedded,
    /// A file of the user.
    File(String),
}

/// What a file's first lines say about it: enough to find it without reading it all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CatalogEntry {
    /// Name for `hardware.spec` and `--device`.
    pub name: String,
    /// Full name of the device.
    pub title: String,
    /// Names by which drivers and frameworks report the device.
    pub driver_names: Vec<String>,
    /// Whether the file is embedded or the user's, with its path.
    pub origin: Origin,
}

/// All known devices: the embedded ones, overlaid by the user's.
///
/// Making one and looking a name up reads only the heads of the embedded files; a file is parsed when its device is
/// asked for.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    user: BTreeMap<String, UserFile>,
}

#[derive(Clone, Debug)]
struct UserFile {
    file: String,
    device: Device,
}

impl Catalog {
    /// Only the embedded devices, without the user's.
    pub fn embedded() -> Self {
        Self::default()
    }

    /// The text of an embedded file, to start one's own from.
    pub fn embedded_text(name: &str) -> Option<&'static str> {
        let (_, text) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
        Some(text)
    }

    /// Adds a user's file. It replaces an embedded device of the same name, and takes over the driver names it lists.
    pub fn add_file(&mut self, file: &str, text: &str) -> Result<&Device, DeviceError> {
        let device = load::read_device(text, file)?;
        if let Some(other) = self.user.get(&device.name)
            && other.file != file
        {
            return Err(DeviceError::Invalid {
                file: file.to_owned(),
                key: "name".to_owned(),
                problem: format!("`{}` is also the name in {}", device.name, other.file),
            });
        }
        let name = device.name.clone();
        self.user.insert(
            name.clone(),
            UserFile {
                file: file.to_owned(),
                device,
            },
        );
        Ok(&self.user[&name].device)
    }

    /// Adds every `*.yaml` and `*.yml` of a directory, in the order of their names.
    pub fn add_directory(&mut self, directory: &Path) -> Result<(), DeviceError> {
        let unreadable = |path: &Path| {
            let path = path.display().to_string();
            move |error| DeviceError::Unreadable { path, error }
        };
        let mut paths = fs::read_dir(directory)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.map(|entry| entry.path()))
                    .collect::<io::Result<Vec<_>>>()
            })
            .map_err(unreadable(directory))?;
        paths.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml")
        });
        paths.sort();
        for path in paths {
            let text = read_text_bounded(&path, CONFIG_MAX_BYTES).map_err(unreadable(&path))?;
            self.add_file(&path.display().to_string(), &text)?;
        }
        Ok(())
    }

    pub fn entries(&self) -> Vec<CatalogEntry> {
        let mut entries: BTreeMap<String, CatalogEntry> = EMBEDDED
            .iter()
            .map(|(name, text)| ((*name).to_owned(), read_entry(name, text)))
            .collect();
        for (name, user) in &self.user {
            entries.insert(
                name.clone(),
                CatalogEntry {
                    name: name.clone(),
                    title: user.device.title.clone(),
                    driver_names: user.device.driver_names.clone(),
                    origin: Origin::File(user.file.clone()),
                },
            );
        }
        entries.into_values().collect()
    }

    /// The embedded file of the device that a driver reports under `driver_name`.
    pub fn embedded_file(driver_name: &str) -> Option<DeviceFile> {
        let device = Self::embedded().by_driver_name(driver_name).ok()?;
        let file = format!("{}.yaml (embedded)", device.name);
        DeviceFile::parse_text(Self::embedded_text(&device.name)?, &file).ok()
    }

    /// The device of a spec name (`h100_sxm`).
    pub fn by_name(&self, name: &str) -> Result<Device, DeviceError> {
        if let Some(user) = self.user.get(name) {
            return Ok(user.device.clone());
        }
        match Self::embedded_text(name) {
            Some(text) => load::read_device(text, &format!("{name}.yaml (embedded)")),
            None => Err(self.unknown_device(name)),
        }
    }

    /// The device that a driver or framework reports under `driver_name`. The whole name must match, but for case and
    /// spacing: a slice of a GPU, or a laptop's version, is another device.
    pub fn by_driver_name(&self, driver_name: &str) -> Result<Device, DeviceError> {
        let wanted = normalize_name(driver_name);
        let claims = |entry: &CatalogEntry| {
            entry
                .driver_names
                .iter()
                .any(|name| normalize_name(name) == wanted)
        };
        let entries = self.entries();
        let user = entries
            .iter()
            .filter(|entry| entry.origin != Origin::Embedded && claims(entry));
        let embedded = entries
            .iter()
            .filter(|entry| entry.origin == Origin::Embedded && claims(entry));
        for mut level in [user.collect::<Vec<_>>(), embedded.collect()] {
            match (level.pop(), level.pop()) {
                (Some(only), None) => return self.by_name(&only.name),
                (Some(second), Some(first)) => {
                    return Err(DeviceError::Ambiguous {
                        driver_name: driver_name.to_owned(),
                        first: first.name.clone(),
                        second: second.name.clone(),
                    });
                }
                (None, _) => {}
            }
        }
        Err(self.unknown_device(driver_name))
    }

    /// By spec name, else by driver's name.
    pub fn find_device(&self, name: &str) -> Result<Device, DeviceError> {
        match self.by_name(name) {
            Err(DeviceError::Unknown { .. }) => self.by_driver_name(name),
            result => result,
        }
    }

    fn unknown_device(&self, wanted: &str) -> DeviceError {
        let entries = self.entries();
        let names = entries.iter().flat_map(|entry| {
            std::iter::once(entry.name.as_str())
                .chain(entry.driver_names.iter().map(String::as_str))
        });
        // A device is suggested by the name that a config takes, also where the name of its driver is the near one.
        let mut near: Vec<String> = Vec::new();
        for name in nearest_names(wanted, names) {
            let is_named = |entry: &&CatalogEntry| entry.driver_names.iter().any(|own| own == name);
            let key = entries
                .iter()
                .find(is_named)
                .map_or(name, |entry| &entry.name);
            if !near.iter().any(|known| known == key) {
                near.push(key.to_owned());
            }
        }
        DeviceError::Unknown {
            wanted: wanted.to_owned(),
            near,
        }
    }
}

/// Reads `title` and `driver_names` off the first lines of an embedded file, where each is on a line of its own (a
/// test checks that this agrees with the parsed file).
fn read_entry(name: &str, text: &str) -> CatalogEntry {
    let value = |key: &str| {
        text.lines()
            .take_while(|line| !line.starts_with("sources:"))
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
            .unwrap_or_default()
    };
    let list = value("driver_names");
    let inner = list
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or_default();
    CatalogEntry {
        name: name.to_owned(),
        title: value("title").to_owned(),
        driver_names: inner
            .split(',')
            .map(|item| item.trim().trim_matches('"').to_owned())
            .filter(|item| !item.is_empty())
            .collect(),
        origin: Origin::Embedded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_agree_with_the_parsed_files() {
        let catalog = Catalog::embedded();
        for entry in catalog.entries() {
            let device = catalog.by_name(&entry.name).unwrap();
            assert_eq!(device.name, entry.name);
            assert_eq!(device.title, entry.title, "{}", entry.name);
            assert_eq!(device.driver_names, entry.driver_names, "{}", entry.name);
        }
    }

    #[test]
    fn every_file_of_the_directory_is_embedded() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("devices");
        let mut on_disk: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        on_disk.sort();
        let embedded: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
        assert_eq!(on_disk, embedded);
    }
}
