"""The commands of the program on folders and on MinIO: what they do, what they print, and their exit status."""

import http.server
import json
import os
import re
import subprocess
import threading
from datetime import datetime, timezone

import numpy
import pytest
import safetensors.numpy

from helpers import (CLEAT, ON_EVERY_SERVER, ON_EVERY_STORE, ROOT, Result, assert_error, clean_environment, fill, noise,
                     run, tree)

COMMANDS = ("save", "load", "ls", "show", "verify", "doctor", "bench", "prune", "gc", "pin", "unpin")
VERSION = re.search(r'CLEAT_VERSION "(.*)"', (ROOT / "api" / "cleat" / "common.h").read_text()).group(1)


def hugging_face_model(folder):
    """A model as transformers leaves it: two shards, their index, and what belongs to it."""
    folder.mkdir()
    shards = {
        "model-00001-of-00002.safetensors": {
            "embed.weight": numpy.arange(4096 * 64, dtype=numpy.float32).reshape(4096, 64),
            "layers.0.bias": numpy.ones(64, dtype=numpy.float16)},
        "model-00002-of-00002.safetensors": {
            "head.weight": numpy.arange(300000, dtype=numpy.int64).reshape(3, 100000),
            "scale": numpy.array(0.5, dtype=numpy.float64)}}
    index = {}
    for name, tensors in shards.items():
        safetensors.numpy.save_file(tensors, folder / name, metadata={"format": "pt"})
        index.update({tensor: name for tensor in tensors})
    fill(folder, {"model.safetensors.index.json": json.dumps({"metadata": {}, "weight_map": index}).encode(),
                  "config.json": b'{"hidden_size": 64}\n', "tokenizer.json": noise(30000), "merges.txt": b"",
                  ".gitattributes": b"*.safetensors filter=lfs\n", ".cache/.hidden": b"\0",
                  "onnx/dec oder+100%/model \u00e9\u4e16.onnx": noise(5000)})
    return folder


# ---- Help, versions, and the command line --------------------------------------------------------

def test_alone_it_shows_a_short_help():
    result = run()
    assert result.code == 0 and result.err == "", result
    assert len(result.out.splitlines()) <= 24, result
    for command in COMMANDS:
        assert "\n  %s " % command in result.out, result


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    results = [run("help", command), run(command, "--help"), run(command, "-h")]
    assert len({result.out for result in results}) == 1, results
    for result in results:
        assert result.code == 0 and result.err == "", result
        assert result.out.startswith("usage: cleat %s " % command), result
        assert all(len(line) <= 80 for line in result.out.splitlines()), result


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_help_is_in_the_manual(command):
    manual = (ROOT / "api" / "cli" / "cleat.1").read_text()
    for option in re.findall(r"--([a-z-]+)", run("help", command).out):
        assert "Fl Fl %s" % option in manual, option


def test_version():
    for argument in ("--version", "version", "-V"):
        result = run(argument)
        assert (result.code, result.err) == (0, "")
        assert re.fullmatch(r"cleat %s, (without CUDA|with CUDA \d+\.\d)\n" % re.escape(VERSION), result.out)


@pytest.mark.parametrize("word, meant", [("sav", "save"), ("lode", "load"), ("lss", "ls"), ("shwo", "show"),
                                         ("verfiy", "verify"), ("hlep", "help")])
def test_unknown_command_suggests_the_nearest(word, meant):
    for result in (run(word), run("help", word)):
        lines = assert_error(result, 2, "'%s' is not a command" % word)
        assert "'cleat %s'" % meant in lines[1], result


def test_unknown_command_that_is_near_to_none():
    lines = assert_error(run("frobnicate"), 2, "'frobnicate' is not a command")
    assert "cleat help" in lines[1]


