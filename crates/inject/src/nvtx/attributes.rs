//! Reads the texts of NVTX calls: C strings, wide strings and registered strings.

use std::ffi::{CStr, c_char, c_void};

use crate::kept::AppendList;

/// `nvtxEventAttributes_t`, version 2 and later.
#[repr(C)]
pub(crate) struct EventAttributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

// nvtxMessageType_t
const ASCII: i32 = 1;
const WIDE: i32 = 2;
const REGISTERED: i32 = 3;

/// A text that a program registered; its address is the handle that the program holds.
pub(crate) struct Registered {
    text: Box<[u8]>,
}

/// Buckets of the hash table of registered texts.
const BUCKETS: usize = if cfg!(loom) { 2 } else { 1024 };

#[cfg(not(all(test, loom)))]
static REGISTERED_TEXTS: [AppendList<Registered>; BUCKETS] = [const { AppendList::new() }; BUCKETS];
#[cfg(all(test, loom))]
loom::lazy_static! {
    static ref REGISTERED_TEXTS: [AppendList<Registered>; BUCKETS] = std::array::from_fn(|_| AppendList::new());
}

/// Stores a text once, for as long as the process lives: a program that registers the same text in every step must not
/// grow.
pub(crate) fn register_text(text: &[u8]) -> *const Registered {
    // FNV-1a
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let bucket = &REGISTERED_TEXTS[(hash ^ (hash >> 32)) as usize % BUCKETS];
    let make = || Registered { text: text.into() };
    bucket.find_or_add(|known| *known.text == *text, make).0
}

/// Calls `with` with the message of an event; empty if it has none.
///
/// # Safety
/// `attributes` is null or as NVTX defines it, with texts that live through the call.
pub(crate) unsafe fn with_message<T>(
    attributes: *const EventAttributes,
    with: impl FnOnce(&[u8]) -> T,
) -> T {
    // SAFETY: the caller says so.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else {
        return with(&[]);
    };
    let is_whole = usize::from(attributes.size) >= size_of::<EventAttributes>();
    if !is_whole || attributes.message.is_null() {
        return with(&[]);
    }
    // SAFETY: the type says what the pointer is.
    unsafe {
        match attributes.message_type {
            ASCII => with(CStr::from_ptr(attributes.message.cast()).to_bytes()),
            WIDE => with(wide_to_utf8(attributes.message.cast()).as_bytes()),
            REGISTERED => with(&(*attributes.message.cast::<Registered>()).text),
            _ => with(&[]),
        }
    }
}

/// Calls `with` with a C string.
///
/// # Safety
/// `text` is null or a C string.
pub(crate) unsafe fn with_c_string<T>(text: *const c_char, with: impl FnOnce(&[u8]) -> T) -> T {
    if text.is_null() {
        return with(&[]);
    }
    // SAFETY: the caller says so.
    with(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Converts a wide string to UTF-8.
///
/// # Safety
/// `text` is null or ends with a zero.
pub(crate) unsafe fn wide_to_utf8(text: *const libc::wchar_t) -> String {
    // More than a record keeps of a text, so that a missing zero does not read on forever.
    const WIDE_TEXT_MAX_CHARS: usize = 1 << 16;
    if text.is_null() {
        return String::new();
    }
    (0..WIDE_TEXT_MAX_CHARS)
        // SAFETY: no character after the zero is read.
        .map(|index| unsafe { *text.add(index) })
        .take_while(|&character| character != 0)
        .map(|character| char::from_u32(character as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn message_attributes(message_type: i32, message: *const c_void) -> EventAttributes {
        EventAttributes {
            version: 3,
            size: size_of::<EventAttributes>() as u16,
            category: 0,
            color_type: 0,
            color: 0,
            payload_type: 0,
            reserved: 0,
            payload: 0,
            message_type,
            message,
        }
    }

    fn read_message(attributes: &EventAttributes) -> Vec<u8> {
        // SAFETY: the attributes are whole.
        unsafe { with_message(attributes, <[u8]>::to_vec) }
    }

    #[test]
    fn the_structure_is_as_nvtx_has_it() {
        assert_eq!(size_of::<EventAttributes>(), 48);
        assert_eq!(std::mem::offset_of!(EventAttributes, message_type), 32);
        assert_eq!(std::mem::offset_of!(EventAttributes, message), 40);
    }

    #[test]
    fn messages_come_in_three_spellings_or_not_at_all() {
        let spelled = [0x64, 0xe9, 0x1f600, 0];
        assert_eq!(
            read_message(&message_attributes(ASCII, c"decode".as_ptr().cast())),
            b"decode"
        );
        assert_eq!(
            read_message(&message_attributes(WIDE, spelled.as_ptr().cast())),
            "dé😀".as_bytes()
        );
        let handle = register_text(b"step");
        assert_eq!(
            read_message(&message_attributes(REGISTERED, handle.cast())),
            b"step"
        );
        // A program that registers the same text in every step holds one handle, and the table one entry.
        assert_eq!(register_text(b"step"), handle);
        assert_ne!(register_text(b"step 2"), handle);
        assert_eq!(
            read_message(&message_attributes(0, c"x".as_ptr().cast())),
            b""
        );
        assert_eq!(
            read_message(&message_attributes(ASCII, std::ptr::null())),
            b""
        );
        let mut short = message_attributes(ASCII, c"x".as_ptr().cast());
        short.size = 40;
        assert_eq!(read_message(&short), b"");
        // SAFETY: null is allowed.
        assert_eq!(unsafe { with_message(std::ptr::null(), <[u8]>::len) }, 0);
    }
}
