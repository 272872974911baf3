use std::fmt;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Longer demangled text is cut off by giving up: substitutions let a short symbol expand without bound.
const NAME_MAX_BYTES: usize = 256 * 1024;

/// Nesting beyond this is no kernel's name, and would only use up the stack.
const NESTING_MAX: u32 = 96;

/// The C++ text behind an Itanium-mangled symbol; `None` where `symbol` is not one, or is damaged.
pub(crate) fn demangle(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") || has_last_number(symbol.as_bytes()) {
        return None;
    }
    let parsing = ParseOptions::default().recursion_limit(NESTING_MAX);
    let printing = DemangleOptions::default().recursion_limit(NESTING_MAX);
    let symbol = Symbol::new_with_options(symbol, &parsing).ok()?;
    let mut text = Bounded(String::new());
    symbol.structured_demangle(&mut text, &printing).ok()?;
    Some(text.0)
}

/// Whether a template parameter (`T12_`) or a substitution (`S1A_`) has the largest number there is, 2⁶³ − 1: the parser adds
/// one to it.
fn has_last_number(symbol: &[u8]) -> bool {
    memchr::memchr2_iter(b'T', b'S', symbol).any(|at| {
        let last: &[u8] = if symbol[at] == b'T' {
            b"9223372036854775807"
        } else {
            b"1Y2P0IJ32E8E7"
        };
        let number = &symbol[at + 1..];
        let zeros = number.iter().take_while(|byte| **byte == b'0').count();
        number[zeros..].starts_with(last)
    })
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > NAME_MAX_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_counted_on_are_refused() {
        assert_eq!(
            demangle("_Z1fILm18446744073709551615EEvv").as_deref(),
            Some("void f<(unsigned long)18446744073709551615>()")
        );
        for number in [
            "T9223372036854775807",
            "S1Y2P0IJ32E8E7",
            "T009223372036854775807",
        ] {
            for end in ["_", ""] {
                assert_eq!(demangle(&format!("_Z1fIiEv{number}{end}")), None);
            }
        }
        assert!(demangle("_Z1fIiEvT_").is_some());
    }
}
