//! Errors as a person sees them: what was being done, to what, what was found, what would fix it.

use std::{
    fmt,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use llmprof_record::{
    run::RecordError,
    secrets::without_known,
    store::{StoreError, no_room_hint},
};
use llmprof_units::{printable, printable_in_place};
use miette::{Diagnostic, GraphicalReportHandler, LabeledSpan, NamedSource, SourceCode};

/// Exit code of a failure.
pub(crate) const EXIT_CODE: u8 = 2;

/// A text with the place in it that is wrong.
#[derive(Debug)]
struct MarkedText {
    source: NamedSource<Arc<str>>,
    start: usize,
    length: usize,
    label: String,
}

#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    place: Option<Box<MarkedText>>,
}

impl Failure {
    /// Much of what is said here is text of others: no secret that the command was given is in it.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: printable(&without_known(&message.into())).into_owned(),
            hint: None,
            place: None,
        }
    }

    /// A file that cannot be written, with the remedy for a full disk.
    pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Self {
        Self::new(format!("cannot write {}: {error}", path.display()))
            .hint(no_room_hint(error, path))
    }

    /// A file was cut while it was mapped.
    pub(crate) fn cut() -> Self {
        Self::new("a file became shorter while it was read, so that nothing made of it is whole")
            .hint("call it again when nobody writes to the file".to_owned())
    }

    /// With what would fix it.
    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint
            .into()
            .map(|hint: String| printable(&hint).into_owned());
        self
    }

    /// Pointing at bytes `start..end` of a text called `name`.
    pub(crate) fn at(
        mut self,
        name: &str,
        text: &str,
        span: std::ops::Range<usize>,
        label: &str,
    ) -> Self {
        let length = span.len().min(text.len().saturating_sub(span.start));
        self.place = Some(Box::new(MarkedText {
            source: NamedSource::new(printable(name), Arc::from(printable_in_place(text))),
            start: span.start.min(text.len()),
            length,
            label: printable(label).into_owned(),
        }));
        self
    }

    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// What stopped it and what would fix it, where both must be one text.
    pub(crate) fn in_a_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} (hint: {hint})", self.message),
            None => self.message.clone(),
        }
    }

    /// Prints it to standard error as something that does not stop the command.
    pub(crate) fn warn(&self) {
        say(&format!("warning: {}\n", self.in_a_line()));
    }

    /// Prints it to standard error.
    pub(crate) fn report(&self) {
        let mut text = String::new();
        let handler = if std::env::var_os("NO_COLOR").is_some() || !anstream::stderr().is_terminal()
        {
            GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
        } else {
            GraphicalReportHandler::new()
        };
        if handler
            .with_width(100)
            .render_report(&mut text, self)
            .is_err()
        {
            text = format!("error: {}\n", self.message);
        }
        say(&text);
    }
}

/// Says something on standard error. Where nobody takes it, the exit code says enough.
fn say(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Diagnostic for Failure {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.hint
            .as_ref()
            .map(|hint| Box::new(hint) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place
            .as_ref()
            .map(|place| &place.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let label = LabeledSpan::new(Some(place.label.clone()), place.start, place.length);
        Some(Box::new(std::iter::once(label)))
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let failure = Self::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl Failure {
    /// A run directory that cannot be had, with the argument of the command at hand that names another.
    pub(crate) fn directory(error: &StoreError, argument: &str) -> Self {
        let other = error.is_about_the_directory();
        let hint = error.hint();
        let argument = match error.other_directory() {
            Some(dir) => argument.replace("DIR", &dir.display().to_string()),
            None => argument.to_owned(),
        };
        Self::new(error.to_string()).hint(if other {
            let advice = hint.unwrap_or_else(|| "choose another directory".to_owned());
            Some(format!("{advice}: {argument}"))
        } else {
            hint
        })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = error.hint();
        Self::new(error.to_string()).hint(hint)
    }
}
