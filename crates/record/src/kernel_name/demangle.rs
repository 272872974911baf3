use std::fmt;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Longer demangled text is cut off by giving up: substitutions let a short symbol expand without bound.
const LONGEST: usize = 256 * 1024;

/// Nesting beyond this is no kernel's name, and would only use up the stack.
const DEEPEST: u32 = 96;

/// The C++ text behind an Itanium-mangled symbol; `None` where `symbol` is not one, or is damaged.
pub(crate) fn demangle(symbol: &str) -> Option<String> {
    if !symbol.starts_with("_Z") {
        return None;
    }
    let parsing = ParseOptions::default().recursion_limit(DEEPEST);
    let printing = DemangleOptions::default().recursion_limit(DEEPEST);
    let symbol = Symbol::new_with_options(symbol, &parsing).ok()?;
    let mut text = Bounded(String::new());
    symbol.structured_demangle(&mut text, &printing).ok()?;
    Some(text.0)
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}
