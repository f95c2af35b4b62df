"""Which guest runs which scenario, and when: a few lanes at a time, each with a network and a guest of its own."""

import collections
import concurrent.futures
import threading

from .scenario import KERNELS

WORTH_A_GUEST = 8  # scenarios, below which booting one more costs more than it saves


class _Work:
    """The scenarios not taken yet, by kernel, and the benches at work."""

    def __init__(self, scenarios):
        self._lock = threading.Lock()
        self._waiting = {kernel: collections.deque(each for each in scenarios if each.kernel == kernel)
                         for kernel in KERNELS}
        self._taken = collections.Counter()
        self._benches = []
        self._stopped = False

    def take_kernel(self):
        """The kernel that a free lane is to boot: one that nobody serves yet, else the one with most left to do."""
        with self._lock:
            fresh = [kernel for kernel in KERNELS if self._waiting[kernel] and not self._taken[kernel]]
            busy = max(KERNELS, key=lambda kernel: len(self._waiting[kernel]))
            chosen = fresh[0] if fresh else busy if len(self._waiting[busy]) >= WORTH_A_GUEST else None
            if chosen is not None:
                self._taken[chosen] += 1
            return chosen, self._taken[chosen]

    def scenarios(self, kernel):
        """Takes them one by one."""
        while True:
            with self._lock:
                if self._stopped or not self._waiting[kernel]:
                    return
                scenario = self._waiting[kernel].popleft()
            yield scenario

    def join(self, bench):
        with self._lock:
            if self._stopped:
                bench.close()
            else:
                self._benches.append(bench)

    def stop(self):
        with self._lock:
            self._stopped = True
            benches = list(self._benches)
        for bench in benches:
            bench.close()


def run_lanes(scenarios, lanes, make_bench, report):
    """Runs all scenarios. `make_bench(kernel, number)` boots a guest; `report` is called from any lane."""
    work = _Work(scenarios)

    def lane():
        while True:
            kernel, number = work.take_kernel()
            if kernel is None:
                return
            bench = make_bench(kernel, number)
            work.join(bench)
            try:
                bench.run(work.scenarios(kernel), report)
            finally:
                bench.close()

    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        try:
            for done in concurrent.futures.as_completed([pool.submit(lane) for _ in range(lanes)]):
                done.result()
        except BaseException:
            work.stop()
            raise
