//! Memory that weights live in: mapped files or anonymous pages, shared by reference.

use std::{ops::Range, sync::Arc};

use llmprof_units::DType;
use memmap2::{Mmap, MmapMut};

use crate::error::EngineError;

/// How elements of a weight are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    Bf16,
}

impl Format {
    pub(crate) fn element_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::Bf16,
        }
    }

    pub(crate) fn from_dtype(dtype: DType) -> Result<Self, EngineError> {
        match dtype {
            DType::F32 => Ok(Self::F32),
            DType::Bf16 => Ok(Self::Bf16),
            other => Err(EngineError::UnsupportedDtype { found: other }),
        }
    }
}

/// The elements of a weight, as they are stored. bf16 is the upper half of an f32.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Elements<'a> {
    F32(&'a [f32]),
    Bf16(&'a [u16]),
}

impl<'a> Elements<'a> {
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        match self {
            Self::F32(all) => Self::F32(&all[range]),
            Self::Bf16(all) => Self::Bf16(&all[range]),
        }
    }

    /// Bytes with the format `format`; `None` where they are not aligned or not whole elements.
    pub(crate) fn cast(bytes: &'a [u8], format: Format) -> Option<Self> {
        match format {
            Format::F32 => bytemuck::try_cast_slice(bytes).ok().map(Self::F32),
            Format::Bf16 => bytemuck::try_cast_slice(bytes).ok().map(Self::Bf16),
        }
    }
}

#[derive(Debug)]
enum Pages {
    File(Arc<Mmap>),
    Anonymous(Arc<MmapMut>),
}

impl Clone for Pages {
    fn clone(&self) -> Self {
        match self {
            Self::File(map) => Self::File(Arc::clone(map)),
            Self::Anonymous(map) => Self::Anonymous(Arc::clone(map)),
        }
    }
}

/// A range of a mapping that holds whole, aligned elements of one format.
#[derive(Clone, Debug)]
pub(crate) struct ElementBuffer {
    pages: Pages,
    range: Range<usize>,
    format: Format,
}

impl ElementBuffer {
    /// A range of a mapped file; `None` where its start is not aligned for `format`.
    pub(crate) fn of_file(map: &Arc<Mmap>, range: Range<usize>, format: Format) -> Option<Self> {
        Elements::cast(map.get(range.clone())?, format)?;
        Some(Self {
            pages: Pages::File(Arc::clone(map)),
            range,
            format,
        })
    }

    /// A range of anonymous memory; `None` where its start is not aligned for `format`.
    pub(crate) fn of_memory(
        map: &Arc<MmapMut>,
        range: Range<usize>,
        format: Format,
    ) -> Option<Self> {
        Elements::cast(map.get(range.clone())?, format)?;
        Some(Self {
            pages: Pages::Anonymous(Arc::clone(map)),
            range,
            format,
        })
    }

    pub(crate) fn elements(&self) -> Elements<'_> {
        let bytes = match &self.pages {
            Pages::File(map) => &map[self.range.clone()],
            Pages::Anonymous(map) => &map[self.range.clone()],
        };
        Elements::cast(bytes, self.format).expect("alignment was checked when the buffer was made")
    }
}

/// Zeroed memory of at least `bytes` bytes, in huge pages where the system has them: weights are streamed, and fewer
/// page-table walks let them stream faster.
pub(crate) fn allocate_anonymous(bytes: usize, what: &'static str) -> Result<MmapMut, EngineError> {
    let map = MmapMut::map_anon(bytes.max(1)).map_err(|_| EngineError::Memory {
        bytes: bytes as u64,
        what,
    })?;
    #[cfg(target_os = "linux")]
    {
        // A kernel without huge pages refuses; small pages do as well.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Ok(map)
}
