//! Text of others: escape sequences on a terminal, formulas in tables, HTML in Markdown, secrets in files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::works;

/// Sets the clipboard, clears the screen, turns the direction of text, and is a formula and an image too.
const NAME: &str = "=cmd|'/c calc'!A0 \u{1b}]52;c;b3duZWQ=\u{7}\u{1b}[2J\u{9b}31m\u{202e}<img src=x onerror=alert(1)>";

fn trace(folder: &Path) {
    let name = serde_json::to_string(NAME).unwrap();
    let events = format!(
        r#"{{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": {name}}}], "traceEvents": [
  {{"ph": "X", "cat": "cpu_op", "name": {name}, "pid": 1, "tid": 1, "ts": 10.0, "dur": 9.0, "args": {{}}}},
  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 12.0, "dur": 5.0, "args": {{"correlation": 7}}}},
  {{"ph": "X", "cat": "kernel", "name": {name}, "pid": 0, "tid": 7, "ts": 20.0, "dur": 5.0, "args": {{"correlation": 7, "device": 0, "stream": 7}}}}
]}}"#
    );
    fs::write(folder.join("trace.json"), events).unwrap();
}

/// Runs a command on a terminal; all that it wrote there.
fn on_terminal(folder: &Path, words: &str) -> Vec<u8> {
    let command = format!("{} {words}", env!("CARGO_BIN_EXE_llmprof"));
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("`script` gives a terminal");
    output.stdout
}

#[test]
fn no_escape_of_others_reaches_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path());
    let hostile = folder.path().join("no\u{1b}]52;c;eA==\u{7}file");
    fs::write(&hostile, "not a profile").unwrap();
    counters(folder.path());
    let server = HostileServer::start();
    let commands = [
        "import trace.json -o run".to_owned(),
        "analyze run".to_owned(),
        "analyze run --json".to_owned(),
        "report run".to_owned(),
        "runs show run".to_owned(),
        "runs list --root .".to_owned(),
        "runs show run --json".to_owned(),
        format!("import '{}' -o other", hostile.display()),
        format!("runs show '{}'", hostile.display()),
        "kernels top run".to_owned(),
        "kernels top run -o top.yaml".to_owned(),
        "kernels analyze pages_raw.csv -o kernels".to_owned(),
        "kernels analyze pages_raw.csv --json".to_owned(),
        "compare run run".to_owned(),
        "compare run trace.json --json".to_owned(),
        format!(
            "bench {} --requests 2 --output-tokens 1 -o load",
            server.url
        ),
    ];
    for command in commands {
        let printed = on_terminal(folder.path(), &command);
        let text = String::from_utf8_lossy(&printed);
        assert!(!text.trim().is_empty(), "{command}");
        for order in ["\u{1b}]", "\u{1b}[2J", "\u{9b}", "\u{202e}", "\u{7}"] {
            assert!(
                !text.contains(order),
                "{command} printed {order:?}: {text:?}"
            );
        }
    }
}

#[test]
fn names_forge_no_line_no_formula_and_no_width() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = |name: &str, at: u64| {
        let name = serde_json::to_string(name).unwrap();
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": {name}, "pid": 0, "tid": 7, "ts": {at}, "dur": 5, "args": {{"device": 0, "stream": 7}}}}"#
        )
    };
    // One that begins a line of its own, one that is wider than a format can be, and times that no clock has.
    let kernels = [
        kernel("gemm\n::error::forged", 20),
        kernel(&"wide".repeat(20_000), 40),
        kernel("=1+1", 60),
        kernel("far", 8_000_000_000_000_000),
    ];
    let trace = format!(r#"{{"traceEvents": [{}]}}"#, kernels.join(","));
    fs::write(folder.path().join("trace.json"), trace).unwrap();
    let mut printed = String::new();
    for words in [
        vec!["import", "trace.json", "-o", "run"],
        vec!["kernels", "top", "run"],
        vec!["query", "run", "select name from kernel"],
        vec!["report", "run"],
    ] {
        printed += &works(folder.path(), &words);
    }
    assert!(printed.contains("::error::forged"), "{printed}");
    let mut lines = printed.lines();
    assert!(
        lines.all(|line| !line.starts_with("::error") && line.len() < 50_000),
        "{printed}"
    );
    let query = ["query", "run", "select name from kernel", "--format", "csv"];
    let csv = works(folder.path(), &query);
    assert!(csv.lines().any(|line| line == "'=1+1"), "{csv}");
}

