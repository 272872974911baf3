"""Reads `tables/` with DuckDB and pandas, and compares with `RUN/trace*.sqlite` and `RUN/idle.csv` of the runs in this folder."""

import glob
import sqlite3

import duckdb
import pandas

# Tables with the SQLite views that have the same rows, and a column of numbers under both names.
SAME = [
    ("kernel", "kernels_view", "duration_ns", "duration"),
    ("copy", "copies_view", "bytes", "bytes"),
    ("memset", "memsets_view", "duration_ns", "duration"),
    ("range", "ranges_view", "duration_ns", "duration"),
    ("memory", "memory_events_view", "bytes", "bytes"),
    ("launch", "hosts_view WHERE kind IN ('cuda_runtime', 'cuda_driver')", "duration_ns", "duration"),
    ("host_op", "hosts_view WHERE kind NOT IN ('cuda_runtime', 'cuda_driver')", "duration_ns", "duration"),
]


def sqlite_rows(run: str, query: str) -> list[tuple]:
    """One row of the SQLite file of each rank."""
    rows = []
    for path in sorted(glob.glob(f"{glob.escape(run)}/trace*.sqlite")):
        rows.append(sqlite3.connect(path).execute(query).fetchone())
    return rows


for folder, run in [("eight ranks=8", "eight ranks=8"), ("7", None)]:
    # A run whose directory is a number has the folder above in its name.
    values = duckdb.sql("SELECT DISTINCT run FROM 'tables/*/*/kernel.parquet'").fetchall()
    names = [str(value) for (value,) in values]
    name = run or next(name for name in names if name.endswith("/7"))
    assert len(names) == 2 and name in names, names
    for table, view, column, in_sqlite in SAME:
        expected = sqlite_rows(folder, f"SELECT count(*), total({in_sqlite}) FROM {view}")
        count, total, ranks = duckdb.execute(
            f"SELECT count(*), coalesce(sum({column}), 0), count(DISTINCT rank) "
            f"FROM read_parquet('tables/*/*/{table}.parquet', hive_partitioning = true) WHERE run = $1",
            [name],
        ).fetchall()[0]
        assert count == sum(row[0] for row in expected), (folder, table, count, expected)
        assert total == sum(row[1] for row in expected), (folder, table, total, expected)
        frame = pandas.read_parquet(glob.glob(f"tables/*/*/{table}.parquet"))
        of_run = frame[frame["run"] == name]
        assert len(of_run) == count and of_run[column].sum() == total, (folder, table, len(of_run), count)
        if table == "kernel":
            print(f"{folder}: {count} kernels of {ranks} ranks")
            texts = sqlite_rows(folder, "SELECT sum(length(name)) FROM kernels_view")
            assert of_run["name"].str.len().sum() == sum(row[0] for row in texts), folder
    idle = open(f"{folder}/idle.csv").read().splitlines()[1]
    gaps = duckdb.execute(
        "SELECT count(*) || ',' || sum(duration_ns) FROM 'tables/*/*/idle_gap.parquet' WHERE run = $1", [name]
    ).fetchall()[0]
    assert gaps[0] == idle, (gaps, idle)
    # Times are on the clock of the run: a kernel never starts before the call that launched it.
    early, joined = duckdb.execute(
        "SELECT count(*) FILTER (k.start_ns < l.start_ns), count(*) "
        "FROM 'tables/*/*/kernel.parquet' k JOIN 'tables/*/*/launch.parquet' l "
        "ON k.run = l.run AND k.rank = l.rank AND k.trace = l.trace AND k.launch_id = l.id WHERE k.run = $1",
        [name],
    ).fetchall()[0]
    assert joined > 0 and early == 0, (folder, early, joined)
steps = duckdb.sql("SELECT count(*) FROM 'tables/*/step.parquet'").fetchall()[0][0]
assert steps > 0, steps
