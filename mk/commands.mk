# Targets that run something: tests, lint, documentation, benchmarks, demos. The scripts are in tests/tools/ and beside
# what they run. The leading + hands this make's options (WERROR, SANITIZE, CC) on to the make that a script starts.

# --- what scripts ask: flags, and names of programs ------------------------------------------------------------

.PHONY: print-tidy-flags print-unit print-torture print-integration print-fuzz print-gpu
print-tidy-flags:
	@echo '$(BASE_CFLAGS) $(filter-out -Werror,$(WARNINGS)) $(CFLAGS_EXTRA)'
print-unit:
	@printf '%s\n' $(UNIT_BIN) $(PLAIN_BIN)
print-torture:
	@printf '%s\n' $(TORTURE_BIN)
print-integration:
	@printf '%s\n' $(INTEGRATION_BIN)
print-gpu:
	@printf '%s\n' $(GPU_FAKE_BIN)
print-fuzz:
	@printf '%s\n' $(FUZZ_BIN)

# --- tests and checks ------------------------------------------------------------------------------------------

.PHONY: deps test unit torture corpora model gpu header integration stores endurance mutants check-quick fuzz
deps:
	@tests/tools/deps.sh all
test:
	+@tests/tools/run_tests.sh unit torture corpora model gpu header integration
unit torture corpora model gpu header integration stores endurance mutants:
	+@tests/tools/run_tests.sh $@

# For daily work, a few minutes: what a change most often breaks. `make test` and .ci/run do the rest.
check-quick:
	+@tests/tools/run_tests.sh unit && tests/tools/lint.sh quick

SECONDS ?= 600
fuzz:
	+@tests/tools/fuzz.sh $(SECONDS) $(TARGETS)

.PHONY: lint format metrics
lint:
	+@tests/tools/lint.sh

format:
	@tests/tools/deps.sh lint
	git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r "$$(dirname "$$(tests/tools/venv.sh)")/clang-format" -i

# The table of docs/code-metrics.md.
metrics:
	@tests/tools/deps.sh metrics && tests/tools/metrics.py

# --- CUDA ------------------------------------------------------------------------------------------------------

# On a machine with a device, which may have nothing but CUDA, a compiler and make beside it.
GPU_MAKE = $(MAKE) --no-print-directory STANDALONE=1 BUILD=$(BUILD)/gpu CUDA=$(or $(CUDA),1)
.PHONY: gpu-test gpu-bench gpu-build
gpu-test:
	+@$(GPU_MAKE) $(BUILD)/gpu/tests/gpu/test_cuda $(BUILD)/gpu/tests/gpu/test_cuda_graphs $(BUILD)/gpu/trainer && \
	  $(BUILD)/gpu/tests/gpu/test_cuda && $(BUILD)/gpu/tests/gpu/test_cuda_graphs && \
	  tests/gpu/trainer.sh $(BUILD)/gpu/trainer
gpu-bench:
	+@$(GPU_MAKE) $(BUILD)/gpu/tests/gpu/bench_cuda && $(BUILD)/gpu/tests/gpu/bench_cuda $(MIB)

# On any machine: does the CUDA driver compile and link?
gpu-build:
	+@tests/tools/gpu_build.sh

# --- benchmarks, documentation, images, demos --------------------------------------------------------------------

WITH_PROGRAMS = tests/tools/deps.sh build && $(MAKE) --no-print-directory all
.PHONY: bench bench-report bench-smoke docs docker-test demo demo-minio
bench:
	+@$(WITH_PROGRAMS) bench-programs && tests/bench/run.sh

# The page in the tree, from the last whole run.
bench-report:
	@tests/bench/report.sh $(BUILD)/bench/results.json tests/bench

bench-smoke:
	+@$(WITH_PROGRAMS) bench-programs && tests/bench/run.sh --smoke local limit scale tls memory

# The pages of docs/ as a site that needs no network: build/docs/index.html. Broken links and anchors fail,
# and public declarations without a comment.
docs:
	@tests/tools/docs.sh

# The images of docker/, built and tried; needs a Docker engine, or root to start one.
docker-test:
	@tests/docker/story.sh

demo:
	+@$(WITH_PROGRAMS) && api/examples/demo.sh file
demo-minio:
	+@tests/tools/deps.sh server && $(WITH_PROGRAMS) && api/examples/demo.sh minio

# --- help ------------------------------------------------------------------------------------------------------

.PHONY: help
help:
	@echo 'make              build build/cleat, build/libcleat.so, build/libcleat.a, and the examples build/trainer*'
	@echo 'make install      [PREFIX=/usr/local] [DESTDIR=]'
	@echo 'make man          man pages of the library: build/man'
	@echo 'make demo         train, kill, resume, compare: on a folder (installs what is missing)'
	@echo 'make demo-minio   the same on a MinIO that it starts and stops'
	@echo 'make test         all tests below (installs what is missing, MinIO too)'
	@echo 'make unit | torture | corpora | model | gpu | header | integration     one group of them'
	@echo 'make gpu-test     CUDA memory on a real device; needs CUDA, a compiler and make alone'
	@echo 'make gpu-bench    its figures, [MIB=4096] of checkpoint; gpu/RESULTS.md says what was seen'
	@echo 'make gpu-build    whether the CUDA driver compiles and links, with CUDA from the Python package registry'
	@echo 'make docker-test  build the images of docker/; kill and stop a training in them (a Docker engine, or root)'
	@echo 'make check-quick  for daily work: build, unit tests, lint without clang-tidy'
	@echo 'make metrics      figures of the sources, which docs/code-metrics.md compares with other projects'
	@echo 'make stores       eight more S3 servers, each installed, started and tried; prints what was seen [STORES="moto ceph"]'
	@echo 'make endurance    200 saves and 100 ranks killed at random moments, 200 races of two writers, 6,000 zombies (three hours), and the real Hugging Face Trainer, killed 36 times (5 GB of packages)'
	@echo 'make mutants      the bugs of tests/mutants, each put into a copy, [MUTANTS="name …"] [MUTANTS_TURN=k/n]'
	@echo 'make fuzz         each fuzz target with libFuzzer, [SECONDS=600] for each [TARGETS="list http"]'
	@echo 'make lint         format, clang-tidy, include directions, banned functions, symbols'
	@echo 'make format       lay out every C file as .clang-format says'
	@echo 'make docs         the pages of docs/ as a site: build/docs/index.html'
	@echo 'make bench        figures of speed and memory: build/bench/results.json and a page, RESULTS.md, beside it'
	@echo 'make bench-report tests/bench/RESULTS.md and its plots, from that document'
	@echo 'make bench-smoke  the same with little data: whether it works'
	@echo 'make deps         install the Debian packages for all of the above'
	@echo 'make clean        remove build/'
	@echo 'Variables: CC, WERROR=1, SANITIZE=address,undefined|thread, DEBUG=1, CUDA=DIR|1|0, STANDALONE=1, BUILD'