@pytest.mark.parametrize("arguments, words", [
    (["save"], "needs at least one file or folder"),
    (["save", "x"], "needs at least one file or folder"),
    (["save", "x", "file:///tmp/s"], "needs --step"),
    (["save", "x", "file:///tmp/s", "--step"], "--step needs a value"),
    (["save", "x", "file:///tmp/s", "--step", "-1"], "a step cannot be negative"),
    (["save", "x", "file:///tmp/s", "--step", "12a"], "not a step"),
    (["save", "x", "file:///tmp/s", "--step", ""], "not a step"),
    (["save", "x", "file:///tmp/s", "--step", "1.5"], "not a step"),
    (["save", "x", "file:///tmp/s", "--step", "+1"], "not a step"),
    (["save", "x", "file:///tmp/s", "--step", "9223372036854775808"], "not a step"),
    (["save", "x", "file:///tmp/s", "--step", "-9223372036854775809"], "--step"),
    (["save", "x", "file:///tmp/s", "--step", "1", "--if-exists", "no"], "--if-exists"),
    (["save", "x", "file:///tmp/s", "--step", "1", "--force"], "no option --force"),
    (["save", "", "file:///tmp/s", "--step", "1"], "is empty"),
    (["load", "file:///tmp/s"], "needs the store's URL and a folder"),
    (["load", "file:///tmp/s", "a", "b"], "one argument too many"),
    (["load", "file:///tmp/s", "a", "--step", "-7"], "a step cannot be negative"),
    (["ls"], "needs the store's URL"),
    (["ls", "file:///tmp/s", "file:///tmp/t"], "one argument too many"),
    (["ls", "file:///tmp/s", "--step", "1"], "no option --step"),
    (["ls", "file:///tmp/s", "--jsno"], "no option --jsno"),
    (["ls", "file:///tmp/s", "-x"], "no option -x"),
    (["ls", "file:///tmp/s", "--json=yes"], "takes no value"),
    (["ls", "file:///tmp/s", "--jobs", "0"], "--jobs"),
    (["ls", "file:///tmp/s", "--jobs", "many"], "--jobs"),
    (["ls", "file:///tmp/s", "--time-limit", "-3"], "--time-limit"),
    (["ls", "file:///tmp/s", "--staging", "0"], "--staging"),
    (["ls", "file:///tmp/s", "--staging", "12Q"], "--staging"),
    (["ls", "file:///tmp/s", "--staging", "99999999999999999999"], "--staging"),
    (["ls", "file:///tmp/s", "--part-size", "16777216T"], "--part-size"),
    (["ls", "file:///tmp/s", "--staging", "1M", "--part-size", "2M"], "staging"),
    (["show"], "needs the store's URL"),
    (["verify"], "needs the store's URL"),
])
def test_wrong_usage(arguments, words):
    assert_error(run(*arguments), 2, words)
    result = run(*arguments, "--json") if "--step" != arguments[-1] else run("save", "--json", *arguments[1:])
    assert result.code == 2 and result.json["error"]["status"] in ("INVALID", "LIMIT"), result
    assert result.json["error"]["message"] in result.err, result


def test_a_mistyped_option_is_recognised():
    assert "--json" in assert_error(run("ls", "file:///tmp/s", "--jsno"), 2)[1]


@pytest.mark.parametrize("url", ["", "/tmp/x", "x", "http://host/x", "file://", "file://relative/x", "s3://", "s3:///x",
                                 "s3:/b/x", "ftp://x/y", "s3://b\nx/y"])
def test_bad_url(url, small):
    for arguments in (["ls", url], ["save", small, url, "--step", "1"], ["load", url, "dest"], ["show", url],
                      ["verify", url]):
        assert_error(run(*arguments, "--time-limit", "2"), 2)


