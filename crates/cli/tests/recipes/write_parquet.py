"""Writes small tables as datasets are published, in the folders `published` and `brotli`."""

import os

import pyarrow
import pyarrow.parquet

for folder, packings in [("published", ["gzip", "none", "snappy", "zstd"]), ("brotli", ["brotli"])]:
    os.mkdir(folder)
    for packing in packings:
        texts = [f"Ü {packing} {row}" for row in range(3)]
        table = pyarrow.table({"text": texts, "score": [0.5, None, 1.5]})
        pyarrow.parquet.write_table(table, f"{folder}/{packing}.parquet", compression=packing, row_group_size=2)
