#!/usr/bin/env bash
# A Docker engine for tests, and a base image for machines that reach no image registry.
#
#   docker.sh start DIR            starts an engine on a socket in DIR, with all its files below DIR; prints the shell
#                                  lines DOCKER_HOST=… DOCKER_PID=…. Needs root. Installs docker.io of Debian
#   docker.sh stop DIR PID         stops it, waits for its end, and unmounts what it has left mounted below DIR
#   docker.sh base NAME            makes the image NAME of the engine that DOCKER_HOST names: Debian's minimal system by
#                                  debootstrap (once, then from the cache), as small as Debian's slim images, where apt
#                                  knows the host's sources. For tests alone: it is not to be published
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly POLLS_MAX=600 # of 0.1 s each
readonly suite=bookworm
room=

# What a container needs of the kernel and of this machine, in words, before an engine says it in its own.
check_means() {
  [ "$(id -u)" = 0 ] || die "no Docker engine answers, and only root can start one: start one, or run this as root"
  mountpoint -q /sys/fs/cgroup || [ -e /sys/fs/cgroup/cgroup.controllers ] ||
    die "no Docker engine answers, and none can be started here: /sys/fs/cgroup has no control groups (a chroot?)"
  unshare --mount true 2>/dev/null ||
    die "no Docker engine answers, and none can be started here: no right to make namespaces (a container?)"
}

# Containers use the host's network, so the engine leaves bridges and firewalls alone.
start_engine() {
  local dir=$1 pid poll
  check_means
  "$TOOLS/deps.sh" docker
  mkdir -p "$dir"
  setsid dockerd --host "unix://$dir/docker.sock" --data-root "$dir/data" --exec-root "$dir/exec" \
    --pidfile "$dir/docker.pid" --iptables=false --ip6tables=false --ip-forward=false --bridge=none --log-level warn \
    </dev/null >"$dir/docker.log" 2>&1 &
  pid=$!
  for ((poll = 0; poll < POLLS_MAX; poll++)); do
    if DOCKER_HOST=unix://$dir/docker.sock docker info >/dev/null 2>&1; then
      printf 'DOCKER_HOST=%q\nDOCKER_PID=%q\n' "unix://$dir/docker.sock" "$pid"
      return
    fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill "$pid" 2>/dev/null || true
  cat "$dir/docker.log" >&2
  die "the Docker engine did not start; its log is above"
}

stop_engine() {
  local dir=$1 pid=$2 poll point
  kill "$pid" 2>/dev/null || true
  for ((poll = 0; poll < POLLS_MAX; poll++)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  awk -v below="$dir/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r | while read -r point; do
    umount "$point" || umount -l "$point"
  done
}

# What Debian's slim images leave out, now and when packages are installed later.
slim() {
  rm -rf "$room"/usr/share/{groff,info,linda,lintian,man} "$room"/usr/share/locale/* "$room"/var/lib/apt/lists/* \
    "$room"/var/cache/apt/*.bin "$room"/var/cache/debconf/*-old "$room"/var/lib/dpkg/*-old "$room"/var/log/*
  find "$room/usr/share/doc" ! -name copyright ! -type d -delete
  find "$room/usr/share/doc" -depth -type d -empty -delete
  printf 'path-exclude %s\n' '/usr/share/doc/*' '/usr/share/groff/*' '/usr/share/info/*' '/usr/share/linda/*' \
    '/usr/share/lintian/*' '/usr/share/locale/*' '/usr/share/man/*' >"$room/etc/dpkg/dpkg.cfg.d/docker"
  echo 'path-include /usr/share/doc/*/copyright' >>"$room/etc/dpkg/dpkg.cfg.d/docker"
}

# Only what the host's apt needs is lent: certificates of its own, where its sources are behind TLS.
make_base_image() {
  room=$(mktemp -d "${TMPDIR:-/tmp}/cleat-base.XXXXXX")
  trap 'rm -rf --one-file-system "$room"' EXIT
  chmod 755 "$room"
  source "$TOOLS/room.sh"
  "$TOOLS/deps.sh" debootstrap
  enter_base
  slim
  lend_apt
  ! grep -rqs https "$room"/etc/apt/sources.list* || lend_certificates
  tar -C "$room" -c . | docker import --change 'CMD ["bash"]' - "$1" >&2
}

case ${1:-} in
start) start_engine "${2:?usage: docker.sh start DIR}" ;;
stop) stop_engine "${2:?usage: docker.sh stop DIR PID}" "${3:?usage: docker.sh stop DIR PID}" ;;
base) make_base_image "${2:?usage: docker.sh base NAME}" ;;
*) die "usage: docker.sh start DIR | stop DIR PID | base NAME" ;;
esac
