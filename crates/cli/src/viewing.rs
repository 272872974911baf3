//! `view`: runs in the browser, served on loopback until the command is interrupted.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use llmprof_capture::process::{Interrupt, ProcessError};
use llmprof_record::{
    run::RunRecord,
    store::{RunStatus, StoredRun, find_runs, no_room_hint},
};
use llmprof_view::{ArchiveError, OpenedRun, Site, ViewServer, agent::PlaceId, serve};

use crate::{
    args_view::ViewArgs,
    browser,
    failure::Failure,
    output::{Output, note},
    profiles::{self, files::missing_run},
    progress::with_spinner,
    stored,
};

/// Where runs are when none is named.
const RUNS: &str = "runs";
/// `report.html` of large runs is some tens of megabytes.
const REPORT_BYTES_MAX: u64 = 256 << 20;

pub(crate) fn view(args: &ViewArgs, output: &mut Output) -> Result<(), Failure> {
    let ViewedPaths { paths, place } = match args.runs.as_slice() {
        [] => ViewedPaths {
            paths: vec![newest_run(Path::new(RUNS))?],
            place: None,
        },
        arguments => split_places(arguments)?,
    };
    if let Some(folder) = &args.output {
        return write_archive(&paths, folder, output);
    }
    // A port that is taken is said before minutes of reading.
    let server = ViewServer::bind(args.port).map_err(|error| Failure::new(error.to_string()))?;
    let runs = open_all(&paths)?;
    let page = place.map(|(run, place)| {
        let page = runs[run].page_of(&place, run);
        page.ok_or_else(|| {
            Failure::new(format!("{} has no {place} to show", paths[run].display())).hint(format!(
                "llmprof explain {} lists findings and phases",
                paths[run].display()
            ))
        })
    });
    let url = match page.transpose()? {
        Some(page) => format!("{}#{page}", server.url()),
        None => server.url(),
    };
    output.line(&url)?;
    if !args.no_open {
        browser::open(Path::new(&url))?;
    }
    serve(server, &Arc::new(Site { runs }));
    Ok(())
}

/// Shows runs that a command has just written, side by side where there are two, until Ctrl-C; how the command went stays its own exit code.
pub(crate) fn show_runs(paths: &[PathBuf], output: &mut Output) -> Result<(), Failure> {
    let interrupted = |error: ProcessError| Failure::new(error.to_string());
    let mut interrupt = Interrupt::install().map_err(interrupted)?;
    let server = ViewServer::bind(0).map_err(|error| Failure::new(error.to_string()))?;
    let runs = open_all(paths)?;
    let page = if runs.len() > 1 { "#compare" } else { "" };
    let url = format!("{}{page}", server.url());
    output.line(&url)?;
    browser::open(Path::new(&url))?;
    std::thread::spawn(move || serve(server, &Arc::new(Site { runs })));
    interrupt.wait_for_stop().map_err(interrupted)
}

/// What is shown, and where it is opened.
struct ViewedPaths {
    paths: Vec<PathBuf>,
    /// The number of a run and a place in it.
    place: Option<(usize, PlaceId)>,
}

/// Takes `RUN#finding=3` apart. A file with `#` in its name is a file.
fn split_places(arguments: &[PathBuf]) -> Result<ViewedPaths, Failure> {
    let mut shown = ViewedPaths {
        paths: Vec::new(),
        place: None,
    };
    for path in arguments {
        let text = path.to_str().filter(|_| !path.exists());
        let Some((run, id)) = text.and_then(|text| text.rsplit_once('#')) else {
            shown.paths.push(path.clone());
            continue;
        };
        let id = id.parse().map_err(|error: String| Failure::new(error))?;
        shown.place.get_or_insert((shown.paths.len(), id));
        shown.paths.push(PathBuf::from(run));
    }
    Ok(shown)
}

fn open_all(paths: &[PathBuf]) -> Result<Vec<Arc<OpenedRun>>, Failure> {
    with_spinner("reading", || {
        let opened = paths.iter().map(|path| open(path).map(Arc::new));
        opened.collect()
    })
}

