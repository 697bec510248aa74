# shellcheck shell=bash disable=SC2034
# Sourced by the scripts of the test servers: builds a pinned Go program once, cached outside the tree; starts it on
# free loopback ports and waits until it answers; stops it. Sourced after common.sh.

readonly POLLS_MAX=${POLLS_MAX:-300} # of 0.1 s each: a start takes about a second, a loaded machine takes a few
readonly START_TRIES=5

# --- building ----------------------------------------------------------------------------------------------------

# True if $1 is a Go program of at least 1.$2.
go_is_recent() {
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$2" ]
}

# Prints the path of a Go of at least 1.$1: the machine's own, Debian's, or, where Debian's is too old, the
# toolchain $2, which this older Go fetches as a module.
find_go() {
  local minor=$1 toolchain=$2
  if command -v go >/dev/null && go_is_recent "$(command -v go)" "$minor"; then
    command -v go
    return
  fi
  if ! command -v go >/dev/null; then
    "$TOOLS/deps.sh" go
  fi
  if go_is_recent "$(command -v go)" "$minor"; then
    command -v go
    return
  fi
  fetch_toolchain "$minor" "$toolchain"
}

fetch_toolchain() {
  local arch module dir
  case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) die "no Go toolchain for $(uname -m): put go >= 1.$1 on PATH" ;;
  esac
  module=golang.org/toolchain@$2.linux-$arch
  say "fetching $module"
  dir=$(cd / && GOFLAGS=-modcacherw GOPATH=$CACHE/go GOMODCACHE=$CACHE/go/mod go mod download -json "$module" |
    sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  [ -n "$dir" ] || die "go mod download $module gave no folder"
  # An old Go unpacks a module without execute permission.
  chmod -R u+w "$dir"
  chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
  echo "$dir/bin/go"
}

# Builds PACKAGE@VERSION, whose program is called NAME, into $1. Everything Go writes goes below one folder, which is
# removed when the program stands.
build_go_program() {
  local out=$1 name=$2 package=$3 minor=$4 toolchain=$5 go
  go=$(find_go "$minor" "$toolchain")
  say "building $package with $("$go" version) (a few minutes, once)"
  # GOROOT would point another Go's tools at this one; the environment's GOFLAGS are not ours.
  (cd / && env -u GOROOT GOTOOLCHAIN=local GOFLAGS=-modcacherw CGO_ENABLED=0 GOPATH="$CACHE/go" \
    GOMODCACHE="$CACHE/go/mod" GOCACHE="$CACHE/go/build" GOBIN="$CACHE/go/bin" \
    "$go" install -trimpath -ldflags '-s -w' "$package") 2> >(quiet_go >&2)
  install -D -m 755 "$CACHE/go/bin/$name" "$out.new"
  mv "$out.new" "$out"
  chmod -R u+w "$CACHE/go"
  rm -rf "$CACHE/go"
}

# Hundreds of "go: downloading" lines say nothing.
quiet_go() {
  grep -v '^go: downloading ' || true
}

# install_go_program KEY NAME PACKAGE@VERSION GO_MINOR GO_TOOLCHAIN: prints the path of the program, which is built
# unless the cache has NAME-KEY already.
install_go_program() {
  local program=$CACHE/bin/$2-$1
  if [ ! -x "$program" ]; then
    "$TOOLS/deps.sh" server
    mkdir -p "$CACHE/bin"
    # Two test runs at once: the second waits, and finds the program built.
    exec 9>"$CACHE/bin/.lock"
    flock 9
    [ -x "$program" ] || build_go_program "$program" "${@:2}"
    exec 9>&-
  fi
  echo "$program"
}

# --- starting and stopping -----------------------------------------------------------------------------------------

# $1 different free ports of the loopback interface. Another program may take one before the server does.
free_ports() {
  python3 - "$1" <<'PY'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))
PY
}

# True once GET $1 says 200. Who answers there is not asked: the port is of this machine.
is_ready() {
  python3 - "$1" <<'PY' 2>/dev/null
import ssl, sys, urllib.request
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
sys.exit(0 if opener.open(sys.argv[1], timeout=5).status == 200 else 1)
PY
}

# Waits until process $1 answers at the URL $2; ends it if it does not.
wait_ready() {
  local pid=$1 url=$2 poll
  for ((poll = 0; poll < POLLS_MAX; poll++)); do
    kill -0 "$pid" 2>/dev/null || return 1
    is_ready "$url" && return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  return 1
}

stop_server() {
  local pid=$1 poll
  kill "$pid" 2>/dev/null || return 0
  for ((poll = 0; poll < POLLS_MAX; poll++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
}

random_hex() {
  od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'
}

# start_server READY_URL LOG COMMAND…: runs it in a session of its own (Ctrl-C in the terminal must not take the server
# from under a test that is cleaning up), and waits until it answers at the URL. server_pid is its process id.
start_server() {
  local url=$1 log=$2
  shift 2
  setsid "$@" </dev/null >"$log" 2>&1 &
  server_pid=$!
  # Until its process id is told, nobody else can stop it.
  trap 'kill "$server_pid"; exit 130' INT TERM HUP
  wait_ready "$server_pid" "$url"
}

# What a started server is known by: `tell_server NAME URL USER SECRET [CA]` prints shell lines.
tell_server() {
  printf '%s\n' "CLEAT_TEST_ENDPOINT=$2" "$1_PID=$server_pid" "AWS_ACCESS_KEY_ID=$3" "AWS_SECRET_ACCESS_KEY=$4" \
    AWS_REGION=us-east-1 ${5:+"AWS_CA_BUNDLE=$5"}
  trap - INT TERM HUP
}
