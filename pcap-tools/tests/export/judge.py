"""Judges exports by DuckDB: what the shipped SQL says against what is known of the captures, against
`check` and `decode`, and against faults that are put in here.

Usage: judge.py ROCE_PCAP CAPTURES SQL WORK
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import duckdb

TOOL, CAPTURES, SQL, WORK = sys.argv[1], *map(Path, sys.argv[2:5])

# Columns of `packets` and the fields of `decode` that must say the same.
FIELDS = {
    "packet": "number", "wire_len": "frame.len", "captured_len": "frame.cap_len",
    "src_port": "udp.srcport", "dst_port": "udp.dstport", "udp_len": "udp.length",
    "opcode": "infiniband.bth.opcode", "opcode_name": "opcode", "service": "service",
    "pad": "padcnt", "version": "tver", "pkey": "pkey", "dest_qp": "dqpn", "psn": "psn",
    "dma_len": "dmalen", "syndrome": "infiniband.aeth.syndrome", "msn": "msn", "src_qp": "sqpn",
    "payload_len": "payload.len", "icrc_status": "icrc", "src": "src", "dst": "dst",
    "dscp": "dscp", "ack": "ack", "ecn": "ecn", "eth_src": "eth.src", "eth_dst": "eth.dst",
}
HEXADECIMAL = {
    "va": ("va", 16), "rkey": ("rkey", 8), "swap_add": ("swapdt", 16), "compare": ("cmpdt", 16),
    "original": ("origremdt", 16), "qkey": ("qkey", 8), "imm": ("imm", 8),
    "invalidate_rkey": ("invalidate", 8), "icrc": ("infiniband.invariant.crc", 8),
}
FLAGS = {
    "solicited": "se", "mig_req": "migreq", "fecn": "fecn", "becn": "becn", "ack_req": "ackreq",
}


def run(*words, status=(0,)):
    done = subprocess.run([TOOL, *map(str, words)], stdout=subprocess.PIPE, check=False)
    assert done.returncode in status, (words, done.returncode)
    return done.stdout.decode()


class Export:
    """An export and the views on it."""

    def __init__(self, name, *words):
        self.directory = WORK / name
        run("export", "-o", self.directory, *words)
        self.duckdb = duckdb.connect()
        self.duckdb.execute(f"SET file_search_path = '{self.directory}'")
        self.duckdb.execute((SQL / "views.sql").read_text())

    def rows(self, sql):
        return self.duckdb.execute(sql).fetchall()

    def one(self, sql):
        [[value]] = self.rows(sql)
        return value

    def shipped(self, name):
        """What a shipped query answers, a dictionary a row."""
        done = self.duckdb.execute((SQL / f"{name}.sql").read_text())
        names = [column[0] for column in done.description]
        return [dict(zip(names, row)) for row in done.fetchall()]


def equal(what, found, expected):
    assert found == expected, f"{what}: found {found}, expected {expected}"


def capture(name):
    return str(CAPTURES / f"{name}.pcap")


def findings_are_those_of_check(export, files):
    lines = [json.loads(line) for line in run("check", "--format", "jsonl", *files,
                                               status=(0, 1)).splitlines()]
    keys = ("file", "rule", "severity", "verdict", "packet", "clause", "expected", "found", "message")
    if len(files) == 1:
        for line in lines:
            line["file"] = files[0]
    theirs = sorted(tuple(line[key] for key in keys) for line in lines if "rule" in line)
    ours = export.rows(f"SELECT {', '.join(keys)} FROM findings")
    equal("findings", sorted(ours), theirs)
    summary = lines[-1]["summary"]
    by_status = {
        "valid": summary["icrc_valid"], "invalid": summary["icrc_invalid"],
        "uncheckable": summary["icrc_uncheckable"],
    }
    rows = export.shipped("icrc")
    equal("ICRCs", {key: sum(row[key] for row in rows) for key in by_status}, by_status)
    fails = export.one("SELECT count(*) FROM findings WHERE verdict = 'fail'")
    equal("fails", sum(row["fails"] for row in export.shipped("violations")), fails)
    equal("fails of packets", export.one("SELECT coalesce(sum(fails), 0) FROM packets"), fails)
    equal("rules of packets", export.one("SELECT coalesce(sum(len(rules)), 0) FROM packets"), fails)
    equal("flows", export.one("SELECT count(*) FROM flows"), summary["flows"])


def gaps_are_those_of_check(export, known_better):
    """Every gap of requests that the checker saw, and what it could not know as they came."""
    query = (SQL / "gaps.sql").read_text()
    judged = query[:query.rindex("SELECT file, flow_id, count(*) AS requests")]
    ours = set(export.rows(judged + "SELECT file, packet FROM judged WHERE position > expected"))
    theirs = set(export.rows("""SELECT f.file, f.packet FROM findings f
        JOIN packets p ON p.file = f.file AND p.packet = f.packet
        WHERE f.rule = 'RC-PSN-GAP' AND p.part = 'request'"""))
    equal("gaps", ours - theirs, known_better)
    equal("gaps that only the checker sees", theirs - ours, set())
    again = export.rows("""SELECT file, flow_id, count(*) FROM packets
        WHERE arrival <> 'new' GROUP BY ALL""")
    found = {(row["file"], row["flow_id"], row["again"]) for row in export.shipped("gaps")}
    equal("again", {row for row in found if row[2]}, set(again))


def packets_are_those_of_decode(export, file):
    names = [*FIELDS.values(), *(name for name, _ in HEXADECIMAL.values()), *FLAGS.values()]
    csv = WORK / (Path(file).stem + ".csv")
    csv.write_text(run("decode", "--format", "csv", "--fields", ",".join(names), file))
    text = [f"{column}::VARCHAR" for column in FIELDS]
    text += [f"'0x' || lpad(lower(to_hex({column})), {digits}, '0')"
             for column, (_, digits) in HEXADECIMAL.items()]
    text += [f"{column}::VARCHAR" for column in FLAGS]
    ours = export.rows(f"SELECT {', '.join(text)} FROM packets WHERE file = '{file}' ORDER BY packet")
    theirs = export.rows(f"""SELECT * FROM read_csv('{csv}', all_varchar = true, header = true,
        nullstr = '') ORDER BY number::BIGINT""")
    equal(f"packets of {file}", len(ours), len(theirs))
    for one, other in zip(ours, theirs):
        equal(f"packet {one[0]} of {file}", dict(zip(names, one)), dict(zip(names, other)))


def test_real_captures():
    files = sorted(str(path) for path in CAPTURES.glob("*.pcap"))
    export = Export("captures", *files)
    readme = (CAPTURES / "README.md").read_text()
    total = 0
    for file in files:
        packets = export.one(f"SELECT count(*) FROM packets WHERE file = '{file}'")
        if f"| {Path(file).stem} | {packets} |" not in readme:
            assert f"{packets}" in readme and "-" in Path(file).stem, (file, packets)
        total += packets
        packets_are_those_of_decode(export, file)
    equal("packets", total, export.one("SELECT count(*) FROM packets"))
    findings_are_those_of_check(export, files)
    # The READ is the flow's first: the path MTU that tells its end shows later.
    gaps_are_those_of_check(export, {(capture("rxe-lossy-server"), 589)})

    def messages(name, expected):
        found = export.rows(f"""SELECT operation, bytes, count(*) FROM messages
            WHERE file = '{capture(name)}' AND ending = 'acknowledged' AND service = 'RC'
            GROUP BY ALL ORDER BY ALL""")
        equal(name, found, expected)

    messages("rxe-write", [("WRITE", 3000, 16)])
    messages("rxe-read", [("READ", 3000, 16), ("READ", 65536, 5)])
    messages("rxe-atomic", [("COMPARE_SWAP", 8, 8), ("FETCH_ADD", 8, 8)])
    messages("rxe-mtu4096", [("WRITE", 10000, 8)])
    messages("rxe-ecn-client", [("WRITE", 8192, 20)])
    for tap in ("client", "server"):
        messages(f"rxe-lossy-{tap}", [(kind, 8192, 40) for kind in ("READ", "SEND", "WRITE")])

    marks = {row["file"]: 0 for row in export.shipped("congestion")}
    for row in export.shipped("congestion"):
        marks[row["file"]] += row["ce_received"]
        equal("rxe sends no CNP", (row["cnps_sent"], row["cnps_received"]), (0, 0))
    equal("marks", {file: count for file, count in marks.items() if count},
          {capture("rxe-ecn-client"): 3, capture("rxe-ecn-server"): 19})
    equal("RNR NAKs", sum(row["rnr_naks"] for row in export.shipped("rnr")), 3)
    wrong = export.rows("""SELECT packet, printf('%08x', icrc), printf('%08x', icrc_expected)
        FROM packets WHERE icrc_status = 'invalid' ORDER BY packet""")
    equal("rxe's FLUSH", wrong, [(14, "dd758200", "e66feb14"), (22, "b4c3c7b5", "cd139664"),
                                 (43, "14b96b61", "6a64fc2f")])
    latencies = sum(row["messages"] for row in export.shipped("latency"))
    equal("latencies", latencies,
          export.one("SELECT count(*) FROM messages WHERE latency_ns IS NOT NULL"))
    equal("talkers", sum(row["packets"] for row in export.shipped("talkers")), total)
    lossy = [row for row in export.shipped("recovery") if "lossy" in row["file"]]
    assert {row["cause"] for row in lossy} >= {"sequence_nak", "timeout"}, lossy
    assert {row["file"] for row in export.shipped("retransmissions")} == {
        capture("rxe-lossy-client"), capture("rxe-lossy-server"), capture("rxe-errors")}
    types = {row[0]: row[1] for row in export.rows("DESCRIBE packets")}
    equal("types", [types[name] for name in ("packet", "time", "opcode", "psn", "va", "src", "rules")],
          ["BIGINT", "TIMESTAMP_NS", "UTINYINT", "UINTEGER", "UBIGINT", "VARCHAR", "VARCHAR[]"])
    equal("schema", export.one(f"""SELECT DISTINCT decode(value)
        FROM parquet_kv_metadata('{export.directory}/*.parquet')
        WHERE decode(key) = 'roce_pcap.schema'"""), "1")


def test_filter_and_partitions():
    file = capture("rxe-lossy-client")
    whole = Export("whole", file)
    parts = Export("parts", "--partition-rows", "500", file)
    assert len(list(parts.directory.glob("packets-*.parquet"))) == 5, parts.directory
    for table in ("packets", "messages", "recoveries", "findings", "flows"):
        one = whole.rows(f"SELECT * FROM {table}")
        equal(table, sorted(map(repr, parts.rows(f"SELECT * FROM {table}"))), sorted(map(repr, one)))
    where = "dqpn == 0x12 && opcode == ACKNOWLEDGE"
    some = Export("some", "--where", where, file)
    shown = run("decode", "--fields", "number", "--where", where, file).split()
    equal("filtered", [str(row[0]) for row in some.rows("SELECT packet FROM packets")], shown)
    equal("messages", some.one("SELECT count(*) FROM messages"),
          whole.one("SELECT count(*) FROM messages"))
    run("export", "-o", whole.directory, file, status=(2,))
    run("export", "--where", "dqpm == 1", "-o", WORK / "none", file, status=(2,))


def records(file):
    """The header of a little-endian pcap and its records."""
    data = Path(file).read_bytes()
    at, found = 24, []
    while at < len(data):
        size = 16 + struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at:at + size])
        at += size
    return data[:24], found


def test_faults_put_in():
    """What is left out of a capture is missing, and what is damaged has a wrong ICRC."""
    header, packets = records(capture("rxe-write"))
    requests = [at for at, packet in enumerate(packets) if packet[16 + 42] in (6, 7, 8, 10)]
    dropped = [requests[4], requests[10], requests[11], requests[30]]
    damaged = [at for at in requests[40:43]]
    kept = []
    for at, packet in enumerate(packets):
        if at in damaged:
            packet = packet[:-10] + bytes([packet[-10] ^ 0x10]) + packet[-9:]
        if at not in dropped:
            kept.append(packet)
    file = WORK / "faults.pcap"
    file.write_bytes(header + b"".join(kept))
    export = Export("faults", file)
    [row] = export.shipped("gaps")
    # What is damaged counts as missing: three in a row are one gap more.
    equal("gaps", (row["gaps"], row["missing"], row["again"]), (4, 7, 0))
    equal("wrong ICRCs", sum(row["invalid"] for row in export.shipped("icrc")), 3)
    findings_are_those_of_check(export, [str(file)])
    equal("violations", [(row["rule"], row["fails"]) for row in export.shipped("violations")],
          [("ROCE-ICRC", 3)])


def test_made_up_traffic():
    file = WORK / "made-up.pcapng"
    run("gen", "--packets", "20000", "--seed", "7", "-o", file)
    export = Export("made-up", file)
    equal("packets", export.one("SELECT count(*) FROM packets"), 20000)
    packets_are_those_of_decode(export, str(file))
    findings_are_those_of_check(export, [str(file)])
    gaps_are_those_of_check(export, set())
    equal("violations", export.shipped("violations"), [])
    assert export.shipped("incast") and export.shipped("latency") and export.shipped("talkers")
    sent = sum(row["cnps_sent"] for row in export.shipped("congestion"))
    equal("CNPs", sent, export.one("SELECT count(*) FROM packets WHERE opcode = 129"))
    acknowledged = export.one("SELECT count(*) FROM messages WHERE ending = 'acknowledged'")
    assert acknowledged > 1000, acknowledged
    # A connection is two flows, which know each other.
    equal("pairs", export.one("""SELECT count(*) FROM flows f WHERE peer_flow_id IS NOT NULL
        AND NOT EXISTS (FROM flows g WHERE g.flow_id = f.peer_flow_id)"""), 0)


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        test()
        print(f"{name}: ok")


main()
