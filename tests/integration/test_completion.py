"""What shells offer after <Tab>: the scripts of `cleat completion`, run in a real bash and fish, and parsed by zsh."""

import re
import subprocess

import pytest

from helpers import assert_error, run

COMMANDS = ["save", "load", "ls", "show", "verify", "doctor", "bench", "prune", "gc", "pin", "unpin", "run"]
BASH = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cleat; printf '%s\\n' "${COMPREPLY[@]}" """


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    def write(shell):
        path = tmp_path_factory.mktemp("completion") / shell
        result = run("completion", shell)
        assert result.code == 0 and result.err == ""
        path.write_text(result.out)
        return path
    return write


def told(*command):
    completed = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    assert completed.returncode == 0 and completed.stderr == "", completed
    return [line.split("\t")[0] for line in completed.stdout.splitlines() if line]


def offers(shell, path, *words):
    if shell == "bash":
        return told("bash", "-c", BASH, "bash", path, "cleat", *words)
    line = " ".join(("cleat", *words))
    return told("fish", "--no-config", "-c", "source %s; complete -C '%s'" % (path, line))


def options_of(command):
    """As the help of the command has them."""
    return sorted(set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", run("help", command).out, re.M)))


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_words(shell, script):
    path = script(shell)
    assert set(offers(shell, path, "")) >= {*COMMANDS, "completion", "help", "version"}
    assert offers(shell, path, "ver") == sorted(["verify", "version"])
    assert sorted(offers(shell, path, "save", "--if-exists", "")) == ["fail", "replace", "skip"]
    assert "deepspeed" in offers(shell, path, "run", "--layout", "d")
    assert sorted(offers(shell, path, "completion", "")) == ["bash", "fish", "zsh"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_options(shell, script, command):
    assert sorted(set(offers(shell, script(shell), command, "--"))) == options_of(command)


def test_files(script, tmp_path, monkeypatch):
    (tmp_path / "checkpoint.bin").touch()
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.chdir(tmp_path)
    path = script("bash")
    assert sorted(offers("bash", path, "save", "check")) == ["checkpoint.bin", "checkpoints"]
    assert offers("bash", path, "run", "--dir", "check") == ["checkpoints"]


def test_zsh(script):
    path = script("zsh")
    told("zsh", "-n", path)
    text = path.read_text()
    for command in COMMANDS:
        line = re.search(r"^  %s\) _arguments (.*) ;;$" % command, text, re.M).group(1)
        assert sorted(set(re.findall(r"--[a-z-]+(?=[='}])", line))) == options_of(command)


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "fish"]])
def test_no_such_shell(words):
    assert_error(run("completion", *words), 2, "needs the name of a shell")
