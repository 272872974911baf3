//! A small parser of demangled C++ names that prints what all tools agree on.
//!
//! Dropped: return types, parameters of functions, plain namespaces and classes before `::`, `const` after a function,
//! casts before a template argument, suffixes of integers. Rewritten: `true` and `false` to `1` and `0`, `T const` to
//! `const T`, every spelling of a lambda to `{lambda(float)#1}`. Kept: the function's name, its template arguments,
//! and the path of functions around a lambda.

use super::demangle::demangle;
use super::spelling::repair_name;
use super::token::{NameToken, split_tokens};

/// Nesting beyond this is taken as text that is no C++ name.
const NESTING_MAX: u32 = 96;

/// The spelling under which all tools' names of one kernel meet.
///
/// Mangled symbols are demangled first. What does not parse as a C++ name comes back with its white space normalized,
/// so equal texts stay equal and distinct ones stay distinct.
pub fn canonical(name: &str) -> String {
    parse_name(name).canonical
}

/// The canonical name, and the function's own path for the tables.
pub(super) struct Parsed {
    pub(super) canonical: String,
    pub(super) head: String,
}

pub(super) fn parse_name(name: &str) -> Parsed {
    let name = name.trim();
    let demangled = demangle(name);
    let text = repair_name(demangled.as_deref().unwrap_or(name));
    let text = without_return_type(&text);
    // Activities that are no kernels have names in parentheses that are not parameters.
    let activity = ["Memcpy ", "Memset ", "[CUDA "]
        .iter()
        .any(|prefix| text.starts_with(prefix));
    let parsed = if activity {
        None
    } else {
        let tokens = split_tokens(text);
        NameParser::new(&tokens).whole()
    };
    parsed.unwrap_or_else(|| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let plain = words.join(" ");
        Parsed {
            head: cut_off(&plain).unwrap_or(&plain).to_owned(),
            canonical: plain,
        }
    })
}

/// What follows a return type of the form `std::enable_if<(8 > 0) && is_exact<T>, void>::type`.
fn after_enable_if(text: &str) -> Option<&str> {
    let condition = text.strip_prefix("std::enable_if<")?;
    let (mut templates, mut parentheses) = (1_u32, 0_u32);
    for (at, letter) in condition.char_indices() {
        match letter {
            '(' => parentheses += 1,
            ')' => parentheses = parentheses.checked_sub(1)?,
            // Inside of parentheses it compares.
            '<' if parentheses == 0 => templates += 1,
            '>' if parentheses == 0 => templates -= 1,
            _ => {}
        }
        if templates == 0 {
            return condition[at + 1..].strip_prefix("::type ");
        }
    }
    None
}

/// A function without its parameters, as some tools shorten names, does not show that `void` before it is its type.
fn without_return_type(text: &str) -> &str {
    if let Some(function) = after_enable_if(text) {
        return function;
    }
    match text.strip_prefix("void ") {
        Some(function) if !text.ends_with([')', ']']) => function,
        _ => text,
    }
}

/// The function of a name that ends inside of its template arguments.
fn cut_off(text: &str) -> Option<&str> {
    let (function, arguments) = text.split_once('<')?;
    let opened = |bracket: char| arguments.matches(bracket).count();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | ' ' | '(' | ')' | '~');
    (opened('<') >= opened('>') && function.chars().all(is_name)).then_some(function)
}

struct NameParser<'a> {
    tokens: &'a [NameToken<'a>],
    at: usize,
    depth: u32,
    /// The full path of the last function seen at the outermost level.
    head: String,
}

/// A name with its scopes, as printed.
struct Qualified {
    text: String,
    is_function: bool,
}

