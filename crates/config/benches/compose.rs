//! Composition by this crate and by the real Hydra in one run, with the ratio.
//!
//!     cargo bench -p llmprof-config -- [--dir CONFIG_DIR] [--name CONFIG] [--llmprof BINARY]
//!
//! Per call, both sides read the directory, compose and print the config as `--cfg job` does. With `--llmprof` whole
//! processes are compared too: `BINARY config -cp DIR -cn NAME --cfg job` and a `@hydra.main` application. The Python is
//! `LLMPROF_PYTHON` or the repository's `.venv`.

#![expect(clippy::print_stdout, reason = "figures are the purpose")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use llmprof_config::hydra::{App, CfgKind, Host, RunMode};
use llmprof_units::stats::median;

type Outcome<T> = Result<T, Box<dyn Error>>;

const OUR_CALLS: usize = 300;
const HYDRA_CALLS: usize = 30;
const OUR_PROCESSES: u32 = 200;
const HYDRA_PROCESSES: u32 = 5;

const APPLICATION: &str = r#"import hydra

@hydra.main(version_base="1.3", config_path=None, config_name=None)
def main(config):
    pass

main()
"#;

struct Options {
    dir: PathBuf,
    name: String,
    llmprof: Option<PathBuf>,
}

fn options() -> Outcome<Options> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = manifest.join("../../conf");
    let mut options = Options {
        dir: if shipped.join("config.yaml").exists() {
            shipped
        } else {
            manifest.join("tests/corpus/deep_package_tree/as_is/conf")
        },
        name: "config".to_owned(),
        llmprof: None,
    };
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--dir" => options.dir = value()?.into(),
            "--name" => options.name = value()?,
            "--llmprof" => options.llmprof = Some(value()?.into()),
            // Cargo says this to every benchmark.
            "--bench" => {}
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    options.dir = options.dir.canonicalize()?;
    Ok(options)
}

fn our_calls(options: &Options) -> Outcome<(f64, usize)> {
    let app = App {
        job_name: "app".to_owned(),
        config_dir: Some(options.dir.clone()),
        config_name: Some(options.name.clone()),
        ..App::default()
    };
    let host = Host {
        cwd: env::current_dir()?,
        env: env::vars().collect::<BTreeMap<_, _>>(),
        now: jiff::Zoned::now().datetime(),
        seed: 0,
        warnings: llmprof_config::hydra::Warnings::default(),
    };
    let mut seconds = Vec::new();
    let mut bytes = 0;
    for _ in 0..OUR_CALLS {
        let start = Instant::now();
        let composed = app.compose(&[], RunMode::Run, &host)?;
        bytes = composed.print_cfg(CfgKind::Job, None, false)?.len();
        seconds.push(start.elapsed().as_secs_f64());
    }
    let middle = median(&mut seconds).ok_or("no call was timed")?;
    Ok((middle, bytes))
}

#[derive(serde::Deserialize)]
struct HydraCalls {
    seconds: Vec<f64>,
    bytes: usize,
}

fn hydra_calls(python: &Path, options: &Options) -> Outcome<(f64, usize)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/hydra_compose.py");
    let output = Command::new(python)
        .arg(script)
        .arg(&options.dir)
        .arg(&options.name)
        .arg(HYDRA_CALLS.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    let mut calls: HydraCalls = serde_json::from_slice(&output.stdout)?;
    let middle = median(&mut calls.seconds).ok_or("no call was timed")?;
    Ok((middle, calls.bytes))
}

/// CPU time of all finished children of this process, in the kernel's ticks of 10 ms.
fn children_cpu() -> Outcome<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    // Counting from the field after the name, which is the third: cutime is the 16th and cstime the 17th.
    let ticks = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// CPU and wall seconds of one process, as the mean over `times`.
fn process(mut command: Command, times: u32) -> Outcome<(f64, f64)> {
    command.stdout(Stdio::null());
    let (cpu, wall) = (children_cpu()?, Instant::now());
    for _ in 0..times {
        let status = command.status()?;
        if !status.success() {
            return Err(format!("{command:?}: {status}").into());
        }
    }
    let cpu = children_cpu()?.saturating_sub(cpu).as_secs_f64() / f64::from(times);
    Ok((cpu, wall.elapsed().as_secs_f64() / f64::from(times)))
}

fn line(what: &str, ours: f64, hydra: f64) {
    println!(
        "{what:<24} ours {:>9.3} ms   hydra {:>9.3} ms   ratio {:>7.1}",
        ours * 1e3,
        hydra * 1e3,
        hydra / ours
    );
}

fn main() -> Outcome<()> {
    let options = options()?;
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    let python = env::var_os("LLMPROF_PYTHON").map_or(venv, PathBuf::from);
    let (ours, our_bytes) = our_calls(&options)?;
    let (hydra, hydra_bytes) = hydra_calls(&python, &options)?;
    println!(
        "{}: {our_bytes} bytes composed by us, {hydra_bytes} by Hydra",
        options.dir.display()
    );
    line("one call, wall", ours, hydra);

    if let Some(llmprof) = &options.llmprof {
        let folder = env::temp_dir().join(format!("compose-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("app.py"), APPLICATION)?;
        let with_flags = |mut command: Command| {
            command
                .arg("-cp")
                .arg(&options.dir)
                .args(["-cn", &options.name, "--cfg", "job"]);
            command
        };
        let mut binary = Command::new(llmprof);
        binary.arg("config");
        let (our_cpu, our_wall) = process(with_flags(binary), OUR_PROCESSES)?;
        let mut application = Command::new(&python);
        application.arg(folder.join("app.py"));
        let (hydra_cpu, hydra_wall) = process(with_flags(application), HYDRA_PROCESSES)?;
        line("one process, CPU", our_cpu, hydra_cpu);
        line("one process, wall", our_wall, hydra_wall);
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}
