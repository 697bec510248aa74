"""What a person sees: the progress line appears on a terminal and nowhere else."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from helpers import CLEAT, assert_error, fill, noise

CLEAR = "\r\x1b[K"


@pytest.fixture
def slow(folder, bad_disk, tmp_path):
    """A folder of 48 MiB to save, and a disk that takes its time for each write, of 64 KiB."""
    folder.environment.update(bad_disk, SLOW_MS="3", TERM="xterm")
    return fill(tmp_path / "in", {"large": noise(1 << 20) * 48})


def on_terminal(arguments, environment, columns=100, send=None, stdout=None, rows=24):
    """Runs the program on a terminal of its own; `send`: characters typed once the first line was drawn."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen([CLEAT, *map(str, arguments)], env=environment, stdin=side, stdout=stdout or side,
                               stderr=side, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(side)
    screen, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([main], [], [], 0.05)[0]:
            try:
                read = os.read(main, 65536)
            except OSError:
                break
            screen += read
            if send and b"%" in screen:
                os.write(main, send)
                send = None
    code = process.wait(timeout=30)
    os.close(main)
    return code, screen.decode()


def lines_drawn(screen):
    """Every state of the progress line."""
    return [line for line in re.findall("\r([^\r\n]*)\x1b\\[K", screen) if line]


def test_progress_of_save_load_and_verify(folder, slow, tmp_path):
    for title, arguments in (("saving step 5", ["save", slow, folder.url, "--step", "5", "--jobs", "1"]),
                             ("loading step 5", ["load", folder.url, tmp_path / "back"]),
                             ("verifying step 5", ["verify", folder.url])):
        if arguments[0] == "verify":  # which writes nothing
            folder.environment["SLOW_READ_MS"] = "100"
        code, screen = on_terminal(arguments, folder.environment)
        assert code == 0, screen
        drawn = lines_drawn(screen)
        assert drawn, screen
        for line in drawn:
            assert re.fullmatch(re.escape(title) + r"  \[=*>? *\]  +\d+%  [\d.]+ [KMG]?i?B of 48.0 MiB  "
                                r"[\d.]+ [KMG]?i?B/s  (\d+:\d\d left|-:-- left|committing)", line), (line, screen)
            assert len(line) < 100, line
        # The line is gone in the end; what stays is the closing line.
        assert screen.split(CLEAR)[-1].startswith("step 5: 1 file, 48.0 MiB "), screen


def test_progress_moves_and_is_redrawn_at_most_ten_times_a_second(folder, slow):
    started = time.monotonic()
    code, screen = on_terminal(["save", slow, folder.url, "--step", "5", "--jobs", "1"], folder.environment)
    seconds = time.monotonic() - started
    drawn = lines_drawn(screen)
    assert code == 0 and 4 <= len(drawn) <= 10 * seconds + 2, screen
    assert len({re.search(r"\d+%", line).group() for line in drawn}) > 1, screen


@pytest.mark.parametrize("columns", [200, 100, 80, 60, 40, 24, 10])
def test_the_line_fits_the_terminal(folder, slow, columns):
    code, screen = on_terminal(["save", slow, folder.url, "--step", "5"], folder.environment, columns=columns)
    drawn = lines_drawn(screen)
    assert code == 0 and drawn, screen
    assert all(len(line) < columns and "%" in line for line in drawn), drawn
    assert any("[" in line for line in drawn) == (columns >= 80), drawn


@pytest.mark.parametrize("change", [{"TERM": "dumb"}, {"TERM": None}, {"arguments": ["--quiet"]}])
def test_no_progress_where_nobody_wants_it(folder, slow, change):
    environment = dict(folder.environment)
    if "TERM" in change:
        environment.pop("TERM")
        if change["TERM"]:
            environment["TERM"] = change["TERM"]
    code, screen = on_terminal(["save", slow, folder.url, "--step", "5", *change.get("arguments", [])], environment)
    assert code == 0 and "%" not in screen and "\x1b" not in screen, screen


def test_nothing_of_it_in_a_pipe(folder, slow):
    result = folder.cleat("save", slow, folder.url, "--step", "5")
    assert result.code == 0 and result.err == "" and result.out.count("\n") == 1, result
    assert "\r" not in result.out and "\x1b" not in result.out, result


def test_progress_goes_to_stderr_when_stdout_is_a_pipe(folder, slow):
    reader, writer = os.pipe()
    code, screen = on_terminal(["save", slow, folder.url, "--step", "5", "--json"], folder.environment, stdout=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read().startswith(b'{"step":5,'), screen
    assert code == 0 and lines_drawn(screen), screen


def test_ctrl_c(folder, slow):
    code, screen = on_terminal(["save", slow, folder.url, "--step", "5", "--jobs", "1"], folder.environment,
                               send=b"\x03")
    assert code == 130, screen
    assert "stopping" in screen and "cancelled" in screen.splitlines()[-1], screen
    assert folder.keys() == []


def test_ctrl_c_of_a_load_leaves_no_destination(folder, slow, tmp_path):
    folder.save(slow, 5)
    before = sorted(tmp_path.iterdir())
    code, screen = on_terminal(["load", folder.url, tmp_path / "back", "--jobs", "1"], folder.environment, send=b"\x03")
    assert code == 130, screen
    assert sorted(tmp_path.iterdir()) == before, screen


def test_log_lines_do_not_mix_with_the_progress_line(folder, slow, tmp_path):
    """A damaged part is fetched again, with a warning each time, while the line stands on the screen."""
    folder.save(slow, 5)
    key = folder.file_key(5, "large")
    folder.put(key, folder.get(key)[:-1] + b"\0")
    code, screen = on_terminal(["load", folder.url, tmp_path / "back", "--jobs", "1"], folder.environment)
    assert code == 4 and lines_drawn(screen), screen
    assert screen.count("cleat: warning: ") >= 1, screen
    for line in screen.split("\r\n"):
        shown = line.split(CLEAR)[-1]
        assert "cleat: " not in shown[1:], (line, screen)


def test_metadata_is_cut_to_the_terminal(folder, slow, tmp_path):
    folder.environment.pop("SLOW_MS")
    small = fill(tmp_path / "small", {"a": b"a"})
    folder.save(small, 1, "--metadata", '{"text":"%s"}' % ("\u00e9" * 300))
    code, screen = on_terminal(["ls", folder.url], folder.environment, columns=72)
    assert code == 0, screen
    lines = screen.splitlines()
    assert len(lines) == 2 and len(lines[1]) <= 72 and lines[1].endswith("..."), screen
    assert "\u00e9" * 300 in folder.cleat("ls", folder.url).out, "in full when it goes to a pipe"


def test_a_reader_that_went_away_is_no_crash(folder, slow, tmp_path):
    """cleat ls | head"""
    folder.environment.pop("SLOW_MS")
    small = fill(tmp_path / "small", {"a": b"a"})
    folder.save(small, 1)
    reader, writer = os.pipe()
    os.close(reader)
    result = folder.cleat("ls", folder.url, stdout=writer)
    os.close(writer)
    if result.code == -signal.SIGPIPE:
        assert result.err == "", result
    else:
        assert_error(result, 1, "Broken pipe")
