"""Judges exports of `roce-pcap export` with Spark: PSN gaps and requests that came again, wrong ICRCs,
retries, and latencies, flow by flow. The same questions as ../sql asks, for what is too much for one
machine.

    spark-submit judge.py EXPORT... OUTPUT

EXPORT is a directory of Parquet files, or a pattern for many (`s3a://captures/2026-*`). OUTPUT becomes
`gaps`, `icrc`, `retries` and `latency`, each a directory of Parquet files; the summary goes to
standard output. Each flow is judged by itself, so the work spreads over as many machines as there
are; only a flow's own packets must pass one of them.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window

# PSNs around the last one that belong to the same connection; what jumps farther is a new one.
WINDOW = 1 << 14

ANSWERS = ["READ_RESPONSE", "ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "RESYNC", "other"]


def requests_of(packets):
    """Requests of connections, each with the PSNs it takes: a READ as many as it has responses."""
    mtu = (
        packets.where(f.col("opcode_name").rlike("_(FIRST|MIDDLE)$"))
        .groupBy("file", "connection_id")
        .agg(f.max("payload_len").alias("mtu"))
    )
    # What damaged packets say does not count.
    sound = (f.col("icrc_status") != "invalid") | f.col("icrc_diagnosis").isNotNull()
    reads = f.ceil(f.col("dma_len") / f.coalesce("mtu", f.lit(4096)))
    return (
        packets.where(f.col("service").isin("RC", "UC", "XRC"))
        .where(~f.col("operation").isin(ANSWERS) & sound)
        .join(f.broadcast(mtu), ["file", "connection_id"], "left")
        .withColumn(
            "span",
            f.when(f.col("operation") == "READ", f.greatest(f.lit(1), reads)).otherwise(1),
        )
        .select("file", "flow_id", "packet", "psn", "span")
    )


def gaps(packets):
    """Missing PSNs and requests that came again, by window functions over each flow."""
    flow = Window.partitionBy("file", "flow_id").orderBy("packet")
    connection = (
        Window.partitionBy("file", "flow_id", "connection")
        .orderBy("packet")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # PSNs have 24 bits: a step is the shorter way around.
    step = (f.col("psn") - f.lag("psn").over(flow) + 0x800000).bitwiseAND(f.lit(0xFFFFFF)) - 0x800000
    judged = (
        requests_of(packets)
        .withColumn("step", f.coalesce(step, f.lit(0)))
        .withColumn("position", f.sum("step").over(flow))
        .withColumn("connection", f.sum((f.abs("step") > WINDOW).cast("int")).over(flow))
        .withColumn("expected", f.max(f.col("position") + f.col("span")).over(connection))
    )
    gap = f.col("position") > f.col("expected")
    return judged.groupBy("file", "flow_id").agg(
        f.count("*").alias("requests"),
        f.count_if(gap).alias("gaps"),
        f.coalesce(f.sum(f.when(gap, f.col("position") - f.col("expected"))), f.lit(0)).alias("missing"),
        f.count_if(f.col("position") < f.col("expected")).alias("again"),
        f.min(f.when(gap, f.col("packet"))).alias("first_gap"),
    )


def icrc(packets):
    """ICRCs of each sender: right, wrong, not to be checked."""
    status = f.col("icrc_status")
    return (
        packets.where(status.isNotNull())
        .groupBy("file", "src")
        .agg(
            f.count_if(status == "valid").alias("valid"),
            f.count_if(status == "invalid").alias("invalid"),
            f.count_if(~status.isin("valid", "invalid")).alias("uncheckable"),
            f.count("icrc_diagnosis").alias("explained"),
        )
    )


def retries(recoveries):
    """Why requesters went back, and what it cost."""
    return recoveries.groupBy("file", "cause").agg(
        f.count("*").alias("times"),
        f.sum("packets_resent").alias("packets_resent"),
        f.max("recovery_ns").alias("longest_ns"),
    )


def latency(messages):
    """Latencies of each flow and operation. The percentiles are exact."""
    at = [f.expr(f"percentile(latency_ns, {share})").alias(name)
          for share, name in ((0.5, "p50_ns"), (0.99, "p99_ns"), (0.999, "p999_ns"))]
    return (
        messages.where(f.col("latency_ns").isNotNull())
        .groupBy("file", "flow_id", "operation")
        .agg(f.count("*").alias("messages"), *at, f.max("latency_ns").alias("max_ns"))
    )


def main():
    *exports, output = sys.argv[1:]
    if not exports:
        sys.exit(__doc__)
    spark = (
        SparkSession.builder.appName("roce-pcap judge")
        # Spark has no timestamps of nanoseconds: they are numbers to it.
        .config("spark.sql.legacy.parquet.nanosAsLong", "true")
        .getOrCreate()
    )

    def table(name):
        return spark.read.parquet(*(f"{export}/{name}-*.parquet" for export in exports))

    packets = table("packets")
    results = {
        "gaps": gaps(packets),
        "icrc": icrc(packets),
        "retries": retries(table("recoveries")),
        "latency": latency(table("messages")),
    }
    for name, result in results.items():
        result.write.mode("overwrite").parquet(f"{output}/{name}")
        results[name] = spark.read.parquet(f"{output}/{name}")
    [total] = results["gaps"].agg(f.sum("requests"), f.sum("gaps"), f.sum("missing"), f.sum("again")).collect()
    [wrong] = results["icrc"].agg(f.sum("valid"), f.sum("invalid"), f.sum("uncheckable")).collect()
    print("requests {}, gaps {}, PSNs missing {}, came again {}".format(*total))
    print("ICRCs valid {}, invalid {}, not checkable {}".format(*wrong))
    for row in results["retries"].orderBy(f.desc("times")).take(20):
        print(f"{row.file}: {row.cause} {row.times} times, {row.packets_resent} packets sent again")
    for row in results["latency"].orderBy(f.desc("p99_ns")).take(20):
        print(f"{row.file}: {row.operation} of flow {row.flow_id}: p50 {row.p50_ns / 1e3:.1f} us, "
              f"p99 {row.p99_ns / 1e3:.1f} us, max {row.max_ns / 1e3:.1f} us")
    spark.stop()


main()
