"""Every fault at every step of the protocol: the list of cases, how to run one, and what must hold after it.

A case is a fault, a step, and how long the fault lasts: once, twice, or always. The program runs against a server that
misbehaves by script, with a store in memory or in front of MinIO. Afterwards the store itself is read, without that
server and without Cleat.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
from botocore.config import Config

from helpers import ROOT, clean_environment, fill, noise, run, tree

sys.path.insert(0, str(ROOT / "tests" / "mock"))
from fault_server import FaultServer, Upstream  # noqa: E402
from faults import FAULTS, Redirect, Rule, Script  # noqa: E402
from s3_memory import MemoryStore, Object  # noqa: E402

MIB = 1 << 20
LIMIT_S = 4  # --time-limit under a fault that does not end
IDLE_S = 30  # CLEAT__HTTP_IDLE_MS: what a silent server costs before the next try
GRACE_S = 6  # CLEAT__S3_GRACE_MS, and a second until a cancel is seen
SLACK_S = 60  # a busy machine
DIRECT = os.environ.get("CLEAT_TEST_DIRECT") or os.environ.get("CLEAT_TEST_ENDPOINT")  # past what verifies signatures
HANG_S = 200  # what is not over then hangs
AT_ONCE = 40  # cases
IN_DOUBT = "may or may not be committed"
STEP = "run/step-000000000002/"
MANIFEST = STEP + "manifest.json"

# Where a request stands: column of the table, line of the script. A save's first, then a load's, then a failed save's.
SAVE = {"look": "get-manifest", "create": "create", "part 1": "part 1", "part 2": "part 2", "part 3": "part 3",
        "complete": "complete", "file": "file", "record": "record", "manifest": "manifest"}
HEAD = {"head": "head"}
LOAD = {"list": "list", "get manifest": "get-manifest", "get record": "get-record", "get part": "get-part"}
CLEAN = {"abort": "abort", "list parts": "parts", "delete": "delete"}
STEPS = {**SAVE, **HEAD, **LOAD, **CLEAN}

PUTS = ("part 1", "part 2", "part 3", "file", "record", "manifest")
BODY_UP = PUTS + ("complete",)
BODY_DOWN = ("create", "complete", *LOAD)
# Row of the table: the steps at which it can happen.
WHERE = {
    **dict.fromkeys(("reset", "reset-after-send", "lost-reply", "black-hole", "silent-reply", "slow-reply",
                     "half-close", "slow-down", "internal-error", "too-many", "request-timeout", "bad-gateway",
                     "denied", "expired-token", "ahead", "behind", "other-region", "moved", "redirect", "html",
                     "many-headers"),
                    tuple(STEPS)),
    **dict.fromkeys(("reset-mid-body", "slow-request", "flip-request"), BODY_UP),
    **dict.fromkeys(("reset-mid-reply", "half-close-mid-reply", "truncated", "partial", "overlong"), BODY_DOWN),
    "flip-reply": BODY_DOWN + ("part 1", "file"),
    "error-in-200": PUTS + ("create", "complete"),
    "no-etag": PUTS + ("complete", "head", "get manifest"),
    **dict.fromkeys(("white-space", "white-space-error", "endless-white-space", "done-but-gone"), ("complete",)),
    "no-upload": ("part 1", "part 3", "complete", "abort"),
    **dict.fromkeys(("conflict", "precondition", "lost-reply-unconditional"), ("record", "manifest")),
    **dict.fromkeys(("other-range", "no-range"), ("get part",)),
}
# What lasts is another fault than what passes: a clock that stays wrong can be learned. A move is followed once.
LASTING = {"ahead": "always-ahead", "behind": "always-behind", "other-region": "always-other-region", "moved": "moved"}
# The client finds out by its idle limit alone, so once is enough.
SILENT = ("black-hole", "silent-reply", "slow-reply", "slow-request")
# A Complete may be silent for ten minutes (COMPLETE_IDLE_MS), and white space may come until the time limit: that it is
# bounded by the limit is all that is worth waiting for.
ENDLESS = SILENT + ("endless-white-space",)


# Faults that pass, and end a save or load all the same: the answer is final, whoever gave it.
FINAL = {
    "denied": STEPS,
    "redirect": STEPS,  # nobody is followed with a signature
    "no-upload": STEPS,
    "precondition": STEPS,
}
# Faults that last, and do no harm: it was done at the first try, which reading back, or HEAD, then shows.
SETTLED = ("record", "manifest")
HARMLESS = {
    **dict.fromkeys(("lost-reply-unconditional", "silent-reply", "slow-reply"), SETTLED),
    # Of a Complete: the upload is gone from the list, and the object is there.
    "lost-reply": SETTLED + ("complete",),
    "many-headers": SETTLED + ("complete",),
    "no-etag": SETTLED + ("complete", "file"),
    **dict.fromkeys(("truncated", "overlong", "done-but-gone", "white-space", "reset-mid-reply", "half-close-mid-reply",
                     "partial"), ("complete",)),
    "flip-reply": ("complete", "file", "part 1"),  # of a part the ETag, which the store's list has as well
}


@dataclass(frozen=True)
class Case:
    place: str  # memory, or minio
    fault: str
    step: str
    times: str
    limit_s: int = LIMIT_S

    def __str__(self):
        return "-".join((self.place, self.fault, self.step.replace(" ", "-"), self.times))

    @property
    def lasts(self):
        return self.times == "always"

    @property
    def ends_well(self):
        """Whether the program is to succeed; a save that has failed and cleans up cannot any more."""
        if self.step in CLEAN:
            return False
        return self.step in HARMLESS.get(self.fault, ()) if self.lasts else self.step not in FINAL.get(self.fault, ())

    @property
    def bound_s(self):
        """The documented limits that a run may meet one after another: the request itself, what settles its doubt, and
        cleaning up; for a fault that passes, the wait of each silent try, and the pauses between tries."""
        return 3 * self.limit_s + GRACE_S if self.lasts else 2 * (IDLE_S + 2) + GRACE_S


def cases():
    made = []
    for fault, steps in WHERE.items():
        passing = "once" if fault in SILENT or fault in LASTING else "twice"
        made += [Case("memory", fault, step, times) for step in steps for times in (passing, "always")
                 if times == "always" or step != "complete" or fault not in ENDLESS]
        # A real server has a clock and a region of its own, looks at preconditions, and its keys have no token that
        # could end. Silence is silence everywhere.
        if fault not in ENDLESS + ("ahead", "behind", "other-region", "expired-token", "lost-reply-unconditional"):
            made += [Case("minio", fault, step, "once") for step in steps]
    # The longest first, so that they are not what is waited for in the end.
    return sorted(made, key=lambda case: (case.fault not in SILENT or case.lasts, not case.lasts))


class Memory:
    """A store in memory, and the keys for it."""

    environment = {"AWS_ACCESS_KEY_ID": "thekey", "AWS_SECRET_ACCESS_KEY": "thesecretkeythatmustnotbeseen",
                   "AWS_SESSION_TOKEN": "thetokenthatmustnotbeseen", "AWS_REGION": "us-east-1"}

    def __init__(self, objects):
        self.store = MemoryStore({key: Object(body) for key, body in objects.items()})
        self.bucket = "bucket"

    def calm(self):
        self.store.clock_s, self.store.region, self.store.preconditions = 0, None, True

    def objects(self):
        return {key: held.body for key, held in self.store.objects.items()}

    def parts_left(self, keys):
        """Of each upload that has not ended: the numbers of its parts."""
        return [sorted(upload.parts) for upload in self.store.uploads.values()]

    def remove(self):
        pass


class Real:
    """A bucket of the test's MinIO, looked at by boto3."""

    def __init__(self, client, objects):
        self.environment = {
            name: os.environ[name]
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
        }
        self.client = client  # threads may share one
        self.store, self.bucket = Upstream(DIRECT), "fault-%s" % uuid.uuid4().hex[:16]
        self.client.create_bucket(Bucket=self.bucket)
        for key, body in objects.items():
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body)

    def calm(self):
        pass

    def keys(self):
        listed = self.client.list_objects_v2(Bucket=self.bucket)
        return [entry["Key"] for entry in listed.get("Contents", [])]

    def objects(self):
        return {key: self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in self.keys()}

    def uploads(self, keys):
        """Of those keys: MinIO lists the uploads of one whole key alone."""
        return [(key, entry["UploadId"]) for key in keys
                for entry in self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=key).get("Uploads", [])]

    def parts_left(self, keys):
        listed = [
            self.client.list_parts(Bucket=self.bucket, Key=key, UploadId=name) for key, name in self.uploads(keys)
        ]
        return [[part["PartNumber"] for part in page.get("Parts", [])] for page in listed]

    def remove(self):
        for key in self.keys():
            self.client.delete_object(Bucket=self.bucket, Key=key)
        self.client.delete_bucket(Bucket=self.bucket)