/// A page of Nsight Compute whose kernel has that name.
fn counters(folder: &Path) {
    let name = NAME.replace('"', "\"\"");
    let page = format!(
        "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"gpu__time_duration.sum\"\n\
         \"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"ns\"\n\
         \"0\",\"1\",\"{name}\",\"h\",\"{name}\",\"1\",\"7\",\"(32, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\",\"5000\"\n"
    );
    fs::write(folder.join("pages_raw.csv"), page).unwrap();
}

/// A server whose model has that name, and which answers with it.
struct HostileServer {
    url: String,
}

impl HostileServer {
    fn start() -> Self {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut asked = vec![0; 1 << 16];
                let length = stream.read(&mut asked).unwrap_or(0);
                let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
                let name = serde_json::to_string(NAME).unwrap();
                let (status, body) = if asked.starts_with("GET /v1/models") {
                    ("200 OK", format!(r#"{{"data":[{{"id":{name}}}]}}"#))
                } else if asked.starts_with("GET /health") {
                    ("200 OK", String::new())
                } else {
                    ("500 Broken", format!(r#"{{"error":{{"message":{name}}}}}"#))
                };
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { url }
    }
}

#[test]
fn tables_have_no_formulas_and_markdown_no_html() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path());
    works(folder.path(), &["import", "trace.json", "-o", "run"]);
    let mut tables = 0;
    let mut pages = 0;
    for entry in fs::read_dir(folder.path().join("run")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let extension = path.extension().unwrap_or_default().to_owned();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        if extension == "csv" {
            tables += 1;
            for start in ["\n=", ",=", "\"="] {
                assert!(!text.contains(start), "{}: {text}", path.display());
            }
        } else if extension == "md" {
            pages += 1;
            assert!(!text.contains('\u{1b}'), "{}", path.display());
            for (at, _) in text.match_indices("<img") {
                let before = &text[..at];
                let is_escaped = before.ends_with('\\');
                let line = &before[before.rfind('\n').unwrap_or(0)..];
                let is_code = line.matches('`').count() % 2 == 1;
                assert!(is_escaped || is_code, "{}: {text}", path.display());
            }
        } else if extension == "html" {
            assert!(!text.contains("<img"), "{}", path.display());
            assert!(!text.contains("unsafe-inline"));
        }
    }
    assert!(tables > 0 && pages > 0);
}

const SECRETS: [&str; 8] = [
    "hf_QwErTyUiOpAsDfGhJkLzXcVbNm12345678",
    "sk-live-abcdef0123456789abcdef",
    "argvHunter2Value",
    "envHunter2Value",
    "ourEnvHunter2Value",
    "urlHunter2Value",
    "logHunter2Value",
    "rangeHunter2Value",
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

fn assert_no_secrets(folder: &Path) {
    let files = files(folder);
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        for secret in SECRETS {
            let is_leaked = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!is_leaked, "{secret} is in {}", file.display());
        }
    }
}

#[test]
fn no_secret_is_in_any_file_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let [hf, sk, argv, env, ours, url, log, _] = SECRETS;
    let script = format!(
        "echo password={log}; echo $WORKER_SECRET; echo Authorization: Bearer {sk} >&2; env; exit 3"
    );
    let argv =
        format!("runtime.argv=[sh,-c,'{script}',--api-key,{argv},--url,'https://me:{url}@host/x']");
    let variable = format!("+runtime.env.WORKER_SECRET={env}");
    let token = format!("+runtime.env.ANYTHING={hf}");
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .env("DATABASE_PASSWORD", ours)
        .args(["run", "model=gpt2", "runtime=command", "hydra.run.dir=run"])
        .args([&argv, &variable, &token, "hardware.spec=xeon_8480"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let run = folder.path().join("run");
    let command = fs::read_to_string(run.join("command/cmd.txt")).unwrap();
    assert!(command.contains("(redacted)"), "{command}");
    let logged = fs::read_to_string(run.join("command/command.stdout.log")).unwrap();
    assert!(logged.contains("(redacted)"), "{logged}");
    assert_no_secrets(&run);
}

#[test]
fn no_secret_of_a_trace_is_in_any_file_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let [hf, sk, .., range] = SECRETS;
    let events = format!(
        r#"{{"schemaVersion": 1, "hostname": "{hf}", "argv": "--api-key {sk}", "traceEvents": [
  {{"ph": "X", "cat": "user_annotation", "name": "HF_TOKEN={hf} password={range}", "pid": 1, "tid": 1, "ts": 5.0, "dur": 90.0, "args": {{}}}},
  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 12.0, "dur": 5.0, "args": {{"correlation": 7}}}},
  {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20.0, "dur": 5.0, "args": {{"correlation": 7, "device": 0, "stream": 7}}}}
]}}"#
    );
    fs::write(folder.path().join("trace.json"), events).unwrap();
    works(folder.path(), &["import", "trace.json", "-o", "run"]);
    assert_no_secrets(&folder.path().join("run"));
}

