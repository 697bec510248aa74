# shellcheck shell=bash
# Sourced after common.sh by scripts that make a minimal Debian: its base system, kept as a tarball in the cache, and
# settings with which it reaches registries like the host. The caller sets $room, an empty folder, and $suite.

host_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-${suite:?}}")

# Debian's own mirror as the host's apt knows it, for the main archive.
# A file of these that is not there fails cat.
host_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -v '^ *#' | grep -oP '(https?|file)://\S*/debian/?(?=\s|$)' | head -n 1 || true
}

make_base() {
  local tarball=$1 mirror
  command -v debootstrap >/dev/null || die "needs debootstrap"
  mirror=$(host_mirror)
  [ -n "$mirror" ] || die "no Debian mirror in the host's apt sources"
  say "debootstrap $suite (once)"
  debootstrap --variant=minbase "$suite" "${room:?}" "$mirror" >&2
  rm -rf "$room"/var/cache/apt/archives/*.deb
  tar -C "$room" -cf "$tarball.new" .
  mv "$tarball.new" "$tarball"
}

# Fills the room with the base system.
enter_base() {
  local tarball=$CACHE/clean-room-$suite.tar
  mkdir -p "$CACHE"
  if [ -e "$tarball" ]; then
    tar -C "$room" -xf "$tarball"
  else
    make_base "$tarball"
  fi
}

# Debian's sources for the room's suite, and the settings of how to fetch.
lend_apt() {
  local file
  : >"$room/etc/apt/sources.list"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    if [ -f "$file" ] && [[ $file =~ \.(list|sources)$ ]] && grep -q "/debian" "$file"; then
      sed "s/\b$host_suite\b/$suite/g" "$file" >"$room$file"
    fi
  done
  for file in /etc/apt/apt.conf.d/*; do
    if grep -q 'Acquire::' "$file" && ! grep -qE 'IndexTargets|DPkg::|APT::Update' "$file"; then
      cp "$file" "$room$file"
    fi
  done
  [ ! -d /etc/apt/auth.conf.d ] || cp -r /etc/apt/auth.conf.d "$room/etc/apt/"
}

# The host's certificates, as they are and as local ones, so that installing ca-certificates keeps them.
lend_certificates() {
  local bundle=/etc/ssl/certs/ca-certificates.crt
  [ -e "$bundle" ] || return 0
  install -D -m 644 "$bundle" "$room$bundle"
  mkdir -p "$room/usr/local/share/ca-certificates"
  awk -v folder="$room/usr/local/share/ca-certificates" \
    '/-----BEGIN/ { file = sprintf("%s/host-%03d.crt", folder, ++n) }
      file { print > file }
      /-----END/ { close(file); file = "" }' \
    "$bundle"
}
