//! A worker of the user's own: the example of docs/worker-protocol.md, run as a user would.

use std::{fs, path::Path};

use crate::common::{refused, works};

#[test]
fn the_documented_worker_runs_a_job() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/worker-protocol.md");
    let text = fs::read_to_string(document).unwrap();
    let program = text
        .split("```python\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::write(root.join("worker.py"), program).unwrap();
    let words = |worker: &'static str| {
        [
            "run",
            "runtime=worker",
            worker,
            "model=qwen2_5_0_5b",
            "workload.prompt_tokens=8",
            "infer.max_new_tokens=4",
            "runtime.repeats=2",
            "hardware.spec=xeon_8480",
        ]
    };
    let said = works(root, &words("runtime.worker=[python3,worker.py]"));
    assert!(said.contains("report:"), "{said}");
    let run = works(root, &["runs", "path"]);
    let run = root.join(run.trim());
    let times = fs::read_to_string(run.join("token_times.csv")).unwrap();
    // One warm-up and two plain passes of four tokens.
    assert_eq!(times.lines().count(), 1 + 3 * 4, "{times}");
    assert!(run.join("worker").is_dir(), "its logs");

    let error = refused(root, &words("runtime.worker=[]"));
    assert!(error.contains("there is no worker to start"), "{error}");
    let error = refused(root, &words("runtime.worker=[python3,absent.py]"));
    assert!(error.contains("absent.py"), "{error}");
}
