//! How far a run has come, on standard error, with the time left: a bar per stage on a terminal; elsewhere a line when a stage ends, and
//! one from time to time where it takes long.

use std::{
    io::IsTerminal,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use llmprof_capture::session::{Observer, Outcome, StageObserver};
use llmprof_units::{Count, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
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

impl Observer for Show {
    fn stage_begins(&self, name: &str, steps: u64) -> Box<dyn StageObserver> {
        Box::new(Stage::start(*self, name, steps))
    }

    fn tell(&self, line: &str) {
        crate::output::note(line);
    }
}

impl StageObserver for Stage {
    fn step_done(&self, done: u64) {
        self.reached(done);
    }

    fn stage_ends(self: Box<Self>, outcome: Outcome) {
        self.finish(&match outcome {
            Outcome::Loaded {
                parameters,
                weights,
            } => format!("{parameters} parameters, {weights} of weights"),
            Outcome::Drawn { pages, boxes } => {
                format!("{} on {}", Count(boxes, "box"), Count(pages, "page"))
            }
            Outcome::Profiled { launches } => Count(launches, "launch").to_string(),
            Outcome::Generated { tokens, time } if time.0 > 0 => {
                let rate = tokens as f64 / time.seconds();
                format!("{}, {rate:.1} tok/s", Count(tokens, "token"))
            }
            Outcome::Generated { tokens, .. } => Count(tokens, "token").to_string(),
        });
    }
}

/// Work that is done sooner needs no word on a terminal.
const QUIET: Duration = Duration::from_secs(1);

/// Does some work of one stage; on a terminal a spinner says what is done once it takes long.
pub(crate) fn with_spinner<T>(name: &str, work: impl FnOnce() -> T) -> T {
    if Show::detect() == Show::Lines {
        return work();
    }
    let (ended, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if end.recv_timeout(QUIET) == Err(RecvTimeoutError::Timeout) {
                let _stage = Stage::start(Show::Bars, name, 0);
                // Until the other end is dropped.
                let _ = end.recv();
            }
        });
        let result = work();
        drop(ended);
        result
    })
}

/// Room for the name of a stage, such as `profiled, torch_profiler`.
const WIDTH: usize = 24;

/// Time between two lines of a stage that goes on, where there is no terminal: few enough for a log.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// One stage of a run. Dropping it without [`finish`](Stage::finish) leaves no trace of it: its error is shown instead.
pub(crate) struct Stage {
    name: String,
    started: Instant,
    bar: Option<ProgressBar>,
    first: First,
    lines: bool,
    total: u64,
    /// When the last line about it was written.
    told: Mutex<Instant>,
    /// What is known so far, after the count.
    so_far: Mutex<String>,
}

/// When steps were first reported, and how many: what comes before is a prefill, which says nothing about later steps.
type First = Arc<OnceLock<(Instant, u64)>>;

