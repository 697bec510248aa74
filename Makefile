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
#   STANDALONE=1                 the library for file:// alone: needs nothing but a compiler, and CUDA if it is there
#   PREFIX=/usr/local DESTDIR=   where `make install` puts things
#   V=1                          show whole command lines
#
# This file has the library, the program and the examples, and the rules that compile and link. mk/ has the rest:
#   mk/toolchain.mk   compiler, flags and libraries, as the variables above choose them
#   mk/tests.mk       the programs of tests/, and what each is linked from
#   mk/install.mk     `make install` and `make uninstall`
#   mk/commands.mk    targets that run something: tests, lint, documentation, benchmarks, demos, help

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:

# Each step prints one line. V=1 shows its command instead.
Q := $(if $(V),,@)
say = @$(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),:,printf '  %-5s %s\n' $(1) $(2))

# The public headers are the one place that states the version.
VERSION := $(or $(shell sed -n 's/^.define CLEAT_VERSION "\(.*\)".*/\1/p' api/cleat/common.h 2>/dev/null),0.0.0)
SOVERSION := 0

include mk/toolchain.mk

# --- sources: a new .c file in one of these folders needs no change here -------------------------------------

sources = $(wildcard $(addsuffix /*.c,$(1)))
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

# Each of these has a twin. Without CUDA, gpu/ has a driver that refuses. Without OpenSSL, checksums are our own.
OTHER_TWINS := $(if $(CUDA_LIBS),gpu/device_no_cuda.c,gpu/device_cuda.c) $(if $(PKGS),base/digest_plain.c,base/digest.c)
S3_SRC := base/xml_reader.c $(call sources,storage/aws storage/http storage/s3)
LIB_SRC := $(call sources,base storage storage/* gpu uploader/* api api/manager)
LIB_SRC := $(filter-out $(OTHER_TWINS) $(if $(PKGS),,$(S3_SRC)),$(LIB_SRC))
CLI_SRC := $(if $(PKGS),$(call sources,api/cli api/program api/run))

# Two examples, which share the model, the text and the reader of options.
RANKS_SRC := $(wildcard api/examples/trainer_ranks*.c)
TRAINER_SRC := $(filter-out $(RANKS_SRC),$(wildcard api/examples/trainer*.c))
RANKS_SRC += $(patsubst %,api/examples/trainer_%.c,model options results text)

# --- what is built from what ---------------------------------------------------------------------------------

SO_FILE := libcleat.so.$(VERSION)
SO_NAME := libcleat.so.$(SOVERSION)
CLI := $(if $(CLI_SRC),$(BUILD)/cleat)
EXAMPLES := $(BUILD)/trainer $(BUILD)/trainer_ranks
ARCHIVES := $(BUILD)/libcleat.a
PROGRAMS := $(BUILD)/cleat $(EXAMPLES)

.PHONY: all lib
all: lib $(CLI) $(EXAMPLES)
lib: $(BUILD)/libcleat.a $(BUILD)/libcleat.so $(BUILD)/cleat.pc

$(BUILD)/libcleat.a $(BUILD)/$(SO_FILE): $(call objects,$(LIB_SRC))

# The program carries the library inside, so that it runs in place and can be copied alone.
$(BUILD)/cleat: $(call objects,$(CLI_SRC)) $(BUILD)/libcleat.a
$(BUILD)/cleat: LINK_LIBS = $(ALL_LIBS) $(PROGRAM_LIBS)

# The examples link the shared library: what that does not export, they cannot use.
$(BUILD)/trainer: $(call objects,$(TRAINER_SRC)) $(BUILD)/libcleat.so
$(BUILD)/trainer_ranks: $(call objects,$(RANKS_SRC)) $(BUILD)/libcleat.so
$(EXAMPLES): LINK_LIBS = -L$(BUILD) -lcleat -Wl,-rpath,'$$ORIGIN' $(CUDA_LIBS) -lm

# FILE_CFLAGS: flags that some files need besides. Examples say <cleat.h>, as a user's program does.
$(BUILD)/obj/gpu/device_cuda.o: FILE_CFLAGS = $(CUDA_CFLAGS)
$(BUILD)/obj/api/examples/%.o: FILE_CFLAGS = -Iapi
$(BUILD)/obj/api/examples/trainer_device.o: FILE_CFLAGS = $(if $(CUDA_LIBS),-DTRAINER_CUDA $(CUDA_CFLAGS)) -Iapi

include mk/tests.mk

# --- compiling and linking: one rule for objects, one for archives, one for programs --------------------------

# It changes only when a flag does, and then everything is compiled anew. It also checks that the compiler and the
# libraries are there: one helpful line instead of a page of compiler errors.
BUILT_WITH = $(CC) $(ALL_CFLAGS) $(CUDA_CFLAGS) | $(ALL_LDFLAGS) $(ALL_LIBS) | $(VERSION)
.PHONY: force
$(BUILD)/.flags: force
	@command -v $(CC) >/dev/null && { [ -z '$(PKGS)' ] || $(PKG_CONFIG) --exists $(PKGS) $(PROGRAM_PKGS) 2>/dev/null; } || \
	  { echo "cleat: $(CC), pkg-config or one of the libraries ($(PKGS) $(PROGRAM_PKGS)) is missing: run 'make deps' first" >&2; exit 1; }
	@mkdir -p $(@D)
	@echo '$(BUILT_WITH)' | cmp -s - $@ || echo '$(BUILT_WITH)' > $@

define compile
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_CFLAGS) $(FILE_CFLAGS) $(MORE_CFLAGS) -MMD -MP -c $< -o $@
endef
$(BUILD)/obj/%.o: %.c $(BUILD)/.flags
	$(compile)
# The same sources for the stand-in of the CUDA Runtime (mk/tests.mk).
$(BUILD)/obj/fake/%.o: %.c $(BUILD)/.flags
	$(compile)

# The headers that each object was compiled with, as the compiler wrote them down.
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

$(ARCHIVES):
	@mkdir -p $(@D) && rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $^

# A program is linked from the objects and the archives that it depends on, and LINK_LIBS.
LINK_LIBS = $(ALL_LIBS)
$(PROGRAMS):
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) $(LINK_LIBS) -o $@

$(BUILD)/$(SO_FILE):
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

.PHONY: clean
clean:
	rm -rf build

include mk/install.mk
include mk/commands.mk
