//! `import` of what `trtexec` wrote.

use std::path::{Path, PathBuf};

use llmprof_analysis::trtexec::{EngineLayers, engine_layers};
use llmprof_record::{
    import::{
        Source,
        trtexec::{self, Trtexec},
    },
    store::{RunDir, RunStatus},
};
use llmprof_report::compose::trtexec::{csv, document, summary};
use llmprof_theory::device::Device;

use crate::{
    args::ImportArgs,
    args_agents::ResultFormat,
    clock,
    failure::Failure,
    output::{Output, warn_of},
    outputs::{self, WantedFiles},
    profiles::files::default_directory,
    subject,
};

/// Reads the files where all of them are trtexec's; `None` leaves them to the other importers.
pub(crate) fn import(
    files: &[PathBuf],
    args: &ImportArgs,
    output: &mut Output,
) -> Option<Result<(), Failure>> {
    let read = |path: &PathBuf| trtexec::read(&small_text(path)?);
    // Reading all of a file to find that it is another's takes far more than importing it.
    if !files.iter().all(|file| may_be_trtexec(file)) {
        return None;
    }
    let parts: Vec<Trtexec> = files.iter().map(read).collect::<Option<_>>()?;
    (!parts.is_empty()).then(|| keep(parts, files, args, output))
}

/// Whether a file begins as one of trtexec's may.
fn may_be_trtexec(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    let is_read = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && std::fs::File::open(path)
            .and_then(|file| file.take(Source::HEAD_BYTES as u64).read_to_end(&mut head))
            .is_ok();
    is_read && trtexec::sniff(&head)
}

/// The text of a regular file that is no longer than any of trtexec's.
fn small_text(path: &Path) -> Option<String> {
    /// A layer has hundreds of bytes, and an engine thousands of layers.
    const BYTES_MAX: u64 = 256 << 20;
    let metadata = std::fs::metadata(path).ok()?;
    let is_small = metadata.is_file() && metadata.len() <= BYTES_MAX;
    is_small.then(|| std::fs::read_to_string(path).ok())?
}

fn keep(
    parts: Vec<Trtexec>,
    files: &[PathBuf],
    args: &ImportArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let device = args.device.as_deref().map(subject::device).transpose()?;
    let (mut times, mut layers, mut iterations, mut count) =
        (Vec::new(), Vec::new(), Vec::new(), None);
    for one in parts {
        match one {
            Trtexec::Profile { layers, iterations } => {
                times = layers;
                count = iterations;
            }
            Trtexec::Layers(of_engine) => layers = of_engine,
            Trtexec::Times(of_runs) => iterations = of_runs,
        }
    }
    let format = ResultFormat::chosen(args.format, args.json);
    if format == ResultFormat::Agent {
        let why = "results of trtexec have layers and no findings for --format agent";
        return Err(Failure::new(why).hint("--format json has every layer".to_owned()));
    }
    if args.show.view {
        return Err(
            Failure::new("results of trtexec have no timeline for --view")
                .hint("report.html has every layer".to_owned()),
        );
    }
    let dir = match &args.output {
        Some(dir) => dir.clone(),
        None => default_directory(files, None),
    };
    let store = RunDir::create(&dir, clock::now(), crate::VERSION)
        .map_err(|error| Failure::directory(&error, "-o DIR"))?;
    let imported = engine_layers(
        times,
        &layers,
        &iterations,
        count,
        device.as_ref(),
        dir.display().to_string(),
    );
    let written = write(&imported, device.as_ref(), store);
    written?;
    if format == ResultFormat::Json {
        return output.json(&imported);
    }
    output.summary(&summary(&imported))?;
    warn_of(&imported.issues);
    output.line(&format!("report: {}", dir.join("report.html").display()))
}

fn write(
    imported: &EngineLayers,
    device: Option<&Device>,
    mut store: RunDir,
) -> Result<(), Failure> {
    let document = document(imported, device);
    let written = (|| -> Result<(), Failure> {
        store.describe("import", "tensorrt", &[])?;
        for issue in &imported.issues {
            store.add_issue(issue.clone())?;
        }
        let text = serde_json::to_string_pretty(imported)
            .map_err(|error| Failure::new(error.to_string()))?;
        store.write("layers.json", text + "\n")?;
        store.write("layers.csv", csv(imported))?;
        for (name, contents) in outputs::rendered(&document, WantedFiles::ALL) {
            store.write(&name, contents)?;
        }
        Ok(())
    })();
    let status = if written.is_ok() {
        RunStatus::Complete
    } else {
        RunStatus::Failed
    };
    let error = written.as_ref().err().map(ToString::to_string);
    store.finish(status, error, clock::now())?;
    written
}
