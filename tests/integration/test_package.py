"""What `make install` installs, used from outside: a C program is linked with the shared and with the static library.

tests/header/test_install.sh checks that every file is there. This test saves and loads a checkpoint with them.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers import CLEAT, ROOT

# A library that was built with a sanitizer wants its users to be.
SANITIZE = ["-fsanitize=%s" % os.environ["SANITIZE"]] if os.environ.get("SANITIZE") else []

PROGRAM = r"""
#include <cleat.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  static const int64_t shape[] = {2, 3};
  const float weights[6] = {1, 2, 3, 4, 5, 6};
  float back[6] = {0};
  struct cleat_tensor tensor = {"weights", CLEAT_DTYPE_F32, 2, shape, weights};
  struct cleat_save_request save = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_load_request load = {"weights", CLEAT_DTYPE_F32, 2, shape, NULL, back, sizeof back};
  struct cleat_client *client = NULL;
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_error err = {CLEAT_OK};
  save.step = 7;
  save.tensors = &tensor;
  save.tensor_count = 1;
  if (argc != 2 || cleat_client_open(argv[1], NULL, &client, &err) != CLEAT_OK ||
      cleat_save(client, &save, &err) != CLEAT_OK ||
      cleat_checkpoint_open(client, CLEAT_STEP_LATEST, &checkpoint, &err) != CLEAT_OK ||
      cleat_load_tensors(checkpoint, &load, 1, NULL, &err) != CLEAT_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(client);
  printf("%s %s\n", cleat_version(), memcmp(weights, back, sizeof back) == 0 ? "equal" : "different");
  return 0;
}
"""


def call(*command, **more):
    completed = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, **more)
    assert completed.returncode == 0, completed
    return completed.stdout


def make(target, root):
    """With the variables of the make that runs the tests, or all would be built anew; but not in its pool of jobs."""
    words = os.environ.get("MAKEFLAGS", "").split(" ")
    environment = dict(os.environ, BUILD=os.path.relpath(Path(CLEAT).parent, ROOT),
                       MAKEFLAGS=" ".join(word for word in words if not word.startswith(("-j", "--jobserver"))))
    call("make", "--no-print-directory", "-C", ROOT, target, "DESTDIR=%s" % root, "PREFIX=/usr", env=environment)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """As a packager does it: PREFIX is where it will be, DESTDIR where it is now."""
    root = tmp_path_factory.mktemp("root")
    make("install", root)
    (root / "program.c").write_text(PROGRAM)
    return root


def flags(root, *options):
    """With every path below `root`."""
    environment = dict(os.environ, PKG_CONFIG_PATH=str(root / "usr/lib/pkgconfig"))
    return call("pkg-config", "--define-variable=prefix=%s" % (root / "usr"), *options, "cleat",
                env=environment).split()


def built(root, name, *options):
    call("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *SANITIZE, root / "program.c", "-o", root / name,
         *flags(root, *options))
    return root / name


def libraries(program):
    return re.findall(r"NEEDED\s+(\S+)", call("objdump", "-p", program))


def test_nothing_outside_destdir_and_no_trace_of_it(installed):
    files = sorted(str(path.relative_to(installed)) for path in (installed / "usr").rglob("*") if not path.is_dir())
    version, = flags(installed, "--modversion")
    headers = ["usr/include/cleat/" + path.name for path in (ROOT / "api" / "cleat").glob("*.h")]
    assert len(headers) > 1
    pages = [name for name in files if re.fullmatch(r"usr/share/man/man3/cleat(_\w+)?[.]3", name)]
    assert len(pages) > len(headers)
    assert files == sorted([
        *headers, *pages, "usr/bin/cleat", "usr/include/cleat.h", "usr/lib/libcleat.a", "usr/lib/libcleat.so",
        "usr/lib/libcleat.so.0", "usr/lib/libcleat.so.%s" % version, "usr/lib/pkgconfig/cleat.pc",
        "usr/share/man/man1/cleat.1", "usr/share/bash-completion/completions/cleat",
        "usr/share/fish/vendor_completions.d/cleat.fish", "usr/share/zsh/site-functions/_cleat"])
    assert str(installed) not in (installed / "usr/lib/pkgconfig/cleat.pc").read_text()
    assert os.readlink(installed / "usr/lib/libcleat.so") == "libcleat.so.0"
    assert os.readlink(installed / "usr/lib/libcleat.so.0") == "libcleat.so.%s" % version


def test_a_program_with_the_shared_library(installed, store):
    program = built(installed, "shared", "--cflags", "--libs")
    needed = [
        name for name in libraries(program)
        if not re.match("lib(asan|tsan|ubsan|m|pthread|gcc_s)[.]", name) or not SANITIZE
    ]
    assert needed == ["libcleat.so.0", "libc.so.6"]  # nothing of what Cleat itself needs
    environment = dict(store.environment, LD_LIBRARY_PATH=str(installed / "usr/lib"))
    version, = flags(installed, "--modversion")
    assert call(program, store.url, env=environment) == "%s equal\n" % version
    assert call(installed / "usr/bin/cleat", "ls", store.url, env=store.environment).splitlines()[1].split()[0] == "7"


def test_a_program_with_the_static_library(installed, store, tmp_path):
    """Where only libcleat.a is, `pkg-config --static` names all that it needs, and nothing that Cleat's own packages do
    not bring."""
    root = tmp_path / "static"
    shutil.copytree(installed, root, symlinks=True)
    for path in (root / "usr/lib").glob("*.so*"):
        path.unlink()
    program = built(root, "static", "--static", "--cflags", "--libs")
    assert not [name for name in libraries(program) if name.startswith("libcleat")]
    version, = flags(root, "--modversion")
    assert call(program, store.url, env=store.environment) == "%s equal\n" % version


def test_the_program_needs_no_library_of_ours(installed):
    assert not [name for name in libraries(installed / "usr/bin/cleat") if name.startswith("libcleat")]
    assert "RUNPATH" not in call("objdump", "-p", installed / "usr/bin/cleat")
    assert "RUNPATH" not in call("objdump", "-p", installed / "usr/lib/libcleat.so")
    assert re.search(r"SONAME\s+libcleat\.so\.0\n", call("objdump", "-p", installed / "usr/lib/libcleat.so"))


def test_uninstall_leaves_nothing(installed, tmp_path):
    root = tmp_path / "root"
    shutil.copytree(installed / "usr", root / "usr", symlinks=True)
    make("uninstall", root)
    assert not [path for path in root.rglob("*") if not path.is_dir()]


def test_the_manual_is_sound(installed):
    page = installed / "usr/share/man/man1/cleat.1"
    assert call("mandoc", "-T", "lint", "-W", "warning", page) == ""
    text = re.sub(r".\x08", "", call("mandoc", "-T", "utf8", page))
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES"):
        assert re.search("^%s$" % section, text, re.M), section
