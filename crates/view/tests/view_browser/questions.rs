//! SQL over the sample.

use std::sync::Arc;
use std::time::Duration;

use llmprof_record::run::RunRecord;
use llmprof_view::OpenedRun;
use llmprof_view::query::{QueryError, QueryLimits, QueryTable, query};
use serde_json::json;

use crate::{sample, site};

#[test]
fn sums_are_those_of_the_program() {
    let run = Arc::clone(&site().runs[0]);
    let ask = |sql: &str| query(&run, sql, QueryLimits::default()).unwrap();
    let kernels = ask("SELECT count(*), sum(duration_ns), max(start_ns), min(stream) FROM kernel");
    let last = (sample::STEPS - 1) * sample::STEP_NS + 410_000;
    let total = sample::STEPS * (sample::GEMM_NS + sample::ELEMENTWISE_NS);
    assert_eq!(
        kernels.rows,
        [vec![json!(400), json!(total), json!(last), json!(7)]]
    );
    let gemms =
        ask("SELECT category, operator, count(*) FROM kernel GROUP BY 1, 2 ORDER BY 3 DESC");
    assert_eq!(gemms.rows[0][1..], [json!("aten::mm"), json!(200)]);
    // A launch and its kernel by the id of the call.
    let joined = ask(
        "SELECT count(*), min(kernel.start_ns - launch.start_ns) FROM kernel JOIN launch ON launch.id = kernel.launch_id WHERE launch.device_events = 1",
    );
    assert_eq!(joined.rows, [vec![json!(400), json!(6_000)]]);
    let gaps = ask("SELECT count(*), sum(duration_ns) FROM idle_gap");
    assert_eq!(
        gaps.rows,
        [vec![json!(399), json!(200 * 100_000 + 199 * 400_000)]]
    );
    let causes = ask(
        "SELECT sum(host_busy_ns + host_sync_ns + launch_latency_ns + launch_call_ns + queued_gap_ns + not_started_ns + data_loading_ns + unknown_ns) - sum(duration_ns) FROM idle_gap",
    );
    assert_eq!(causes.rows, [vec![json!(0)]]);
    for table in QueryTable::ALL {
        let all = ask(&format!("SELECT * FROM {} LIMIT 1", table.name()));
        assert_eq!(all.columns, table.columns());
    }
}

#[test]
fn every_column_is_documented() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/view.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for table in QueryTable::ALL {
        let head = format!("| `{}` |", table.name());
        let line = docs.lines().find(|line| line.starts_with(&head));
        let line = line.unwrap_or_else(|| panic!("{head} is in no line of docs/view.md"));
        for column in table.columns() {
            assert!(line.contains(&format!("`{column}`")), "{column} of {head}");
        }
    }
}

#[test]
fn nothing_but_reading_is_allowed() {
    let run = Arc::clone(&site().runs[0]);
    for sql in [
        "PRAGMA temp_store",
        "ATTACH '/tmp/x.db' AS x",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t (a)",
        "INSERT INTO kernel (name) VALUES ('x')",
        "DELETE FROM kernel",
        "VACUUM INTO '/tmp/x.db'",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT * FROM nothing",
        "SELECT * FROM pragma_database_list",
        "not sql",
        "",
    ] {
        let answer = query(&run, sql, QueryLimits::default());
        assert!(answer.is_err(), "{sql}: {answer:?}");
    }
}

#[test]
fn a_query_ends_at_its_limits() {
    let run = Arc::clone(&site().runs[0]);
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n";
    let limits = QueryLimits {
        time: Duration::from_millis(50),
        rows: 3,
    };
    assert!(matches!(
        query(&run, endless, limits),
        Err(QueryError::Time(_))
    ));
    let generous = QueryLimits {
        rows: 3,
        ..QueryLimits::default()
    };
    let cut = query(&run, "SELECT id FROM kernel", generous).unwrap();
    assert!(cut.is_cut && cut.rows.len() == 3);
    let empty = OpenedRun::new(String::new(), RunRecord::default(), None, None).unwrap();
    let none = query(
        &Arc::new(empty),
        "SELECT * FROM finding",
        QueryLimits::default(),
    );
    assert!(matches!(none, Err(QueryError::NoTimeline)));
    let huge = query(
        &run,
        "SELECT length(zeroblob(1000000000))",
        QueryLimits::default(),
    );
    assert!(huge.is_err(), "{huge:?}");
}
