#!/usr/bin/env bash
# `make install` puts everything in place, below DESTDIR only, and what it installed works from there.
set -euo pipefail
source "$(dirname "$0")/checks.sh"

all_files_there() {
  local file
  for file in bin/cleat lib/libcleat.a lib/libcleat.so lib/libcleat.so.0 lib/pkgconfig/cleat.pc \
    share/man/man1/cleat.1 share/bash-completion/completions/cleat share/zsh/site-functions/_cleat \
    share/fish/vendor_completions.d/cleat.fish $(cd "$ROOT/api" && printf 'include/%s ' cleat.h cleat/*.h); do
    [ -e "$work/root/usr/local/$file" ] || { echo "missing: $file"; return 1; }
  done
}

pc_version_is_header_version() {
  grep -q "define CLEAT_VERSION \"$(installed_flags --modversion)\"" "$ROOT/api/cleat/common.h"
}

# A program against the shared, and one against the static library.
printf '#include <cleat.h>\n#include <string.h>\nint main(void) { return strcmp(cleat_version(), CLEAT_VERSION); }\n' \
  >"$work/v.c"
links_shared() {
  # shellcheck disable=SC2046 # the flags are words
  gcc -std=c11 "$work/v.c" $(installed_flags --cflags --libs) -o "$work/v" &&
    LD_LIBRARY_PATH=$work/root/usr/local/lib "$work/v"
}
links_static() {
  # shellcheck disable=SC2046
  gcc -std=c11 "$work/v.c" $(installed_flags --cflags) "$work/root/usr/local/lib/libcleat.a" \
    $(pkg-config --libs libcurl libcrypto expat libisal) -pthread -lm -o "$work/vs" && "$work/vs"
}

# A header of one topic, without cleat.h.
topics_work() {
  printf '#include <cleat/common.h>\nint main(void) { return cleat_version() == 0; }\n' >"$work/t.c"
  cp "$work/t.c" "$work/t.cc"
  # shellcheck disable=SC2046
  gcc -std=c11 "$work/t.c" $(installed_flags --cflags --libs) -o "$work/t" &&
    LD_LIBRARY_PATH=$work/root/usr/local/lib "$work/t" &&
    g++ -std=c++17 "$work/t.cc" $(installed_flags --cflags --libs) -o "$work/t" &&
    LD_LIBRARY_PATH=$work/root/usr/local/lib "$work/t"
}

check "make install" install_tree
check "every file is installed" all_files_there
check "cleat.pc has the header's version" pc_version_is_header_version
check "a program links the installed shared library" links_shared
check "a program links the installed static library" links_static
check "a program includes one topic, in C and in C++" topics_work
check "the installed program runs" "$work/root/usr/local/bin/cleat" --version
exit $result
