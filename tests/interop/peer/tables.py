"""Every scenario there is. A table is a function that returns a list of them; a new one gets a line here."""

from . import by_cm, flush, messages, perf, perftest, pingpong, rdma_cm

TABLES = (
    perftest.covering,
    perftest.options,
    perftest.faults,
    perftest.lossy,
    perftest.recovery,
    perf.every_server,
    perf.options,
    perf.lossy,
    rdma_cm.rping,
    rdma_cm.lossy,
    by_cm.served,
    by_cm.asked,
    by_cm.lossy,
    pingpong.both_ways,
    pingpong.lossy,
    perftest.newer,
    flush.flushes,
    messages.programs,
    messages.lossy,
    flush.ours,
)


def table():
    return [scenario for each in TABLES for scenario in each()]
