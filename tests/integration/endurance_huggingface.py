"""Runs the real Hugging Face Trainer under `cleat run` on MinIO, and kills it at random with all its processes. Every
other time DIR is lost. The Trainer keeps one checkpoint, and writes them faster than they settle. Only for `make
endurance`: its packages take 5 GB.

The promise: a kill that also loses DIR loses at most one interval and the time of one upload. The time counts from when
a checkpoint is complete to when it is stored. If an upload takes longer than the interval, it may be the time of two
uploads, because the one before it took as long. A kill that keeps DIR loses no checkpoint.

CLEAT_TEST_HF_KILLS (12) and CLEAT_TEST_SEED set other numbers.
"""

import json
import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from helpers import ROOT, SLOW
from run_jobs import steps, stored

TRAINER = ROOT / "tests" / "integration" / "tools" / "huggingface_trainer.py"
KILLS = int(os.environ.get("CLEAT_TEST_HF_KILLS", 12))
START_S = 300  # for torch to be imported on a busy machine


@pytest.fixture(scope="session")
def python():
    venv = ROOT / "tests" / "tools" / "venv.sh"
    return subprocess.run([venv, "huggingface"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Life:
    """One start of the trainer, and what it wrote down."""

    def __init__(self, start, store, directory, python, interval, number):
        self.log = directory.parent / ("trainer-%d" % number)
        self.store, self.commits = store, {}
        self.job = start(store, directory, "--log", "json",
                         command=[python, TRAINER, directory, interval, self.log])

    def lines(self, what):
        """step: when."""
        text = self.log.read_text() if self.log.exists() else ""
        return {int(step): float(when) for word, step, when in re.findall(r"(\w+) (\d+) (\S+)\n", text) if word == what}

    def until(self, condition, what, seconds):
        end = now() + seconds
        while not condition():
            assert self.job.process.poll() is None, (what, self.job.log)
            assert now() < end, (what, self.job.log)
            time.sleep(0.02)
            self.look()

    def look(self):
        """When each step was seen to be stored; by the log, which is read again and again."""
        for event in self.job.log.splitlines():
            if '"saved"' in event:
                self.commits.setdefault(json.loads(event)["step"], now())

    def run(self, seconds):
        """From the first step on; then it is killed. Returns when."""
        self.until(lambda: self.lines("start"), "training begins", START_S)
        end = now() + seconds
        self.until(lambda: now() >= end, "it trains", seconds + START_S)
        killed = now()
        self.job.kill()
        return killed

    @property
    def begun(self):
        return next(iter(self.lines("start")))


@pytest.mark.parametrize("interval", [0.5, 4.0, 11.0])
def test_killed_at_random(jobs, bucket, tmp_path, python, interval):
    seed = int(os.environ.get("CLEAT_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("CLEAT_TEST_SEED=%d, a save every %g s" % (seed, interval))
    rng, directory = random.Random(seed), Path(tmp_path, "ckpt")
    whole, newest, lost, allowed = {}, 0, 0.0, 0.0  # when each step was whole; what the next life may not fall behind
    worst = 0.0
    for number in range(KILLS + 1):
        life = Life(jobs, bucket, directory, python, interval, number)
        # The first ones of a life cannot be lost yet: two intervals at least, four at most.
        killed = life.run(rng.uniform(2, 4) * interval + rng.uniform(0, 2)) if number < KILLS else None
        if killed is None:
            life.until(lambda: life.lines("start"), "training begins", START_S)
            life.job.kill()
        begun = life.begun
        if number:
            late = [step for step, when in whole.items() if begun < step and when <= lost_before]
            print("  goes on from step %d; whole but lost: %s" % (begun, [s for s in whole if s > begun]))
            assert not late, "steps %s were whole for longer than %.2f s" % (late, allowed)
            if kept:
                assert begun >= newest, (begun, newest)
        if killed is None:
            break
        saved = life.lines("saved")
        whole = {step: when for step, when in whole.items() if step <= begun}
        whole.update(saved)
        newest = max([begun, *saved])
        upload = max([life.commits[step] - saved[step] for step in saved if step in life.commits] or [1.0])
        gaps = sorted(saved.values())
        gap = max([interval, *(after - before for before, after in zip(gaps, gaps[1:]))])
        allowed = gap + upload + (upload if upload > gap else 0)
        lost_before = killed - allowed * SLOW
        kept = number % 2 == 0
        if not kept:
            shutil.rmtree(directory)
        there = steps(bucket)
        back = killed - whole.get(max(there), killed) if there and max(there) in whole else None
        worst = max(worst, back or 0)
        print("life %d: from %d, %d saves, stored up to %s, killed at %d; upload %.2f s, gap %.2f s; DIR %s; "
              "behind the store %s" % (number, begun, len(saved), max(there, default=None), newest, upload, gap,
                                       "kept" if kept else "lost", back and "%.2f s" % back))
        assert len(saved) < 2 or there, "nothing is stored"
    print("a save every %g s: at most %.2f s between the newest that was stored and a kill" % (interval, worst))
    files = stored(bucket, max(steps(bucket)))
    state = next(data for name, data in files.items() if name.endswith("trainer_state.json"))
    assert json.loads(state)["global_step"] == max(steps(bucket))
