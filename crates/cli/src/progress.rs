//! How far a run has come, on standard error: a bar per stage with the time left on a terminal, a line per stage elsewhere.

use std::{io::IsTerminal, time::Instant};

use indicatif::{ProgressBar, ProgressStyle};
use llmprof_units::Nanos;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Bars that move.
    Bars,
    /// A line when a stage ends.
    Lines,
}

impl Show {
    /// Bars where standard error is a terminal that can move its cursor.
    pub(crate) fn detect() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        if std::io::stderr().is_terminal() && !dumb {
            Self::Bars
        } else {
            Self::Lines
        }
    }
}

/// Room for the name of a stage, such as `profiler warm-up 1`.
const WIDTH: usize = 18;

/// One stage of a run. Dropping it without [`finish`](Stage::finish) leaves no trace of it: its error is shown instead.
pub(crate) struct Stage {
    name: String,
    started: Instant,
    bar: Option<ProgressBar>,
    lines: bool,
}

impl Stage {
    /// A stage of `total` steps; 0 where that is not known.
    pub(crate) fn start(show: Show, name: impl Into<String>, total: u64) -> Self {
        let name = name.into();
        let bar = (show == Show::Bars).then(|| {
            let bar = ProgressBar::new(total).with_style(style(total));
            bar.set_message(name.clone());
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
            bar
        });
        Self {
            name,
            started: Instant::now(),
            bar,
            lines: show == Show::Lines,
        }
    }

    /// Says how many steps are done.
    pub(crate) fn at(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Ends it; `what` says what came of it.
    pub(crate) fn finish(self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.lines {
            let took = Nanos(i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX));
            // Nobody may be reading; that must not end the run.
            let line = format!("{:<WIDTH$} {what} ({took} in all)\n", self.name);
            let _ = std::io::Write::write_all(&mut anstream::stderr(), line.as_bytes());
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(total: u64) -> ProgressStyle {
    let template = if total == 0 {
        format!("{{msg:<{WIDTH}}} {{spinner}} {{elapsed}}")
    } else {
        format!("{{msg:<{WIDTH}}} {{bar:30}} {{pos}}/{{len}}, {{eta}} left")
    };
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