@dataclass
class Outcome:
    """How a case ended."""

    case: Case
    code: int
    status: str  # the library's, "" for a success
    hits: int  # requests that the fault met
    seconds: float
    problems: list  # what must not be
    said: str

    @property
    def cell(self):
        said = "ok" if self.code == 0 else "%d %s" % (self.code, self.status)
        return said + (" ×%d" % self.hits if self.hits > 1 else "")


class Matrix:
    """What all cases share: what is saved, and stores that hold it. Read-only once made."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.previous = fill(self.folder / "previous", {"a.bin": noise(3000, 1), "b/c.txt": b"c\n"})
        self.source = fill(self.folder / "source", {"model.bin": noise(10 * MIB + 77, 2), "config.json": b"{}" * 500})
        self.before = self.saved({}, self.previous, 1)
        self.after = self.saved(self.before, self.source, 2)
        self.trap = Trap()
        self.client = boto3.client("s3", endpoint_url=DIRECT, config=Config(max_pool_connections=AT_ONCE))
        self.real_after = Real(self.client, self.after)

    def close(self):
        self.real_after.remove()
        self.trap.listener.close()

    @contextlib.contextmanager
    def place(self, case):
        """Where the case runs: a load looks at what is shared."""
        loads = case.step in LOAD
        if case.place == "minio" and loads:
            yield self.real_after
            return
        objects = self.after if loads else self.before
        place = Memory(objects) if case.place == "memory" else Real(self.client, objects)
        try:
            yield place
        finally:
            place.remove()

    def saved(self, objects, source, step):
        place = Memory(objects)
        server = FaultServer(place.store)
        result = self.cleat(place, server, "save", source, "--step", step, "--part-size", "5M")
        server.close()
        assert result.code == 0, result
        return place.objects()

    @staticmethod
    def cleat(place, server, command, *arguments):
        environment = dict(clean_environment(), AWS_ENDPOINT_URL=server.url, **place.environment)
        url = "s3://%s/run" % place.bucket
        places = [*arguments[:1], url] if command == "save" else [url, *arguments[:1]]
        return run(command, *places, *arguments[1:], environment=environment, timeout=HANG_S)

    # ---- One case ----

    def script(self, case):
        name = LASTING.get(case.fault, case.fault) if case.lasts else case.fault
        step, _, number = STEPS[case.step].partition(" ")
        fault = Redirect(self.trap.url) if case.fault == "redirect" else FAULTS[name]()
        rule = Rule(step, fault, int(number) if number else None, {"once": 1, "twice": 2, "always": None}[case.times])
        # To come there at all: what makes a save fail, or doubt.
        before = {"abort": ["part 3: denied always"], "list parts": ["part 3: denied always"],
                  "delete": ["record: denied always"], "head": ["complete: lost-reply once"]}.get(case.step, [])
        return Script(*before, rule), rule

    def run(self, case):
        """A machine so busy that the time limit ended before the fault came, or before a success, gets more time."""
        outcome = self.run_once(case)
        while case.lasts and outcome.status == "TIMEOUT" and case.limit_s < 60 and \
                (outcome.hits == 0 or case.ends_well):
            case = replace(case, limit_s=4 * case.limit_s)
            outcome = self.run_once(case)
        return outcome

    def run_once(self, case):
        script, rule = self.script(case)
        with self.place(case) as place, tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            server, back = FaultServer(place.store, script), Path(scratch) / "back"
            options = ["--json", *(["--time-limit", case.limit_s] if case.lasts else [])]
            began = time.monotonic()
            try:
                result = self.cleat(place, server, "load", back, *options) if case.step in LOAD else \
                    self.cleat(place, server, "save", self.source, "--step", 2, "--part-size", "5M", "--jobs", 4,
                               *options)
            except subprocess.TimeoutExpired:
                server.close()
                return Outcome(case, -1, "HANGS", rule.hits, HANG_S, ["it hangs"], "")
            seconds = time.monotonic() - began
            status = "" if result.code == 0 else result.json["error"]["status"]
            outcome = Outcome(case, result.code, status, rule.hits, seconds, [], result.err)
            try:
                server.script = Script()
                server.settle()
                place.calm()
                self.judge(outcome, result, place, server, back)
            finally:
                server.close()
        return outcome

    # ---- What must hold ----

    def judge(self, outcome, result, place, server, back):
        case = outcome.case
        wrong = outcome.problems.append
        if outcome.hits == 0:
            wrong("the fault never came")
        if outcome.seconds > case.bound_s + SLACK_S:
            wrong("it took %.1f s; the limits add up to %d s" % (outcome.seconds, case.bound_s))
        for problem in wrong_words(result, place.environment):
            wrong(problem)
        if case.step in LOAD:
            if (tree(back) if back.exists() else None) != (tree(self.source) if result.code == 0 else None):
                wrong("exit status %d, but what was loaded is not so" % result.code)
            return
        committed = self.judge_store(outcome, place, server, wrong)
        if whole_but_for_manifest(outcome) and not committed:
            again = self.cleat(place, server, "save", self.source, "--step", 2, "--part-size", "5M", "--resume",
                               "--json")
            if again.code != 0 or again.json["resumed_bytes"] != sum(map(len, tree(self.source).values())):
                wrong("going on with it says %s" % again)
            committed = self.judge_store(outcome, place, server, wrong, resumed=True)
        # Cleat sees what is whole, and nothing else; the checkpoint before still loads.
        listed = self.cleat(place, server, "ls", "--json")
        if listed.code != 0 or "damaged" in listed.json or \
                [entry["step"] for entry in listed.json["checkpoints"]] != ([1, 2] if committed else [1]):
            wrong("ls says %s" % listed)
        loaded = self.cleat(place, server, "load", back, "--step", 1, "--quiet")
        if loaded.code != 0 or tree(back) != tree(self.previous):
            wrong("the checkpoint before does not load: %s" % loaded)

    def judge_store(self, outcome, place, server, wrong, resumed=False):
        """Byte for byte, in the store itself. True: the step is there."""
        objects = place.objects()
        committed = MANIFEST in objects
        for key, body in self.before.items():
            if objects.get(key) != body:
                wrong("%s was changed" % key)
        if committed != (resumed or outcome.code == 0) and IN_DOUBT not in outcome.said:
            wrong("exit status %d, but the step is %s" % (outcome.code, "there" if committed else "not there"))
        mine = {key: body for key, body in objects.items() if key.startswith(STEP)}
        files = {key[len(STEP):].partition("/")[2]: body for key, body in mine.items() if key != MANIFEST}
        files.pop("rank-00000.json", None)
        if committed and files != tree(self.source):
            wrong("what is visible is not what was saved")
        if mine and not committed and whole_but_for_manifest(outcome):
            if files != tree(self.source):
                wrong("what is left is not what was to be saved")
        elif mine and not committed and not may_leave(outcome):
            wrong("left behind: %s" % sorted(mine))
        uploads = place.parts_left(server.keys("create"))
        # A Create whose reply was lost is an upload that nobody knows; it holds nothing.
        if (any(uploads) or (uploads and outcome.case.step != "create")) and not may_leave(outcome):
            wrong("uploads are left, with parts %s" % uploads)
        return committed


def wrong_words(result, environment):
    """A failure is one line and perhaps a hint; a success says nothing; neither tells a secret."""
    lines = [line for line in result.err.splitlines() if not line.startswith("cleat: warning: ")]
    if result.code == 0 and lines:
        yield "a success that says: %s" % lines
    sane = 1 <= len(lines) <= 2 and lines[0].startswith("cleat: ") and (len(lines) == 1 or
                                                                        lines[1].startswith("hint: "))
    if result.code != 0 and (not sane or result.code not in (1, 3, 4, 5)):
        yield "exit status %d with %s" % (result.code, lines)
    for secret in (environment["AWS_SECRET_ACCESS_KEY"], environment.get("AWS_SESSION_TOKEN",
                                                                         "Signature="), "Signature="):
        if secret in result.err or secret in result.out:
            yield "a secret is told: %s" % secret


def whole_but_for_manifest(outcome):
    """The rank record stands, and whoever resumes the save may be committing it: what it names stays."""
    return outcome.code not in (0, 5) and outcome.case.step == "manifest"


def may_leave(outcome):
    """Where a store refuses to be cleaned up; and what a manifest needs that may yet appear."""
    case = outcome.case
    refused = case.step in CLEAN and (case.lasts or case.fault in FINAL)
    return outcome.code != 0 and (refused or IN_DOUBT in outcome.said)


class Trap:
    """Another host, to which nobody may come."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.2", 0), backlog=128)
        self.url = "http://127.0.0.2:%d/" % self.listener.getsockname()[1]

    def visited(self):
        self.listener.settimeout(0)
        try:
            self.listener.accept()
            return True
        except BlockingIOError:
            return False
