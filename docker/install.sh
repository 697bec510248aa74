#!/bin/sh
# Installs the libraries that `cleat` needs, and the certificates of public CAs, on Debian 12 and newer or Ubuntu 22.04
# and newer; leaves no lists, caches or documentation behind. In an image of one's own:
#   COPY --from=cleat /usr/local /usr/local
#   RUN /usr/local/share/cleat/install.sh
set -eu
here=$(dirname "$0")
export DEBIAN_FRONTEND=noninteractive
apt-get -q -o Acquire::Retries=3 update
# shellcheck disable=SC2046 # a word each
apt-get -q -o Acquire::Retries=3 install -y --no-install-recommends ca-certificates $(cat "$here/packages")
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/lib/dpkg/*-old /var/log/apt /var/log/dpkg.log \
  /var/log/alternatives.log
cleat --version
