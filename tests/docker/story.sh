#!/usr/bin/env bash
# Builds the images of docker/ for real, and tells their story in containers: a training under `cleat run` is killed,
# stopped and started again, and ends with the bits of one that nobody disturbed. `make docker-test` is this script.
#
# It uses the Docker engine that answers, or starts one and ends it (tests/tools/docker.sh). Where the base image cannot
# be pulled it makes an equal one. Prints "ok - …" and "not ok - …" lines, and last "N passed, M failed".
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
source "$TOOLS/tally.sh"
cd "$ROOT"

readonly BASE=debian:bookworm-slim SIZE_MAX=100000000
readonly STEPS=600 SAVE_EVERY=100
readonly PATIENCE_S=120   # for what takes a second or two on a machine that is not busy
readonly PULL_S=60        # for an answer of the registry
readonly NAME=cleat-test-$$ # of everything that is made in the engine
readonly MODEL="--text /usr/local/share/cleat/corpus.txt --hidden 32 --memory-rows 2000 --save-every $SAVE_EVERY"

work=
engine=
base=
server=

# --- telling and tidying -----------------------------------------------------------------------------------------

# What cannot go on without this check ends here.
need() {
  local before=$failed
  check "$@"
  [ "$failed" = "$before" ] || finish
}

clean_up() {
  local containers images
  trap - EXIT INT TERM HUP
  if [ -n "$base" ]; then
    compose down --volumes >/dev/null 2>&1 || true
    mapfile -t containers < <(docker ps -aq --filter "name=^$NAME" 2>/dev/null)
    [ ${#containers[@]} = 0 ] || docker rm -f "${containers[@]}" >/dev/null 2>&1 || true
    mapfile -t images < <(docker images --format '{{.Repository}}' --filter "reference=$NAME*" 2>/dev/null)
    [ ${#images[@]} = 0 ] || docker rmi -f "${images[@]}" >/dev/null 2>&1 || true
  fi
  [ -z "$server" ] || "$TOOLS/minio.sh" stop "$server"
  [ -z "$engine" ] || "$TOOLS/docker.sh" stop "$work/engine" "$engine"
  [ -z "$work" ] || rm -rf --one-file-system "$work"
}

# Waits until a command says yes.
wait_until() {
  local end=$((SECONDS + PATIENCE_S))
  until "$@"; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "# waited $PATIENCE_S s for: $*"
      return 1
    fi
    sleep 0.2
  done
}

# --- what the story needs ------------------------------------------------------------------------------------------

# An engine that answers is used, and its images stay; one that was started goes, with all that it has.
get_engine() {
  local lines
  if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
    say "using the Docker engine that answers"
    return
  fi
  lines=$("$TOOLS/docker.sh" start "$work/engine")
  eval "$lines"
  engine=$DOCKER_PID
  export DOCKER_HOST
  say "started a Docker engine of its own: $(docker info --format '{{.ServerVersion}}, {{.Driver}}')"
}

# Prints the name of the base image.
get_base() {
  if docker image inspect "$BASE" >/dev/null 2>&1 || timeout "$PULL_S" docker pull -q "$BASE" >/dev/null 2>&1; then
    echo "$BASE"
  else
    say "$BASE cannot be pulled: making an equal one with debootstrap"
    "$TOOLS/docker.sh" base "$NAME-base"
    echo "$NAME-base"
  fi
}

# To MinIO a folder in its data folder is a bucket. Nothing of the user's own settings may change the story.
get_server() {
  local lines name
  for name in $(compgen -e); do
    case $name in
    AWS_* | CLEAT_* | RANK | WORLD_SIZE) unset "$name" ;;
    esac
  done
  lines=$("$TOOLS/minio.sh" start "$work/minio")
  eval "$lines"
  server=$MINIO_PID
  mkdir "$work/minio/data/runs"
  printf '%s\n' "AWS_ENDPOINT_URL=$CLEAT_TEST_ENDPOINT" "AWS_ACCESS_KEY_ID=$AWS_ACCESS_KEY_ID" \
    "AWS_SECRET_ACCESS_KEY=$AWS_SECRET_ACCESS_KEY" "AWS_REGION=$AWS_REGION" AWS_EC2_METADATA_DISABLED=true >"$work/keys"
}

# --- images ----------------------------------------------------------------------------------------------------------

# The tree as it is, without what git ignores. The builder that every engine has is enough.
build_image() {
  local target=$1 log=$work/build-$1.log
  shift
  say "building the image $target"
  if ! git ls-files -co --exclude-standard -z | existing | tar --null -T - -c | DOCKER_BUILDKIT=0 docker build \
    --network=host -f docker/Dockerfile --target "$target" -t "$NAME-$target" --build-arg BASE="$base" \
    --build-arg VERSION="$version" "$@" - >"$log" 2>&1; then
    tail -n 40 "$log"
    return 1
  fi
}

existing() {
  local file
  while IFS= read -r -d '' file; do
    [ ! -e "$file" ] || printf '%s\0' "$file"
  done
}

# inspect FORMAT [THING]: a word about an image or a container.
inspect() {
  docker inspect --format "$1" "${2:-$NAME-cleat}"
}

# Runs the image to its end, with the server's keys.
in_image() {
  docker run --rm --network=host --env-file "$work/keys" "$@"
}

is_small() {
  local size base_size
  size=$(inspect '{{.Size}}')
  base_size=$(inspect '{{.Size}}' "$base")
  echo "# $size bytes, of which the base image has $base_size"
  [ "$size" -le "$SIZE_MAX" ]
}

has_labels() {
  [ "$(inspect '{{index .Config.Labels "org.opencontainers.image.version"}}')" = "$version" ] &&
    [ "$(inspect '{{index .Config.Labels "org.opencontainers.image.licenses"}}')" = Apache-2.0 ]
}

is_not_root() {
  local user
  user=$(in_image --entrypoint id "$NAME-cleat" -u)
  [ -n "$user" ] && [ "$user" != 0 ] && [ "$(in_image --entrypoint id "$NAME-example" -u)" = "$user" ]
}

is_stripped() {
  in_image --entrypoint cat "$NAME-cleat" /usr/local/bin/cleat >"$work/cleat" &&
    ! readelf -S -W "$work/cleat" | grep -E '\.(symtab|debug_)'
}

# Files go to the bucket and come back by the plain commands, which need nothing of `cleat run`.
files_come_back() {
  # shellcheck disable=SC2016 # for the image's shell
  in_image --entrypoint sh "$NAME-cleat" -c 'set -e
    mkdir in && head -c 3000000 /dev/urandom >in/weights && cp /usr/local/bin/cleat in/
    cleat save -q in s3://runs/files --step 7
    cleat load -q s3://runs/files out && diff -r in out && cleat verify -q s3://runs/files'
}

# An image of one's own, on another system, gets Cleat as docker/README.md says.
goes_into_another_image() {
  printf '%s\n' "FROM $base" "COPY --from=$NAME-cleat /usr/local /usr/local" "RUN /usr/local/share/cleat/install.sh" |
    DOCKER_BUILDKIT=0 docker build --network=host -t "$NAME-own" - >"$work/build-own.log" 2>&1 ||
    { tail -n 20 "$work/build-own.log"; return 1; }
  [ "$(in_image "$NAME-own" cleat --version)" = "$(in_image "$NAME-cleat" --version)" ]
}

# --- training under `cleat run` ---------------------------------------------------------------------------------------

# start NAME COMMAND…: the command under `cleat run`, in the background, in a container with an empty disk.
start() {
  local name=$1
  shift
  docker run -d --name "$NAME-$name" --network=host --env-file "$work/keys" -v "$work/out:/out" \
    --health-interval=1s --health-retries=1 --health-start-period=1s "$NAME-example" \
    run --store "s3://runs/$name" --dir /job/ckpt --metrics-file /job/metrics.prom -- "$@" >/dev/null
}

# The newest committed step of a run, or nothing.
newest() {
  in_image "$NAME-cleat" ls --json "s3://runs/$1" 2>/dev/null |
    python3 -c 'import json, sys; print(max((c["step"] for c in json.load(sys.stdin)["checkpoints"]), default=""))' \
      2>/dev/null
}

has_step() {
  local step
  step=$(newest "$1") && [ "${step:-0}" -ge "$2" ]
}

is_running() {
  [ "$(inspect '{{.State.Running}}' "$NAME-$1")" = true ]
}

ended_with() {
  [ "$(inspect '{{.State.ExitCode}}' "$NAME-$1")" = "$2" ] || {
    echo "# exit status $(inspect '{{.State.ExitCode}}' "$NAME-$1"); its last lines:"
    docker logs --tail 15 "$NAME-$1" 2>&1
    return 1
  }
}

has_health() {
  [ "$(inspect '{{.State.Health.Status}}' "$NAME-$1")" = "$2" ]
}

# The process of the container that is its number 1, signalled from outside as nothing within can.
signal_first() {
  kill -"$2" "$(inspect '{{.State.Pid}}' "$NAME-$1")"
}

said() {
  docker logs "$NAME-$1" >"$work/said" 2>&1 && grep -q "$2" "$work/said"
}

# Trains to the end where a run stands, and keeps what it ends with; the container before it is gone, with its disk.
train_on() {
  docker rm -f "$NAME-$1" >/dev/null
  # shellcheck disable=SC2086 # words
  start "$1" trainer $MODEL --store file:///job/ckpt --steps "$STEPS" --dump-weights "/out/$1"
  timeout "$PATIENCE_S" docker wait "$NAME-$1" >/dev/null
  ended_with "$1" 0
}

same_bits() {
  [ -n "$(ls "$work/out/$1" 2>/dev/null)" ] && diff -rq "$work/out/undisturbed" "$work/out/$1"
}

is_whole() {
  [ "$(newest "$1")" = "$STEPS" ] && in_image "$NAME-cleat" verify -q "s3://runs/$1"
}

train_undisturbed() {
  # shellcheck disable=SC2086 # words
  in_image -v "$work/out:/out" --entrypoint trainer "$NAME-example" $MODEL --steps "$STEPS" \
    --dump-weights /out/undisturbed >"$work/undisturbed.log" 2>&1 || { cat "$work/undisturbed.log"; return 1; }
}

# A job that gets as far as 400 and no further, so that it is not over before it is killed.
tell_of_a_kill() {
  local step
  # shellcheck disable=SC2086,SC2016
  start killed sh -c "trainer $MODEL --store file:///job/ckpt --steps 400 && exec sleep infinity"
  need "checkpoints reach the store while training goes on" wait_until has_step killed "$SAVE_EVERY"
  check "the container is healthy" wait_until has_health killed healthy
  check "cleat is process 1" test "$(docker exec "$NAME-killed" cat /proc/1/comm)" = cleat
  docker kill "$NAME-killed" >/dev/null
  check "killed: the container is dead" ended_with killed 137
  step=$(newest killed)
  need "started again on an empty disk, it trains to the end" train_on killed
  check "it went on from step $step, the newest in the store" said killed "resumed from step $step"
  check "the weights have the bits of the run that nobody disturbed" same_bits killed
  check "all of it is in the store, and whole" is_whole killed
}

# A job that writes its last checkpoint when it is told to end, as good ones do.
tell_of_a_stop() {
  # shellcheck disable=SC2086,SC2016
  start stopped sh -c "trainer $MODEL --store file:///job/ckpt --steps 200
    trap 'trainer $MODEL --store file:///job/ckpt --steps 250; exit 0' TERM
    while :; do sleep 0.1; done"
  need "checkpoints of the next job reach the store" wait_until has_step stopped 200
  tell_of_health stopped
  docker stop -t 100 "$NAME-stopped" >/dev/null
  check "docker stop: it ends by itself, as its command did" ended_with stopped 0
  check "the checkpoint that was written on SIGTERM was flushed to the store" has_step stopped 250
  need "started again on an empty disk, it trains to the end" train_on stopped
  check "it went on from that checkpoint" said stopped "resumed from step 250"
  check "the weights have the bits of the run that nobody disturbed" same_bits stopped
}

tell_of_health() {
  check "while it waits the container is healthy" wait_until has_health "$1" healthy
  signal_first "$1" STOP
  check "with its process 1 stopped it is not" wait_until has_health "$1" unhealthy
  signal_first "$1" CONT
  check "and when that goes on it is again" wait_until has_health "$1" healthy
}

# Orphans become children of process 1; the command sees them end, or waits for ever.
orphans_are_reaped() {
  # shellcheck disable=SC2016 # for the image's shell
  start orphans sh -c 'for i in 1 2 3 4 5; do (sleep 0.$i & ) ; done
    while cat /proc/[0-9]*/comm 2>/dev/null | grep -qx sleep; do :; done'
  timeout "$PATIENCE_S" docker wait "$NAME-orphans" >/dev/null && ended_with orphans 0
}

# --- compose.yaml and k8s-job.yaml ---------------------------------------------------------------------------------

# Either kind of it.
compose() {
  local command=(docker-compose)
  ! docker compose version >/dev/null 2>&1 || command=(docker compose)
  MINIO_IMAGE=$NAME-minio CLEAT_EXAMPLE_IMAGE=$NAME-example "${command[@]}" -p "$NAME" -f docker/compose.yaml "$@"
}

# MinIO's image where it can be had, and else an equal one with the MinIO of the tests.
get_minio_image() {
  local image folder=$work/minio-image
  image=$(sed -n 's/.*{MINIO_IMAGE:-\(.*\)}/\1/p' docker/compose.yaml)
  if timeout "$PULL_S" docker pull -q "$image" >/dev/null 2>&1; then
    docker tag "$image" "$NAME-minio"
    return
  fi
  say "$image cannot be pulled: making an equal one"
  mkdir "$folder"
  cp "$("$TOOLS/minio.sh" install)" "$folder/minio"
  printf 'FROM %s\nCOPY minio /usr/bin/minio\n' "$base" >"$folder/Dockerfile"
  DOCKER_BUILDKIT=0 docker build -t "$NAME-minio" "$folder" >"$work/build-minio.log" 2>&1
}

trainer_says() {
  compose logs --no-color trainer >"$work/compose.log" 2>/dev/null
  grep -q "$1" "$work/compose.log"
}

compose_has_step() {
  compose run --rm --no-deps -T trainer ls --json s3://checkpoints/example 2>/dev/null | grep -q '"step":'
}

# Its own network, if the engine can make one: here containers reach each other by name.
tell_of_compose() {
  docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || "$TOOLS/deps.sh" compose
  need "MinIO's image" get_minio_image
  check "compose.yaml starts a store and a training job" compose up -d --no-build
  check "whose checkpoints reach the store" wait_until compose_has_step
  check "it is killed" compose kill trainer
  check "another is started, with an empty disk" compose up -d --no-build --force-recreate --no-deps trainer
  check "it goes on from a checkpoint of the store" wait_until trainer_says 'resumed from step'
  check "compose stop lets it end by itself" compose stop trainer
  check "all of it goes" compose down --volumes
}

# Is the time that the file gives a pod what `cleat run` in it may take, with some air? The same in compose.yaml.
grace_fits() {
  python3 - <<'PY'
import re

def argument(text, name, default):
    found = re.search(name + r'\s+- "(\d+)"', text)
    return int(found[1]) if found else default

for path, key, unit in (("docker/k8s-job.yaml", "terminationGracePeriodSeconds", ""),
                        ("docker/compose.yaml", "stop_grace_period", "s")):
    text = open(path).read()
    given = int(re.search(key + r": (\d+)" + unit + r"\n", text)[1])
    taken = argument(text, "--grace", 60) + argument(text, "--flush", 60)
    assert given >= taken + 10, f"{path}: {given} s are given, {taken} s may be taken"
PY
}

# --- with CUDA --------------------------------------------------------------------------------------------------------

# CUDA's own bases need a registry. The equal of what Cleat wants of them: the packages of a build, and CUDA's headers
# and static Runtime where they would be.
build_cuda() {
  local cuda folder=$work/cuda-base devel=$NAME-cuda-devel
  cuda=$("$TOOLS/cuda.sh")
  mkdir "$folder"
  cp -r "$cuda/include" "$cuda/lib" "$folder/"
  printf 'FROM %s\nRUN rm -rf /src /out\nCOPY include /usr/local/cuda/include\nCOPY lib /usr/local/cuda/lib64\n' \
    "$NAME-build" >"$folder/Dockerfile"
  DOCKER_BUILDKIT=0 docker build -t "$devel" "$folder" >"$work/build-devel.log" 2>&1 ||
    { tail -n 20 "$work/build-devel.log"; return 1; }
  build_image cuda --build-arg CUDA_DEVEL="$devel" --build-arg CUDA_RUNTIME="$base"
}

# Without a driver it starts, and says what it can.
has_cuda() {
  [[ $(in_image "$NAME-cuda" --version) == *"with CUDA"* ]] &&
    [[ $(in_image "$NAME-cleat" --version) != *"with CUDA"* ]]
}

# --- all of it --------------------------------------------------------------------------------------------------------

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
work=$(mktemp -d "${TMPDIR:-/tmp}/cleat-docker.XXXXXX")
mkdir -m 777 "$work/out"
chmod 777 "$work/out"
version=$(sed -n 's/^#define CLEAT_VERSION "\(.*\)".*/\1/p' api/cleat/common.h)

"$TOOLS/deps.sh" build server
get_engine
base=$(get_base)
get_server

need "the program builds in a stage of its own" build_image build
need "the image builds" build_image cleat
check "it has at most $((SIZE_MAX / 1000000)) MB" is_small
check "its labels say version and licence" has_labels
check "the program is stripped" is_stripped
check "files go to a bucket and come back" files_come_back
check "Cleat goes into another image by COPY and one script" goes_into_another_image
need "the image with the example builds" build_image example
check "they do not run as root" is_not_root
check "the image with CUDA builds on the equal of CUDA's bases" build_cuda
check "it can use CUDA memory, and needs no driver to start" has_cuda
need "the example trains undisturbed" train_undisturbed
tell_of_a_kill
tell_of_a_stop
check "orphans are reaped" orphans_are_reaped
check "compose.yaml and k8s-job.yaml give the time that cleat run takes" grace_fits
tell_of_compose
finish
