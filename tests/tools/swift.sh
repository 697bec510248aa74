#!/usr/bin/env bash
# An OpenStack Swift for tests, with its S3 interface (s3api): one node and one replica. It runs from Debian's Python
# package, which starts no service. All data, settings and logs are in DIR; /etc/swift is not touched. It refuses
# conditions on a PUT, and a Complete that names checksums. Usage is that of minio.sh, without TLS:
#
#   swift.sh install | start DIR | stop PID      start prints SWIFT_PID=…, else what minio.sh prints
#
# SWIFT_PID is the process of this script. When it ends, it ends the four servers. They also end when it is killed.
set -euo pipefail
# Four Python programs start, which takes 5 s, and a minute on a machine that is busy.
# shellcheck disable=SC2034 # go_server.sh uses it
POLLS_MAX=1200
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

readonly VERSION=2.30.1
# Debian's modules are for Debian's Python.
readonly PYTHON=/usr/bin/python3
# A busy machine must not look like a node that fails: there is no other one.
readonly PATIENCE_S=60
# A shorter part is refused unless it is the last. AWS has the same two limits.
readonly PART_MIN_BYTES=$((5 << 20))
readonly PARTS_MAX=10000

install_swift() {
  "$TOOLS/deps.sh" swift
  "$PYTHON" -c "import sys, swift; sys.exit(swift.__version__ != '$VERSION')" ||
    say "this Swift is not the $VERSION that these tests know"
  "$PYTHON" -c 'import swift; print(swift.__path__[0])'
}

# The object server keeps the description of an object in extended attributes of its file.
require_xattrs() {
  "$PYTHON" - "$1" <<'PY' || die "Swift needs a file system with user extended attributes: $1 has none"
import os, sys
try:
    os.setxattr(sys.argv[1], "user.cleat", b"1")
    os.removexattr(sys.argv[1], "user.cleat")
except OSError as error:
    sys.exit(str(error))
PY
}

# write_rings DIR ACCOUNT_PORT CONTAINER_PORT OBJECT_PORT: which server keeps what. One device keeps all.
write_rings() {
  "$PYTHON" - "$@" <<'PY'
import sys
from swift.common.ring import RingBuilder
folder, *ports = sys.argv[1:]
for kind, port in zip(("account", "container", "object"), ports):
    builder = RingBuilder(4, 1, 0)
    builder.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "replication_ip": "127.0.0.1",
                     "replication_port": int(port), "device": "disk", "weight": 1, "meta": ""})
    builder.rebalance()
    builder.get_ring().save(f"{folder}/{kind}.ring.gz")
PY
}

# server_defaults DIR PORT: what all four are told.
server_defaults() {
  cat <<CONFIG
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = $2
workers = 0
user = $(id -un)
swift_dir = $1
devices = $1/devices
mount_check = false
disable_fallocate = true
log_level = WARNING
log_address = $1/no-syslog
conn_timeout = $PATIENCE_S
node_timeout = $PATIENCE_S
CONFIG
}

# write_storage DIR KIND PORT: the account, container or object server.
write_storage() {
  {
    server_defaults "$1" "$3"
    cat <<CONFIG
container_update_timeout = $PATIENCE_S
[pipeline:main]
pipeline = $2-server
[app:$2-server]
use = egg:swift#$2
CONFIG
  } >"$1/$2.conf"
}

# write_proxy DIR PORT SECRET: what speaks S3.
write_proxy() {
  local before="catch_errors gatekeeper healthcheck no_cache listing_formats bulk s3api tempauth"
  local behind="copy slo dlo versioned_writes symlink proxy-server"
  {
    server_defaults "$1" "$2"
    cat <<CONFIG
[pipeline:main]
pipeline = $before $behind
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
recoverable_node_timeout = $PATIENCE_S
error_suppression_limit = 1000000
[filter:no_cache]
paste.filter_factory = __main__:no_cache_factory
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
min_segment_size = $PART_MIN_BYTES
max_upload_part_num = $PARTS_MAX
[filter:tempauth]
use = egg:swift#tempauth
user_cleat_cleat = $3 .admin
[filter:slo]
use = egg:swift#slo
max_manifest_segments = $PARTS_MAX
max_manifest_size = $((16 << 20))
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_object_versioning = true
CONFIG
    local filter
    for filter in catch_errors gatekeeper healthcheck listing_formats bulk copy dlo symlink; do
      printf '%s\n' "[filter:$filter]" "use = egg:swift#$filter"
    done
  } >"$1/proxy.conf"
}

# write_configs DIR SECRET PROXY_PORT ACCOUNT_PORT CONTAINER_PORT OBJECT_PORT
write_configs() {
  mkdir -p "$1/devices/disk"
  printf '%s\n' '[swift-hash]' "swift_hash_path_suffix = $(random_hex 8)" >"$1/swift.conf"
  write_rings "$1" "${@:4}"
  write_storage "$1" account "$4"
  write_storage "$1" container "$5"
  write_storage "$1" object "$6"
  write_proxy "$1" "$3" "$2"
}

# serve DIR KIND: a server that ends with this script, whatever ends it. Its tempauth wants a memcached for tokens,
# which S3 does without. A cache that keeps nothing stands in for it.
serve() {
  setpriv --pdeathsig KILL "$PYTHON" - "$1" "$1/$2.conf" "$2-server" <<'PY' &
import sys
from swift.common.utils import set_swift_dir
# Before the other modules, which read swift.conf when they are imported.
set_swift_dir(sys.argv[1])
from swift.common.wsgi import run_wsgi

class NoCache:
    def get(self, *_, **__):
        return None

    set = delete = get

def no_cache_factory(*_, **__):
    def wrap(app):
        return lambda env, start: app({**env, "swift.cache": NoCache()}, start)
    return wrap

sys.exit(run_wsgi(sys.argv[2], sys.argv[3], verbose=True))
PY
  served+=($!)
}

end_served() {
  local pid
  trap - EXIT
  for pid in "${served[@]}"; do
    stop_server "$pid"
  done
}

# Runs in the background until it is ended: run_swift DIR.
run_swift() {
  local kind
  served=()
  trap end_served EXIT
  trap 'exit 0' INT TERM HUP
  for kind in account container object proxy; do
    serve "$1" "$kind"
  done
  # None of them ends by itself.
  wait -n
}

start_swift() {
  local dir ports try secret
  install_swift >/dev/null
  mkdir -p "$1"
  dir=$(cd "$1" && pwd)
  require_xattrs "$dir"
  secret=$(random_hex 16)
  for ((try = 0; try < START_TRIES; try++)); do
    read -r -a ports <<<"$(free_ports 4)"
    rm -rf "${dir:?}"/*
    write_configs "$dir" "$secret" "${ports[@]}"
    if start_server "http://127.0.0.1:${ports[0]}/healthcheck" "$dir/swift.log" "$TOOLS/swift.sh" run "$dir"; then
      tell_server SWIFT "http://127.0.0.1:${ports[0]}" cleat:cleat "$secret"
      return
    fi
    # shellcheck disable=SC2154 # start_server has set it
    stop_server "$server_pid"
  done
  tail -n 100 "$dir/swift.log" >&2
  die "Swift did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_swift ;;
start) start_swift "${2:?usage: swift.sh start DIR}" ;;
stop) stop_server "${2:?usage: swift.sh stop PID}" ;;
run) run_swift "$2" ;;
*) die "usage: swift.sh install | start DIR | stop PID" ;;
esac
