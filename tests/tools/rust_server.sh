# shellcheck shell=bash
# Sourced by the scripts of the test servers in Rust, after go_server.sh: builds a pinned program once, cached outside
# the tree.

# True if the machine's Rust is at least 1.$1.
rust_is_recent() {
  local version
  version=$(rustc --version 2>/dev/null) || return 1
  [[ $version =~ ^rustc\ 1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$1" ] && command -v cargo >/dev/null
}

# build_rust_program PROGRAM NAME VERSION CARGO_OPTION…: builds it into PROGRAM. All that Cargo writes goes below one
# folder, which is removed when the program stands. A build that was interrupted is continued there.
build_rust_program() {
  local program=$1 name=$2 version=$3 folder=$CACHE/rust settings=${CARGO_HOME:-${HOME:-/root}/.cargo}/config.toml
  say "building $name $version with $(rustc --version) (up to 30 minutes, once)"
  mkdir -p "$folder/cargo"
  if [ -e "$settings" ]; then
    cp "$settings" "$folder/cargo/"
  fi
  (cd / && CARGO_HOME=$folder/cargo CARGO_TARGET_DIR=$folder/target CARGO_PROFILE_RELEASE_STRIP=true \
    cargo install --quiet --locked "$name@$version" "${@:4}" --root "$folder/out" --no-track --force) >&2
  install -D -m 755 "$folder/out/bin/$name" "$program.new"
  mv "$program.new" "$program"
  rm -rf "$folder"
}

# install_rust_program NAME VERSION RUST_MINOR CARGO_OPTION…: prints the path of the program, which is built unless the
# cache has NAME-VERSION already.
install_rust_program() {
  local program=$CACHE/bin/$1-$2
  if [ ! -x "$program" ]; then
    rust_is_recent "$3" || "$TOOLS/deps.sh" rust
    rust_is_recent "$3" || die "$1 needs Rust 1.$3: put a newer rustc and cargo on PATH"
    mkdir -p "$CACHE/bin"
    exec 9>"$CACHE/bin/.rust-lock"
    flock 9
    [ -x "$program" ] || build_rust_program "$program" "$1" "$2" "${@:4}"
    exec 9>&-
  fi
  echo "$program"
}
