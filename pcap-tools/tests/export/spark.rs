//! The Spark job, held to DuckDB: `cargo test -p roce-pcap --test spark`. Not among the tests that run
//! by themselves, since Spark is 300 MB and needs Java.

mod support;

use std::path::Path;

use support::{DUCKDB, judge, python};

#[test]
fn spark_agrees() {
    let Some(python) = python("spark", &[DUCKDB, "pyspark==3.5.9"]) else { return };
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("spark/judge.py");
    judge(&python, "spark.py", &[&job]);
}