def test_arguments_after_two_dashes_are_no_options(folder, tmp_path):
    fill(tmp_path / "odd", {"--json": b"odd"})
    folder.cleat("save", "--step", "1", "--", "--json", folder.url, cwd=tmp_path / "odd")
    assert folder.cleat("load", folder.url, tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == {"--json": b"odd"}


def test_output_that_cannot_be_written_is_a_failure(folder, small):
    folder.save(small, 1)
    for arguments in (["ls", folder.url], ["show", folder.url], ["ls", folder.url, "--json"], ["--version"]):
        with open("/dev/full", "wb") as full:
            assert_error(run(*arguments, stdout=full), 1, "standard output", "No space left")


# ---- Save and load -------------------------------------------------------------------------------

@ON_EVERY_STORE
def test_hugging_face_folder_comes_back_file_for_file(store, tmp_path):
    model = hugging_face_model(tmp_path / "model")
    result = store.save("%s/" % model, 1200)
    expected = tree(model)
    size = sum(map(len, expected.values()))
    assert re.fullmatch(r"step 1200: %d files, [\d.]+ MiB saved to %s in [\d.]+ s \([\d.]+ [KMG]?i?B/s\)\n"
                        % (len(expected), re.escape(store.url)), result.out), result
    assert result.err == "", result

    result = store.cleat("load", store.url, tmp_path / "back")
    assert result.code == 0 and result.err == "", result
    assert re.match(r"step 1200: %d files, " % len(expected), result.out), result
    assert tree(tmp_path / "back") == expected
    assert sum(map(len, tree(tmp_path / "back").values())) == size

    # An independent reader finds the files as they were, and Hugging Face's library opens them in the store's folder.
    for name, data in expected.items():
        assert store.get(store.file_key(1200, name)) == data
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        assert safetensors.numpy.load(store.get(store.file_key(1200, name))).keys() \
            == safetensors.numpy.load_file(model / name).keys()


def test_a_file_is_stored_under_its_base_name(store, tmp_path):
    fill(tmp_path, {"deep/er/one.bin": b"1", "two.bin": b"2"})
    result = store.cleat("save", tmp_path / "deep" / "er" / "one.bin", tmp_path / "two.bin", store.url, "--step", "0")
    assert result.code == 0, result
    store.cleat("load", store.url, tmp_path / "back")
    assert tree(tmp_path / "back") == {"one.bin": b"1", "two.bin": b"2"}


def test_relative_paths(folder, tmp_path, small):
    result = folder.cleat("save", ".", folder.url, "--step", "3", cwd=small)
    assert result.code == 0, result
    assert folder.cleat("load", folder.url, "back", cwd=tmp_path).code == 0
    assert tree(tmp_path / "back") == tree(small)


@ON_EVERY_STORE
def test_load_takes_the_newest_or_the_step_that_is_named(store, tmp_path):
    for step in (9, 10, 2):
        store.save(fill(tmp_path / str(step), {"step": b"%d" % step}), step)
    store.cleat("load", store.url, tmp_path / "newest")
    assert tree(tmp_path / "newest") == {"step": b"10"}
    store.cleat("load", store.url, tmp_path / "named", "--step", "2")
    assert tree(tmp_path / "named") == {"step": b"2"}
    assert_error(store.cleat("load", store.url, tmp_path / "none", "--step", "5"), 3, "5")
    assert not (tmp_path / "none").exists()


@ON_EVERY_STORE
def test_the_largest_step_is_exact(store, small, tmp_path):
    largest = 9223372036854775807
    store.save(small, largest)
    assert '"step":%d,' % largest in store.cleat("ls", store.url, "--json").out
    assert store.cleat("load", store.url, tmp_path / "back", "--json").json["step"] == largest


@ON_EVERY_STORE
@pytest.mark.parametrize("arguments", [["--part-size", "5M"], ["--part-size", "5M", "--jobs", "1", "--staging", "5M"],
                                       ["--staging", "64MiB", "--jobs", "3"]])
def test_several_parts(store, tmp_path, arguments):
    files = {"large": noise(11 << 20), "exact": noise(10 << 20, 2), "less": noise((5 << 20) - 1, 3)}
    store.save(fill(tmp_path / "in", files), 1, *arguments)
    for command in (["load", store.url, tmp_path / "back"], ["verify", store.url]):
        result = store.cleat(*command, *arguments)
        assert result.code == 0, result
    assert tree(tmp_path / "back") == files


@ON_EVERY_STORE
def test_saving_a_step_again(store, small, tmp_path):
    other = fill(tmp_path / "other", {"new.bin": b"new"})
    store.save(small, 5)
    before = {key: store.get(key) for key in store.keys()}

    lines = assert_error(store.cleat("save", other, store.url, "--step", "5"), 5, "5")
    assert "--if-exists" in lines[1]
    assert {key: store.get(key) for key in store.keys()} == before

    result = store.cleat("save", other, store.url, "--step", "5", "--if-exists", "skip", "--json")
    assert result.code == 0 and result.json["outcome"] == "skipped", result
    result = store.cleat("save", other, store.url, "--step", "5", "--if-exists", "skip")
    assert result.code == 0 and "skipped" in result.out, result
    assert {key: store.get(key) for key in store.keys()} == before

    result = store.cleat("save", other, store.url, "--step", "5", "--if-exists", "replace")
    assert result.code == 0, result
    assert store.cleat("load", store.url, tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == {"new.bin": b"new"}


@ON_EVERY_STORE
def test_the_same_start_saves_a_step_once(store, small, tmp_path):
    store.environment["CLEAT_START"] = "job-17"
    assert store.save(small, 5, "--json").json["outcome"] == "committed"
    before = {key: store.get(key) for key in store.keys()}
    other = fill(tmp_path / "other", {"new.bin": b"new"})
    lines = assert_error(store.cleat("save", other, store.url, "--step", "5"), 5, "5")
    assert "by this start" in lines[0] and "--if-exists" in lines[1]
    result = store.cleat("save", other, store.url, "--step", "5", "--if-exists", "skip", "--json")
    assert result.code == 0 and result.json["outcome"] == "skipped", result
    result = store.cleat("save", other, store.url, "--step", "5", "--if-exists", "skip")
    assert result.code == 0 and "skipped" in result.out, result
    assert {key: store.get(key) for key in store.keys()} == before

    result = store.cleat("save", other, store.url, "--step", "5", "--if-exists", "replace", "--json")
    assert result.code == 0 and result.json["outcome"] == "committed", result
    assert store.cleat("load", store.url, tmp_path / "back").code == 0
    assert tree(tmp_path / "back") == {"new.bin": b"new"}


def test_load_refuses_what_exists_unless_forced(store, small, tmp_path):
    store.save(small, 1)
    back = fill(tmp_path / "back", {"a.bin": b"old", "keep": b"mine"})
    lines = assert_error(store.cleat("load", store.url, back), 1, back)
    assert "--force" in lines[1]
    assert tree(back) == {"a.bin": b"old", "keep": b"mine"}

    result = store.cleat("load", store.url, back, "--force")
    assert result.code == 0, result
    assert tree(back) == dict(tree(small), keep=b"mine")


def test_load_refuses_a_destination_that_is_a_file(folder, small, tmp_path):
    folder.save(small, 1)
    fill(tmp_path, {"file": b"mine"})
    for arguments in ([], ["--force"]):
        assert folder.cleat("load", folder.url, tmp_path / "file", *arguments).code == 1
        assert (tmp_path / "file").read_bytes() == b"mine"


def test_links_in_the_destination_are_not_followed(folder, small, tmp_path):
    folder.save(small, 1)
    outside = fill(tmp_path / "outside", {"a.bin": b"untouched"})
    back = tmp_path / "back"
    back.mkdir()
    (back / "a.bin").symlink_to(outside / "a.bin")
    (back / "sub").symlink_to(outside)
    result = folder.cleat("load", folder.url, back, "--force")
    assert tree(outside) == {"a.bin": b"untouched"}, result
    # A link in a folder's place is in the way; a link in a file's place may be replaced.
    assert result.code == 1 and "sub" in result.err, result
    (back / "sub").unlink()
    result = folder.cleat("load", folder.url, back, "--force")
    assert result.code == 0, result
    assert tree(outside) == {"a.bin": b"untouched"}
    assert not (back / "a.bin").is_symlink() and tree(back) == tree(small)


@ON_EVERY_STORE
def test_a_file_and_its_changed_copy_are_told_apart_by_verify(store, small):
    store.save(small, 1)
    result = store.cleat("verify", store.url)
    assert result.code == 0 and result.out.startswith("step 1: 3 files, "), result
    result = store.cleat("verify", store.url, "--json", "--step", "1")
    assert result.code == 0 and result.json["outcome"] == "verified", result


# ---- ls and show ---------------------------------------------------------------------------------

def test_ls_shows_a_table_newest_last(store, small):
    store.save(small, 100, "--metadata", '{"loss": 2.5, "note": "\\u001b[31m caf\u00e9"}')
    store.save(small, 20)
    store.save(small, 3)
    result = store.cleat("ls", store.url)
    assert result.code == 0 and result.err == "", result
    lines = result.out.splitlines()
    assert lines[0].split() == ["STEP", "CREATED", "SIZE", "FILES", "RANKS", "METADATA"], result
    assert [line.split()[0] for line in lines[1:]] == ["3", "20", "100"], result
    assert re.match(r" *100  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  68.4 KiB      3      1  \{", lines[3]), result
    assert "caf\u00e9" in lines[3] and "\x1b" not in result.out, result
    assert all(line == line.rstrip() for line in lines[1:]), result


@ON_EVERY_STORE
def test_ls_json(store, small):
    assert store.save(small, 2, "--metadata", '{"big":9007199254740993,"x":[1.10,null]}').err == ""
    store.save(small, 10, "--metadata", '"text"')
    store.save(small, 1)
    result = store.cleat("ls", store.url, "--json")
    assert result.code == 0 and result.err == "" and result.out.count("\n") == 1, result
    assert list(result.json) == ["checkpoints"], result
    checkpoints = result.json["checkpoints"]
    assert [checkpoint["step"] for checkpoint in checkpoints] == [1, 2, 10], result
    for checkpoint in checkpoints:
        assert list(checkpoint) == ["step", "attempt", "created", "bytes", "files", "ranks", "metadata"], result
        assert (checkpoint["bytes"], checkpoint["files"], checkpoint["ranks"]) == (70004, 3, 1), result
        created = datetime.strptime(checkpoint["created"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        assert abs((datetime.now(timezone.utc) - created).total_seconds()) < 300, result
        assert checkpoint["attempt"] == store.manifest(checkpoint["step"])["attempt"], result
    assert [checkpoint["metadata"] for checkpoint in checkpoints] \
        == [{}, {"big": 9007199254740993, "x": [1.1, None]}, "text"], result
    assert "1.10" in result.out, "numbers of the metadata are kept as they were written"


def test_ls_says_local_time(folder, small):
    folder.save(small, 1)
    created = datetime.strptime(folder.cleat("ls", folder.url, "--json").json["checkpoints"][0]["created"],
                                "%Y-%m-%dT%H:%M:%SZ").timestamp()
    shown = {}
    for zone, hours in (("UTC0", 0), ("XXX-5", 5)):
        result = folder.cleat("ls", folder.url, environment=dict(folder.environment, TZ=zone))
        text = " ".join(result.out.splitlines()[1].split()[1:3])
        shown[hours] = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").timestamp()
    assert shown[0] == created and shown[5] - shown[0] == 5 * 3600


@ON_EVERY_STORE
def test_nothing_found(store, tmp_path):
    assert_error(store.cleat("ls", store.url), 3, store.url)
    result = store.cleat("ls", store.url, "--json")
    assert (result.code, result.json) == (3, {"checkpoints": []}), result
    for command in (["load", store.url, tmp_path / "back"], ["show", store.url], ["verify", store.url],
                    ["show", store.url, "--step", "4"], ["verify", store.url, "--step", "4"]):
        assert_error(store.cleat(*command), 3)
        assert store.cleat(*command, "--json").json["error"]["status"] == "NOT_FOUND"
    assert not (tmp_path / "back").exists()


def test_show(store, tmp_path):
    model = hugging_face_model(tmp_path / "model")
    store.save(model, 7, "--metadata", '{"loss": 1}', "--part-size", "5M")
    result = store.cleat("show", store.url, "--part-size", "5M")
    assert result.code == 0 and result.err == "", result
    sections = re.findall(r"^(step 7|Ranks \(1\)|Files \(%d\)|Tensors \(4\))$" % len(tree(model)), result.out, re.M)
    assert len(sections) == 4, result
    assert re.search(r"^  created   \S+ \S+ \(\d+ seconds? ago\)$", result.out, re.M), result
    assert re.search(r'^  metadata  {"loss":1}$', result.out, re.M), result
    assert re.search(r"^  model-00001-of-00002.safetensors\n"
                     r"    embed.weight +F32 +\[4096, 64\] +1.0 MiB\n"
                     r"    layers.0.bias +F16 +\[64\] +128 B\n"
                     r"  model-00002-of-00002.safetensors\n"
                     r"    head.weight +I64 +\[3, 100000\] +2.3 MiB\n"
                     r"    scale +F64 +\[\] +8 B\n", result.out, re.M), result


@ON_EVERY_STORE
def test_show_json(store, tmp_path):
    model = hugging_face_model(tmp_path / "model")
    fill(model, {"large.bin": noise(6 << 20)})
    store.save(model, 7, "--part-size", "5M")
    store.save(model, 8)
    result = store.cleat("show", store.url, "--step", "7", "--json")
    assert result.code == 0 and result.err == "", result
    shown = result.json
    assert list(shown) == ["checkpoint", "files", "tensors", "ranks"], result
    assert shown["checkpoint"].pop("pinned") is False
    assert shown["checkpoint"] == store.cleat("ls", store.url, "--json").json["checkpoints"][0], result
    expected = tree(model)
    assert {file["name"]: file["bytes"] for file in shown["files"]} \
        == {name: len(data) for name, data in expected.items()}, result
    for file in shown["files"]:
        assert list(file) == ["name", "bytes", "part_bytes", "parts", "rank"] and file["rank"] == 0, result
    assert [file["parts"] for file in shown["files"] if file["name"] == "large.bin"] == [2], result
    assert {(tensor["name"], tensor["dtype"], tuple(tensor["shape"]), tensor["bytes"], tensor["file"])
            for tensor in shown["tensors"]} == {
        ("embed.weight", "F32", (4096, 64), 4096 * 64 * 4, "model-00001-of-00002.safetensors"),
        ("layers.0.bias", "F16", (64,), 128, "model-00001-of-00002.safetensors"),
        ("head.weight", "I64", (3, 100000), 2400000, "model-00002-of-00002.safetensors"),
        ("scale", "F64", (), 8, "model-00002-of-00002.safetensors")}, result
    assert shown["ranks"] == [{"rank": 0, "files": len(expected), "bytes": sum(map(len, expected.values()))}], result


# ---- Quiet, verbose, JSON ------------------------------------------------------------------------

def test_quiet_says_nothing(store, small, tmp_path):
    for command in (["save", small, store.url, "--step", "1"], ["load", store.url, tmp_path / "back"],
                    ["verify", store.url]):
        result = store.cleat(*command, "-q")
        assert (result.code, result.out, result.err) == (0, "", ""), result
    assert store.cleat("ls", store.url, "--quiet").out != ""


@ON_EVERY_STORE
def test_json_of_save_load_verify(store, small, tmp_path):
    common = {"step": 4, "files": 3, "bytes": 70004}
    result = store.cleat("save", small, store.url, "--step", "4", "--json")
    assert result.code == 0 and result.err == "", result
    seconds = result.json.pop("seconds") if isinstance(result.json, dict) else None
    assert seconds is not None and 0 <= seconds < 60, result
    attempt = store.manifest(4)["attempt"]
    back = str(tmp_path / "back")
    expected = {
        "save": dict(common, outcome="committed", url=store.url),
        "load": dict(common, outcome="loaded", attempt=attempt, destination=back),
        "verify": dict(common, outcome="verified", attempt=attempt, url=store.url)}
    results = {"save": result, "load": store.cleat("load", store.url, back, "--json"),
               "verify": store.cleat("verify", store.url, "--json")}
    for command, result in results.items():
        document = result.json
        document.pop("seconds")
        assert document == expected[command], result


def test_an_error_as_json(folder, small, tmp_path):
    result = folder.cleat("load", folder.url, tmp_path / "back", "--json")
    assert list(result.json) == ["error"], result
    assert list(result.json["error"]) == ["status", "message", "hint", "retryable", "http_status", "errno", "s3_code",
                                          "request_id"], result
    assert "cleat: %s\n" % result.json["error"]["message"] in result.err, result


def test_names_that_no_terminal_or_parser_should_see(folder, small, tmp_path):
    folder.save(small, 1)
    result = folder.cleat("load", folder.url, str(tmp_path / "back\x1b[31m\n"))
    assert result.code == 0 and result.out.count("\n") == 1 and "back?[31m?" in result.out, result
    result = run_bytes(folder, ["load", folder.url, os.fsencode(tmp_path) + b"/back\xff", "--json"])
    assert result.json["destination"] == "%s/back?" % tmp_path, result


def run_bytes(folder, arguments):
    """For arguments that are no text."""
    arguments = [os.fsencode(argument) for argument in arguments]
    completed = subprocess.run([os.fsencode(CLEAT), *arguments], env=folder.environment, capture_output=True)
    return Result([repr(argument) for argument in arguments], completed)


@ON_EVERY_SERVER
def test_verbose_never_shows_the_secret(bucket, small):
    result = bucket.cleat("save", small, bucket.url, "--step", "1", "-vv")
    assert result.code == 0, result
    assert bucket.environment["AWS_SECRET_ACCESS_KEY"] not in result.out + result.err


# ---- Servers -------------------------------------------------------------------------------------

def test_endpoint_option(bucket, small):
    endpoint = bucket.environment.pop("AWS_ENDPOINT_URL")
    result = bucket.cleat("save", small, bucket.url, "--step", "1", "--endpoint", endpoint)
    assert result.code == 0, result
    assert bucket.cleat("ls", bucket.url, "--endpoint", endpoint).code == 0


def test_region_option():
    """A server that notes down how requests are signed, and refuses them."""
    seen = []

    class Notes(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers["Authorization"])
            self.send_error(403)

        def log_message(self, *ignored):
            pass

    environment = dict(clean_environment(), AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret",
                       AWS_REGION="venus-1")
    with http.server.HTTPServer(("127.0.0.1", 0), Notes) as server:
        threading.Thread(target=server.serve_forever).start()
        endpoint = "http://127.0.0.1:%d" % server.server_port
        for options in ([], ["--region", "mars-1"]):
            run("ls", "s3://bucket/run", "--endpoint", endpoint, *options, environment=environment)
        server.shutdown()
    regions = [re.search(r"Credential=key/\d+/(.*?)/s3/aws4_request", header).group(1) for header in seen]
    assert regions[0] == "venus-1" and regions[-1] == "mars-1", seen


@ON_EVERY_SERVER
def test_missing_bucket(bucket, small, tmp_path):
    url = "s3://%s-not/run" % bucket.bucket
    for command in (["ls", url], ["save", small, url, "--step", "1"], ["load", url, tmp_path / "back"]):
        lines = assert_error(bucket.cleat(*command), 1)  # 3 would make a job start afresh
        assert "%s-not" % bucket.bucket in lines[0] and "bucket" in lines[0], lines
    assert not (tmp_path / "back").exists()


@ON_EVERY_SERVER
@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_wrong_keys(bucket, small, variable):
    bucket.environment[variable] = "wrong" * 4
    for command in (["ls", bucket.url], ["save", small, bucket.url, "--step", "1"]):
        result = bucket.cleat(*command, "--json")
        assert result.code == 1 and result.json["error"]["status"] == "DENIED", result
        assert "wrongwrong" not in result.out + result.err or variable == "AWS_ACCESS_KEY_ID", result
    assert bucket.keys() == []


@ON_EVERY_SERVER
def test_no_keys(bucket, small):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del bucket.environment[name]
    bucket.environment.update(AWS_EC2_METADATA_DISABLED="true", HOME="/nonexistent")
    result = bucket.cleat("ls", bucket.url, "--json")
    assert result.code == 1 and result.json["error"]["status"] == "DENIED", result


def test_unreachable_endpoint(bucket, small):
    bucket.environment["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
    for command in (["ls", bucket.url], ["save", small, bucket.url, "--step", "1"]):
        result = bucket.cleat(*command, "--time-limit", "2", "--json", "-q", timeout=30)
        assert result.code == 1 and result.json["error"]["status"] in ("NETWORK", "TIMEOUT"), result
        assert result.json["error"]["retryable"] and "127.0.0.1:1" in result.err, result


def test_it_runs_from_anywhere(tmp_path):
    """The library is inside: no LD_LIBRARY_PATH, no folder to run from."""
    completed = subprocess.run([CLEAT, "--version"], cwd=tmp_path, env={}, stdout=subprocess.PIPE)
    assert completed.returncode == 0


def test_clean_environment_is_what_the_tests_run_in():
    assert not [name for name in clean_environment() if name.startswith("CLEAT_")]
