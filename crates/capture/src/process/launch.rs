use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use llmprof_record::{
    secrets::{is_credential, remember_variables},
    store::Folder,
};

use super::{
    Child, ProcessError,
    descendants::Descendants,
    orphan::{Guard, end_with_us},
};

/// A command about to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program, by path or by name on the `PATH`.
    pub program: String,
    pub args: Vec<String>,
    /// Variables added to the environment it inherits; `None` removes one.
    pub env: BTreeMap<String, Option<String>>,
    /// Directory it starts in; ours by default.
    pub cwd: Option<PathBuf>,
}

impl Launch {
    /// A command with no arguments, in our directory and environment.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        }
    }

    /// The same command with one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// The same command with more arguments.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The same command with a variable set.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// The same command in another directory.
    #[must_use]
    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The same command without inherited variables that look like credentials, for tools that keep the environment in their
    /// reports. What the command itself sets stays.
    #[must_use]
    pub fn without_credentials(
        mut self,
        inherited: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        for (name, value) in inherited {
            if is_credential(&name, &value) {
                self.env.entry(name).or_insert(None);
            }
        }
        self
    }

    /// Starts it as the leader of its own process group, with stdin closed and its output in
    /// `logs/<name>.stdout.log` and `logs/<name>.stderr.log`. The thread that calls this must wait for it: it is killed
    /// when that thread ends.
    pub fn spawn(&self, logs: &Path, name: &str) -> Result<Child, ProcessError> {
        let (process, logs) = self.start_process(logs, name, end_with_us)?;
        let guard = Guard::for_group(process.id());
        Ok(Child::new(process, logs, guard, None))
    }

    /// As [`spawn`](Self::spawn), for a program that starts others which leave its group, as daemons do: all below it end
    /// with it and with us. Their orphans become its children (`PR_SET_CHILD_SUBREAPER`), then ours. We must start nothing
    /// meanwhile that is to outlive it.
    pub fn spawn_with_descendants(&self, logs: &Path, name: &str) -> Result<Child, ProcessError> {
        let mut bound = None;
        let (process, logs) = self.start_process(logs, name, |command| {
            bound = Some(Descendants::bind_command(command));
        })?;
        let (guard, left) = bound.map_or((None, None), |bound| (bound.guard, Some(bound.left)));
        Ok(Child::new(process, logs, guard, left))
    }

    /// The process, and where its output goes.
    fn start_process(
        &self,
        logs: &Path,
        name: &str,
        bind: impl FnOnce(&mut Command),
    ) -> Result<(std::process::Child, [PathBuf; 2]), ProcessError> {
        let log = |stream: &str| {
            let file = format!("{name}.{stream}.log");
            let path = logs.join(&file);
            log_file(logs, &file)
                .map(|file| (path.clone(), file))
                .map_err(|source| ProcessError::Log { path, source })
        };
        let (stdout_path, stdout) = log("stdout")?;
        let (stderr_path, stderr) = log("stderr")?;
        let given = self.env.iter();
        remember_variables(
            given.filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?))),
        );
        let mut command = self.command();
        bind(&mut command);
        let process = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()
            .map_err(|source| self.not_started(source))?;
        Ok((process, [stdout_path, stderr_path]))
    }

    /// Runs it to its end and collects what it prints; for short questions to a tool.
    pub fn output(&self) -> io::Result<std::process::Output> {
        self.command().stdin(Stdio::null()).output()
    }

    /// As the standard library starts it, with our own input and output.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }

    /// Why it did not start.
    pub(crate) fn not_started(&self, source: io::Error) -> ProcessError {
        let program = self.program.clone();
        // A name without a slash is looked for on the `PATH`. The system says "permission denied" of a directory, and "not
        // found" of a script whose interpreter is not there.
        if program.contains('/') {
            let path = self.cwd.as_deref().map_or_else(
                || PathBuf::from(&program),
                |directory| directory.join(&program),
            );
            let what = if path.is_dir() {
                Some("it is a directory")
            } else if source.kind() == io::ErrorKind::NotFound && path.is_file() {
                Some("it is there, but the interpreter or loader that it names is not")
            } else {
                None
            };
            if let Some(what) = what {
                let source = io::Error::new(source.kind(), what);
                return ProcessError::Spawn { program, source };
            }
        }
        // A missing working directory is reported as "not found" too: only blame the program when the directory exists.
        let cwd_exists = self.cwd.as_ref().is_none_or(|cwd| cwd.is_dir());
        if source.kind() == io::ErrorKind::NotFound && cwd_exists {
            ProcessError::NotFound { program }
        } else {
            ProcessError::Spawn { program, source }
        }
    }
}

