"""Signals and `cleat run`: what reaches the command, what is saved afterwards, and the exit status."""

import os
import shutil
import signal
import sys
import threading

import pytest

from helpers import tree
from run_jobs import OWN_FAILURE, OWN_FOLDER, contents, processes, steps, stored, until, write_dcp

# Writes down each signal that it gets, also one that was ignored when it began. Of SIGTERM: "save": writes a last
# checkpoint and ends with 7; "stay": goes on.
RECORDER = r"""
import os, signal, sys
aside, directory, how = sys.argv[1:]
def save(step):
    folder = "%s/step-%d" % (directory, step)
    os.mkdir(folder)
    for name in ("__0_0.distcp", ".metadata"):
        with open(folder + "/" + name, "w") as file:
            file.write("%d\n" % step * 1000)
def take(number, frame):
    with open(aside + "/got", "a") as file:
        file.write(signal.Signals(number).name + "\n")
    if number == signal.SIGTERM and how == "save":
        save(99)
        os._exit(7)
for name in ("TERM", "INT", "HUP", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), take)
with open(aside + "/new", "w") as file:
    file.write("PID=%d\n" % os.getpid())
os.rename(aside + "/new", aside + "/environment")
while True:
    signal.pause()
"""


@pytest.fixture
def recorder(jobs, tmp_path):
    """Starts a job whose command is the one above; waits until it has its handlers."""
    def start(store, *options, how="stay", **more):
        aside = tmp_path / ("job-%d" % len(list(tmp_path.glob("job-*"))))
        job = jobs(store, tmp_path / "a", *options, command=[sys.executable, "-S", "-c", RECORDER, aside,
                                                             tmp_path / "a", how], **more)
        assert job.aside == aside
        job.environment()
        return job
    return start


def got(job):
    path = job.aside / "got"
    return path.read_text().split() if path.exists() else []


def assert_gone(job):
    """No process of the job is left."""
    until(lambda: not [pid for pid, (state, _, session) in processes().items()
                       if session == job.process.pid and state != "Z"], "all processes end")


# ---- Exit statuses ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [0, 7, 255])
def test_the_exit_status_is_the_commands(jobs, folder, tmp_path, status):
    job = jobs(folder, tmp_path / "a")
    assert job.end(status) == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_command_that_a_signal_ends(jobs, folder, tmp_path, number):
    job = jobs(folder, tmp_path / "a", command=["/bin/sh", "-c", "ulimit -c 0; kill -%d $$" % number])
    assert job.wait() == 128 + number


def test_a_command_that_cannot_be_started(jobs, folder, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("text")
    no_interpreter = tmp_path / "script"
    no_interpreter.write_text("#!/no/such/interpreter\n")
    no_interpreter.chmod(0o755)
    for command, status in [("no-such-command", 127), (tmp_path / "nothing", 127), (plain, 126), (tmp_path, 126),
                            (no_interpreter, 127)]:
        job = jobs(folder, tmp_path / "a", command=[command])
        assert job.wait() == status
        assert str(command) in job.log


def test_a_script_without_an_interpreter_is_the_shells(jobs, folder, tmp_path):
    script = tmp_path / "script"
    script.write_text("exit 9\n")
    script.chmod(0o755)
    assert jobs(folder, tmp_path / "a", command=[script]).wait() == 9


def test_options_after_the_command_are_the_commands(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a", command=["/bin/sh", "-c", 'test "$*" = "--store x -- --help" && exit 5', "sh",
                                                "--store", "x", "--", "--help"])
    assert job.wait() == 5


# ---- SIGTERM ---------------------------------------------------------------------------------------------------------

def test_sigterm_is_passed_on_and_the_last_checkpoint_saved(recorder, store, tmp_path):
    job = recorder(store, how="save")
    files = write_dcp(tmp_path / "a", 1)
    job.until_stored(store, 1)
    job.signal(signal.SIGTERM)
    assert job.wait() == 7
    assert got(job) == ["SIGTERM"]
    assert steps(store) == [1, 99]
    assert stored(store, 1) == files
    assert set(stored(store, 99)) == {"step-99/__0_0.distcp", "step-99/.metadata"}
    assert_gone(job)


def test_a_command_that_ignores_sigterm_is_killed(recorder, folder, tmp_path):
    job = recorder(folder, "--grace", "1")
    job.signal(signal.SIGTERM)
    job.until(lambda: got(job), "the signal arrives")
    files = write_dcp(tmp_path / "a", 1)
    assert job.wait() == 137
    assert stored(folder, 1) == files
    assert_gone(job)


