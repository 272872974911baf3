//! Numbers for texts: each text is written once, before its first use.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};

use llmprof_wire::Text;

#[derive(Default)]
pub(crate) struct Names {
    by_text: HashMap<Box<[u8]>, u32>,
    /// CUPTI passes the same pointer for the same kernel. The text is compared nevertheless: after a library was unloaded, its
    /// addresses may hold other texts.
    by_address: HashMap<usize, (Box<[u8]>, u32)>,
}

impl Names {
    /// The number of a text; a new text is written to `out`.
    pub(crate) fn number_text(&mut self, text: &[u8], out: &mut Vec<u8>) -> u32 {
        if let Some(&id) = self.by_text.get(text) {
            return id;
        }
        let id = self.by_text.len() as u32 + 1;
        self.by_text.insert(text.into(), id);
        Text { id, text }.put(out);
        id
    }

    /// The number of a C string; 0 for a null pointer.
    ///
    /// # Safety
    /// `text` is null or a C string that stays as it is during the call.
    pub(crate) unsafe fn number_of(&mut self, text: *const c_char, out: &mut Vec<u8>) -> u32 {
        if text.is_null() {
            return 0;
        }
        // SAFETY: the caller says so.
        let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
        if let Some((known, id)) = self.by_address.get(&(text as usize))
            && **known == *bytes
        {
            return *id;
        }
        let id = self.number_text(bytes, out);
        self.by_address.insert(text as usize, (bytes.into(), id));
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llmprof_wire::{Reader, Record};

    #[test]
    fn a_text_is_written_once_and_an_address_may_change_its_text() {
        let (mut names, mut out) = (Names::default(), Vec::new());
        let mut memory = *b"axpy\0";
        let mut number = |text: &[u8; 5]| {
            // SAFETY: the text ends with a zero.
            unsafe { names.number_of(text.as_ptr().cast(), &mut out) }
        };
        let first = number(&memory);
        assert_eq!(number(&memory), first);
        memory[0] = b'g';
        let second = number(&memory);
        assert_ne!(first, second);
        let texts: Vec<_> = Reader::records(&out, 0)
            .map(|record| match record {
                Record::Text(text) => (text.id, text.text.to_vec()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            texts,
            [(first, b"axpy".to_vec()), (second, b"gxpy".to_vec())]
        );
    }
}