/// `kernels profile` starts a program of the user's under a tool that keeps what it finds in the environment.
#[test]
fn no_secret_is_in_the_files_of_kernels_profile() {
    let folder = tempfile::tempdir().unwrap();
    let [_, sk, argv, env, ours, ..] = SECRETS;
    let report = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/h200/ncu/decode_12.ncu-rep.gz"
    );
    // The environment stands after the report as a record of another kind would: what is read of it stays whole.
    let tool = format!(
        "#!/bin/sh\ncase \"$*\" in\n--version) echo 'Version 2025.3.1.0' ;;\n--list-*) ;;\n*--import*) echo ID ;;\n\
         *) while [ $# -gt 0 ]; do [ \"$1\" = --export ] && out=$2; shift; done\n\
         gzip -dc {report} > \"$out.ncu-rep\"; env > \"$out.env\"; env; echo Authorization: Bearer {sk} >&2 ;;\nesac\n"
    );
    let ncu = folder.path().join("ncu");
    fs::write(&ncu, tool).unwrap();
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&ncu, runs).unwrap();
    fs::write(
        folder.path().join("top.yaml"),
        "kernels:\n- name: gemm\n  time_pct: 100\n",
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .env("DATABASE_PASSWORD", ours)
        .env("WORKER_SECRET", env)
        .args([
            "kernels", "profile", "top.yaml", "--ncu", "./ncu", "-o", "out",
        ])
        .args(["--", "prog", "--api-key", argv])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("12 launches profiled"), "{said}");
    let kept = fs::read_to_string(folder.path().join("out/kernels.env")).unwrap();
    assert!(kept.contains("PATH="), "{kept}");
    assert_no_secrets(&folder.path().join("out"));
}

/// The command of `bench --serve` and what the server prints.
#[test]
fn no_secret_of_a_served_command_is_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let [hf, sk, argv, _, ours, url, log, _] = SECRETS;
    let script = format!(
        "echo password={log}; echo token {hf}; echo Authorization: Bearer {sk} >&2; env; exit 3"
    );
    let serve = format!("sh -c '{script}' --api-key {argv} --url https://me:{url}@host/x");
    let output = Command::new(env!("CARGO_BIN_EXE_llmprof"))
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .env("DATABASE_PASSWORD", ours)
        .args(["bench", "--serve", &serve, "--requests", "2", "--no-record"])
        .args(["-o", "run"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_no_secrets(&folder.path().join("run"));
}

/// Settings of a repository from somebody else start programs when git is asked about its state.
#[test]
fn a_hostile_repository_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let script = format!(
        "set -e; git init -q -b main project; cd project; echo a > file; git add file;
         git -c user.name=a -c user.email=a@b commit -q -m a; echo b > file;
         printf '#!/bin/sh\\ntouch {0}\\ncat\\n' > evil; chmod +x evil; echo '* filter=x' > .gitattributes;
         git config core.fsmonitor \"$PWD/evil\"; git config filter.x.clean \"$PWD/evil\"; git config core.hooksPath \"$PWD\"",
        ran.display()
    );
    let made = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let _ = fs::remove_file(&ran);
    let project = folder.path().join("project");
    let words = "run model=gpt2 runtime=none hydra.run.dir=run hardware.spec=xeon_8480";
    works(&project, &words.split(' ').collect::<Vec<_>>());
    assert!(!ran.exists());
    let facts = common::json(&project.join("run/env.json"));
    assert_eq!(facts["git_revision"].as_str().unwrap().len(), 40, "{facts}");
}
