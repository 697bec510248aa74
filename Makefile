# Cleat. `make help` lists the targets. Everything that is built lands in build/; caches (MinIO, the Python
# environment of the tests) live under $XDG_CACHE_HOME/cleat or ~/.cache/cleat.
#
# Variables:
#   CC=clang                     another compiler (use it with BUILD=build/clang)
#   WERROR=1                     warnings are errors; CI sets it
#   SANITIZE=address,undefined   instrumented build in build/asan; SANITIZE=thread: in build/tsan; both with assertions
#   DEBUG=1                      assertions on, in build/debug
#   CUDA=/usr/local/cuda         where CUDA is, if pkg-config, CUDA_HOME and /usr/local/cuda do not say; 1: it must be
#                                found; 0: build without it
#   PREFIX=/usr/local DESTDIR=   where `make install` puts things
#   V=1                          show whole command lines

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

# What is done, a line each; V=1 shows how.
Q := $(if $(V),,@)
say = @$(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),:,printf '  %-5s %s\n' $(1) $(2))
.SUFFIXES:

ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local

# The public headers are the one place that states the version.
VERSION := $(or $(shell sed -n 's/^.define CLEAT_VERSION "\(.*\)".*/\1/p' api/cleat/common.h 2>/dev/null),0.0.0)
SOVERSION := 0

# --- where and how -------------------------------------------------------------------------------------------

ifeq ($(SANITIZE)$(DEBUG),)
BUILD ?= build
else ifeq ($(SANITIZE),)
BUILD ?= build/debug
else ifneq ($(findstring thread,$(SANITIZE)),)
BUILD ?= build/tsan
else
BUILD ?= build/asan
endif

export BUILD

# STANDALONE=1 needs a compiler alone (and CUDA, if it is there): file:// is the only store, checksums are our own, and
# there is the library without the program. It is what `make gpu-test` builds.
ifneq ($(STANDALONE),1)
PKGS := libcurl libcrypto expat libisal
# What the program alone needs: it prints JSON.
PROGRAM_PKGS := libcjson
else
CFLAGS_STANDALONE := -DCLEAT_NO_S3
endif
# Asked once, when the first compiler line needs it, so that `make deps` works before pkg-config exists.
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell $(PKG_CONFIG) --cflags $(PKGS) $(PROGRAM_PKGS) 2>/dev/null))$(PKG_CFLAGS)
PKG_LIBS = $(eval PKG_LIBS := $$(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null))$(PKG_LIBS)
PROGRAM_LIBS = $(eval PROGRAM_LIBS := $$(shell $(PKG_CONFIG) --libs $(PROGRAM_PKGS) 2>/dev/null))$(PROGRAM_LIBS)
CHECK_LIBS = $(eval CHECK_LIBS := $$(shell $(PKG_CONFIG) --libs check 2>/dev/null))$(CHECK_LIBS)

WARNINGS := -Wall -Wextra -Wconversion -Wvla -Wcast-qual -Wmissing-prototypes -Wshadow
OPTIMIZE := -O2
CFLAGS_EXTRA := $(CFLAGS_STANDALONE)
LDFLAGS_EXTRA :=
SO_LDFLAGS := -Wl,--no-undefined
# assert() costs nothing in a release. Under a sanitizer and with DEBUG=1 it is on.
ifeq ($(SANITIZE)$(DEBUG),)
CFLAGS_EXTRA += -DNDEBUG
endif
ifneq ($(SANITIZE),)
OPTIMIZE := -O1
CFLAGS_EXTRA += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
LDFLAGS_EXTRA := -fsanitize=$(SANITIZE)
ifneq ($(findstring undefined,$(SANITIZE)),)
CFLAGS_EXTRA += -fno-sanitize-recover=undefined
endif
SO_LDFLAGS :=
endif
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif
# The CUDA Runtime, linked statically: the program runs where there is no driver. pkg-config knows it by version (cudart-13.0).
ifneq ($(CUDA),0)
CUDA_PKG := $(shell $(PKG_CONFIG) --list-all 2>/dev/null | sed -n 's/^\(cudart-[0-9.]*\) .*/\1/p' | sort -V | tail -n 1)
CUDA_PLACES := $(if $(filter-out 1,$(CUDA)),$(CUDA),$(CUDA_HOME) \
  $(if $(CUDA_PKG),$(shell $(PKG_CONFIG) --variable=cudaroot $(CUDA_PKG))) /usr/local/cuda)
