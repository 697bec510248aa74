"""`cleat run` with a tool that removes its checkpoints before they can be uploaded: complete checkpoints are held and
saved.

A gate in front of MinIO delays uploads until the test opens it. So the tool is always faster.
"""

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from helpers import fill
from layout_folders import LAYOUTS, TRACKER, write_all
from run_jobs import contents, run_metadata, steps, stored, write_dcp
from test_run_layouts import RANKS

HELD = ".cleat-run/held"


class Gate:
    """Requests of a kind wait at it until it is opened; `waiting` is set while one does."""

    def __init__(self, store, kind="file"):
        self.kind, self.opened, self.waiting = kind, threading.Event(), threading.Event()
        store.proxy.before = self.before

    def before(self, request):
        if request.kind == self.kind and not self.opened.is_set():
            self.waiting.set()
            assert self.opened.wait(100)
        return True


def holds(directory):
    """The files of each hold that is marked whole, their names as in DIR."""
    found = []
    for folder, names, files in os.walk(Path(directory, HELD)):
        if ".whole" in files:
            names[:] = []
            below = [
                os.path.relpath(os.path.join(at, name), folder) for at, _, some in os.walk(folder) for name in some
            ]
            found.append({name for name in below if name != ".whole"})
    return found


def held(directory):
    """The checkpoints that are held, by the first names of their files."""
    return sorted(name for files in holds(directory) for name in {file.partition("/")[0] for file in files})


def links(directory):
    return sum(len(files) for _, _, files in os.walk(Path(directory, HELD)))


def open_files(job, directory):
    """What the program has open below DIR, removed or not."""
    found = []
    for entry in Path("/proc/%d/fd" % job.process.pid).iterdir():
        try:
            found.append(os.readlink(entry))
        except FileNotFoundError:
            continue
    return [path for path in found if path.startswith("%s/step-" % os.path.realpath(directory))]


def rotate(job, directory, step, is_held):
    """The tool writes a step, and removes the one before as soon as this one is held."""
    files = write_dcp(directory, step)
    job.until(is_held, "step %d is held" % step)
    shutil.rmtree(directory / ("step-%d" % (step - 1)), ignore_errors=True)
    return files


def test_a_tool_that_keeps_one_checkpoint_and_is_faster_than_uploads(jobs, proxied, tmp_path):
    """It removes each checkpoint when the next one is whole, and long before it has settled."""
    directory, files = tmp_path / "a", {}
    job = jobs(proxied, directory)
    job.environment()
    gate = Gate(proxied)
    for step in range(1, 8):
        files[step] = rotate(job, directory, step, lambda: "step-%d" % step in held(directory))
        assert len(held(directory)) <= 2, held(directory)
    job.until(gate.waiting.is_set, "an upload has begun")
    assert held(directory) == ["step-1", "step-7"]
    gate.opened.set()
    job.until_stored(proxied, 1, 7)
    assert steps(proxied) == [1, 7]
    assert all(stored(proxied, step) == files[step] for step in (1, 7))
    assert run_metadata(proxied, 7)["path"] == "step-7"
    assert job.end() == 0
    assert "changed" not in job.log  # nor was an unlink taken for a write
    assert links(directory) == 0 and os.stat(directory / "step-7" / ".metadata").st_nlink == 1


def test_a_sign_is_noticed_at_once(jobs, folder, tmp_path):
    """Not when changes have gathered, which takes 200 ms: at least two of twelve are held before that, on a machine
    that is busy too. Each comes by one rename, so that nothing is heard before its sign, and when nothing else is
    looked for."""
    directory, quick = tmp_path / "a", 0
    job = jobs(folder, directory)
    job.environment()
    for step in range(1, 13):
        write_dcp(tmp_path / "made", step)
        begin = time.monotonic()
        os.rename(tmp_path / "made" / ("step-%d" % step), directory / ("step-%d" % step))
        job.until(lambda: "step-%d" % step in held(directory), "step %d is held" % step)
        quick += time.monotonic() - begin < 0.15
        job.until_stored(folder, step)
        job.until(lambda: links(directory) == 0, "it is let go")
        if quick == 2:
            break
    assert quick == 2
    assert job.end() == 0


