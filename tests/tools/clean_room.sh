#!/usr/bin/env bash
# Runs make targets in a fresh minimal Debian in which only git and make are installed. This proves that nothing else on
# the machine of a developer is needed. Needs root and debootstrap.
#
# usage: clean_room.sh [--cache] [bookworm|trixie] [TARGET…]      default: bookworm test
#   --cache   share this user's cache (MinIO, Python packages) with the room, which saves minutes
#
# The room gets a clone of HEAD. The base system is kept as a tarball in the cache. The room reaches registries like the
# host: it gets the apt sources and settings, pip settings, CA certificates and resolver of the host, and the proxy, pip
# and Go variables of the environment.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

share_cache=0
if [ "${1:-}" = --cache ]; then
  share_cache=1
  shift
fi
suite=bookworm
case ${1:-} in
bookworm | trixie)
  suite=$1
  shift
  ;;
esac
targets=("${@:-test}")
room=
source "$TOOLS/room.sh"

leave() {
  local point
  trap - EXIT INT TERM HUP
  [ -n "$room" ] || return 0
  # Only what runs inside the room is ended, before its mounts go.
  end_processes
  for point in root/.cache/cleat dev/pts dev/shm dev proc sys; do
    ! mountpoint -q "$room/$point" || umount "$room/$point" || umount -l "$room/$point"
  done
  # Never remove through a mount that would not go away.
  rm -rf --one-file-system "$room"
}

end_processes() {
  local process
  for process in /proc/[0-9]*; do
    if [ "$(readlink "$process/root" 2>/dev/null)" = "$room" ]; then
      kill -KILL "${process##*/}" 2>/dev/null || true
    fi
  done
}

lend_settings() {
  lend_apt
  lend_certificates
  cp -L /etc/resolv.conf "$room/etc/resolv.conf"
  cp /etc/hosts "$room/etc/hosts"
  [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$room/etc/pip.conf"
}

mount_all() {
  mount -t proc proc "$room/proc"
  mount -t sysfs -o ro sysfs "$room/sys"
  mount -t tmpfs -o mode=755 tmpfs "$room/dev"
  local device
  for device in null zero full random urandom tty; do
    cp -a "/dev/$device" "$room/dev/$device"
  done
  mkdir "$room/dev/pts" "$room/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$room/dev/pts"
  ln -s pts/ptmx "$room/dev/ptmx"
  ln -s /proc/self/fd "$room/dev/fd"
  ln -s /proc/self/fd/0 "$room/dev/stdin"
  ln -s /proc/self/fd/1 "$room/dev/stdout"
  ln -s /proc/self/fd/2 "$room/dev/stderr"
  mount -t tmpfs -o mode=1777 tmpfs "$room/dev/shm"
  if [ "$share_cache" = 1 ]; then
    mkdir -p "$room/root/.cache/cleat"
    mount --bind "$CACHE" "$room/root/.cache/cleat"
  fi
}

# The variables that say how to reach registries; a path that does not exist in the room is not passed on.
lent_variables() {
  local name
  for name in $(compgen -e); do
    case $name in
    *_PROXY | *_proxy | PIP_* | GOPROXY | GONOSUMDB | GOSUMDB | GOPRIVATE | GOINSECURE | GOFLAGS | SSL_CERT_FILE | \
      SSL_CERT_DIR)
      if [[ ${!name} != /* ]] || [ -e "$room${!name}" ]; then
        printf '%s=%s\n' "$name" "${!name}"
      fi
      ;;
    esac
  done
}

in_room() {
  local variables
  mapfile -t variables < <(lent_variables)
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
    "${variables[@]}" chroot "$room" "$@"
}

[ "$(id -u)" = 0 ] || die "needs root"
command -v debootstrap >/dev/null || die "needs debootstrap"
trap leave EXIT
trap 'leave; exit 130' INT
trap 'leave; exit 143' TERM HUP
room=$(mktemp -d "${TMPDIR:-/tmp}/cleat-room.XXXXXX")
chmod 755 "$room"
room=$(readlink -f "$room")

enter_base
lend_settings
mount_all
say "installing git and make in $suite"
in_room apt-get -q update >&2
in_room env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends git make >&2
git clone -q --no-hardlinks "$ROOT" "$room/root/cleat"
in_room git config --global --add safe.directory /root/cleat
for target in "${targets[@]}"; do
  say "make $target in $suite"
  started=$SECONDS
  if [ "$target" = .ci/run ]; then
    in_room sh -c 'cd /root/cleat && .ci/run'
  else
    in_room make -C /root/cleat "$target"
  fi
  say "make $target in $suite: done in $((SECONDS - started)) s"
done
