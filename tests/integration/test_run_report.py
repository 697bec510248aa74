"""The reports of `cleat run`: lines for people, JSON for programs, and Prometheus metrics, read by the parser of
Prometheus."""

import datetime
import os
import re
import threading
import time

from prometheus_client.parser import text_string_to_metric_families

from helpers import fill, noise
from run_jobs import OWN_FAILURE, steps, stored, write_dcp


def metrics(path):
    """Name to value; the types must be those that the names promise."""
    found = {}
    for family in text_string_to_metric_families(path.read_text()):
        assert family.documentation
        for sample in family.samples:
            assert sample.name.startswith("cleat_run_") and not sample.labels
            assert (family.type == "counter") == sample.name.endswith("_total"), sample
            assert sample.name not in found
            found[sample.name[len("cleat_run_"):]] = sample.value
    return found


def kinds(job):
    for event in job.events:
        moment = datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
        assert abs((datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - moment).total_seconds()) < 3600
    return [event["event"] for event in job.events]


def named(job, kind):
    return [event for event in job.events if event["event"] == kind]


def test_json_lines_of_a_whole_life(jobs, store, tmp_path):
    first = jobs(store, tmp_path / "a", "--log", "json", "--keep-last", "1", "--keep-local", "1")
    first.environment()
    files = {}
    for step in (1, 2):
        files[step] = write_dcp(tmp_path / "a", step)
        first.until_stored(store, step)
    assert first.end(3) == 3
    said = kinds(first)
    assert said[0] == "nothing_restored" and [kind for kind in said if kind == "saved"] == ["saved"] * 2
    assert {"started", "pruned", "deleted_local"} <= set(said)
    for event, step in zip(named(first, "saved"), (1, 2)):
        assert (event["step"], event["path"], event["files"]) == (step, "step-%d" % step, 2)
        assert event["bytes"] == sum(len(data) for data in files[step].values()) and event["seconds"] > 0
    assert [event["step"] for event in named(first, "pruned")] == [1]
    assert [event["step"] for event in named(first, "deleted_local")] == [1]
    assert named(first, "ended")[0]["exit_status"] == 3

    again = jobs(store, tmp_path / "b", "--log", "json")
    again.environment()
    assert again.end() == 0
    assert kinds(again)[0] == "restored"
    assert named(again, "restored")[0]["step"] == 2


def test_json_lines_of_what_goes_wrong(jobs, bucket, tmp_path):
    job = jobs(bucket, tmp_path / "a", "--log", "json")
    job.environment()
    for key in bucket.keys():
        bucket.delete(key)
    bucket.client.delete_bucket(Bucket=bucket.bucket)
    write_dcp(tmp_path / "a", 1)
    (tmp_path / "a" / 'step-2').mkdir()
    os.symlink("..", tmp_path / "a" / "step-2" / 'a "quoted"\n link')
    write_dcp(tmp_path / "a", 2)
    job.tell("0")
    status = job.wait()
    bucket.client.create_bucket(Bucket=bucket.bucket)
    assert status == OWN_FAILURE
    failures = [event for event in named(job, "failed") if event["step"] == 1]
    assert failures and failures[0]["error"]["s3_code"] == "NoSuchBucket"
    assert {event["step"] for event in named(job, "unsaved")} == {1, 2}
    assert all(event["reason"] for event in named(job, "unsaved"))


def test_lines_for_people(jobs, folder, tmp_path):
    job = jobs(folder, tmp_path / "a")
    job.environment()
    write_dcp(tmp_path / "a", 1)
    job.until_stored(folder, 1)
    assert job.end() == 0
    for line in job.log.splitlines():
        assert re.match(r"cleat: \d\d:\d\d:\d\d \S", line) and "\x1b" not in line, line
    assert re.search(r"saved step 1: 2 files, .*", job.log)
    quiet = jobs(folder, tmp_path / "a", "--quiet")
    quiet.environment()
    assert quiet.end(5) == 5
    assert quiet.log == ""