/// Our own variables, as far as they are text.
pub fn environment_variables() -> impl Iterator<Item = (String, String)> {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// A new log in a folder of a run, which is created where it is absent and must not be a link.
fn log_file(logs: &Path, name: &str) -> io::Result<File> {
    let above = logs.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(above)?;
    let above = Folder::open(above)?;
    let folder = above.create_folder(logs.file_name().unwrap_or_default())?;
    folder.create_file(name)
}

impl fmt::Display for Launch {
    /// As it would be typed into a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            if let Some(value) = value {
                write!(f, "{name}={} ", shell_quoted(value))?;
            }
        }
        f.write_str(&shell_quoted(&self.program))?;
        for arg in &self.args {
            write!(f, " {}", shell_quoted(arg))?;
        }
        Ok(())
    }
}

/// A word as a POSIX shell reads it back.
fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=./,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_prints_as_a_shell_command() {
        let launch = Launch::new("python3")
            .args(["-c", "print('a b')", "", "x=1"])
            .env("CUDA_INJECTION64_PATH", "/opt/my lib.so");
        let printed = launch.to_string();
        assert_eq!(
            printed,
            r"CUDA_INJECTION64_PATH='/opt/my lib.so' python3 -c 'print('\''a b'\'')' '' x=1"
        );
        // The shell itself agrees.
        let echoed = Command::new("sh")
            .args(["-c", &printed.replace("python3 -c", "printf '%s|'")])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(echoed.stdout).unwrap(),
            "print('a b')||x=1|"
        );
    }

    #[test]
    fn tools_that_keep_the_environment_get_no_credentials() {
        let inherited = [
            ("HOME", "/home/someone"),
            ("HF_TOKEN", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz12345678"),
            ("PROXY", "http://me:s3cretpass@proxy:3128"),
            ("OPENAI_API_KEY", "abcdefgh1"),
            ("GIVEN_API_KEY", "abcdefgh2"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let launch = Launch::new("nsys").env("GIVEN_API_KEY", "abcdefgh3");
        let launch = launch.without_credentials(inherited);
        let removed: Vec<&str> = launch
            .env
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(removed, ["HF_TOKEN", "OPENAI_API_KEY", "PROXY"]);
        assert_eq!(launch.env["GIVEN_API_KEY"].as_deref(), Some("abcdefgh3"));
    }

    #[test]
    fn a_missing_program_and_a_missing_directory_differ() {
        let logs = tempfile::tempdir().unwrap();
        let missing = Launch::new("no-such-program-anywhere");
        assert!(matches!(
            missing.spawn(logs.path(), "a"),
            Err(ProcessError::NotFound { .. })
        ));
        let nowhere = Launch::new("true").in_directory(logs.path().join("absent"));
        assert!(matches!(
            nowhere.spawn(logs.path(), "b"),
            Err(ProcessError::Spawn { .. })
        ));
    }

    #[test]
    fn what_is_no_program_is_reported_for_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let said = |program: &str| {
            let launch = Launch::new(program).in_directory(folder.path());
            let error = launch.spawn(&folder.path().join("logs"), "a").unwrap_err();
            error.to_string()
        };
        std::fs::create_dir(folder.path().join("place")).unwrap();
        assert_eq!(said("./place"), "cannot start `./place`: it is a directory");
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, runs).unwrap();
        let words = said("./script");
        assert!(
            words.contains("it is there, but the interpreter"),
            "{words}"
        );
        assert!(said("./neither").contains("no such program"));
        // A name is looked for elsewhere, whatever lies here.
        assert!(said("place").contains("no such program"));
    }
}
