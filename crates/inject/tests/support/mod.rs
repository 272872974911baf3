//! Building the stand-ins, running a program with the library in it, reading what it wrote.

mod build;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use llmprof_wire::{EXTENSION, End, Header, Reader, Record};
use tempfile::TempDir;

use self::build::SHARED;
pub(crate) use self::build::library;

struct Built {
    _folder: TempDir,
    host: PathBuf,
    cupti: PathBuf,
    old_cupti: PathBuf,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in");
        let compile = |name: &str, source: &str, flags: &[&str]| {
            build::compile(&sources.join(source), folder.path().join(name), flags)
        };
        let (host, cupti, old_cupti) = (
            compile("host", "host.c", &[]),
            compile("cupti.so", "cupti.c", SHARED),
            compile("old_cupti.so", "cupti.c", &[SHARED, &["-DOLD"]].concat()),
        );
        Built {
            _folder: folder,
            host,
            cupti,
            old_cupti,
        }
    })
}

/// A program to be run with the library.
pub(crate) struct Scene {
    folder: TempDir,
    environment: BTreeMap<String, String>,
    hangs_up: bool,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let library = library().display().to_string();
        let environment = BTreeMap::from([
            ("CUDA_INJECTION64_PATH".to_owned(), library.clone()),
            ("NVTX_INJECTION64_PATH".to_owned(), library),
            (
                "LLMPROF_CUPTI".to_owned(),
                built().cupti.display().to_string(),
            ),
            (
                "LLMPROF_WIRE_DIR".to_owned(),
                folder.path().display().to_string(),
            ),
            (
                "LLMPROF_CONTROL".to_owned(),
                folder.path().join("control").display().to_string(),
            ),
        ]);
        Self {
            folder,
            environment,
            hangs_up: false,
        }
    }

    /// Closes the control channel soon after the program has opened it.
    pub(crate) fn hanging_up(mut self) -> Self {
        self.hangs_up = true;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn capture(self, options: &str) -> Self {
        self.env("LLMPROF_CAPTURE", options)
    }

    pub(crate) fn with_old_cupti(self) -> Self {
        let path = built().old_cupti.display().to_string();
        self.env("LLMPROF_CUPTI", &path)
    }

    pub(crate) fn without_directory(mut self) -> Self {
        self.environment.remove("LLMPROF_WIRE_DIR");
        self
    }

    /// Runs the stand-in program with these words.
    pub(crate) fn run(self, words: &str) -> Run {
        let listener = UnixListener::bind(self.folder.path().join("control")).expect("a socket");
        let hung_up = self.hangs_up.then(|| {
            let listener = listener.try_clone().expect("a socket");
            std::thread::spawn(move || {
                let (stream, _) = listener.accept().expect("the program connects");
                std::thread::sleep(std::time::Duration::from_millis(200));
                drop(stream);
            })
        });
        if hung_up.is_none() {
            listener.set_nonblocking(true).expect("a socket");
        }
        let output = Command::new(&built().host)
            .args(words.split(' '))
            .envs(&self.environment)
            .stderr(Stdio::inherit())
            .output()
            .expect("the program starts");
        if let Some(thread) = hung_up {
            thread.join().expect("it ends");
            listener.set_nonblocking(true).expect("a socket");
        }
        let mut reports = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut text = String::new();
            stream.set_nonblocking(true).expect("a socket");
            // The other side may have ended without closing in order.
            let _ = stream.read_to_string(&mut text);
            reports.extend(text.lines().map(str::to_owned));
        }
        Run {
            folder: self.folder,
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            reports,
        }
    }
}

/// What came of a run.
pub(crate) struct Run {
    folder: TempDir,
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    reports: Vec<String>,
}

impl Run {
    /// The lines of the control channel.
    pub(crate) fn reports(&self) -> &[String] {
        &self.reports
    }

    /// All files, in the order of their names.
    pub(crate) fn files(&self) -> Vec<Recorded> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(self.folder.path())
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == EXTENSION)
            })
            .collect();
        paths.sort();
        paths.iter().map(|path| Recorded::read(path)).collect()
    }

    /// The one file that there is.
    pub(crate) fn one(&self) -> Recorded {
        let mut files = self.files();
        assert_eq!(files.len(), 1);
        files.remove(0)
    }
}

pub(crate) struct Recorded {
    bytes: Vec<u8>,
    pub(crate) header: Header,
    pub(crate) end: End,
}

impl Recorded {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("the file is there");
        let (header, mut records) = Reader::new(&bytes).expect("a header");
        records.by_ref().for_each(drop);
        let end = records.end();
        Self { bytes, header, end }
    }

    pub(crate) fn each(&self, each: impl FnMut(Record<'_>)) {
        let (_, records) = Reader::new(&self.bytes).expect("it was read before");
        records.for_each(each);
    }

    pub(crate) fn count(&self, is_one: impl Fn(&Record<'_>) -> bool) -> usize {
        let mut count = 0;
        self.each(|record| count += usize::from(is_one(&record)));
        count
    }

    pub(crate) fn texts(&self) -> HashMap<u32, String> {
        let mut texts = HashMap::new();
        self.each(|record| {
            if let Record::Text(text) = record {
                texts.insert(text.id, String::from_utf8_lossy(text.text).into_owned());
            }
        });
        texts
    }

    /// How many records there are of each kind.
    pub(crate) fn kinds(&self) -> HashMap<String, usize> {
        let mut kinds = HashMap::new();
        self.each(|record| {
            let name = format!("{record:?}");
            let name = name.split('(').next().unwrap_or_default().to_lowercase();
            *kinds.entry(name).or_default() += 1;
        });
        kinds
    }
}