fn write_archive(paths: &[PathBuf], folder: &Path, output: &mut Output) -> Result<(), Failure> {
    let site = Site {
        runs: open_all(paths)?,
    };
    let facts = with_spinner("writing", || site.write_archive(folder)).map_err(|error| {
        let hint = match &error {
            ArchiveError::Io { path, source } => no_room_hint(source, path),
            ArchiveError::Exists { .. } => None,
        };
        Failure::new(error.to_string()).hint(hint)
    })?;
    if facts.is_cut {
        Failure::new("the deepest zoom levels are left out: their tiles exceed 1 GiB").warn();
    }
    output.line(&format!(
        "{} ({} files, {})",
        folder.join("index.html").display(),
        facts.files,
        llmprof_units::Bytes(facts.bytes)
    ))
}

/// The run that a command was given, or the newest below `runs` that holds a profile.
pub(crate) fn given_or_newest(run: Option<&Path>) -> Result<PathBuf, Failure> {
    run.map_or_else(|| newest_run(Path::new(RUNS)), |run| Ok(run.to_owned()))
}

fn newest_run(root: &Path) -> Result<PathBuf, Failure> {
    // The oldest comes first.
    let (runs, _) = find_runs(root);
    let mut skipped: Vec<String> = Vec::new();
    for run in runs.into_iter().rev() {
        let status = run.manifest.status;
        if status == RunStatus::Complete || profiles::load(&run.path).is_ok() {
            for line in &skipped {
                note(line);
            }
            return Ok(run.path);
        }
        let path = run.path.display();
        skipped.push(format!("skipped {path} ({status}): it holds no profile"));
    }
    let what = if skipped.is_empty() {
        "no run"
    } else {
        "no run with a profile"
    };
    Err(Failure::new(format!("{what} below {}", root.display()))
        .hint("name a run or a profile".to_owned()))
}

/// A run directory with its analysis, or a profile that is analyzed now.
pub(crate) fn open(path: &Path) -> Result<OpenedRun, Failure> {
    if !path.exists() {
        return Err(missing_run(path));
    }
    let title = path.display().to_string();
    let is_run = path.is_dir() && StoredRun::open(path).is_ok();
    let (record, analysis, report, notes) = if is_run {
        let run = StoredRun::open(path)?;
        let record = profiles::load(&run.path)?;
        let analysis = match stored::analysis(&run) {
            Ok(analysis) => analysis,
            // A run that was killed before its analysis is shown as far as it came.
            Err(_) => profiles::analyzed(&record, None)?,
        };
        let report = run.folder()?.read("report.html", REPORT_BYTES_MAX).ok();
        let report = report.and_then(|bytes| String::from_utf8(bytes).ok());
        let notes = run.notes().unwrap_or_else(|error| {
            Failure::from(error).warn();
            None
        });
        (record, analysis, report, notes)
    } else {
        let record = profiles::read(&[path.to_owned()])?;
        let analysis = profiles::analyzed(&record, None)?;
        (record, analysis, None, None)
    };
    let mut opened = OpenedRun::new(title, record, Some(analysis), report)
        .map_err(|error| Failure::new(error.to_string()))?;
    opened.notes = notes;
    Ok(opened)
}

/// A rank of a job, analyzed by itself.
pub(crate) fn open_record(record: RunRecord) -> Result<OpenedRun, Failure> {
    let analysis = profiles::analyzed(&record, None)?;
    let title = record.name.clone();
    OpenedRun::new(title, record, Some(analysis), None)
        .map_err(|error| Failure::new(error.to_string()))
}

/// Timelines as a Perfetto trace.
pub(crate) fn pftrace(opened: &OpenedRun) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    opened
        .timeline
        .write_pftrace(&opened.record, &mut bytes)
        .map_err(|error| Failure::new(format!("cannot write the trace: {error}")))?;
    Ok(bytes)
}
