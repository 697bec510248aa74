#!/usr/bin/env bash
# A MinIO server for tests: built once from its pinned source by `go install`, cached outside the tree.
#
#   minio.sh install      builds it if need be; prints the path of the program
#   minio.sh start DIR    starts it on a free loopback port, data and log in DIR, waits until it answers;
#                         prints shell lines: CLEAT_TEST_ENDPOINT=… MINIO_PID=… AWS_ACCESS_KEY_ID=…
#                         AWS_SECRET_ACCESS_KEY=… AWS_REGION=…
#   minio.sh stop PID     stops it and waits until it is gone
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The last state of the project, which takes no more changes. Module proxies know it by its full
# pseudo-version; the bare commit would need a look at the repository itself.
readonly MINIO_VERSION=v0.0.0-20260212201848-7aac2a2c5b7c
readonly MINIO_KEY=7aac2a2c5b7c
# What MinIO's go.mod asks for, and the release that is fetched when the machine has only an older one.
readonly GO_MINOR_MIN=24
readonly GO_TOOLCHAIN=v0.0.1-go1.24.13
readonly POLLS_MAX=300 # of 0.1 s each: a start takes about a second, a loaded machine takes a few
readonly START_TRIES=5

# True if $1 is a Go program that is new enough.
go_is_recent() {
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$GO_MINOR_MIN" ]
}

# Prints the path of a Go that can build MinIO: the machine's own, Debian's, or, where Debian's is too old,
# the toolchain that this older Go fetches as a module.
find_go() {
  if command -v go >/dev/null && go_is_recent "$(command -v go)"; then
    command -v go
    return
  fi
  if ! command -v go >/dev/null; then
    "$TOOLS/deps.sh" go
  fi
  if go_is_recent "$(command -v go)"; then
    command -v go
    return
  fi
  fetch_toolchain
}

fetch_toolchain() {
  local arch module dir
  case $(uname -m) in
  x86_64) arch=amd64 ;;
  aarch64) arch=arm64 ;;
  *) die "no Go toolchain for $(uname -m): put go >= 1.$GO_MINOR_MIN on PATH" ;;
  esac
  module=golang.org/toolchain@$GO_TOOLCHAIN.linux-$arch
  say "fetching $module"
  dir=$(cd / && GOFLAGS=-modcacherw GOPATH=$CACHE/go GOMODCACHE=$CACHE/go/mod go mod download -json "$module" |
    sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  [ -n "$dir" ] || die "go mod download $module gave no folder"
  # An old Go unpacks a module without execute permission.
  chmod -R u+w "$dir"
  chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
  echo "$dir/bin/go"
}

# Builds into $1. Everything Go writes goes below one folder, which is removed when the program stands.
build_minio() {
  local go
  go=$(find_go)
  say "building MinIO $MINIO_KEY with $("$go" version) (a few minutes, once)"
  # GOROOT would point another Go's tools at this one; the environment's GOFLAGS are not ours.
  (cd / && env -u GOROOT GOTOOLCHAIN=local GOFLAGS=-modcacherw CGO_ENABLED=0 GOPATH="$CACHE/go" \
    GOMODCACHE="$CACHE/go/mod" GOCACHE="$CACHE/go/build" GOBIN="$CACHE/go/bin" \
    "$go" install -trimpath -ldflags '-s -w' "github.com/minio/minio@$MINIO_VERSION") 2> >(quiet_go >&2)
  install -D -m 755 "$CACHE/go/bin/minio" "$1.new"
  mv "$1.new" "$1"
  chmod -R u+w "$CACHE/go"
  rm -rf "$CACHE/go"
}

# Hundreds of "go: downloading" lines say nothing.
quiet_go() {
  grep -v '^go: downloading ' || true
}

install_minio() {
  local program=$CACHE/bin/minio-$MINIO_KEY
  if [ ! -x "$program" ]; then
    "$TOOLS/deps.sh" minio
    mkdir -p "$CACHE/bin"
    # Two test runs at once: the second waits, and finds the program built.
    exec 9>"$CACHE/bin/.lock"
    flock 9
    [ -x "$program" ] || build_minio "$program"
    exec 9>&-
  fi
  echo "$program"
}

# Two different free ports of the loopback interface. Another program may take one before MinIO does.
free_ports() {
  python3 - <<'PY'
import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))
PY
}

# True once http://127.0.0.1:$1 says that it is ready.
is_ready() {
  python3 - "$1" <<'PY' 2>/dev/null
import http.client, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
c.request("GET", "/minio/health/ready")
sys.exit(0 if c.getresponse().status == 200 else 1)
PY
}

wait_ready() {
  local pid=$1 port=$2 poll
  for ((poll = 0; poll < POLLS_MAX; poll++)); do
    kill -0 "$pid" 2>/dev/null || return 1
    is_ready "$port" && return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  return 1
}

start_minio() {
  local dir=$1 program port console pid try user secret
  program=$(install_minio)
  "$TOOLS/deps.sh" minio
  mkdir -p "$dir/data" "$dir/home"
  user=cleat-$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n')
  secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  for ((try = 0; try < START_TRIES; try++)); do
    read -r port console <<<"$(free_ports)"
    # Its own session: Ctrl-C in the terminal must not take the server from under a test that is cleaning up.
    HOME=$dir/home MINIO_ROOT_USER=$user MINIO_ROOT_PASSWORD=$secret MINIO_BROWSER=off MINIO_UPDATE=off \
      setsid "$program" server --quiet --certs-dir "$dir/home/certs" --address "127.0.0.1:$port" \
      --console-address "127.0.0.1:$console" "$dir/data" </dev/null >"$dir/minio.log" 2>&1 &
    pid=$!
    # Until its process id is told, nobody else can stop it.
    trap 'kill "$pid"; exit 130' INT TERM HUP
    if wait_ready "$pid" "$port"; then
      printf '%s\n' "CLEAT_TEST_ENDPOINT=http://127.0.0.1:$port" "MINIO_PID=$pid" "AWS_ACCESS_KEY_ID=$user" \
        "AWS_SECRET_ACCESS_KEY=$secret" AWS_REGION=us-east-1
      trap - INT TERM HUP
      return
    fi
  done
  cat "$dir/minio.log" >&2
  die "MinIO did not start in $START_TRIES tries; its log is above"
}

stop_minio() {
  local pid=$1 poll
  kill "$pid" 2>/dev/null || return 0
  for ((poll = 0; poll < POLLS_MAX; poll++)); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
}

case ${1:-} in
install) install_minio ;;
start) start_minio "${2:?usage: minio.sh start DIR}" ;;
stop) stop_minio "${2:?usage: minio.sh stop PID}" ;;
*) die "usage: minio.sh install | start DIR | stop PID" ;;
esac
