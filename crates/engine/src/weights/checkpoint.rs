//! Safetensors directories, mapped and checked before anything is read.

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use llmprof_theory::Model;
use llmprof_units::bounded_file::{INDEX_MAX_BYTES, read_bounded};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors, tensor::TensorInfo};
use serde_json::Value;

use super::{convert, fill_memory, without_prefix};
use crate::{
    buffer::{ElementBuffer, Format},
    error::EngineError,
};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A tensor inside a mapped file.
struct StoredTensor {
    file: Arc<Mmap>,
    /// Where its bytes begin and end in the file.
    range: std::ops::Range<usize>,
    dtype: Dtype,
    shape: Vec<u64>,
}

/// The tensors of a checkpoint that a model needs.
pub(crate) struct Checkpoint {
    tensors: HashMap<String, StoredTensor>,
    directory: PathBuf,
}

impl Checkpoint {
    /// Maps the files of `directory` and finds every tensor of `model` in them.
    pub(crate) fn open_directory(directory: &Path, model: &Model) -> Result<Self, EngineError> {
        let mut stored_tensors = HashMap::new();
        for path in list_files(directory)? {
            read_header(&path, &mut stored_tensors)?;
        }
        let mut tensors = HashMap::new();
        let mut missing = Vec::new();
        for needed in model.checkpoint_tensors() {
            let bare = without_prefix(model, &needed.name);
            let stored = stored_tensors
                .remove(needed.name.as_str())
                .or_else(|| stored_tensors.remove(bare?.as_ref()));
            match stored {
                None => missing.push(needed.name),
                Some(stored) if stored.shape != needed.shape.sizes() => {
                    return Err(EngineError::TensorShape {
                        name: needed.name,
                        found: stored.shape,
                        expected: needed.shape.sizes().to_vec(),
                    });
                }
                Some(stored) => {
                    tensors.insert(needed.name, stored);
                }
            }
        }
        let others = missing.len().saturating_sub(1);
        match missing.into_iter().next() {
            Some(name) => Err(EngineError::MissingTensor {
                name,
                others,
                directory: directory.to_owned(),
            }),
            None => Ok(Self {
                tensors,
                directory: directory.to_owned(),
            }),
        }
    }

    /// The tensor `name`: in place where it is stored in `format`, else converted. `transposed` is its stored shape
    /// where rows and columns must change places.
    pub(crate) fn read_tensor(
        &self,
        name: &str,
        format: Format,
        transposed: Option<[usize; 2]>,
    ) -> Result<ElementBuffer, EngineError> {
        let stored = self
            .tensors
            .get(name)
            .ok_or_else(|| EngineError::MissingTensor {
                name: name.to_owned(),
                others: 0,
                directory: self.directory.clone(),
            })?;
        let same = matches!(
            (stored.dtype, format),
            (Dtype::F32, Format::F32) | (Dtype::BF16, Format::Bf16)
        );
        if same && transposed.is_none() {
            // Weights that are not aligned are copied below.
            if let Some(buffer) = ElementBuffer::of_file(&stored.file, stored.range.clone(), format)
            {
                return Ok(buffer);
            }
        }
        let widen: fn([u8; 4]) -> f32 = match stored.dtype {
            Dtype::F32 => f32::from_le_bytes,
            Dtype::BF16 => |[a, b, ..]| f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << 16),
            Dtype::F16 => |[a, b, ..]| convert::from_f16(u16::from_le_bytes([a, b])),
            other => {
                return Err(EngineError::TensorDtype {
                    name: name.to_owned(),
                    found: format!("{other:?}"),
                });
            }
        };
        let from = &stored.file[stored.range.clone()];
        let size = if stored.dtype == Dtype::F32 { 4 } else { 2 };
        let bytes = from.len() / size * format.element_bytes();
        fill_memory(bytes, format, |to| {
            convert::copy_elements(from, size, widen, to, format, transposed);
        })
    }
}

/// The weight files: those that the index names, else the single file, else all safetensors files of the directory.
fn list_files(directory: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| EngineError::Read { path, source }
    };
    let index = directory.join(INDEX);
    if index.is_file() {
        let text = read_bounded(&index, INDEX_MAX_BYTES).map_err(read(&index))?;
        let broken = |reason: String| EngineError::BrokenIndex {
            path: index.clone(),
            reason,
        };
        let value: Value =
            serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
        let map = value
            .get("weight_map")
            .and_then(Value::as_object)
            .ok_or_else(|| broken("it has no `weight_map`".to_owned()))?;
        let names: BTreeSet<&str> = map
            .iter()
            .map(|(name, file)| {
                file.as_str()
                    .filter(|file| !file.contains(['/', '\\']))
                    .ok_or_else(|| broken(format!("`{name}` is not mapped to a file name")))
            })
            .collect::<Result<_, _>>()?;
        return names
            .into_iter()
            .map(|name| {
                let shard = directory.join(name);
                if shard.is_file() {
                    Ok(shard)
                } else {
                    Err(EngineError::MissingShard {
                        shard,
                        index: index.clone(),
                    })
                }
            })
            .collect();
    }
    let single = directory.join(SINGLE);
    if single.is_file() {
        return Ok(vec![single]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read(directory))? {
        let path = entry.map_err(read(directory))?.path();
        let extension = path.extension();
        if extension.is_some_and(|extension| extension == "safetensors") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(EngineError::NoWeights {
            directory: directory.to_owned(),
        });
    }
    Ok(paths)
}

/// Maps a file and adds its tensors to `tensors`.
fn read_header(
    path: &Path,
    tensors: &mut HashMap<String, StoredTensor>,
) -> Result<(), EngineError> {
    let map = Arc::new(map_file(path)?);
    let broken = |reason: String| EngineError::BrokenHeader {
        path: path.to_owned(),
        reason,
    };
    let (header, metadata) =
        SafeTensors::read_metadata(&map).map_err(|error| broken(error.to_string()))?;
    // The length of the header takes eight bytes.
    let data = header + 8;
    for (name, info) in metadata.tensors() {
        let TensorInfo {
            dtype,
            shape,
            data_offsets: (start, end),
        } = info;
        let range = data + start..data + end;
        if range.end > map.len() {
            return Err(broken(format!("`{name}` ends beyond the file")));
        }
        tensors.insert(
            name,
            StoredTensor {
                file: Arc::clone(&map),
                range,
                dtype: *dtype,
                shape: shape.iter().map(|size| *size as u64).collect(),
            },
        );
    }
    Ok(())
}

#[expect(unsafe_code, reason = "mapping a file")]
fn map_file(path: &Path) -> Result<Mmap, EngineError> {
    let read = |source| EngineError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(read)?;
    // SAFETY: the file must not be shortened while it is mapped; `WeightSource::Directory` says so. Its bytes are only ever
    // read as numbers, for which every bit pattern is valid.
    let map = unsafe { Mmap::map(&file) }.map_err(read)?;
    #[cfg(unix)]
    {
        // A hint: reading ahead while the headers are checked. Refusal costs nothing but time.
        let _ = map.advise(memmap2::Advice::WillNeed);
    }
    Ok(map)
}