CUDA_INCLUDE := $(patsubst %/cuda_runtime_api.h,%,$(firstword $(wildcard $(addsuffix /include/cuda_runtime_api.h,$(CUDA_PLACES)) \
  $(addsuffix /targets/*/include/cuda_runtime_api.h,$(CUDA_PLACES)))))
CUDA_LIB := $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(dir $(CUDA_INCLUDE))lib64 $(dir $(CUDA_INCLUDE))lib)))
ifneq ($(and $(CUDA_INCLUDE),$(CUDA_LIB)),)
CUDA_CFLAGS := -isystem $(CUDA_INCLUDE)
CUDA_LIBS := $(CUDA_LIB) -ldl -lrt
else ifneq ($(CUDA),)
$(error CUDA=$(CUDA): there is no include/cuda_runtime_api.h with lib64/libcudart_static.a in: $(CUDA_PLACES))
endif
endif

# What every file needs to be understood, by the compiler and by clang-tidy; CFLAGS stays free for the user.
BASE_CFLAGS = -std=c11 -D_GNU_SOURCE -I. $(PKG_CFLAGS)
ALL_CFLAGS = $(BASE_CFLAGS) $(OPTIMIZE) -g -fPIC -fvisibility=hidden -pthread $(WARNINGS) $(CFLAGS_EXTRA) $(CFLAGS)
ALL_LDFLAGS = -pthread $(LDFLAGS_EXTRA) $(LDFLAGS)
ALL_LIBS = $(PKG_LIBS) $(CUDA_LIBS) -lm

# --- sources -------------------------------------------------------------------------------------------------

LIB_SRC := $(wildcard $(addsuffix /*.c,base storage storage/* gpu uploader/* api api/manager))
LIB_SRC := $(filter-out $(if $(CUDA_LIBS),gpu/device_no_cuda.c,gpu/device_cuda.c),$(LIB_SRC))
LIB_SRC := $(filter-out $(if $(PKGS),base/digest_plain.c,base/digest.c base/xml_reader.c $(wildcard $(addsuffix /*.c,$(addprefix storage/,aws http s3)))),$(LIB_SRC))
CLI_SRC := $(if $(PKGS),$(wildcard $(addsuffix /*.c,$(addprefix api/,cli program run))))
# disk_record.c stands before libc's calls: in the programs that use it, not in all that are linked with the helpers.
DISK_RECORD := tests/mock/disk_record.c
MOCK_SRC := $(filter-out $(DISK_RECORD),$(wildcard tests/mock/*.c))
# tests/unit has the folders of the sources; the programs stand in one.
UNIT_SRC := $(sort $(shell find tests/unit -name 'test_*.c'))
TORTURE_SRC := $(wildcard tests/torture/*.c)
INTEGRATION_SRC := $(wildcard tests/integration/test_*.c)
HELPER_SRC := $(wildcard tests/integration/tools/*.c)
GPU_SRC := $(wildcard tests/gpu/*.c)
FAKE_SRC := $(wildcard tests/fake_cudart/*.c)
BENCH_SRC := $(wildcard tests/bench/*.c)
FUZZ_SRC := $(wildcard tests/fuzz/*.c)

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJ := $(call objects,$(LIB_SRC))
CLI_OBJ := $(call objects,$(CLI_SRC))
MOCK_OBJ := $(call objects,$(MOCK_SRC))
ALL_SRC := $(LIB_SRC) $(CLI_SRC) $(MOCK_SRC) $(DISK_RECORD) $(UNIT_SRC) $(TORTURE_SRC) $(BENCH_SRC) $(INTEGRATION_SRC) \
  $(HELPER_SRC) $(wildcard api/examples/*.c) $(FUZZ_SRC)

SO_FILE := libcleat.so.$(VERSION)
SO_NAME := libcleat.so.$(SOVERSION)
PROGRAMS := $(if $(CLI_SRC),$(BUILD)/cleat)
# Two examples, which share the model, the text and the reader of options.
RANKS_SRC := $(wildcard api/examples/trainer_ranks*.c)
TRAINER_SRC := $(filter-out $(RANKS_SRC),$(wildcard api/examples/trainer*.c))
RANKS_SRC += $(patsubst %,api/examples/trainer_%.c,model options results text)
EXAMPLES := $(BUILD)/trainer $(BUILD)/trainer_ranks
UNIT_BIN := $(patsubst %.c,$(BUILD)/tests/unit/%,$(notdir $(UNIT_SRC)))
$(foreach source,$(UNIT_SRC),$(eval $(BUILD)/tests/unit/$(basename $(notdir $(source))): $(call objects,$(source))))
PLAIN_BIN := $(BUILD)/tests/unit/test_checksum_plain
TORTURE_BIN := $(patsubst %.c,$(BUILD)/%,$(TORTURE_SRC))
BENCH_BIN := $(patsubst %.c,$(BUILD)/%,$(BENCH_SRC))
INTEGRATION_BIN := $(patsubst %.c,$(BUILD)/%,$(INTEGRATION_SRC))
FUZZ_BIN := $(patsubst %.c,$(BUILD)/%,$(filter tests/fuzz/fuzz_%,$(FUZZ_SRC)))
GPU_FAKE_BIN := $(patsubst tests/gpu/test_%.c,$(BUILD)/tests/gpu/fake_%,$(filter tests/gpu/test_%,$(GPU_SRC)))
GPU_BIN := $(BUILD)/tests/gpu/test_cuda $(BUILD)/tests/gpu/test_cuda_graphs $(BUILD)/tests/gpu/bench_cuda $(BUILD)/tests/gpu/absent
HELPER_BIN := $(patsubst tests/integration/tools/%.c,$(BUILD)/tests/integration/%,$(HELPER_SRC))

.PHONY: all lib tests gpu-programs unit-programs torture-programs integration-programs bench-programs fuzz-programs
all: lib $(PROGRAMS) $(EXAMPLES)
lib: $(BUILD)/libcleat.a $(BUILD)/libcleat.so $(BUILD)/cleat.pc
unit-programs: $(UNIT_BIN) $(PLAIN_BIN)
torture-programs: $(TORTURE_BIN)
integration-programs: $(INTEGRATION_BIN) $(HELPER_BIN)
bench-programs: $(BENCH_BIN)
fuzz-programs: $(FUZZ_BIN)
gpu-programs: $(GPU_FAKE_BIN) $(BUILD)/tests/gpu/fake_trainer
tests: all unit-programs torture-programs integration-programs fuzz-programs

# --- compiling and linking -----------------------------------------------------------------------------------

# One helpful line instead of a page of compiler errors when a library or the compiler is not there.
.PHONY: force
$(BUILD)/.flags: force
	@command -v $(CC) >/dev/null && { [ -z '$(PKGS)' ] || $(PKG_CONFIG) --exists $(PKGS) $(PROGRAM_PKGS) 2>/dev/null; } || \
	  { echo "cleat: $(CC), pkg-config or one of the libraries ($(PKGS) $(PROGRAM_PKGS)) is missing: run 'make deps' first" >&2; exit 1; }
	@mkdir -p $(@D)
	@echo '$(CC) $(ALL_CFLAGS) | $(ALL_LDFLAGS) $(ALL_LIBS) | $(VERSION)' | cmp -s - $@ || \
	  echo '$(CC) $(ALL_CFLAGS) | $(ALL_LDFLAGS) $(ALL_LIBS) | $(VERSION)' > $@

$(BUILD)/obj/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/obj/gpu/device_cuda.o: BASE_CFLAGS += $(CUDA_CFLAGS)

$(BUILD)/obj/api/examples/trainer_device.o: BASE_CFLAGS += $(if $(CUDA_LIBS),-DTRAINER_CUDA $(CUDA_CFLAGS))

# Examples say <cleat.h>, as a user's program does.
$(BUILD)/obj/api/examples/%.o: BASE_CFLAGS += -Iapi

$(BUILD)/libcleat.a: $(LIB_OBJ)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $^

$(BUILD)/$(SO_FILE): $(LIB_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(SO_NAME) $(SO_LDFLAGS) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@

$(BUILD)/libcleat.so: $(BUILD)/$(SO_FILE)
	@ln -sf $(SO_FILE) $(BUILD)/$(SO_NAME)
	@ln -sf $(SO_NAME) $@

# Made anew whenever it would read differently: PREFIX may be another at `make install`. It names the libraries
# themselves: by Requires.private, `pkg-config --static` would ask for all that libcurl was ever linked with.
$(BUILD)/cleat.pc: api/cleat.pc.in $(BUILD)/.flags force
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|-pthread $(ALL_LIBS)|' $< > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# The program carries the library inside, so that it runs in place and can be copied alone.
$(BUILD)/cleat: $(CLI_OBJ) $(BUILD)/libcleat.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LIBS) $(PROGRAM_LIBS) -o $@

# The examples link the shared library: what that does not export, they cannot use.
$(BUILD)/trainer: $(call objects,$(TRAINER_SRC)) $(BUILD)/libcleat.so
$(BUILD)/trainer_ranks: $(call objects,$(RANKS_SRC)) $(BUILD)/libcleat.so
$(EXAMPLES):
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) -L$(BUILD) -lcleat -Wl,-rpath,'$$ORIGIN' $(CUDA_LIBS) -lm -o $@

# Test programs link the static library, whose internal names they can reach, and the helpers in tests/mock.
$(BUILD)/tests/libmock.a: $(MOCK_OBJ)
	@mkdir -p $(@D) && rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $^

# The program's own files, but for its main, for tests of api/run.
$(BUILD)/tests/librun.a: $(filter-out %/main.o,$(CLI_OBJ))
	@mkdir -p $(@D) && rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $^

RUN_BIN := $(filter $(BUILD)/tests/unit/test_run_%,$(UNIT_BIN))
$(RUN_BIN): $(BUILD)/tests/libmock.a $(BUILD)/tests/librun.a $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(CHECK_LIBS) $(ALL_LIBS) $(PROGRAM_LIBS) -o $@

$(TORTURE_BIN) $(INTEGRATION_BIN): $(BUILD)/%: $(BUILD)/obj/%.o
$(filter-out $(RUN_BIN),$(UNIT_BIN)) $(TORTURE_BIN) $(INTEGRATION_BIN): $(BUILD)/tests/libmock.a $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(CHECK_LIBS) $(ALL_LIBS) -o $@

DISK_BIN := $(addprefix $(BUILD)/tests/unit/,test_destination test_load_files test_run_state)
$(DISK_BIN): $(call objects,$(DISK_RECORD))

# The checksums of a standalone build, which stand before the library's.
$(PLAIN_BIN): $(BUILD)/obj/tests/unit/base/test_checksum.o $(BUILD)/obj/base/digest_plain.o $(BUILD)/tests/libmock.a $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(CHECK_LIBS) $(ALL_LIBS) -o $@

# Programs that pytest runs: users of the public header and the shared library, like the example.
$(BUILD)/obj/tests/integration/tools/%.o: BASE_CFLAGS += -Iapi
# But for the one that speaks to a store below checkpoints.
STORE_WRITER := $(BUILD)/tests/integration/store_writer
$(STORE_WRITER): $(BUILD)/obj/tests/integration/tools/store_writer.o $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@

$(filter-out $(STORE_WRITER),$(HELPER_BIN)): $(BUILD)/tests/integration/%: $(BUILD)/obj/tests/integration/tools/%.o $(BUILD)/libcleat.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) -L$(BUILD) -lcleat -Wl,-rpath,'$$ORIGIN/../..' -o $@

$(BENCH_BIN): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/tests/libmock.a $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@

# Tests of CUDA memory come in two kinds: build/tests/gpu/fake_* carry the driver of gpu/ on the stand-in for the CUDA
# Runtime, which takes the place of whatever the library was built with; build/tests/gpu/test_* are on the Runtime itself.
FAKE_OBJ := $(patsubst %.c,$(BUILD)/obj/fake/%.o,gpu/device_cuda.c $(FAKE_SRC) tests/gpu/kit.c)
$(BUILD)/obj/fake/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(filter-out $(CUDA_CFLAGS),$(ALL_CFLAGS)) -DCLEAT_FAKE_CUDART -isystem tests/fake_cudart -MMD -MP -c $< -o $@
$(BUILD)/tests/gpu/fake_bench_cuda: $(BUILD)/obj/fake/tests/gpu/bench_cuda.o $(FAKE_OBJ) $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@
$(BUILD)/obj/fake/api/examples/%.o: BASE_CFLAGS += -Iapi -DTRAINER_CUDA
$(BUILD)/tests/gpu/fake_trainer: $(patsubst %.c,$(BUILD)/obj/fake/%.o,$(TRAINER_SRC)) $(FAKE_OBJ) $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@
$(GPU_FAKE_BIN): $(BUILD)/tests/gpu/fake_%: $(BUILD)/obj/fake/tests/gpu/test_%.o $(FAKE_OBJ) $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@
$(BUILD)/obj/tests/gpu/%.o: BASE_CFLAGS += $(CUDA_CFLAGS)
$(GPU_BIN): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/obj/tests/gpu/kit.o $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $^ $(ALL_LIBS) -o $@

# A fuzz target replays corpora, unless it is built for libFuzzer, which has a main of its own.
ifneq ($(findstring fuzzer,$(SANITIZE)),)
FUZZ_MAIN := -fsanitize=fuzzer
else
FUZZ_MAIN := $(BUILD)/obj/tests/fuzz/replay.o
endif
# What else a target needs: the readers of api/run are the program's.
$(BUILD)/tests/fuzz/fuzz_pickle: $(call objects,api/run/pickle.c api/run/names.c)
$(FUZZ_BIN): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/obj/tests/fuzz/fuzz.o $(filter %.o,$(FUZZ_MAIN)) $(BUILD)/libcleat.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter-out %.o,$(FUZZ_MAIN)) $(filter %.o,$^) $(filter %.a,$^) $(ALL_LIBS) -o $@

-include $(patsubst %.c,$(BUILD)/obj/%.d,$(ALL_SRC) $(GPU_SRC) base/digest_plain.c) $(patsubst %.c,$(BUILD)/obj/fake/%.d,$(GPU_SRC) $(FAKE_SRC) gpu/device_cuda.c)

# --- installing ----------------------------------------------------------------------------------------------

# The man pages of the library are made by Python. Without it, `make install` leaves out those that were not made before.
.PHONY: man
man: $(BUILD)/man/cleat.3
$(BUILD)/man/cleat.3: api/cleat.3.in api/cli/cleat.1 $(wildcard api/cleat.h api/cleat/*.h docs/site/*.py)
	$(call say,MAN,$(@D))
	$(Q)python3 -B docs/site/man_pages.py $(@D)

.PHONY: install uninstall
# shell:where it looks, below share/
COMPLETIONS := bash:bash-completion/completions/cleat fish:fish/vendor_completions.d/cleat.fish zsh:zsh/site-functions/_cleat
install: all $(if $(shell command -v python3),man)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/cleat $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	  $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man3
	install -m 755 $(BUILD)/cleat $(DESTDIR)$(PREFIX)/bin/cleat
	install -m 644 api/cleat.h $(DESTDIR)$(PREFIX)/include/cleat.h
	install -m 644 $(wildcard api/cleat/*.h) $(DESTDIR)$(PREFIX)/include/cleat
	install -m 644 $(BUILD)/libcleat.a $(DESTDIR)$(PREFIX)/lib/libcleat.a
	install -m 755 $(BUILD)/$(SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(SO_FILE)
	ln -sf $(SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(PREFIX)/lib/libcleat.so
	install -m 644 $(BUILD)/cleat.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/cleat.pc
	install -m 644 api/cli/cleat.1 $(DESTDIR)$(PREFIX)/share/man/man1/cleat.1
	@set -- $(BUILD)/man/*.3; if [ -e "$$1" ]; then install -m 644 "$$@" $(DESTDIR)$(PREFIX)/share/man/man3; \
	  else echo 'cleat: no python3: the man pages of the library are left out' >&2; fi
	$(foreach pair,$(COMPLETIONS),install -d $(DESTDIR)$(PREFIX)/share/$(dir $(lastword $(subst :, ,$(pair)))) && \
	  $(BUILD)/cleat completion $(firstword $(subst :, ,$(pair))) > $(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(pair))) &&) true

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/cleat include/cleat.h lib/libcleat.a lib/$(SO_FILE) lib/$(SO_NAME) \
	  lib/libcleat.so lib/pkgconfig/cleat.pc share/man/man1/cleat.1 $(patsubst api/%,include/%,$(wildcard api/cleat/*.h)) \
	  $(addprefix share/,$(foreach pair,$(COMPLETIONS),$(lastword $(subst :, ,$(pair))))))
	rm -f $(DESTDIR)$(PREFIX)/share/man/man3/cleat.3 $(DESTDIR)$(PREFIX)/share/man/man3/cleat_*.3
	rmdir $(DESTDIR)$(PREFIX)/include/cleat 2>/dev/null || true

# --- tests, checks, stories ----------------------------------------------------------------------------------

# What scripts need to know of this file.
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

.PHONY: deps test unit torture corpora model gpu header integration stores endurance mutants fuzz lint format bench bench-report bench-smoke demo demo-minio docs clean help
deps:
	@tests/tools/deps.sh all

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

# The leading + hands this make's options (WERROR, SANITIZE, CC) on to the make that the script starts.
test:
	+@tests/tools/run_tests.sh unit torture corpora model gpu header integration
unit torture corpora model gpu header integration stores endurance mutants:
	+@tests/tools/run_tests.sh $@

# For daily work, a few minutes: what a change most often breaks. `make test` and .ci/run do the rest.
.PHONY: check-quick
check-quick:
	+@tests/tools/run_tests.sh unit && tests/tools/lint.sh quick

# The table of docs/code-metrics.md.
.PHONY: metrics
metrics:
	@tests/tools/deps.sh metrics && tests/tools/metrics.py

SECONDS ?= 600
fuzz:
	+@tests/tools/fuzz.sh $(SECONDS) $(TARGETS)

lint:
	+@tests/tools/lint.sh

format:
	@tests/tools/deps.sh lint
	git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r "$$(dirname "$$(tests/tools/venv.sh)")/clang-format" -i

bench:
	+@tests/tools/deps.sh build && $(MAKE) --no-print-directory all bench-programs && tests/bench/run.sh

# The page in the tree, from the last whole run.
bench-report:
	@tests/bench/report.sh $(BUILD)/bench/results.json tests/bench

bench-smoke:
	+@tests/tools/deps.sh build && $(MAKE) --no-print-directory all bench-programs && \
	  tests/bench/run.sh --smoke local limit scale tls memory

# The pages of docs/ as a site that needs no network: build/docs/index.html. Broken links and anchors fail,
# and public declarations without a comment.
docs:
	@tests/tools/docs.sh

# The images of docker/, built and tried; needs a Docker engine, or root to start one.
.PHONY: docker-test
docker-test:
	@tests/docker/story.sh

demo:
	+@tests/tools/deps.sh build && $(MAKE) --no-print-directory all && api/examples/demo.sh file
demo-minio:
	+@tests/tools/deps.sh build server && $(MAKE) --no-print-directory all && api/examples/demo.sh minio

clean:
	rm -rf build

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
