//! What came of a tool that ended: its report, or its own words and what they mean.

use std::path::Path;

/// Why there is no report to use, with what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the tool said, or what is missing.
    pub what: String,
    pub hint: Option<&'static str>,
}

/// Messages of the tools and what they mean.
const MEANINGS: [(&str, &str); 8] = [
    (
        "ERR_NVGPUCTRPERM",
        "counters need permission: run as root, or set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module (https://developer.nvidia.com/ERR_NVGPUCTRPERM)",
    ),
    (
        "No kernels were profiled",
        "no launch matched: the range or the kernels of the timeline did not come again; see ncu/cmd.txt",
    ),
    (
        "MULTIPLE_SUBSCRIBERS",
        "another profiler is attached: CUPTI has one subscriber; turn torch's profiler and llmprof's own library off",
    ),
    (
        "profiler is already",
        "another profiler is attached to the process",
    ),
    (
        "Failed to initialize the profiler",
        "the driver does not let ncu in: check permissions, MPS, and virtualization",
    ),
    (
        "libdw",
        "the importer of nsys needs libdw and libelf: install the packages libdw1 and libelf1",
    ),
    (
        "QdstrmImporter",
        "the importer of nsys is missing or does not start: sudo apt-get install nsight-systems (Debian 13; docs/install.md has others)",
    ),
    (
        "No reports were generated",
        "nothing was inside the range: the range did not come, or had another name",
    ),
];

/// Judges a tool by its exit code, what it wrote, and its report.
pub fn judge_tool(exit_code: Option<i32>, said: &str, report: &Path) -> Result<(), Verdict> {
    let meaning = MEANINGS.iter().find(|(words, _)| said.contains(words));
    let length = std::fs::metadata(report).map_or(0, |metadata| metadata.len());
    if exit_code == Some(0) && length > 0 {
        return Ok(());
    }
    let own = said
        .lines()
        .map(str::trim)
        .rfind(|line| meaning.is_some_and(|(words, _)| line.contains(words)))
        .or_else(|| {
            let tells = |line: &&str| {
                let line = line.to_ascii_lowercase();
                line.contains("error") || line.contains("fail") || line.contains("no such")
            };
            said.lines().map(str::trim).rfind(tells)
        });
    let what = match (own, exit_code) {
        (Some(own), _) => own.to_owned(),
        (None, Some(0)) => format!("it wrote no report to {}", report.display()),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "it was killed".to_owned(),
    };
    Err(Verdict {
        what,
        hint: meaning.map(|(_, hint)| *hint),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tool_is_quoted_with_what_its_words_mean() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("decode.ncu-rep");
        let said = "==PROF== Connected\n==WARNING== No kernels were profiled.\n==WARNING== Note\n";
        let verdict = |code, said: &str| super::judge_tool(code, said, &report);
        let refusal = verdict(Some(0), said).unwrap_err();
        assert_eq!(refusal.what, "==WARNING== No kernels were profiled.");
        assert!(refusal.hint.unwrap().contains("no launch matched"));
        let denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission";
        assert!(
            verdict(Some(1), denied)
                .unwrap_err()
                .hint
                .unwrap()
                .contains("permission")
        );
        assert!(
            verdict(Some(0), "")
                .unwrap_err()
                .what
                .contains("wrote no report")
        );
        assert_eq!(verdict(None, "").unwrap_err().what, "it was killed");
        std::fs::write(&report, b"").unwrap();
        assert!(verdict(Some(0), "").is_err(), "an empty report is none");
        std::fs::write(&report, b"NVR").unwrap();
        assert_eq!(verdict(Some(0), said), Ok(()));
        assert!(verdict(Some(1), "").is_err());
    }
}