impl<'a> NameParser<'a> {
    fn new(tokens: &'a [NameToken<'a>]) -> Self {
        Self {
            tokens,
            at: 0,
            depth: 0,
            head: String::new(),
        }
    }

    fn whole(mut self) -> Option<Parsed> {
        let canonical = self.element()?;
        // Compilers append ` [clone .suffix]` to copies of a function.
        let ended = self.at == self.tokens.len() || self.peek() == Some(NameToken::Mark('['));
        (ended && !canonical.is_empty()).then_some(Parsed {
            canonical,
            head: self.head,
        })
    }

    fn peek(&self) -> Option<NameToken<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn peek_after(&self, count: usize) -> Option<NameToken<'a>> {
        self.tokens.get(self.at + count).copied()
    }

    fn eat(&mut self, token: NameToken<'_>) -> Option<()> {
        (self.peek() == Some(token)).then(|| self.at += 1)
    }

    fn eat_mark(&mut self, mark: char) -> Option<()> {
        self.eat(NameToken::Mark(mark))
    }

    /// A type, a value or a function, up to the bracket or comma that ends it.
    fn element(&mut self) -> Option<String> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return None;
        }
        let mut element = NameElement::default();
        while let Some(token) = self.peek() {
            match token {
                NameToken::Mark(',' | '>' | ')' | ']' | '}') => break,
                NameToken::Name("const") => {
                    self.at += 1;
                    element.constant();
                }
                NameToken::Name("volatile" | "typename" | "struct" | "class" | "enum") => {
                    self.at += 1;
                }
                NameToken::Number(digits) => {
                    self.at += 1;
                    element.word(&strip_literal_suffix(digits));
                }
                NameToken::Mark('*' | '&') if !element.is_empty() => {
                    self.at += 1;
                    element.suffix.push(if token == NameToken::Mark('*') {
                        '*'
                    } else {
                        '&'
                    });
                }
                NameToken::Mark('(') if !self.at_anonymous_namespace() => {
                    self.parenthesized(&mut element)?;
                }
                NameToken::Mark('[') if !self.at_lambda() => {
                    if self.depth == 1 {
                        break;
                    }
                    self.at += 1;
                    let length = self.element()?;
                    self.eat_mark(']')?;
                    element.suffix.push_str(&format!("[{length}]"));
                }
                NameToken::Name(_)
                | NameToken::Scope
                | NameToken::Mark('(' | '[' | '{' | '\'' | '~') => {
                    let name = self.qualified()?;
                    if name.is_function {
                        // Whatever stood before a function was its return type.
                        element = NameElement::default();
                    }
                    element.word(&name.text);
                }
                NameToken::Mark(operator) => {
                    self.at += 1;
                    element.prefix.push(operator);
                }
            }
        }
        self.depth -= 1;
        Some(element.finish())
    }

    /// A cast, an expression in parentheses, or the parameters of a function type.
    fn parenthesized(&mut self, element: &mut NameElement) -> Option<()> {
        self.at += 1;
        if !element.words.is_empty() {
            let list = self.list(')')?;
            element.suffix.push_str(&format!("({list})"));
            return Some(());
        }
        let inner = self.element()?;
        self.eat_mark(')')?;
        let is_cast = match self.peek() {
            Some(NameToken::Number(_) | NameToken::Name(_) | NameToken::Mark('(')) => true,
            Some(NameToken::Mark('-')) => matches!(self.peek_after(1), Some(NameToken::Number(_))),
            _ => false,
        };
        if !is_cast {
            element.word(&inner);
        }
        Some(())
    }

    /// Elements up to and with the closing bracket.
    fn list(&mut self, close: char) -> Option<String> {
        let mut elements = Vec::new();
        loop {
            if self.eat_mark(close).is_some() {
                return Some(elements.join(", "));
            }
            elements.push(self.element()?);
            if self.eat_mark(',').is_none() {
                self.eat_mark(close)?;
                return Some(elements.join(", "));
            }
        }
    }

    /// Components joined by `::`; plain scopes are left out.
    fn qualified(&mut self) -> Option<Qualified> {
        let outermost = self.depth == 1;
        let mut kept: Vec<String> = Vec::new();
        let mut path: Vec<String> = Vec::new();
        let mut is_function = false;
        if self.peek() == Some(NameToken::Scope) {
            self.at += 1;
        }
        loop {
            let (mut text, may_have_arguments) = self.component()?;
            path.push(text.clone());
            let mut plain = may_have_arguments;
            if may_have_arguments && self.eat_mark('<').is_some() {
                let arguments = self.list('>')?;
                text.push_str(&format!("<{arguments}>"));
                plain = false;
            }
            if may_have_arguments && self.at_parameters() {
                self.skip_parentheses()?;
                while let Some(NameToken::Name("const" | "volatile" | "noexcept")) = self.peek() {
                    self.at += 1;
                }
                plain = false;
                is_function = true;
            }
            let last = self.eat(NameToken::Scope).is_none();
            if !text.is_empty() && (last || !plain) {
                kept.push(text);
            }
            if last {
                break;
            }
        }
        if outermost && (is_function || self.head.is_empty()) {
            path.retain(|part| !part.is_empty());
            self.head = path.join("::");
        }
        Some(Qualified {
            text: kept.join("::"),
            is_function,
        })
    }

    /// One component and whether template arguments or parameters may follow it.
    fn component(&mut self) -> Option<(String, bool)> {
        if self.at_anonymous_namespace() {
            self.at += 4;
            return Some((String::new(), true));
        }
        match self.peek()? {
            NameToken::Name("operator") => self.operator().map(|text| (text, true)),
            NameToken::Name("true") => Some(self.literal("1")),
            NameToken::Name("false") => Some(self.literal("0")),
            NameToken::Name(name) if name.starts_with("_GLOBAL__N_") => {
                Some((self.literal("").0, true))
            }
            NameToken::Name(name) => {
                self.at += 1;
                if self.peek() == Some(NameToken::Mark('['))
                    && self.peek_after(1) == Some(NameToken::Name("abi"))
                {
                    while self.eat_mark(']').is_none() {
                        self.peek()?;
                        self.at += 1;
                    }
                }
                Some((name.to_owned(), !is_builtin(name)))
            }
            NameToken::Mark('~') => {
                self.at += 1;
                let (name, _) = self.component()?;
                Some((format!("~{name}"), true))
            }
            NameToken::Mark('[' | '{' | '\'') => self.lambda().map(|text| (text, false)),
            _ => None,
        }
    }

    fn literal(&mut self, text: &str) -> (String, bool) {
        self.at += 1;
        (text.to_owned(), false)
    }

    fn operator(&mut self) -> Option<String> {
        self.at += 1;
        let mut text = "operator".to_owned();
        if self.eat_mark('(').is_some() {
            self.eat_mark(')')?;
            text.push_str("()");
            return Some(text);
        }
        while let Some(NameToken::Mark(mark)) =
            self.peek().filter(|token| *token != NameToken::Mark('('))
        {
            self.at += 1;
            text.push(mark);
        }
        if let Some(NameToken::Name(target)) = self.peek() {
            self.at += 1;
            text.push(' ');
            text.push_str(target);
        }
        Some(text)
    }

    /// `{lambda(float)#1}`, `[lambda(float) (instance 1)]`, `'lambda'(float)`, or another unnamed entity in braces.
    fn lambda(&mut self) -> Option<String> {
        let open = self.peek()?;
        self.at += 1;
        let Some(NameToken::Name(word)) = self.peek() else {
            return None;
        };
        if open == NameToken::Mark('\'') {
            self.at += 1;
            self.eat_mark('\'')?;
            // This dialect counts `'lambda'`, `'lambda0'`, `'lambda1'`.
            let number = match word.strip_prefix("lambda")? {
                "" => 1,
                digits => digits.parse::<u32>().ok()?.checked_add(2)?,
            };
            self.eat_mark('(')?;
            let parameters = self.lambda_parameters()?;
            return Some(format!("{{lambda({parameters})#{number}}}"));
        }
        if word != "lambda" {
            return self.braced();
        }
        self.at += 1;
        self.eat_mark('(')?;
        let parameters = self.lambda_parameters()?;
        let number = if open == NameToken::Mark('[') {
            self.eat_mark('(')?;
            self.eat(NameToken::Name("instance"))?;
            let number = self.number()?;
            self.eat_mark(')')?;
            self.eat_mark(']')?;
            number
        } else {
            self.eat_mark('#')?;
            let number = self.number()?;
            self.eat_mark('}')?;
            number
        };
        Some(format!("{{lambda({parameters})#{number}}}"))
    }

    /// Parameters of a lambda, with a generic one spelled `auto` where tools say `T1` or `auto:1`.
    fn lambda_parameters(&mut self) -> Option<String> {
        let list = self.list(')')?;
        let generic = |word: &str| {
            let digits = word
                .strip_prefix("auto : ")
                .or_else(|| word.strip_prefix('T'));
            digits.is_some_and(|digits| {
                !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
            })
        };
        let words: Vec<&str> = list
            .split(", ")
            .map(|word| if generic(word) { "auto" } else { word })
            .collect();
        Some(words.join(", "))
    }

    fn number(&mut self) -> Option<&'a str> {
        match self.peek()? {
            NameToken::Number(digits) => {
                self.at += 1;
                Some(digits)
            }
            _ => None,
        }
    }

    /// The rest of `{unnamed type#1}` and its like, as it stands.
    fn braced(&mut self) -> Option<String> {
        let mut text = "{".to_owned();
        loop {
            let token = self.peek()?;
            self.at += 1;
            match token {
                NameToken::Mark('}') => break,
                NameToken::Mark(mark) => text.push(mark),
                NameToken::Scope => text.push_str("::"),
                NameToken::Name(word) | NameToken::Number(word) => {
                    if text.ends_with(char::is_alphanumeric) {
                        text.push(' ');
                    }
                    text.push_str(word);
                }
            }
        }
        text.push('}');
        Some(text)
    }

    fn at_anonymous_namespace(&self) -> bool {
        self.peek() == Some(NameToken::Mark('('))
            && self.peek_after(1) == Some(NameToken::Name("anonymous"))
            && self.peek_after(2) == Some(NameToken::Name("namespace"))
            && self.peek_after(3) == Some(NameToken::Mark(')'))
    }

    fn at_lambda(&self) -> bool {
        self.peek_after(1) == Some(NameToken::Name("lambda"))
    }

    /// Parameters, as opposed to the `(*)` of a pointer to a function.
    fn at_parameters(&self) -> bool {
        self.peek() == Some(NameToken::Mark('('))
            && !matches!(self.peek_after(1), Some(NameToken::Mark('*' | '&')))
    }

    fn skip_parentheses(&mut self) -> Option<()> {
        let mut open = 0_u32;
        loop {
            match self.peek()? {
                NameToken::Mark('(') => open += 1,
                NameToken::Mark(')') => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Some(());
            }
        }
    }
}

