//! Links from a page to files beside it.

use std::path::Path;

/// A file as a page in `dir` links to it: the relative path as a URL. `None` where one of both does not exist.
pub(crate) fn page_link(dir: &Path, file: &Path) -> Option<String> {
    let (dir, file) = (dir.canonicalize().ok()?, file.canonicalize().ok()?);
    let pairs = dir.components().zip(file.components());
    let shared = pairs.take_while(|(a, b)| a == b).count();
    let up = dir.components().skip(shared).map(|_| "..".to_owned());
    let parts = file.components().skip(shared);
    let down = parts.map(|part| percent_encoded(part.as_os_str().as_encoded_bytes()));
    let parts: Vec<String> = up.chain(down).collect();
    Some(parts.join("/"))
}

/// All but the characters that RFC 3986 calls unreserved as `%20`.
fn percent_encoded(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text += &format!("%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_are_relative_and_encoded() {
        let folder = tempfile::tempdir().unwrap();
        let (pages, run) = (folder.path().join("out/a"), folder.path().join("r:1 \"#\n"));
        fs::create_dir_all(&pages).unwrap();
        fs::create_dir_all(&run).unwrap();
        let file = run.join("report.html");
        assert_eq!(page_link(&pages, &file), None, "it does not exist");
        fs::write(&file, "").unwrap();
        let link = page_link(&pages, &file);
        let expected = "../../r%3A1%20%22%23%0A/report.html";
        assert_eq!(link.as_deref(), Some(expected));
        let below = page_link(folder.path(), &file);
        assert_eq!(below.as_deref(), expected.strip_prefix("../../"));
    }
}
