//! Distinct lists of operator inputs, first as text, then taken apart.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::Deserialize;

use super::ids::{InputsId, StrId};
use super::inputs::{Inputs, NewArgument};
use super::strings::Interner;

/// The inputs of one operator call as the tool wrote them: four parallel lists as JSON text, empty where absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawInputs<'a> {
    /// Dimensions, `[[1, 128], []]`; one level deeper for a list of tensors.
    pub dims: &'a [u8],
    /// Strides of each tensor, nested like the dimensions.
    pub strides: &'a [u8],
    /// Dtypes, such as `["c10::BFloat16", "Scalar"]`.
    pub dtypes: &'a [u8],
    /// Values of plain arguments, such as `["", "-1"]`.
    pub values: &'a [u8],
}

/// Input lists as the tool wrote them, each distinct one once.
#[derive(Default)]
pub(super) struct RawInputLists {
    texts: Interner,
    /// Dims, strides, dtypes and values of each list.
    lists: Vec<[StrId; 4]>,
    lookup: HashMap<[StrId; 4], u32, FxBuildHasher>,
}

impl RawInputLists {
    pub(super) fn id(&mut self, raw: RawInputs<'_>) -> InputsId {
        let texts = [raw.dims, raw.strides, raw.dtypes, raw.values];
        if texts.iter().all(|text| text.is_empty()) {
            return InputsId::NONE;
        }
        let key = texts.map(|text| self.texts.intern_bytes(text));
        self.add(key)
    }

    fn add(&mut self, key: [StrId; 4]) -> InputsId {
        let lists = &mut self.lists;
        let number = *self.lookup.entry(key).or_insert_with(|| {
            lists.push(key);
            // 0 is "none".
            lists.len() as u32
        });
        InputsId(number)
    }

    /// Takes in the lists of `other`; the answer maps its ids to ids here.
    pub(super) fn absorb(&mut self, other: &Self) -> Vec<InputsId> {
        let texts = self.texts.absorb(&other.texts);
        let mut map = vec![InputsId::NONE];
        for list in &other.lists {
            map.push(self.add(list.map(|text| texts[text.0 as usize])));
        }
        map
    }

    /// Takes the lists apart in the order of their texts. Returns them, the new id of each old one, and how many
    /// could not be read.
    pub(super) fn finish(&self, strings: &mut Interner) -> (Inputs, Vec<InputsId>, u64) {
        let text = |id: StrId| self.texts.get_bytes(id);
        let mut order: Vec<usize> = (0..self.lists.len()).collect();
        // Without space, so that the layout of a file does not matter.
        order.sort_by_cached_key(|&list| {
            let texts = self.lists[list].map(text);
            (texts.map(without_space), texts)
        });
        let mut inputs = Inputs::default();
        let mut map = vec![InputsId::NONE; self.lists.len() + 1];
        let mut unreadable = 0;
        for list in order {
            if let Some(arguments) = parse_arguments(self.lists[list].map(text), strings) {
                map[list + 1] = InputsId(inputs.len() as u32);
                inputs.push(&arguments);
            } else {
                unreadable += 1;
            }
        }
        (inputs, map, unreadable)
    }
}

/// The dimensions (or strides) of one argument: a tensor's, or one level deeper those of a list of tensors.
#[derive(Deserialize)]
#[serde(untagged)]
enum ArgumentDims {
    One(Vec<i64>),
    Many(Vec<Vec<i64>>),
}

fn without_space(text: &[u8]) -> Vec<u8> {
    let kept = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    kept.copied().collect()
}

fn parse_list<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<Vec<T>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    serde_json::from_slice(text).ok()
}

fn parse_arguments(
    [dims, strides, dtypes, values]: [&[u8]; 4],
    strings: &mut Interner,
) -> Option<Vec<NewArgument>> {
    let dims: Vec<ArgumentDims> = parse_list(dims)?;
    let strides: Vec<ArgumentDims> = parse_list(strides)?;
    let dtypes: Vec<String> = parse_list(dtypes)?;
    let values: Vec<String> = parse_list(values)?;
    let count = dims.len().max(dtypes.len()).max(values.len());
    let mut dims = dims.into_iter();
    let mut strides = strides.into_iter();
    let list = (0..count).map(|index| {
        let dtype = dtypes.get(index).map_or("", String::as_str);
        let strides = match strides.next() {
            Some(ArgumentDims::One(strides)) => vec![strides],
            Some(ArgumentDims::Many(many)) => many,
            None => Vec::new(),
        };
        let dims = match dims.next() {
            // `[]` is a tensor without dimensions where the dtype is one, else a plain value.
            Some(ArgumentDims::One(dims)) if dims.is_empty() && !is_tensor(dtype) => Vec::new(),
            Some(ArgumentDims::One(dims)) => vec![dims],
            Some(ArgumentDims::Many(many)) => many,
            None => Vec::new(),
        };
        let mut strides = strides.into_iter();
        NewArgument {
            dtype: strings.intern(dtype),
            value: strings.intern(values.get(index).map_or("", String::as_str)),
            tensors: dims
                .into_iter()
                .map(|dims| {
                    // Strides that do not match the dimensions say nothing about them.
                    let strides = strides.next().filter(|strides| strides.len() == dims.len());
                    (dims, strides.unwrap_or_default())
                })
                .collect(),
        }
    });
    Some(list.collect())
}

fn is_tensor(dtype: &str) -> bool {
    !matches!(
        dtype,
        "" | "Scalar" | "ScalarList" | "TensorList" | "GenericList" | "Dict" | "None"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(raw: RawInputs<'_>) -> (Inputs, Interner) {
        let mut lists = RawInputLists::default();
        lists.id(raw);
        let mut strings = Interner::default();
        let (inputs, map, unreadable) = lists.finish(&mut strings);
        assert_eq!((map.len(), unreadable), (2, 0));
        (inputs, strings)
    }

    #[test]
    fn tensors_scalars_and_lists_of_tensors_are_distinguished() {
        let (inputs, strings) = one(RawInputs {
            dims: b"[[151936, 896], [], [[2, 3], [4]], []]",
            strides: b"[[896, 1], [], [[3, 1], [1]], []]",
            dtypes: br#"["c10::BFloat16", "Scalar", "TensorList", "float"]"#,
            values: br#"["", "-1", "", ""]"#,
        });
        let arguments: Vec<_> = inputs.arguments(InputsId(1)).collect();
        let tensors = |index: usize| {
            arguments[index]
                .tensors()
                .map(|t| (t.dims, t.strides))
                .collect::<Vec<_>>()
        };
        assert_eq!(tensors(0), [(&[151_936, 896][..], &[896, 1][..])]);
        assert_eq!(tensors(1), []);
        assert_eq!(strings.get(arguments[1].value()), "-1");
        assert_eq!(
            tensors(2),
            [(&[2, 3][..], &[3, 1][..]), (&[4][..], &[1][..])]
        );
        assert_eq!(
            tensors(3),
            [(&[][..], &[][..])],
            "a tensor without dimensions"
        );
        assert_eq!(strings.get(arguments[3].dtype()), "float");
    }

    #[test]
    fn a_list_that_is_not_json_counts_as_unreadable() {
        let mut lists = RawInputLists::default();
        let id = lists.id(RawInputs {
            dims: b"[[1, 2",
            ..RawInputs::default()
        });
        let (_, map, unreadable) = lists.finish(&mut Interner::default());
        assert_eq!((map[id.0 as usize], unreadable), (InputsId::NONE, 1));
    }
}
