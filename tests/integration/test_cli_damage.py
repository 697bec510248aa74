"""Damaged stores: every kind of damage is noticed and named, and nothing is loaded. The damage is done from outside."""

import copy
import json
import re

import pytest

from helpers import assert_error, fill, noise, tree

PART = 5 << 20


def save_two(store, tmp_path):
    """Step 1, and step 2 whose large file has three parts."""
    fill(tmp_path / "one", {"a.bin": b"first"})
    fill(tmp_path / "two", {"a.bin": noise(1000), "dir/large.bin": noise(2 * PART + 1000)})
    store.save(tmp_path / "one", 1)
    store.save(tmp_path / "two", 2, "--part-size", "5M")
    return store


@pytest.fixture
def saved(store, tmp_path):
    return save_two(store, tmp_path)


@pytest.fixture
def saved_folder(folder, tmp_path):
    """For what is read in the same way from every store."""
    return save_two(folder, tmp_path)


def assert_damaged(store, tmp_path, status, *words):
    """Step 2 can be neither loaded nor verified, nothing appears at the destination, and step 1 is untouched."""
    back = tmp_path / "back"
    for command in (["load", store.url, back, "--step", "2"], ["verify", store.url, "--step", "2"]):
        result = store.cleat(*command)
        assert_error(result, 4, *words)
        result = store.cleat(*command, "--json")
        assert result.code == 4 and result.json["error"]["status"] in status, result
        assert not back.exists(), result
    assert sorted(path.name for path in tmp_path.iterdir() if path.name not in ("one", "two", "store")) == []
    result = store.cleat("load", store.url, tmp_path / "first", "--step", "1")
    assert result.code == 0 and tree(tmp_path / "first") == {"a.bin": b"first"}, result


def assert_listed(store, *words):
    """ls shows step 1, names the damage on stderr, and says so with its exit status."""
    result = store.cleat("ls", store.url)
    assert result.code == 4 and [line.split()[0] for line in result.out.splitlines()] == ["STEP", "1"], result
    warnings = result.err.splitlines()
    assert len(warnings) == 1 and warnings[0].startswith("cleat: warning: "), result
    for word in words:
        assert word in warnings[0], result
    result = store.cleat("ls", store.url, "--json")
    assert result.code == 4 and [entry["step"] for entry in result.json["checkpoints"]] == [1], result
    assert len(result.json["damaged"]) == 1 and "2" in result.json["damaged"][0]["message"], result


def assert_passed_over(store, tmp_path):
    """The newest is then step 1, which is not taken without a word."""
    result = store.cleat("load", store.url, tmp_path / "newest", "--json")
    assert result.code == 0 and result.json["step"] == 1, result
    assert result.err.startswith("cleat: warning: passed over: ") and result.err.count("\n") == 1, result


# ---- Files ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("offset, part", [(0, 1), (PART - 1, 1), (PART, 2), (2 * PART + 999, 3)])
def test_a_flipped_bit_is_named_with_file_and_part(saved, tmp_path, offset, part):
    key = saved.file_key(2, "dir/large.bin")
    data = bytearray(saved.get(key))
    data[offset] ^= 0x10
    saved.put(key, bytes(data))
    assert_damaged(saved, tmp_path, ["INTEGRITY"], "dir/large.bin", "part %d" % part)
    assert saved.cleat("ls", saved.url).code == 0


def test_the_destination_keeps_its_files_when_the_store_is_damaged(saved, tmp_path):
    key = saved.file_key(2, "dir/large.bin")
    saved.put(key, saved.get(key)[:-1] + b"\0")
    back = fill(tmp_path / "back", {"a.bin": b"mine", "dir/large.bin": b"mine too"})
    assert_error(saved.cleat("load", saved.url, back, "--force", "--step", "2"), 4, "dir/large.bin")
    assert tree(back) == {"a.bin": b"mine", "dir/large.bin": b"mine too"}
    assert sorted(path.name for path in back.iterdir()) == ["a.bin", "dir"]


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data[:PART], lambda data: b"",
                                    lambda data: data[PART:] + data[:PART]])
def test_a_cut_or_shuffled_file(saved, tmp_path, change):
    key = saved.file_key(2, "dir/large.bin")
    saved.put(key, change(saved.get(key)))
    assert_damaged(saved, tmp_path, ["INTEGRITY"], "dir/large.bin")


def test_a_missing_file(saved, tmp_path):
    saved.delete(saved.file_key(2, "dir/large.bin"))
    assert_damaged(saved, tmp_path, ["INTEGRITY"], "dir/large.bin")
    assert_passed_over(saved, tmp_path)


# ---- The rank record -----------------------------------------------------------------------------

def test_a_missing_record(saved, tmp_path):
    saved.delete(saved.record_key(2))
    assert_damaged(saved, tmp_path, ["INTEGRITY"], "rank-00000.json")
    assert_passed_over(saved, tmp_path)


