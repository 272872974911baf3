//! What a kernel's name says: one spelling for all tools, what the kernel does, and whose it is.
//!
//! Kineto, Nsight Systems and Nsight Compute print the same C++ symbol in three ways, and versions of one tool
//! differ. [`canonical`] maps every spelling to one, so that a timeline and its counters can be joined.
//! [`classify`] reads the purpose and the library from any of the spellings by the tables in this module.

mod canonical;
mod category;
pub(crate) mod demangle;
mod library;
mod spelling;
mod token;

pub use canonical::canonical;
pub use category::Category;
pub use library::Library;

use canonical::Parsed;

/// What the execution of a whole CUDA graph is called where its kernels were not recorded. It takes time on the device and is no kernel.
pub const GRAPH_EXECUTION: &str = "[CUDA graph]";

/// The purpose of a kernel and the library that holds it, as far as its name shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct KernelClass {
    pub category: Category,
    /// Where its code comes from.
    pub library: Library,
}

/// Reads purpose and library from a kernel's name in any tool's spelling, mangled or not.
pub fn classify(name: &str) -> KernelClass {
    let Parsed { canonical, head } = canonical::parse_name(name);
    let name = Lowered {
        head: head.to_ascii_lowercase(),
        cased: head,
        whole: format!("{name} {canonical}").to_ascii_lowercase(),
    };
    KernelClass {
        category: category::find_category(&name),
        library: library::find_library(&name),
    }
}

/// A name as the tables see it: in lower case, with the function's own path apart from its arguments.
struct Lowered {
    /// The path of the function without template arguments and parameters.
    head: String,
    /// The same path as written: a change of case begins a word.
    cased: String,
    /// The name as given, and the canonical name after it.
    whole: String,
}

/// Where a rule looks for its needle.
#[derive(Clone, Copy)]
enum NeedlePlace {
    /// In the function's own path.
    Head,
    /// In the function's own path, as a whole word: `rope` in `fused_rope` and `RopeKernel`, not in `propeller`.
    Word,
    /// The same, where other words are built from it: `sort` in `argsort`, not in `sortie`.
    WordEnd,
    /// Anywhere, template arguments and parameters included.
    Anywhere,
}

/// One row of a table: the first row whose needle is found decides.
struct NameRule<T> {
    place: NeedlePlace,
    needle: &'static str,
    gives: T,
}

const fn head<T>(needle: &'static str, gives: T) -> NameRule<T> {
    NameRule {
        place: NeedlePlace::Head,
        needle,
        gives,
    }
}

const fn word<T>(needle: &'static str, gives: T) -> NameRule<T> {
    NameRule {
        place: NeedlePlace::Word,
        needle,
        gives,
    }
}

const fn word_end<T>(needle: &'static str, gives: T) -> NameRule<T> {
    NameRule {
        place: NeedlePlace::WordEnd,
        needle,
        gives,
    }
}

const fn anywhere<T>(needle: &'static str, gives: T) -> NameRule<T> {
    NameRule {
        place: NeedlePlace::Anywhere,
        needle,
        gives,
    }
}

fn first_match<T: Copy>(rules: &[NameRule<T>], name: &Lowered) -> Option<T> {
    rules
        .iter()
        .find(|rule| match rule.place {
            NeedlePlace::Head => name.head.contains(rule.needle),
            NeedlePlace::Word => name.has_word(rule.needle, true),
            NeedlePlace::WordEnd => name.has_word(rule.needle, false),
            NeedlePlace::Anywhere => name.whole.contains(rule.needle),
        })
        .map(|rule| rule.gives)
}

impl Lowered {
    /// The name without each occurrence of a word.
    fn without(&self, word: &str) -> Self {
        let (mut cased, mut end) = (String::new(), 0);
        for (place, found) in self.head.match_indices(word) {
            cased.push_str(&self.cased[end..place]);
            end = place + found.len();
        }
        cased.push_str(&self.cased[end..]);
        Self {
            head: self.head.replace(word, ""),
            cased,
            whole: self.whole.replace(word, ""),
        }
    }

    /// Whether a word of the path ends with `needle`, or, if `is_whole`, is it.
    fn has_word(&self, needle: &str, is_whole: bool) -> bool {
        let text = self.cased.as_bytes();
        self.head.match_indices(needle).any(|(start, found)| {
            is_word_boundary(text, start + found.len())
                && (!is_whole || is_word_boundary(text, start))
        })
    }
}

/// Whether a word begins or ends before this byte: at signs, digits and changes of case, of which `TopPSampling` has three.
fn is_word_boundary(text: &[u8], place: usize) -> bool {
    let (Some(before), Some(&after)) = (place.checked_sub(1), text.get(place)) else {
        return true;
    };
    let before = text[before];
    let begins_capitalized = || {
        let next = text.get(place + 1);
        after.is_ascii_uppercase() && next.is_some_and(u8::is_ascii_lowercase)
    };
    !(before.is_ascii_alphabetic() && after.is_ascii_alphabetic())
        || before.is_ascii_lowercase() && after.is_ascii_uppercase()
        || before.is_ascii_uppercase() && begins_capitalized()
}
