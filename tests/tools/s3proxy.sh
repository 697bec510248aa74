#!/usr/bin/env bash
# An s3proxy for tests: a gateway in Java, here in front of a folder (its filesystem-nio2 backend). It refuses unknown
# headers, and a Complete must name the checksum of each part that has one. Usage is that of minio.sh, without TLS:
#
#   s3proxy.sh install | start DIR | stop PID      start prints S3PROXY_PID=…, else what minio.sh prints
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

readonly S3PROXY_VERSION=4.1.0
# It needs a newer one than Maven chooses for it among those that its dependencies name.
readonly ANNOTATIONS_VERSION=2.22
readonly COPY_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

# A project that has nothing but the gateway among its dependencies.
write_pom() {
  cat <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>cleat.tests</groupId>
  <artifactId>s3proxy</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.gaul</groupId>
      <artifactId>s3proxy</artifactId>
      <version>$S3PROXY_VERSION</version>
    </dependency>
    <dependency>
      <groupId>com.fasterxml.jackson.core</groupId>
      <artifactId>jackson-annotations</artifactId>
      <version>$ANNOTATIONS_VERSION</version>
    </dependency>
  </dependencies>
</project>
POM
}

install_s3proxy() {
  local folder=$CACHE/s3proxy-$S3PROXY_VERSION
  { command -v java && command -v mvn; } >/dev/null || "$TOOLS/deps.sh" java >&2
  if [ ! -e "$folder/.complete" ]; then
    mkdir -p "$folder"
    exec 9>"$CACHE/.s3proxy-lock"
    flock 9
    # The stamp comes last: an interrupted try is done again.
    if [ ! -e "$folder/.complete" ]; then
      say "installing s3proxy $S3PROXY_VERSION"
      write_pom >"$folder/pom.xml"
      mvn -q -B -f "$folder/pom.xml" -Dmaven.repo.local="$folder/repository" "$COPY_PLUGIN:copy-dependencies" \
        -DincludeScope=runtime -DoutputDirectory="$folder/lib" >&2
      rm -rf "$folder/repository"
      touch "$folder/.complete"
    fi
    exec 9>&-
  fi
  echo "$folder/lib"
}

start_s3proxy() {
  local dir=$1 library port user secret try
  library=$(install_s3proxy)
  mkdir -p "$dir/data" "$dir/home"
  user=cleat-$(random_hex 4)
  secret=$(random_hex 16)
  echo '<configuration><root level="WARN"/></configuration>' >"$dir/logback.xml"
  for ((try = 0; try < START_TRIES; try++)); do
    port=$(free_ports 1)
    printf '%s\n' "s3proxy.endpoint=http://127.0.0.1:$port" s3proxy.authorization=aws-v2-or-v4 \
      "s3proxy.identity=$user" "s3proxy.credential=$secret" s3proxy.v4-max-non-chunked-request-size=134217728 \
      jclouds.provider=filesystem-nio2 "jclouds.filesystem.basedir=$dir/data" >"$dir/s3proxy.conf"
    if start_server "http://127.0.0.1:$port/healthz" "$dir/s3proxy.log" \
      env HOME="$dir/home" java -Dlogback.configurationFile="$dir/logback.xml" -cp "$library/*" \
      org.gaul.s3proxy.Main --properties "$dir/s3proxy.conf"; then
      tell_server S3PROXY "http://127.0.0.1:$port" "$user" "$secret"
      return
    fi
  done
  cat "$dir/s3proxy.log" >&2
  die "s3proxy did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_s3proxy ;;
start) start_s3proxy "${2:?usage: s3proxy.sh start DIR}" ;;
stop) stop_server "${2:?usage: s3proxy.sh stop PID}" ;;
*) die "usage: s3proxy.sh install | start DIR | stop PID" ;;
esac