def test_the_newest_is_saved_first(jobs, proxied, tmp_path):
    """Whatever waits: a loss of the machine costs what came after the newest that is stored."""
    directory = tmp_path / "a"
    job = jobs(proxied, directory)
    job.environment()
    gate = Gate(proxied)
    write_dcp(directory, 1)
    job.until(gate.waiting.is_set, "an upload has begun")
    for step in (2, 3, 4):
        write_dcp(directory, step)
        job.until(lambda: "step-%d" % step in held(directory), "step %d is held" % step)
    mark, = [path for path in Path(directory, HELD).glob("*/*/.whole") if (path.parent / "step-4").exists()]
    job.until(mark.read_bytes, "the mark is written")  # before that it is empty, and its time changes once more
    begun = mark.stat().st_mtime_ns
    job.until(lambda: mark.stat().st_mtime_ns != begun, "the last has settled, which is marked")
    gate.opened.set()
    job.until_stored(proxied, 1, 2, 3, 4)
    order = [
        int(request.key.split("step-")[1][:12]) for request in proxied.proxy.requests if request.kind == "manifest"
    ]
    assert order == [1, 4, 3, 2]
    assert job.end() == 0
    assert links(directory) == 0


def test_where_links_are_refused(jobs, proxied, tmp_path, no_links):
    """By descriptors."""
    directory, files = tmp_path / "a", {}
    job = jobs(proxied, directory, environment=no_links)
    job.environment()
    gate = Gate(proxied)
    for step in range(1, 5):
        files[step] = rotate(job, directory, step,
                             lambda: any("step-%d/.metadata" % step in path for path in open_files(job, directory)))
    job.until(gate.waiting.is_set, "an upload has begun")
    assert {path.split("/step-")[1][0] for path in open_files(job, directory)} == {"1", "4"}
    assert links(directory) <= 2  # the marks alone
    gate.opened.set()
    job.until_stored(proxied, 1, 4)
    assert all(stored(proxied, step) == files[step] for step in (1, 4))
    job.until(lambda: not open_files(job, directory), "they are closed")
    assert job.end() == 0
    assert "changed" not in job.log


NO_SIGN = ("torchtune", "accelerate")


def regular(directory):
    """The bytes of what is in DIR, without links: as they are stored."""
    return {name: data for name, data in contents(directory).items() if not (directory / name).is_symlink()}


def remove(directory, files):
    for name in {name.partition("/")[0] for name in files} - {TRACKER}:
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout not in NO_SIGN])
def test_each_layout_with_a_sign(jobs, proxied, tmp_path, layout):
    """Removed as soon as it is held; with all files of all ranks, under the names that it had in DIR."""
    directory, expected = tmp_path / "a", {}
    job = jobs(proxied, directory)
    job.environment()
    gate = Gate(proxied)
    for step in (7, 12):
        write_all(LAYOUTS[layout](directory, step, step, **RANKS.get(layout, {})))
        (tmp_path / str(step)).mkdir()
        write_all(LAYOUTS[layout](tmp_path / str(step), step, step, **RANKS.get(layout, {})))
        expected[step] = regular(tmp_path / str(step))
        names = set(expected[step])
        job.until(lambda: any(names == files for files in holds(directory)), "step %d is held" % step)
    remove(directory, expected[7])
    gate.opened.set()
    job.until_stored(proxied, 7, 12)
    assert job.end() == 0
    assert {step: stored(proxied, step) for step in steps(proxied)} == expected
    assert links(directory) == 0


def test_a_layout_without_a_sign_is_held_once_it_is_quiet(jobs, proxied, tmp_path):
    """And may be removed from then on, while its upload has only begun."""
    directory = tmp_path / "a"
    job = jobs(proxied, directory, "--quiet-time", "2")
    job.environment()
    gate = Gate(proxied)
    write_all(LAYOUTS["accelerate"](directory, 7, 7))
    files = regular(directory)
    assert holds(directory) == []
    job.until(gate.waiting.is_set, "an upload has begun")
    assert holds(directory) == [set(files)]
    remove(directory, files)
    gate.opened.set()
    job.until_stored(proxied, 7)
    assert job.end() == 0
    assert steps(proxied) == [7] and stored(proxied, 7) == files
    assert links(directory) == 0


def write_hidden(path):
    """Writes in place, and puts the time of writing back."""
    before = os.stat(path)
    while True:  # until the kernel's clock has ticked
        with open(path, "r+b") as file:
            file.write(b"!")
        changed = os.stat(path).st_ctime_ns != before.st_ctime_ns
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if changed:
            return


@pytest.mark.parametrize("kind", ["file", "record"])
def test_a_write_to_what_is_held_is_noticed(jobs, proxied, tmp_path, kind):
    """The tool's name and ours are the same file. Nothing torn is committed, also where the write hides its time."""
    directory, path = tmp_path / "a", tmp_path / "a" / "step-1" / "__0_0.distcp"
    job = jobs(proxied, directory)
    job.environment()
    gate = Gate(proxied, kind)
    write_dcp(directory, 1)
    job.until(gate.waiting.is_set, "it is being saved")
    write_hidden(path)
    gate.opened.set()
    job.until(lambda: "could not be saved" in job.log, "it is noticed")
    job.until_stored(proxied, 1)
    assert job.end() == 0
    assert "changed while it was being saved" in job.log
    assert stored(proxied, 1) == contents(directory)
    assert stored(proxied, 1)["step-1/__0_0.distcp"].startswith(b"!")