impl Stage {
    /// A stage of `total` steps; 0 where that is not known.
    pub(crate) fn start(show: Show, name: impl Into<String>, total: u64) -> Self {
        let stage = Self::on(ProgressDrawTarget::stderr(), show, name.into(), total);
        if let Some(bar) = &stage.bar {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        stage
    }

    fn on(target: ProgressDrawTarget, show: Show, name: String, total: u64) -> Self {
        let first = First::default();
        let bar = (show == Show::Bars).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), target)
                .with_style(style(total, Arc::clone(&first)));
            bar.set_message(name.clone());
            bar
        });
        let started = Instant::now();
        Self {
            name,
            started,
            bar,
            first,
            lines: show == Show::Lines,
            total,
            told: Mutex::new(started),
            so_far: Mutex::default(),
        }
    }

    /// Shows `text` after the count of steps.
    pub(crate) fn show(&self, text: String) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(text.clone());
        }
        *self.so_far.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Says how many steps are done.
    pub(crate) fn reached(&self, done: u64) {
        if done > 0 {
            self.first.get_or_init(|| (Instant::now(), done));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
        if let Some(line) = self.line(done, LINE_EVERY) {
            crate::output::note(&line);
        }
    }

    /// The line that a log gets for a stage that goes on: nothing until the last line is `every` old.
    fn line(&self, done: u64, every: Duration) -> Option<String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.lines || done >= self.total || told.elapsed() < every {
            return None;
        }
        *told = Instant::now();
        let left = left(&self.first, done, self.total)
            .map(|left| format!(", {:#} left", HumanDuration(left)));
        let so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        Some(format!(
            "{:<WIDTH$} {done}/{}{}{so_far}",
            self.name,
            self.total,
            left.unwrap_or_default()
        ))
    }

    /// Ends it; `what` says what came of it.
    pub(crate) fn finish(self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.lines {
            let took = Nanos(i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX));
            crate::output::note(&format!("{:<WIDTH$} {what} ({took})", self.name));
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

fn style(total: u64, first: First) -> ProgressStyle {
    let template = if total == 0 {
        format!("{{msg:<{WIDTH}}} {{spinner}} {{elapsed}}")
    } else {
        format!("{{msg:<{WIDTH}}} {{bar:30}} {{pos}}/{{len}}{{left}}{{prefix}}")
    };
    let left = move |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        let left = state
            .len()
            .and_then(|total| left(&first, state.pos(), total));
        if let Some(left) = left {
            // What cannot be drawn is not worth an end.
            let _ = write!(text, ", {:#} left", HumanDuration(left));
        }
    };
    ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("left", left)
}

/// The time left, by the steps that came after the first reported ones; not known before there are some.
fn left(first: &First, done: u64, total: u64) -> Option<Duration> {
    let (since, before) = first.get()?;
    let steps = done.checked_sub(*before).filter(|steps| *steps > 0)?;
    let to_come = total.saturating_sub(done);
    Duration::try_from_secs_f64(since.elapsed().as_secs_f64() * to_come as f64 / steps as f64).ok()
}

#[cfg(test)]
mod tests {
    use std::io;

    use indicatif::TermLike;

    use super::*;

    /// A terminal that keeps what is written to it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_time_left_is_given_once_steps_have_been_timed() {
        let screen = Screen::default();
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let stage = Stage::on(target, Show::Bars, "plain 1".to_owned(), 40);
        let line = |done: u64| {
            stage.reached(done);
            stage.bar.as_ref().unwrap().force_draw();
            screen.0.lock().unwrap().clone()
        };
        assert!(line(0).contains(" 0/40"), "{}", line(0));
        assert!(!line(0).contains("left"), "{}", line(0));
        // The first token took the prefill: further ones take another time.
        assert!(!line(1).contains("left"), "{}", line(1));
        let second = line(2);
        assert!(
            second.contains(" 2/40, ") && second.trim_end().ends_with(" left"),
            "{second}"
        );
    }

    #[test]
    fn a_log_is_told_from_time_to_time() {
        let stage = Stage::start(Show::Lines, "direct inference", 40);
        stage.reached(4);
        assert_eq!(stage.line(4, Duration::from_hours(1)), None, "too soon");
        let line = stage.line(8, Duration::ZERO).unwrap();
        assert!(
            line.starts_with(&format!("{:<WIDTH$} 8/40, ", "direct inference"))
                && line.ends_with(" left"),
            "{line}"
        );
        stage.show(", TTFT p50 31 ms".to_owned());
        let line = stage.line(9, Duration::ZERO).unwrap();
        assert!(line.ends_with(" left, TTFT p50 31 ms"), "{line}");
        assert_eq!(
            stage.line(8, Duration::from_hours(1)),
            None,
            "told just now"
        );
        assert_eq!(
            stage.line(40, Duration::ZERO),
            None,
            "its end says the rest"
        );
    }
}
