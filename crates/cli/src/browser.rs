//! Pages opened with what the user reads pages with.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::failure::Failure;

/// Programs that open a file with what the user reads such files with, the first that exists.
const OPENERS: [&str; 4] = ["xdg-open", "open", "wslview", "x-www-browser"];

/// Opens a page, or says that nothing here can.
pub(crate) fn open(page: &Path) -> Result<(), Failure> {
    for opener in OPENERS {
        let started = Command::new(opener)
            .arg(page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::new(format!("cannot start {opener}: {error}")));
            }
        }
    }
    Failure::new(format!(
        "nothing here opens pages ({}): open {} yourself",
        OPENERS.join(", "),
        page.display()
    ))
    .warn();
    Ok(())
}