def test_a_rewrite_that_is_given_up_is_not_saved(jobs, proxied, tmp_path):
    """Begun over what is held, and removed in its middle: nobody can say that it is whole."""
    directory = tmp_path / "a"
    job = jobs(proxied, directory)
    job.environment()
    gate = Gate(proxied)
    write_dcp(directory, 1)
    job.until(gate.waiting.is_set, "it is being saved")
    (directory / "step-1" / "__0_0.distcp").write_bytes(b"half")
    shutil.rmtree(directory / "step-1")
    gate.opened.set()
    write_dcp(directory, 2)
    job.until_stored(proxied, 2)
    assert job.end() == 0
    assert steps(proxied) == [2]
    assert links(directory) == 0


def test_what_is_held_when_all_is_killed(jobs, proxied, tmp_path):
    """The tool has removed it, and is killed before the next one is whole: the next start goes on from what was
    held."""
    directory = tmp_path / "a"
    job = jobs(proxied, directory)
    job.environment()
    gate = Gate(proxied)
    rotate(job, directory, 1, lambda: "step-1" in held(directory))
    files = rotate(job, directory, 2, lambda: "step-2" in held(directory))
    shutil.rmtree(directory / "step-2")
    fill(directory / "step-3", {"__0_0.distcp": b"half"})
    job.kill()
    gate.opened.set()
    assert steps(proxied) == []
    again = jobs(proxied, directory)
    assert again.resumed() == (2, "step-2")
    assert {name: data for name, data in contents(directory).items() if name.startswith("step-2/")} == files
    again.until_stored(proxied, 2)
    assert again.end() == 0
    assert steps(proxied) == [2] and stored(proxied, 2) == files
    assert links(directory) == 0


@pytest.mark.parametrize("options", [["--no-restore"], ["--step", "1"]])
def test_a_start_that_wants_no_restore_takes_nothing_from_holds(jobs, proxied, tmp_path, options):
    directory = tmp_path / "a"
    job = jobs(proxied, directory)
    job.environment()
    write_dcp(directory, 1)
    job.until_stored(proxied, 1)
    gate = Gate(proxied)
    rotate(job, directory, 2, lambda: "step-2" in held(directory))
    shutil.rmtree(directory / "step-2")
    job.kill()
    gate.opened.set()
    again = jobs(proxied, directory, *options)
    again.environment()
    assert not (directory / "step-2").exists() and links(directory) == 0
    assert again.end() == 0


def test_what_is_held_is_saved_at_the_end_the_newest_first(jobs, proxied, tmp_path):
    """SIGTERM comes while an upload is under way, and DIR has neither of the two any more."""
    directory, files = tmp_path / "a", {}
    job = jobs(proxied, directory, "--grace", "60", "--flush", "60")
    job.environment()
    gate = Gate(proxied, "manifest")
    for step in (1, 2, 3):
        files[step] = rotate(job, directory, step, lambda: "step-%d" % step in held(directory))
    job.until(gate.waiting.is_set, "an upload has begun")
    shutil.rmtree(directory / "step-3")
    job.signal(signal.SIGTERM)
    job.until(lambda: "the command" in job.log, "the signal is taken")
    job.until(lambda: "to save what is not saved yet" in job.log, "the command has ended")
    gate.opened.set()
    job.wait()
    assert {step: stored(proxied, step) for step in steps(proxied)} == {step: files[step] for step in (1, 3)}
    assert links(directory) == 0


def test_what_cannot_be_saved_in_time_is_left_for_the_next_start(jobs, proxied, tmp_path):
    directory = tmp_path / "a"
    job = jobs(proxied, directory, "--flush", "1")
    job.environment()
    gate = Gate(proxied)
    files = rotate(job, directory, 1, lambda: "step-1" in held(directory))
    shutil.rmtree(directory / "step-1")
    job.until(gate.waiting.is_set, "an upload has begun")
    job.signal(signal.SIGTERM)
    job.wait()
    assert "NOT SAVED: step 1" in job.log
    gate.opened.set()
    again = jobs(proxied, directory)
    assert again.resumed() == (1, "step-1")
    again.until_stored(proxied, 1)
    assert again.end() == 0 and stored(proxied, 1) == files


