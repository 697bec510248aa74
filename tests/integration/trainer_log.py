"""Tells by its loss log how far the example trainer is. A test that ends it at a random moment also ends it at a random
step at the latest. So a fast machine does not finish the training first."""

import os
import time


def has_come_to(step, log, since):
    """Whether what was written to the log after `since` bytes tells of this step, or a later one. A training that
    begins anew begins a new log."""
    with open(log, "rb") as file:
        file.seek(since if file.seek(0, os.SEEK_END) >= since else 0)
        lines = file.read().splitlines(keepends=True)
    return any(line.endswith(b"\n") and int(line.split()[0]) >= step for line in lines[-2:])


def wait_for_step(process, log, step, seconds):
    """Waits until a trainer that was just started has come to this step, but not for longer than that; None, or its
    exit status if it has ended."""
    since, end = log.stat().st_size if log.exists() else 0, time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        if log.exists() and has_come_to(step, log, since):
            break
        time.sleep(0.005)
    return process.poll()
