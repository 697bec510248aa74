"""Ranks that are killed at random moments, and jobs that continue with another number of ranks.

Random choices come from a printed seed; CLEAT_TEST_SEED repeats it. CLEAT_TEST_KILLS sets how often ranks are killed:
half as often as the saves of test_kill.py. See rank_jobs.py for how results are compared.
"""

import os
import re
import signal
import subprocess
import time

from rank_jobs import (ENDLESS, PATIENCE, assert_told, assert_whole, launch, losses, results, undisturbed,
                       visible_steps, wait_until)

__all__ = ("launch", "undisturbed")  # fixtures
KILLS = max(1, int(os.environ.get("CLEAT_TEST_KILLS", 20)) // 2)


def steps_done(folder):
    path = folder / "losses"
    lines = path.read_text().splitlines() if path.exists() else []
    return max([int(line.split()[0]) for line in lines], default=0)


def kill(job, victims):
    """Which of them were still running."""
    for victim in victims:
        job.processes[victim].kill()
    return [victim for victim in victims if job.processes[victim].wait() == -signal.SIGKILL]


def assert_survivors_give_up(job, killed):
    codes = job.wait()
    for number, code in enumerate(codes):
        if number not in killed:
            assert code == 1, (number, codes, job.err(number))
            assert_told(job, number)


def train_and_kill(store, tmp_path, launch, rng, world):
    """Never ends by itself before the kill, of one rank or of all; unless its ranks are so slow that they give up on
    each other: False."""
    before, further = steps_done(tmp_path), rng.randrange(1, 60)
    job = launch(store, tmp_path, world, *ENDLESS, "--save-every", 7, *PATIENCE, *results(tmp_path))
    wait_until(lambda: steps_done(tmp_path) >= before + further or not job.is_running())
    victims = list(range(world)) if rng.random() < 0.3 else [rng.randrange(world)]
    killed = kill(job, victims)
    assert_survivors_give_up(job, killed)
    print("%d ranks, ranks %s killed after step %d" % (world, killed, steps_done(tmp_path)))
    assert all(step % 7 == 0 for step in assert_whole(store))
    return killed == victims


def test_killed_and_resumed_with_other_ranks(store, tmp_path, undisturbed, launch, rng):
    for world in (4, 3, 6):
        tries = 0
        while not train_and_kill(store, tmp_path, launch, rng, world):
            tries += 1
            assert tries < 20
    # A little further than all before it.
    steps = max(losses(tmp_path)) + 37
    job = launch(store, tmp_path, 2, "--steps", steps, "--save-every", 7, *results(tmp_path))
    assert job.wait() == [0, 0], (job.err(0), job.err(1))
    undisturbed(steps).assert_identical(store, tmp_path)


def sweep(store, keep):
    """Makes room, never through Cleat: all but this step and the starts."""
    kept = ("starts/", "step-%012d/manifest.json" % keep, "step-%012d/%s/" % (keep, store.manifest(keep)["attempt"]))
    for key in store.keys():
        if not key.startswith(kept):
            store.delete(key)


def attempts_without_manifest(store):
    found = {match.groups() for match in (re.match(r"step-(\d+)/(\w+)/", key) for key in store.keys()) if match}
    return {(int(step), attempt) for step, attempt in found
            if int(step) not in visible_steps(store) or store.manifest(int(step))["attempt"] != attempt}


def test_one_of_four_ranks_is_killed_at_random_moments(bucket, tmp_path, launch, rng):
    flags = (*ENDLESS, "--save-every", 5)
    job = launch(bucket, tmp_path, 4, *flags)
    began = time.monotonic()
    wait_until(lambda: len(visible_steps(bucket)) >= 4)
    window = time.monotonic() - began
    assert_survivors_give_up(job, kill(job, range(4)))
    latest = max(assert_whole(bucket))
    print("four checkpoints take %.2f s" % window)
    done, missed, unfinished = 0, 0, 0
    while done < KILLS:
        job = launch(bucket, tmp_path, 4, *flags, *PATIENCE)
        moment = (done + rng.random()) / KILLS * window
        try:
            job.processes[done % 4].wait(timeout=moment)  # slow ranks may give up on each other
        except subprocess.TimeoutExpired:
            pass
        killed = kill(job, [done % 4])
        assert_survivors_give_up(job, killed)
        steps = assert_whole(bucket)
        left = attempts_without_manifest(bucket)
        assert max(steps) >= latest
        print("rank %s killed after %.3f s: steps %d to %d, %d attempts came to nothing" %
              (killed, moment, latest, max(steps), len(left)))
        latest = max(steps)
        sweep(bucket, latest)
        done += len(killed)
        missed += not killed
        unfinished += len(left) > 0
        assert missed < 10 * KILLS
    job = launch(bucket, tmp_path, 3, "--steps", latest + 5, "--save-every", 5)
    assert job.wait() == [0] * 3, [job.err(number) for number in range(3)]
    assert assert_whole(bucket) == [latest, latest + 5]
    print("%d killed, %d of them while saving; %d had given up before" % (done, unfinished, missed))