def test_a_second_sigterm_ends_the_grace(recorder, folder, tmp_path):
    job = recorder(folder, "--grace", "36000")
    job.signal(signal.SIGTERM)
    job.until(lambda: got(job), "the signal arrives")
    files = write_dcp(tmp_path / "a", 1)
    job.until_stored(folder, 1)  # in its grace, too
    job.signal(signal.SIGTERM)
    assert job.wait() == 137
    assert got(job) == ["SIGTERM"]
    assert stored(folder, 1) == files


def test_what_the_command_leaves_behind_is_ended(jobs, folder, tmp_path):
    """Workers that ignore SIGTERM: killed when the grace is over, and then what they wrote is saved."""
    worker = 'trap "" TERM; mkdir -p "$2/step-5"; echo x > "$2/step-5/.metadata"; : > "$1/ready"; ' \
             'while :; do sleep 0.1; done'
    aside = tmp_path / "job-0"
    job = jobs(folder, tmp_path / "a", "--grace", "2",
               command=["/bin/sh", "-c", '/bin/sh -c \'%s\' sh "$1" "$2" & while [ ! -e "$1/ready" ]; do sleep 0.02; '
                        'done; exit 3' % worker, "sh", aside, tmp_path / "a"])
    job.until_written("ready")
    job.signal(signal.SIGTERM)
    assert job.wait() in (3, 143)  # the shell may have ended by itself before
    assert steps(folder) == [5]
    assert_gone(job)


class Gate:
    """Holds back requests of the saves of some steps until it is opened, or sends them away at once."""

    def __init__(self, store, kind, closed, hold=True):
        self.kind, self.closed, self.open, self.held, self.hold = kind, set(closed), threading.Event(), [], hold
        store.proxy.before = self.before

    def before(self, request):
        if request.kind == self.kind and any("step-%012d/" % step in request.key for step in self.closed):
            self.held.append(request)
            return self.hold and self.open.wait(60)
        return True


def committed_in_order(store):
    return [int(request.key.split("step-")[1][:12]) for request in store.proxy.requests
            if request.kind == "manifest" and request.status == 200]


def test_the_newest_is_flushed_first(recorder, proxied, tmp_path):
    """The oldest is being saved, and hangs; it steps aside for the newest."""
    gate = Gate(proxied, "file", [1])
    job = recorder(proxied, how="save")
    files = {1: write_dcp(tmp_path / "a", 1)}
    job.until(lambda: gate.held, "it is being saved")
    files.update({step: write_dcp(tmp_path / "a", step) for step in (2, 3)})
    gate.closed.clear()
    job.signal(signal.SIGTERM)
    assert job.wait() == 7
    gate.open.set()
    proxied.proxy.settle()
    assert steps(proxied) == [1, 2, 3, 99]
    assert {step: stored(proxied, step) for step in files} == files
    assert committed_in_order(proxied) == [99, 3, 2, 1]


def test_the_time_to_flush_runs_out(recorder, proxied, tmp_path):
    """The newest has come first; what is not saved is named, and that it ended well is not said."""
    gate = Gate(proxied, "file", [1, 2], hold=False)
    job = recorder(proxied, "--flush", "8", how="save")
    for step in (1, 2):
        write_dcp(tmp_path / "a", step)
    job.until(lambda: gate.held, "it is being saved")
    job.signal(signal.SIGTERM)
    assert job.wait() == 7
    assert steps(proxied) == [99]
    for step in (1, 2):
        assert "step-%d" % step in job.log


@pytest.mark.parametrize("flush", ["36000", "0"])
def test_sigterm_in_the_flush(jobs, proxied, tmp_path, flush):
    """The command has ended by itself: the first sets a deadline, the second one ends it."""
    gate = Gate(proxied, "file", [1])
    job = jobs(proxied, tmp_path / "a", "--flush", flush)
    job.environment()
    write_dcp(tmp_path / "a", 1)
    job.tell("0")
    job.until(lambda: gate.held, "it is being saved")
    job.signal(signal.SIGTERM)
    if flush != "0":
        job.until(lambda: "36000 s" in job.log, "it has heard")
        job.signal(signal.SIGTERM)
    assert job.wait() == OWN_FAILURE
    gate.open.set()
    proxied.proxy.settle()
    assert steps(proxied) == []
    assert "step-1" in job.log


# ---- Other signals ---------------------------------------------------------------------------------------------------

def test_other_signals_are_passed_on(recorder, folder, tmp_path):
    job = recorder(folder, how="save")
    sent = []
    for name in ("SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP", "SIGUSR1"):
        job.signal(getattr(signal, name))
        sent.append(name)
        job.until(lambda: got(job) == sent, "%s arrives" % name)
    files = write_dcp(tmp_path / "a", 1)
    job.until_stored(folder, 1)
    job.signal(signal.SIGTERM)
    assert job.wait() == 7
    assert got(job) == [*sent, "SIGTERM"] and stored(folder, 1) == files


