#!/usr/bin/env bash
# Builds what goes into an image, in a stage that has the packages of `deps.sh build`.
# usage: build.sh SOURCE OUT CUDA     CUDA as for make: 0, 1 or a folder
set -euo pipefail
source=$1 program=$2/usr/local/bin/cleat share=$2/usr/local/share/cleat cuda=$3

make -C "$source" -j"$(nproc)" CUDA="$cuda" build/cleat
install -D -s -m 755 "$source/build/cleat" "$program"
install -m 755 "$source/docker/health.sh" "${program%/*}/cleat-health"
install -D -m 755 "$source/docker/install.sh" "$share/install.sh"
install -m 644 "$source/LICENSE" "$share/LICENSE"

# The packages of the libraries that the program itself names; what these need, apt knows.
readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r library; do
  dpkg-query -S "*/$library" | sed 's/:.*//' | head -n 1
done | sort -u >"$share/packages"
[ "$(wc -l <"$share/packages")" -ge 5 ] # of a program without libraries something is wrong
