"""Runs the Spark job on exports and holds what it says against DuckDB.

Usage: spark.py ROCE_PCAP CAPTURES SQL WORK JOB
"""

import os
import subprocess
import sys
from pathlib import Path

import duckdb

TOOL, CAPTURES, SQL, WORK, JOB = sys.argv[1], *map(Path, sys.argv[2:6])

# The columns that both have, of each of their results.
COLUMNS = {
    "gaps": ["file", "flow_id", "requests", "gaps", "missing", "again", "first_gap"],
    "icrc": ["file", "src", "valid", "invalid", "uncheckable", "explained"],
}


def rows(connection, sql):
    return sorted(connection.execute(sql).fetchall(), key=repr)


def main():
    made_up = WORK / "spark.pcapng"
    subprocess.run([TOOL, "gen", "--packets", "50000", "--seed", "3", "-o", made_up], check=True)
    captures = sorted(map(str, CAPTURES.glob("*.pcap")))
    export, output = WORK / "spark-export", WORK / "spark-judged"
    subprocess.run([TOOL, "export", "--partition-rows", "20000", "-o", export, made_up, *captures],
                   check=True)
    environment = dict(os.environ, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    submit = Path(sys.executable).parent / "spark-submit"
    subprocess.run(
        [submit, "--master", "local[2]", "--driver-memory", "1g",
         "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=4",
         JOB, export, output],
        env=environment, check=True, timeout=600)
    connection = duckdb.connect()
    connection.execute(f"SET file_search_path = '{export}'")
    connection.execute((SQL / "views.sql").read_text())
    for name, columns in COLUMNS.items():
        query = (SQL / f"{name}.sql").read_text().rstrip().removesuffix(";")
        shown = ", ".join(columns)
        ours = rows(connection, f"SELECT {shown} FROM ({query})")
        theirs = rows(connection, f"SELECT {shown} FROM '{output}/{name}/*.parquet'")
        assert ours == theirs, f"{name}: {set(ours) ^ set(theirs)}"
        print(f"{name}: {len(ours)} rows, the same")
    for name, sql in {
        "retries": """SELECT file, cause, count(*), sum(packets_resent)::BIGINT, max(recovery_ns)
            FROM recoveries GROUP BY ALL""",
        "latency": """SELECT file, flow_id, operation, count(*), quantile_cont(latency_ns, 0.5),
            quantile_cont(latency_ns, 0.99), quantile_cont(latency_ns, 0.999), max(latency_ns)
            FROM messages WHERE latency_ns IS NOT NULL GROUP BY ALL""",
    }.items():
        ours = rows(connection, sql)
        theirs = rows(connection, f"SELECT * FROM '{output}/{name}/*.parquet'")
        close = len(ours) == len(theirs) and all(
            one[:3] == other[:3] and all(
                (a is None and b is None) or abs(a - b) < 0.01 for a, b in zip(one[3:], other[3:]))
            for one, other in zip(ours, theirs))
        assert close, f"{name}: {ours} {theirs}"
        print(f"{name}: {len(ours)} rows, the same")


main()
