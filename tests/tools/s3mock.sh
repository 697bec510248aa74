#!/usr/bin/env bash
# An S3Mock for tests: a mock of S3 in Java, which keeps objects as files of a folder and checks no signature. An Abort
# removes the object of that key, and a key with a backslash is refused. Usage is that of minio.sh, without TLS:
#
#   s3mock.sh install | start DIR | stop PID      start prints S3MOCK_PID=…, else what minio.sh prints
set -euo pipefail
# It takes 10 s to start, and a minute on a machine that is busy.
# shellcheck disable=SC2034 # go_server.sh uses it
POLLS_MAX=1200
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source "$TOOLS/go_server.sh"

readonly S3MOCK_VERSION=5.2.0
readonly COPY_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

install_s3mock() {
  local folder=$CACHE/s3mock-$S3MOCK_VERSION
  { command -v java && command -v mvn; } >/dev/null || "$TOOLS/deps.sh" java >&2
  if [ ! -e "$folder/.complete" ]; then
    mkdir -p "$folder"
    exec 9>"$CACHE/.s3mock-lock"
    flock 9
    # The stamp comes last: an interrupted try is done again.
    if [ ! -e "$folder/.complete" ]; then
      say "installing S3Mock $S3MOCK_VERSION"
      (cd "$folder" && mvn -q -B -Dmaven.repo.local="$folder/repository" "$COPY_PLUGIN:copy" \
        -Dartifact="com.adobe.testing:s3mock:$S3MOCK_VERSION:jar:exec" -DoutputDirectory="$folder") >&2
      rm -rf "$folder/repository"
      touch "$folder/.complete"
    fi
    exec 9>&-
  fi
  echo "$folder/s3mock-$S3MOCK_VERSION-exec.jar"
}

# write_beans PORT: its plain HTTP listener. No setting binds this listener to one address, so it is replaced.
write_beans() {
  cat <<XML
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd">
  <bean id="httpConnector" class="org.apache.catalina.connector.Connector">
    <constructor-arg>
      <bean class="org.apache.coyote.http11.Http11NioProtocol">
        <property name="address" value="127.0.0.1"/>
      </bean>
    </constructor-arg>
    <property name="port" value="$1"/>
  </bean>
</beans>
XML
}

start_s3mock() {
  local dir program http https try
  program=$(install_s3mock)
  mkdir -p "$1/data" "$1/home" "$1/tmp"
  dir=$(cd "$1" && pwd)
  for ((try = 0; try < START_TRIES; try++)); do
    read -r http https <<<"$(free_ports 2)"
    write_beans "$http" >"$dir/beans.xml"
    if start_server "http://127.0.0.1:$http/" "$dir/s3mock.log" \
      env HOME="$dir/home" java -Xmx1g -Djava.io.tmpdir="$dir/tmp" -jar "$program" \
      --spring.main.banner-mode=off --spring.main.sources="file:$dir/beans.xml" \
      --spring.main.allow-bean-definition-overriding=true --server.address=127.0.0.1 --server.port="$https" \
      --http.port="$http" --com.adobe.testing.s3mock.store.root="$dir/data"; then
      tell_server S3MOCK "http://127.0.0.1:$http" cleat-s3mock cleat-s3mock-secret
      return
    fi
  done
  cat "$dir/s3mock.log" >&2
  die "S3Mock did not start in $START_TRIES tries; its log is above"
}

case ${1:-} in
install) install_s3mock ;;
start) start_s3mock "${2:?usage: s3mock.sh start DIR}" ;;
stop) stop_server "${2:?usage: s3mock.sh stop PID}" ;;
*) die "usage: s3mock.sh install | start DIR | stop PID" ;;
esac
