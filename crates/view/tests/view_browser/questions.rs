//! SQL over the sample.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use llmprof_record::run::{RecordedTrace, RunRecord};
use llmprof_record::trace::{CpuState, FrameId, HostSample, StackFrame};
use llmprof_units::Nanos;
use llmprof_view::OpenedRun;
use llmprof_view::query::{QueryError, QueryLimits, QueryTable, query};
use serde_json::{Value, json};

use crate::{sample, site};

fn answer(run: &Arc<OpenedRun>, sql: &str) -> Vec<Vec<Value>> {
    let limits = QueryLimits {
        rows: 1_000_000,
        ..QueryLimits::default()
    };
    query(run, sql, limits).unwrap().rows
}

/// What SQLite says of a file of `write_sqlite`.
fn answer_of_file(file: &Path, sql: &str) -> Vec<Vec<Value>> {
    let database = rusqlite::Connection::open(file).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let cells = (0..columns).map(|column| {
            Ok(match row.get(column)? {
                rusqlite::types::Value::Null => Value::Null,
                rusqlite::types::Value::Integer(value) => json!(value),
                rusqlite::types::Value::Real(value) => json!(value),
                rusqlite::types::Value::Text(text) => json!(text),
                rusqlite::types::Value::Blob(_) => unreachable!("no table has blobs"),
            })
        });
        cells.collect()
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// The sample as one of two ranks, with samples of its host thread; the other rank has its clock 5 ms later.
fn two_ranks() -> Arc<OpenedRun> {
    let trace = |rank: &str, origin: i64| {
        let mut builder = sample::events();
        let thread = builder.thread(7, 9);
        let [main, file] = ["main", "/srv/serve.py"].map(|text| builder.intern(text));
        let stack = builder.frame(StackFrame {
            parent: FrameId::NONE,
            function: main,
            file,
            line: 20,
        });
        builder.host_samples.push(HostSample {
            time: 1_000_000,
            period: 1_000_000,
            thread,
            cpu: CpuState::ON,
            stack,
            ..HostSample::default()
        });
        builder
            .metadata
            .insert("distributed_rank".to_owned(), rank.to_owned());
        builder.clock_origin_ns = Some(Nanos(origin));
        RecordedTrace {
            pass: None,
            trace: builder.finish(),
        }
    };
    let record = RunRecord {
        name: "ranks".to_owned(),
        traces: vec![trace("0", 0), trace("1", 5_000_000)],
        ..RunRecord::default()
    };
    let analysis = llmprof_analysis::analyze(&record, None).unwrap();
    Arc::new(OpenedRun::new("run".to_owned(), record, Some(analysis), None).unwrap())
}

/// The statements of a page and of scripts work on the file as well.
#[test]
fn a_statement_has_the_same_answer_in_the_sqlite_export() {
    let folder = tempfile::tempdir().unwrap();
    let one = Arc::clone(&site().runs[0]);
    let ranks = two_ranks();
    for (name, run, rank) in [
        ("one", &one, None),
        ("rank0", &ranks, Some(0)),
        ("rank1", &ranks, Some(1)),
    ] {
        let file = folder.path().join(name);
        run.write_sqlite(run, rank, &file).unwrap();
        let mut filled = Vec::new();
        for table in QueryTable::ALL {
            let of_rank = match rank {
                Some(rank) if table.columns().contains(&"trace") => {
                    format!(" WHERE trace = {rank}")
                }
                _ => String::new(),
            };
            let sql = format!("SELECT * FROM {}{of_rank}", table.name());
            let expected = answer(run, &sql);
            assert_eq!(answer_of_file(&file, &sql), expected, "{name}: {sql}");
            if !expected.is_empty() {
                filled.push(table.name());
            }
        }
        for table in [
            "kernel", "launch", "host_op", "step", "idle_gap", "copy", "memory",
        ] {
            assert!(filled.contains(&table), "{name} has no {table}");
        }
        assert_eq!(filled.contains(&"sample"), rank.is_some());
    }
    let joined = "SELECT k.category, k.operator, count(*), sum(k.start_ns - l.start_ns) FROM kernel k JOIN launch l ON l.id = k.launch_id \
                  WHERE k.name LIKE '%gemm%' GROUP BY 1, 2";
    let expected = [vec![
        json!("gemm"),
        json!("aten::mm"),
        json!(199),
        json!(199 * 6_000),
    ]];
    assert_eq!(answer(&one, joined), expected);
    assert_eq!(answer_of_file(&folder.path().join("one"), joined), expected);
    assert!(
        one.write_sqlite(&one, None, &folder.path().join("one"))
            .is_err(),
        "an export does not overwrite"
    );
}

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