def test_metrics(jobs, proxied, tmp_path):
    path = tmp_path / "metrics" / "cleat.prom"
    path.parent.mkdir()
    gates, held = {2: threading.Event(), 3: threading.Event()}, []

    def before(request):
        for step, gate in gates.items():
            if request.kind == "file" and "step-%012d/" % step in request.key:
                held.append(request)
                gate.wait(60)
        return True

    proxied.proxy.before = before
    job = jobs(proxied, tmp_path / "a", "--metrics-file", path)
    job.environment()
    files = write_dcp(tmp_path / "a", 1)
    job.until_stored(proxied, 1)
    write_dcp(tmp_path / "a", 2)
    job.until(lambda: held, "the next one is being saved")
    write_dcp(tmp_path / "a", 3)
    job.until(lambda: metrics(path).get("saving_step") == 2, "the metrics say so")
    job.until(lambda: metrics(path)["pending_checkpoints"] == 1, "and that one more waits")
    now = metrics(path)
    size = sum(len(data) for data in files.values())
    assert now.items() >= {"saves_total": 1, "saved_bytes_total": size, "saved_files_total": 2, "newest_commit_step": 1,
                           "saving": 1, "command_running": 1, "store_reachable": 1, "unsaved_total": 0}.items()
    assert now["newest_commit_age_seconds"] >= 0 and "command_exit_status" not in now
    gates[2].set()
    job.until(lambda: metrics(path).get("saving_step") == 3, "it is the next one's turn")
    job.tell("7")
    job.until(lambda: "ended with exit status 7" in job.log, "the command ends before that")
    gates[3].set()
    assert job.wait() == 7
    assert steps(proxied) == [1, 2, 3]
    end = metrics(path)
    assert end.items() >= {"saves_total": 3, "newest_commit_step": 3, "saving": 0, "command_running": 0,
                           "pending_checkpoints": 0, "command_exit_status": 7, "unsaved_total": 0}.items()
    assert os.listdir(path.parent) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o644

    again = jobs(proxied, tmp_path / "b", "--metrics-file", path)
    again.environment()
    again.until(lambda: metrics(path).get("restored_step") == 3, "the restore is told")
    assert again.end() == 0


def test_metrics_go_on_during_a_final_state(jobs, proxied, tmp_path):
    path, gate, held = tmp_path / "cleat.prom", threading.Event(), []

    def before(request):
        if request.kind == "file":
            held.append(path.read_text())
            gate.wait(60)
        return True

    proxied.proxy.before = before
    job = jobs(proxied, tmp_path / "a", "--final", "--metrics-file", path)
    job.environment()
    fill(tmp_path / "a", {"model.pt": noise(5000)})
    job.tell("0")
    try:
        job.until(lambda: held, "the final state is being saved")
        job.until(lambda: path.read_text() != held[0], "the metrics are written anew")
    finally:
        gate.set()
    assert job.wait() == 0
    assert metrics(path)["command_exit_status"] == 0
    assert stored(proxied, 0) == {"model.pt": noise(5000)}


def test_metrics_that_are_part_of_a_final_state_rest(jobs, proxied, tmp_path):
    """They would change it for as long as it takes to save it."""
    path, late = tmp_path / "a" / "cleat.prom", []

    def before(request):
        if request.kind == "file":
            late.append(path.read_text())
            time.sleep(3)  # a slow store; figures change a second after the command's end
            late.append(path.read_text())
        return True

    proxied.proxy.before = before
    job = jobs(proxied, tmp_path / "a", "--final", "--metrics-file", path)
    job.environment()
    fill(tmp_path / "a", {"model.pt": noise(5000)})
    assert job.end() == 0
    assert len(late) == 4 and len(set(late)) == 1, "each file was sent once, and the metrics rested"
    assert stored(proxied, 0) == {"model.pt": noise(5000), "cleat.prom": late[0].encode()}
    assert path.read_text() != late[0], "the last word comes after"


def test_metrics_are_never_seen_in_part(jobs, folder, tmp_path):
    """A collector that reads without pause, while a lot happens."""
    path, ends, stop = tmp_path / "cleat.prom", set(), threading.Event()

    def collect():
        while not stop.is_set():
            if path.exists():
                ends.add(path.read_text().splitlines()[-1].split()[0])

    job = jobs(folder, tmp_path / "a", "--metrics-file", path)
    job.environment()
    collector = threading.Thread(target=collect)
    collector.start()
    try:
        for step in range(1, 4):
            write_dcp(tmp_path / "a", step)
            job.until_stored(folder, step)
            job.until(lambda: path.exists() and metrics(path)["saves_total"] == step, "it is counted")
    finally:
        stop.set()
        collector.join()
    assert job.end() == 0
    assert len(ends) == 1, ends


def test_metrics_that_cannot_be_written(jobs, folder, tmp_path):
    """Said, and no more: the training goes on."""
    job = jobs(folder, tmp_path / "a", "--metrics-file", tmp_path / "no" / "cleat.prom")
    job.environment()
    write_dcp(tmp_path / "a", 1)
    job.until_stored(folder, 1)
    assert job.end() == 0
    assert job.log.count(str(tmp_path / "no")) == 1
