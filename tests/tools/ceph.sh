#!/usr/bin/env bash
# A Ceph for tests, with its S3 gateway: one monitor, one OSD that keeps all objects in memory, and radosgw. They come
# from Debian packages, which this script installs if they are missing. All data, settings and logs are in DIR. It does
# not touch /etc/ceph and the services of the machine. Usage is that of minio.sh:
#
#   ceph.sh install | start DIR [TLS] | stop PID      start prints CEPH_PID=…, else what minio.sh prints
#
# CEPH_PID is the process of this script. When it ends, it ends the three servers. They also end when it is killed.
set -euo pipefail
# The servers start one after the other. That takes 15 s, and minutes on a busy machine.
# shellcheck disable=SC2034 # go_server.sh uses it
POLLS_MAX=1200
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

# What the OSD tells as its size. It takes no memory before there are objects.
readonly MEMORY_BYTES=$((8 << 30))

install_ceph() {
  "$TOOLS/deps.sh" ceph
  command -v radosgw
}

# write_config DIR MONITOR_PORT FRONTEND: the servers ask each other for no keys, as nothing but radosgw is tested.
write_config() {
  cat >"$1/ceph.conf" <<CONFIG
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = [v2:127.0.0.1:$2]
mon initial members = a
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
mon data = $1/mon
mon data avail crit = 1
mon allow pool size one = true
mon max pg per osd = 1000
mon warn on pool no redundancy = false
osd data = $1/osd
osd objectstore = memstore
memstore device bytes = $MEMORY_BYTES
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
rgw data = $1/radosgw
rgw frontends = beast $3
keyring = $1/keyring
run dir = $1
admin socket =
crash dir = $1
log file = $1/\$name.log
[mon]
public addrv = v2:127.0.0.1:$2
[osd]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
[client]
public addr = 127.0.0.1
CONFIG
}

# in_turn COMMAND…: one step of the way to a running Ceph. It may wait for a server for ever: this script can be ended
# meanwhile, and the step ends with it.
in_turn() {
  echo "== $*"
  setpriv --pdeathsig KILL "$@" &
  wait $!
}

# serve COMMAND…: a server that ends with this script, whatever ends it.
serve() {
  setpriv --pdeathsig KILL "$@" &
  served+=($!)
}

end_served() {
  trap - EXIT
  # The last comes first: radosgw needs the OSD to end, and the OSD the monitor.
  for ((i = ${#served[@]} - 1; i >= 0; i--)); do
    stop_server "${served[i]}"
  done
}

# Runs in the background until it is ended: run_ceph DIR ACCESS_KEY SECRET_KEY.
run_ceph() {
  local dir=$1 conf=$1/ceph.conf osd
  served=()
  trap end_served EXIT
  trap 'exit 0' INT TERM HUP
  mkdir -p "$dir/mon" "$dir/osd" "$dir/radosgw"
  osd=$(cat /proc/sys/kernel/random/uuid)
  in_turn ceph-mon -c "$conf" --mkfs -i a
  serve ceph-mon -c "$conf" -f -i a
  in_turn ceph -c "$conf" osd new "$osd"
  in_turn ceph -c "$conf" osd crush add osd.0 1.0 host=here root=default
  in_turn ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$osd"
  serve ceph-osd -c "$conf" -f -i 0
  in_turn radosgw-admin -c "$conf" user create --uid=cleat --display-name=cleat --access-key="$2" --secret-key="$3"
  serve radosgw -c "$conf" -f -n client.radosgw
  # None of them ends by itself.
  wait -n
}

start_ceph() {
  local dir tls=${2:-} monitor port try user secret scheme=http frontend
  install_ceph >/dev/null
  mkdir -p "$1"
  dir=$(cd "$1" && pwd)
  user=cleat-$(random_hex 4)
  secret=$(random_hex 16)
  for ((try = 0; try < START_TRIES; try++)); do
    read -r monitor port <<<"$(free_ports 2)"
    frontend="endpoint=127.0.0.1:$port"
    if [ -n "$tls" ]; then
      scheme=https
      frontend="ssl_endpoint=127.0.0.1:$port ssl_certificate=$tls/server/public.crt"
      frontend+=" ssl_private_key=$tls/server/private.key"
    fi
    rm -rf "${dir:?}"/*
    write_config "$dir" "$monitor" "$frontend"
    if start_server "$scheme://127.0.0.1:$port/" "$dir/ceph.log" "$TOOLS/ceph.sh" run "$dir" "$user" "$secret"; then
      tell_server CEPH "$scheme://127.0.0.1:$port" "$user" "$secret" ${tls:+"$tls/ca.crt"}
      return
    fi
    # shellcheck disable=SC2154 # start_server has set it
    stop_server "$server_pid"
  done
  tail -n 100 "$dir"/*.log >&2
  die "Ceph did not start in $START_TRIES tries; its logs are above"
}

case ${1:-} in
install) install_ceph ;;
start) start_ceph "${2:?usage: ceph.sh start DIR [TLS]}" "${3:-}" ;;
stop) stop_server "${2:?usage: ceph.sh stop PID}" ;;
run) run_ceph "${@:2}" ;;
*) die "usage: ceph.sh install | start DIR [TLS] | stop PID" ;;
esac
