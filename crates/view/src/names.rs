//! Names of slices: each text once, with what kind of thing it names.

use llmprof_record::kernel_name::classify;
use llmprof_record::trace::{StrId, Trace};
use llmprof_report::kernel_label;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// Names in one block that a page asks for.
pub(crate) const NAMES_PER_BLOCK: usize = 1024;
/// Longer names are cut for the page; details have them whole.
const LABEL_CHARS_MAX: usize = 120;

struct NameEntry {
    text: String,
    label: String,
    category: &'static str,
    /// Empty for what is no kernel.
    library: &'static str,
}

/// What a name is of, which decides its label and category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Kernel,
    /// Anything else, with its category.
    As(&'static str),
}

#[derive(Default)]
pub(crate) struct EventNames {
    entries: Vec<NameEntry>,
    by_text: FxHashMap<(Named, String), u32>,
    by_id: FxHashMap<(usize, Named, StrId), u32>,
}

impl EventNames {
    /// The number of a name of trace `number`.
    pub(crate) fn of_trace(
        &mut self,
        number: usize,
        trace: &Trace,
        named: Named,
        id: StrId,
    ) -> u32 {
        if let Some(&name) = self.by_id.get(&(number, named, id)) {
            return name;
        }
        let name = self.of_text(named, trace.text(id));
        self.by_id.insert((number, named, id), name);
        name
    }

    pub(crate) fn of_text(&mut self, named: Named, text: &str) -> u32 {
        if let Some(&name) = self.by_text.get(&(named, text.to_owned())) {
            return name;
        }
        let (label, category, library) = match named {
            Named::Kernel => {
                let class = classify(text);
                (
                    kernel_label(text),
                    class.category.name(),
                    class.library.name(),
                )
            }
            Named::As(category) => (text.to_owned(), category, ""),
        };
        let name = self.entries.len() as u32;
        self.entries.push(NameEntry {
            text: text.to_owned(),
            label: label.chars().take(LABEL_CHARS_MAX).collect(),
            category,
            library,
        });
        self.by_text.insert((named, text.to_owned()), name);
        name
    }

    /// The number of a name that some lane has.
    pub(crate) fn find(&self, named: Named, text: &str) -> Option<u32> {
        self.by_text.get(&(named, text.to_owned())).copied()
    }

    pub(crate) fn text(&self, name: u32) -> &str {
        &self.entries[name as usize].text
    }

    pub(crate) fn label(&self, name: u32) -> &str {
        &self.entries[name as usize].label
    }

    pub(crate) fn category(&self, name: u32) -> &'static str {
        self.entries[name as usize].category
    }

    /// The number of a kernel's name of trace `number`.
    pub(crate) fn kernel_name(&self, number: usize, id: StrId) -> Option<u32> {
        self.by_id.get(&(number, Named::Kernel, id)).copied()
    }

    /// Category and library of a kernel's name of trace `number`.
    pub(crate) fn kernel_class(
        &self,
        number: usize,
        id: StrId,
    ) -> Option<(&'static str, &'static str)> {
        let entry = &self.entries[self.kernel_name(number, id)? as usize];
        Some((entry.category, entry.library))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// `[[label, category], …]`; `None` past the end.
    pub(crate) fn block(&self, block: usize) -> Option<Value> {
        let first = block.checked_mul(NAMES_PER_BLOCK)?;
        let entries = self.entries.get(first..)?;
        if entries.is_empty() && block > 0 {
            return None;
        }
        let entries = entries.iter().take(NAMES_PER_BLOCK);
        Some(
            entries
                .map(|entry| json!([entry.label, entry.category]))
                .collect(),
        )
    }

    /// Names that contain a text, in either case.
    pub(crate) fn containing(&self, text: &str) -> Vec<bool> {
        let text = text.to_lowercase();
        let holds = |entry: &NameEntry| {
            entry.text.to_lowercase().contains(&text) || entry.label.to_lowercase().contains(&text)
        };
        self.entries.iter().map(holds).collect()
    }
}