@pytest.mark.parametrize("change", [lambda text: text[:-1], lambda text: text + b" ",
                                    lambda text: text[:len(text) // 2],
                                    lambda text: text.replace(b'"size":1000', b'"size":1001'),
                                    # Just as long, and it makes sense: nothing but the digest can tell.
                                    lambda text: re.sub(rb'"nonce":"..', b'"nonce":"xy', text)])
def test_an_altered_record(saved, tmp_path, change):
    key = saved.record_key(2)
    changed = change(saved.get(key))
    assert changed != saved.get(key)
    saved.put(key, changed)
    assert_damaged(saved, tmp_path, ["INTEGRITY"], "rank-00000.json")
    assert_passed_over(saved, tmp_path)


OUTSIDE = ["../../step-000000000001/manifest.json", "..", "a/../../b", "/etc/passwd", "//x", "a//b", "./a", "a/./b",
           "a/", "", ".", "nul\0byte", "line\nend", "esc\x1b", "del\x7f", "c1\x9b", "rank-00000.json", "x" * 2000]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_record_that_names_files_outside_its_folder(saved_folder, tmp_path, name):
    """The digests are made to fit, so that nothing but the check of the name itself can stop it."""
    record = saved_folder.record(2)
    record["files"][0]["name"] = name
    saved_folder.put_record(2, record)
    assert_damaged(saved_folder, tmp_path, ["FORMAT"], "name")


def rename(record, old, new):
    text = json.dumps(record)
    assert old in text
    return text.replace(old, new).encode()


@pytest.mark.parametrize("change", [
    lambda record: b"",
    lambda record: b"{}",
    lambda record: b"[]",
    lambda record: b"\0" * 100,
    lambda record: json.dumps(record).encode()[:-1],
    lambda record: json.dumps(record).encode() + b"{}",
    lambda record: dict(record, files=[]),
    lambda record: dict(record, files=record["files"] * 2),
    lambda record: dict(record, files={}),
    lambda record: dict(record, rank=1),
    lambda record: dict(record, rank=-1),
    lambda record: dict(record, attempt="another"),
    lambda record: dict(record, attempt="../x"),
    lambda record: dict(record, format="cleat.other"),
    lambda record: rename(record, '"size": 1000', '"size": -1'),
    lambda record: rename(record, '"size": 1000', '"size": 1e3'),
    lambda record: rename(record, '"size": 1000', '"size": 1000000'),
    lambda record: rename(record, '"size": 1000', '"size": "18446744073709551615"'),
    lambda record: rename(record, '"part_bytes": %d' % PART, '"part_bytes": 0'),
    lambda record: rename(record, '"part_bytes": %d' % PART, '"part_bytes": 1'),
    lambda record: b"[" * 100000,
])
def test_a_record_that_does_not_make_sense(saved_folder, tmp_path, change):
    saved_folder.put_record(2, change(saved_folder.record(2)))
    assert_damaged(saved_folder, tmp_path, ["FORMAT", "INTEGRITY", "LIMIT"], "rank")


def test_a_newer_record(saved_folder, tmp_path):
    saved_folder.put_record(2, dict(saved_folder.record(2), version="2.0"))
    assert_damaged(saved_folder, tmp_path, ["NEWER"], "2.0")


# ---- The manifest --------------------------------------------------------------------------------

@pytest.mark.parametrize("change", [
    lambda text: b"",
    lambda text: text[:1],
    lambda text: text[:len(text) // 2],
    lambda text: text[:-1].rstrip(b"\n}"),
    lambda text: text + b"x",
    lambda text: text.replace(b'"token"', b'"tok\0n"'),
    lambda text: b"<html>503</html>",
    lambda text: b"{}",
    lambda text: b"null",
    lambda text: b"{" * 100000,
])
def test_a_cut_manifest(saved, tmp_path, change):
    key = saved.manifest_key(2)
    changed = change(saved.get(key))
    assert changed != saved.get(key)
    saved.put(key, changed)
    assert_damaged(saved, tmp_path, ["FORMAT"], "step 2", "manifest")
    assert_listed(saved, "step 2")
    assert_passed_over(saved, tmp_path)


def drop(manifest, name):
    manifest.pop(name)
    return manifest


def change_rank(manifest, **changes):
    manifest["ranks"][0].update(changes)
    return manifest


@pytest.mark.parametrize("change, status", [
    (lambda manifest: dict(manifest, step=3), "FORMAT"),
    (lambda manifest: dict(manifest, step=-2), "FORMAT"),
    (lambda manifest: dict(manifest, attempt="../step-000000000001/x"), "FORMAT"),
    (lambda manifest: dict(manifest, attempt="/x"), "FORMAT"),
    (lambda manifest: dict(manifest, attempt=""), "FORMAT"),
    (lambda manifest: dict(manifest, attempt="a\0b"), "FORMAT"),
    (lambda manifest: dict(manifest, attempt=".."), "FORMAT"),
    (lambda manifest: dict(manifest, world_size=2), "FORMAT"),
    (lambda manifest: dict(manifest, world_size=0, ranks=[]), "FORMAT"),
    (lambda manifest: dict(manifest, world_size=1 << 40), "FORMAT"),
    (lambda manifest: dict(manifest, format="something"), "FORMAT"),
    (lambda manifest: dict(manifest, version="one"), "FORMAT"),
    (lambda manifest: dict(manifest, created="yesterday\x1b[2J"), "FORMAT"),
    (lambda manifest: dict(manifest, token="short"), "FORMAT"),
    (lambda manifest: change_rank(manifest, sha256="00"), "FORMAT"),
    (lambda manifest: change_rank(manifest, key="../../step-000000000001/x/rank-00000.json"), "FORMAT"),
    (lambda manifest: change_rank(manifest, key="/rank-00000.json"), "FORMAT"),
    (lambda manifest: change_rank(manifest, key="rank\0.json"), "FORMAT"),
    (lambda manifest: change_rank(manifest, rank=1), "FORMAT"),
    (lambda manifest: change_rank(manifest, size=-1), "FORMAT"),
] + [(lambda manifest, name=name: drop(manifest, name), "FORMAT")
     for name in ("format", "version", "step", "attempt", "token", "ranks", "world_size")])
def test_an_altered_manifest(saved_folder, tmp_path, change, status):
    saved_folder.put_manifest(2, change(saved_folder.manifest(2)))
    assert_damaged(saved_folder, tmp_path, [status, "LIMIT"], "step 2")
    assert_listed(saved_folder, "step 2")


@pytest.mark.parametrize("changes", [{"sha256": "0" * 64}, {"size": 17}, {"files": 17}, {"bytes": 17}])
def test_a_manifest_that_does_not_fit_its_record(saved_folder, tmp_path, changes):
    saved_folder.put_manifest(2, change_rank(saved_folder.manifest(2), **changes))
    assert_damaged(saved_folder, tmp_path, ["INTEGRITY", "FORMAT"], "rank-00000.json")
    assert_passed_over(saved_folder, tmp_path)


def test_a_newer_manifest(saved_folder, tmp_path):
    saved_folder.put_manifest(2, dict(saved_folder.manifest(2), version="2.0", cleat_version="7.1.0"))
    assert_damaged(saved_folder, tmp_path, ["NEWER"], "2.0")
    assert_listed(saved_folder, "2.0")
    # An older step must not be taken for the newest one.
    result = saved_folder.cleat("load", saved_folder.url, tmp_path / "newest", "--json")
    assert result.code == 4 and result.json["error"]["status"] == "NEWER", result


def test_unknown_members_and_a_newer_minor_version_are_fine(saved_folder, tmp_path):
    manifest = dict(saved_folder.manifest(2), version="1.9", something_new={"a": [1]})
    saved_folder.put_manifest(2, manifest)
    record = copy.deepcopy(saved_folder.record(2))
    record.update(version="1.9", something_new=None)
    record["files"][0]["colour"] = "red"
    saved_folder.put_record(2, record)
    assert saved_folder.cleat("load", saved_folder.url, tmp_path / "back", "--step", "2").code == 0
    assert tree(tmp_path / "back") == tree(tmp_path / "two")


# ---- More than one -------------------------------------------------------------------------------

def test_everything_damaged_is_not_nothing_found(saved, tmp_path):
    """A job that starts anew on exit status 3 must not do so here."""
    for step in (1, 2):
        saved.put(saved.manifest_key(step), b"{")
    for command in (["load", saved.url, tmp_path / "back"], ["show", saved.url], ["verify", saved.url]):
        result = saved.cleat(*command, "--json", "-q")
        assert result.code == 4 and result.json["error"]["status"] == "INTEGRITY", result
    assert saved.cleat("load", saved.url, tmp_path / "back", "--step", "9").code == 3
    result = saved.cleat("ls", saved.url)
    assert result.code == 4 and result.out == "" and len(result.err.splitlines()) == 2, result


def test_a_save_that_never_ended_is_invisible(saved, tmp_path):
    """Files and even a record without a manifest, and things that are no steps at all."""
    saved.put("step-000000000003/abc/a.bin", b"half")
    saved.put("step-000000000003/abc/rank-00000.json", b"{}")
    saved.put("step-7/manifest.json", b"{}")
    saved.put("step-00000000000x/manifest.json", b"{}")
    saved.put("notes.txt", b"mine")
    result = saved.cleat("ls", saved.url, "--json")
    assert result.code == 0 and [entry["step"] for entry in result.json["checkpoints"]] == [1, 2], result
    assert saved.cleat("load", saved.url, tmp_path / "back", "--json").json["step"] == 2


def test_a_damaged_step_can_be_replaced(saved, tmp_path):
    saved.put(saved.manifest_key(2), b"{")
    assert_error(saved.cleat("save", tmp_path / "two", saved.url, "--step", "2"), 5)
    saved.save(tmp_path / "two", 2, "--if-exists", "replace")
    assert saved.cleat("load", saved.url, tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == tree(tmp_path / "two")