def test_nohup(recorder, folder):
    """What is ignored stays so: it does not even reach a command that would listen."""
    job = recorder(folder, how="save", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    job.signal(signal.SIGHUP)
    job.signal(signal.SIGUSR1)
    job.until(lambda: got(job), "the next signal arrives")
    job.signal(signal.SIGTERM)
    assert job.wait() == 7
    assert got(job) == ["SIGUSR1", "SIGTERM"]


def held_restore(jobs, proxied, tmp_path):
    """A job in b whose restore is held in its middle, what it restores, and what lets it go on."""
    first = jobs(proxied, tmp_path / "a")
    first.environment()
    files = write_dcp(tmp_path / "a", 1, {"part-%d" % part: b"%d" % part * 100000 for part in range(8)})
    first.until_stored(proxied, 1)
    assert first.end() == 0
    held, gate = [], threading.Event()

    def before(request):
        if request.method == "GET" and request.key.endswith("/part-5"):
            held.append(request)
            return gate.wait(60)
        return True

    proxied.proxy.before = before
    job = jobs(proxied, tmp_path / "b")
    job.until(lambda: held, "the restore is in its middle")
    return job, files, gate


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_in_the_restore(jobs, proxied, tmp_path, number):
    """Nothing half-restored is left, nothing was started, and the next start restores it all."""
    job, files, gate = held_restore(jobs, proxied, tmp_path)
    job.signal(number)
    assert job.wait() == 128 + number
    gate.set()
    proxied.proxy.before = None
    assert not (job.aside / "environment").exists()
    assert contents(tmp_path / "b") == {}
    assert [name for name in tree(tmp_path / "b" / OWN_FOLDER) if name.startswith("room/")] == []
    again = jobs(proxied, tmp_path / "b")
    assert again.resumed() == (1, "step-1")
    assert contents(tmp_path / "b") == files
    assert again.end() == 0


def test_killed_in_the_restore(jobs, proxied, tmp_path):
    job, files, gate = held_restore(jobs, proxied, tmp_path)
    job.kill()
    gate.set()
    proxied.proxy.before = None
    assert contents(tmp_path / "b") == {}
    again = jobs(proxied, tmp_path / "b")
    assert again.resumed() == (1, "step-1")
    assert contents(tmp_path / "b") == files
    assert again.end() == 0
    assert set(os.listdir(tmp_path / "b" / OWN_FOLDER)) <= {"lock", "state.json", "room"}


# ---- As process 1 ---------------------------------------------------------------------------------------------------

UNSHARE = ["unshare", *(["--user", "--map-root-user"] if os.getuid() else []), "--pid", "--fork", "--kill-child"]


def inner(job):
    """The pid, as it is out here, of the process 1 that unshare has started."""
    return next(pid for pid, (_, parent, _) in processes().items() if parent == job.process.pid)


def test_as_process_1_signals_arrive(recorder, folder, tmp_path):
    job = recorder(folder, how="save", prefix=UNSHARE)
    write_dcp(tmp_path / "a", 1)
    job.until_stored(folder, 1)
    os.kill(inner(job), signal.SIGUSR1)
    job.until(lambda: got(job) == ["SIGUSR1"], "it arrives")
    os.kill(inner(job), signal.SIGTERM)
    assert job.wait() == 7
    assert got(job) == ["SIGUSR1", "SIGTERM"]
    assert steps(folder) == [1, 99]


@pytest.mark.parametrize("prefix", [UNSHARE, ()], ids=["process-1", "subreaper"])
def test_orphans_are_reaped(jobs, folder, tmp_path, prefix):
    """The command's children's children lose their parents, and end; some in sessions of their own."""
    orphans = 'for i in 1 2 3 4 5 6 7 8 9; do (setsid sh -c "exit 0" & sleep 0 & true); done; ' \
              ': > "$1/ready"; read -r status < "$1/end"; exit "$status"'
    job = jobs(folder, tmp_path / "a", command=["/bin/sh", "-c", orphans, "sh", tmp_path / "job-0"], prefix=prefix)
    job.until_written("ready")
    cleat = inner(job) if prefix else job.process.pid
    assert shutil.which("setsid")

    def children(of):
        return {pid: state for pid, (state, parent, _) in processes().items() if parent == of}

    job.until(lambda: len(children(cleat)) == 1, "the guard alone is left")
    guard, = children(cleat)
    job.until(lambda: len(children(guard)) == 1, "the command alone is left")
    assert "Z" not in {**children(cleat), **children(guard)}.values()
    assert job.end(4) == 4
