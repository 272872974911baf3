"""Compares the kernels of the runs `joined` and `whole` in `tables/`: the same on the same clock, but for where it begins."""

import duckdb

ranks = duckdb.sql(
    """
    WITH kernels AS (
        SELECT run, rank, id, start_ns - min(start_ns) OVER (PARTITION BY run) AS since, duration_ns, name
        FROM 'tables/*/*/kernel.parquet'
    )
    SELECT rank, count(*), count(b.id), max(abs(a.since - b.since)), bool_and(a.name = b.name AND a.duration_ns = b.duration_ns)
    FROM (FROM kernels WHERE run = 'whole') a FULL JOIN (FROM kernels WHERE run = 'joined') b USING (rank, id)
    GROUP BY rank ORDER BY rank
    """
).fetchall()
for rank, whole, joined, apart, is_same in ranks:
    assert whole == joined and is_same, (rank, whole, joined, is_same)
    assert apart < 1000, f"rank {rank} is {apart} ns apart"
print(len(ranks), "ranks")