def test_hundreds_of_rotations_leave_nothing(jobs, folder, tmp_path):
    directory = tmp_path / "a"
    job = jobs(folder, directory, "--keep-last", "2", "--quiet")
    job.environment()
    write_dcp(directory, 1)
    job.until_stored(folder, 1)
    before = len(os.listdir("/proc/%d/fd" % job.process.pid))
    for step in range(2, 302):
        write_dcp(directory, step)
        shutil.rmtree(directory / ("step-%d" % (step - 1)))
        assert len(held(directory)) <= 2
    job.until_stored(folder, 301)
    job.until(lambda: links(directory) == 0, "all is let go")
    job.until(lambda: len(os.listdir("/proc/%d/fd" % job.process.pid)) <= before, "nothing is open any more")
    assert len(json.loads((directory / ".cleat-run" / "state.json").read_text())["committed"]) <= 2
    assert job.end() == 0
    assert links(directory) == 0


def test_what_could_not_be_saved_at_all_is_left_for_the_next_start(jobs, folder, tmp_path):
    """The command ends well, and the store takes nothing: DIR has it no more, so what is held is all that there is."""
    directory = tmp_path / "a"
    job = jobs(folder, directory)
    job.environment()
    folder.path.write_bytes(b"no folder")
    files = rotate(job, directory, 1, lambda: "step-1" in held(directory))
    shutil.rmtree(directory / "step-1")
    job.until(lambda: "could not be saved" in job.log, "it is tried")
    assert job.end() == 125
    folder.path.unlink()
    again = jobs(folder, directory)
    assert again.resumed() == (1, "step-1")
    again.until_stored(folder, 1)
    assert again.end() == 0 and stored(folder, 1) == files


def test_the_state_lists_what_dir_has(jobs, folder, tmp_path):
    """Of a tool that removes its checkpoints some time after they were stored."""
    directory = tmp_path / "a"
    job = jobs(folder, directory, "--quiet", "--keep-last", "1")
    job.environment()
    for step in range(1, 41):
        write_dcp(directory, step)
        job.until(lambda: folder.manifest_key(step) in folder.keys(), "step %d is stored" % step)
        job.until(lambda: links(directory) == 0, "and let go")
        shutil.rmtree(directory / ("step-%d" % step))
    assert job.end() == 0
    assert len(json.loads((directory / ".cleat-run" / "state.json").read_text())["committed"]) < 33


def metrics(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split()[0].partition("cleat_run_")[2]: float(line.split()[1]) for line in lines if line[0] != "#"}


def test_how_far_the_store_is_behind(jobs, proxied, tmp_path):
    """In the metrics at once; in a warning when it has grown; and when it is over, that is said too."""
    directory, path = tmp_path / "a", tmp_path / "cleat.prom"
    job = jobs(proxied, directory, "--metrics-file", path)
    job.environment()
    gate = Gate(proxied)
    for step in (1, 2, 3, 4):
        rotate(job, directory, step, lambda: "step-%d" % step in held(directory))
    job.until(lambda: metrics(path).get("newest_local_step") == 4 and metrics(path)["behind_seconds"] > 1, "it is told")
    now = metrics(path)
    assert (now["held_checkpoints"], now["passed_by_total"]) == (2, 2)
    assert 0 <= now["newest_local_age_seconds"] <= now["behind_seconds"]
    job.until(lambda: "saving does not keep up" in job.log, "it is said")
    job.until(lambda: "behind the folder for" in job.log, "the status line says so")
    gate.opened.set()
    job.until(lambda: "saving keeps up again" in job.log, "its end is said")
    job.until(lambda: metrics(path)["behind_seconds"] == 0, "and told")
    assert job.end() == 0
    assert job.log.count("saving does not keep up") == 1


def cpu_seconds(pid):
    fields = Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_folder_that_is_away_for_a_while(jobs, folder, tmp_path):
    """It is said once, and looked for now and then, not all the time."""
    directory, away = tmp_path / "a", tmp_path / "away"
    job = jobs(folder, directory)
    job.environment()
    files = write_dcp(directory, 1)
    job.until(lambda: "step-1" in held(directory), "step 1 is held")
    directory.rename(away)
    job.until(lambda: "cannot read the folder" in job.log, "it is missed")
    before = cpu_seconds(job.process.pid)
    time.sleep(2)
    assert cpu_seconds(job.process.pid) - before < 0.15, "it looks all the time"  # else it takes next to nothing
    away.rename(directory)
    job.until_stored(folder, 1)
    assert job.end() == 0 and stored(folder, 1) == files
    assert job.log.count("cannot read the folder") == 1