/// The parts of one type or value while it is read.
#[derive(Default)]
struct NameElement {
    words: Vec<String>,
    prefix: String,
    suffix: String,
    is_const: bool,
}

impl NameElement {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.suffix.is_empty()
    }

    fn constant(&mut self) {
        if self.suffix.is_empty() {
            self.is_const = true;
        } else {
            self.suffix.push_str("const");
        }
    }

    fn word(&mut self, word: &str) {
        let prefix = std::mem::take(&mut self.prefix);
        self.words.push(prefix + word);
    }

    fn finish(self) -> String {
        let constant = if self.is_const { "const " } else { "" };
        format!(
            "{constant}{}{}{}",
            self.words.join(" "),
            self.prefix,
            self.suffix
        )
    }
}

/// Keywords of built-in types: neither template arguments nor parameters can follow them.
fn is_builtin(name: &str) -> bool {
    matches!(
        name,
        "void"
            | "bool"
            | "char"
            | "short"
            | "int"
            | "long"
            | "float"
            | "double"
            | "signed"
            | "unsigned"
            | "auto"
    )
}

/// An integer without `u`, `l` and their combinations; other literals as they are.
fn strip_literal_suffix(digits: &str) -> String {
    let bare = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    if bare.bytes().all(|byte| byte.is_ascii_digit()) {
        bare.to_owned()
    } else {
        digits.to_owned()
    }
}
