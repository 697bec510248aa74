"""A `cleat run` that is killed alone by SIGKILL, as the OOM killer does it: no process of its command lives on, and the
next start continues from DIR. If the guard is killed too, processes may live on. The next start finds them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from run_jobs import OWN_FAILURE, OWN_FOLDER, processes, steps, stored, until, write_dcp

# A command with a worker in its group, a worker in a session of its own, and a daemon: in a session of its own, without
# parent and environment. Each writes down its pid, and stays. "deaf": none hears SIGTERM. "save": the command writes a
# checkpoint when it gets SIGTERM, and ends. "late": so does the command, and the others are deaf.
FAMILY = r"""
import os, signal, sys
aside, directory, how = sys.argv[1:]
def tell(name):
    with open("%s/%s.new" % (aside, name), "w") as file:
        file.write("%d\n" % os.getpid())
    os.rename("%s/%s.new" % (aside, name), "%s/%s" % (aside, name))
def stay():
    while True:
        signal.pause()
def save(number, frame):
    folder = directory + "/step-99"
    os.mkdir(folder)
    for name in ("__0_0.distcp", ".metadata"):
        with open(folder + "/" + name, "w") as file:
            file.write("99\n" * 1000)
    os._exit(7)
if how in ("deaf", "late"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for name in ("worker", "session", "daemon"):
    if os.fork() == 0:
        if name != "worker":
            os.setsid()
        if name == "daemon":
            if os.fork() != 0:
                os._exit(0)
            if len(sys.argv) == 4:
                os.execve(sys.executable, [sys.executable, "-S", "-c", '''
import os, signal, sys
if sys.argv[2] in ("deaf", "late"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + "/daemon.new", "w") as file:
    file.write("%d" % os.getpid())
os.rename(sys.argv[1] + "/daemon.new", sys.argv[1] + "/daemon")
while True:
    signal.pause()
''', aside, how], {})
        tell(name)
        stay()
if how in ("save", "late"):
    signal.signal(signal.SIGTERM, save)
with open(aside + "/new", "w") as file:
    file.write("PID=%d\n" % os.getpid())
os.rename(aside + "/new", aside + "/environment")
stay()
"""
MEMBERS = ("command", "worker", "session", "daemon")


@pytest.fixture
def family(jobs, tmp_path):
    """Starts such a job in tmp_path/a, and waits until all of them live; job.pids has them."""
    started = []

    def start(store, *options, how="plain", **more):
        aside = tmp_path / ("job-%d" % len(list(tmp_path.glob("job-*"))))
        job = jobs(store, tmp_path / "a", *options, command=[sys.executable, "-S", "-c", FAMILY, aside, tmp_path / "a",
                                                             how], **more)
        assert job.aside == aside
        job.pids = {"command": int(job.environment()["PID"])}
        for name in MEMBERS[1:]:
            job.pids[name] = int(job.until_written(name))
        started.append(job)
        return job

    yield start
    for job in started:
        for pid in living(job):
            os.kill(pid, signal.SIGKILL)


def living(job):
    now = processes()
    return [pid for pid in job.pids.values() if pid in now and now[pid][0] not in "ZX"]


def guard(job):
    """The process between `cleat run` and the command."""
    return processes()[job.pids["command"]][1]


def kill_alone(job, *more):
    """The supervisor and nothing else. Stopped first, so that none of several sees the other's end."""
    for pid in more:
        os.kill(pid, signal.SIGSTOP)
    for pid in (job.process.pid, *more):
        os.kill(pid, signal.SIGKILL)
    job.process.wait()


# ---- Killed alone ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["plain", "deaf"])
def test_nothing_lives_longer_than_the_supervisor(family, jobs, folder, tmp_path, how):
    job = family(folder, how=how)
    files = write_dcp(tmp_path / "a", 1)
    job.until_stored(folder, 1)
    kill_alone(job)
    until(lambda: not living(job), "all processes of the command end")
    again = jobs(folder, tmp_path / "a")
    assert again.resumed() == (1, "step-1")
    assert again.end() == 0
    assert stored(folder, 1) == files


def test_a_stopped_command_ends_too(family, folder):
    job = family(folder)
    os.killpg(job.pids["command"], signal.SIGSTOP)
    os.kill(job.pids["session"], signal.SIGSTOP)
    until(lambda: processes()[job.pids["command"]][0] == "T", "it stops")
    kill_alone(job)
    until(lambda: not living(job), "all processes of the command end")


def test_the_next_start_waits_and_takes_the_last_checkpoint(family, jobs, folder, tmp_path):
    """The command gets SIGTERM first. A start that comes at once waits until nothing is left of it, and says so."""
    job = family(folder, how="late")
    kill_alone(job)
    again = jobs(folder, tmp_path / "a")
    assert again.resumed() == (99, "step-99")
    assert not living(job)
    assert "killed" in again.log
    assert again.end() == 0
    assert steps(folder) == [99]


def test_a_kill_while_the_command_ends(jobs, folder, tmp_path):
    """Its workers are left, and deaf: the supervisor dies while it waits for them."""
    aside = tmp_path / "job-0"
    worker = 'trap "" TERM; echo $$ > "$1/worker.new"; mv "$1/worker.new" "$1/worker"; while :; do sleep 0.1; done'
    job = jobs(
        folder, tmp_path / "a", "--log", "json", command=[
            "/bin/sh", "-c",
            '/bin/sh -c \'%s\' sh "$1" & until [ -e "$1/worker" ]; do sleep 0.02; done; exit 3' % worker, "sh", aside
        ])
    job.pids = {"worker": int(job.until_written("worker"))}
    job.until(lambda: [event for event in job.events if event["event"] == "ended"], "the command has ended")
    kill_alone(job)
    until(lambda: not living(job), "the worker ends")


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_what_the_command_leaves_in_other_sessions(family, jobs, folder, tmp_path, number):
    """torchrun's workers are such. A command that is killed could not end them; one that exits has left them on
    purpose."""
    job = family(folder, how="save" if number is None else "deaf" if number == signal.SIGKILL else "plain")
    os.kill(job.pids["command"], number or signal.SIGTERM)
    assert job.wait() == (7 if number is None else 128 + number)
    left = {job.pids["session"], job.pids["daemon"]}
    assert set(living(job)) == (left if number is None else set())
    assert jobs(folder, tmp_path / "a", command=["true"]).wait() == 0


# ---- What the guard is, and is not -----------------------------------------------------------------------------------

def test_the_guard_holds_nothing_of_ours_open(family, folder):
    job = family(folder)
    pid = guard(job)
    assert pid != job.process.pid
    targets = [os.readlink("/proc/%d/fd/%s" % (pid, name)) for name in os.listdir("/proc/%d/fd" % pid)]
    assert not [target for target in targets if str(job.aside) in target or target.startswith("pipe:")], targets
    for name in os.listdir("/proc/%d/fd" % job.pids["command"]):
        assert OWN_FOLDER not in os.readlink("/proc/%d/fd/%s" % (job.pids["command"], name))
    assert os.getpgid(pid) not in (os.getpgid(job.process.pid), job.pids["command"])


def test_a_pipe_ends_with_the_command(folder, tmp_path):
    """`cleat run … | cat` ends when the command does."""
    from helpers import CLEAT
    with subprocess.Popen([CLEAT, "run", "--store", folder.url, "--dir", str(tmp_path / "a"), "--", "echo", "x"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=folder.environment) as process:
        out, _ = process.communicate(timeout=100)
    assert process.returncode == 0 and out == b"x\n"


def test_signals_do_not_reach_the_guard(family, folder):
    job = family(folder)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP):
        os.kill(guard(job), number)
    kill_alone(job)
    until(lambda: not living(job), "all processes of the command end")


def test_the_guard_is_killed(family, jobs, folder, tmp_path):
    """The command ends, since nobody could end it later; what it has finished is saved."""
    job = family(folder, how="save")
    files = write_dcp(tmp_path / "a", 1)
    os.kill(guard(job), signal.SIGKILL)
    assert job.wait() == 7
    assert stored(folder, 1) == files
    assert steps(folder) == [1, 99]
    assert "guard" in job.log


# ---- What lives on all the same --------------------------------------------------------------------------------------

def kill_both(job):
    kill_alone(job, guard(job))


def assert_refused(job):
    until(lambda: job.process.poll() is not None or (job.aside / "environment").exists(),
          "it ends or starts the command")
    assert not (job.aside / "environment").exists()
    assert job.wait() == OWN_FAILURE


def record(tmp_path):
    return tmp_path / "a" / OWN_FOLDER / "command.json"


def test_a_living_command_is_found(family, jobs, folder, tmp_path):
    job = family(folder, how="deaf")
    kill_both(job)
    again = jobs(folder, tmp_path / "a")
    assert_refused(again)
    assert str(job.pids["command"]) in again.log and "python" in again.log
    for pid in living(job):
        os.kill(pid, signal.SIGKILL)
    last = jobs(folder, tmp_path / "a")
    last.environment()
    assert last.end() == 0


def test_what_a_dead_command_left_is_found(family, jobs, folder, tmp_path):
    job = family(folder, how="deaf")
    kill_both(job)
    for name in ("command", "worker"):
        os.kill(job.pids[name], signal.SIGKILL)
    until(lambda: len(living(job)) == 2, "they end")
    again = jobs(folder, tmp_path / "a")
    assert_refused(again)
    assert [pid for pid in living(job) if str(pid) in again.log]


@pytest.mark.parametrize("change", ["started", "boot", "pid"])
def test_a_pid_that_is_anothers(family, jobs, folder, tmp_path, change):
    """The number means another process now, or the machine was started anew."""
    job = family(folder, how="deaf")
    kill_both(job)
    told = json.loads(record(tmp_path).read_text())
    for pid in living(job):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not living(job), "all processes of the command end")
    told.update({"started": {"pid": str(os.getpid()), "started": "1"},
                 "boot": {"pid": str(os.getpid()), "boot": "0" * 36},
                 "pid": {"pid": "4194303"}}[change])
    record(tmp_path).write_text(json.dumps(told))
    again = jobs(folder, tmp_path / "a")
    again.environment()
    assert again.end() == 0
    assert not record(tmp_path).exists()


@pytest.mark.parametrize("text",
                         ["", "{", "[]", '{"pid": -1}', '{"format": 1, "pid": "0", "started": "0"}', "x" * 100000])
def test_a_damaged_record(jobs, folder, tmp_path, text):
    (tmp_path / "a" / OWN_FOLDER).mkdir(parents=True)
    record(tmp_path).write_text(text)
    job = jobs(folder, tmp_path / "a")
    job.environment()
    assert json.loads(record(tmp_path).read_text())["pid"]
    assert job.end() == 0
