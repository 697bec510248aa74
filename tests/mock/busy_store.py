"""A store that has a best number of requests in flight, which a test may move while it is used.

Each put of a file and each ranged get takes `seconds`, and longer once more than `best` are in flight: with twice as
many each takes three times as long, so that all together get less done. Above `refuse` it asks for less instead (503
SlowDown). `loads` are how many were in flight as each came. `plan` says what changes once these have settled.
"""

import statistics
import threading
import time

from s3_wire import error

SLOWER_BY = 1.6
# Over so many requests the median is taken, as tries go beyond it.
SETTLED = 300


class BusyStore:
    def __init__(self, store, best, seconds=0.08):
        self.store, self.best, self.seconds = store, best, seconds
        self.refuse = None
        self.lock = threading.Lock()
        self.in_flight, self.loads, self.refused = 0, [], 0
        self.plan = []  # ((low, high), what to set as soon as between low and high are in flight)
        self.settled = []  # for each of these that was done: after how many requests, and how many in flight

    def move_on(self):
        """As the plan says; under the lock."""
        recent = self.loads[self.settled[-1][0] if self.settled else 0:][-SETTLED:]
        (low, high), change = self.plan[0]
        if len(recent) == SETTLED and low <= statistics.median(recent) <= high:
            self.settled.append((len(self.loads), statistics.median(recent)))
            self.__dict__.update(change)
            self.plan.pop(0)

    def answer(self, request):
        if request.step not in ("file", "part", "get-part"):
            return self.store.answer(request)
        with self.lock:
            if self.plan:
                self.move_on()
            self.in_flight += 1
            self.loads.append(self.in_flight)
            refused = self.refuse is not None and self.in_flight > self.refuse
            self.refused += refused
            seconds = self.seconds * max(1.0, self.in_flight / self.best) ** SLOWER_BY
        try:
            time.sleep(seconds)  # what the store takes for it
            return error(503, "SlowDown") if refused else self.store.answer(request)
        finally:
            with self.lock:
                self.in_flight -= 1
