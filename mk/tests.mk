# The programs of tests/: each family's sources, what its programs are linked from, and the target that builds them.
# The names of the programs are in build/tests/. tests/README.md says what each family is for.

LIB := $(BUILD)/libcleat.a
MOCK_LIB := $(BUILD)/tests/libmock.a
RUN_LIB := $(BUILD)/tests/librun.a

# $(call programs,FOLDER,SOURCES): FOLDER/test_a.c, in whatever folder, becomes build/FOLDER/test_a.
programs = $(patsubst %.c,$(BUILD)/$(1)/%,$(notdir $(2)))
# $(call one_source_each,FOLDER,SOURCES): each of those programs depends on the object of its source.
one_source_each = $(foreach source,$(2),$(eval $(call programs,$(1),$(source)): $(call objects,$(source))))

.PHONY: tests unit-programs torture-programs integration-programs bench-programs fuzz-programs gpu-programs
tests: all unit-programs torture-programs integration-programs fuzz-programs

# --- archives: what test programs share ----------------------------------------------------------------------

# disk_record.c stands before libc's calls: in the programs that use it, not in all that are linked with the helpers.
DISK_RECORD := tests/mock/disk_record.c
$(MOCK_LIB): $(call objects,$(filter-out $(DISK_RECORD),$(wildcard tests/mock/*.c)))
# The program's own files, but for its main, for tests of api/run.
$(RUN_LIB): $(filter-out %/main.o,$(call objects,$(CLI_SRC)))
ARCHIVES += $(MOCK_LIB) $(RUN_LIB)

# --- Check programs: unit/, torture/, integration/*.c ----------------------------------------------------------

# tests/unit has the folders of the sources; the programs stand in one.
UNIT_SRC := $(sort $(shell find tests/unit -name 'test_*.c'))
TORTURE_SRC := $(wildcard tests/torture/*.c)
INTEGRATION_SRC := $(wildcard tests/integration/test_*.c)
UNIT_BIN := $(call programs,tests/unit,$(UNIT_SRC))
TORTURE_BIN := $(call programs,tests/torture,$(TORTURE_SRC))
INTEGRATION_BIN := $(call programs,tests/integration,$(INTEGRATION_SRC))
PLAIN_BIN := $(BUILD)/tests/unit/test_checksum_plain
RUN_BIN := $(filter $(BUILD)/tests/unit/test_run_%,$(UNIT_BIN))
DISK_BIN := $(addprefix $(BUILD)/tests/unit/,test_destination test_load_files test_run_state)
CHECK_BIN := $(UNIT_BIN) $(PLAIN_BIN) $(TORTURE_BIN) $(INTEGRATION_BIN)

$(call one_source_each,tests/unit,$(UNIT_SRC))
$(call one_source_each,tests/torture,$(TORTURE_SRC))
$(call one_source_each,tests/integration,$(INTEGRATION_SRC))
$(DISK_BIN): $(call objects,$(DISK_RECORD))
# The checksums of a standalone build, which stand before the library's.
$(PLAIN_BIN): $(call objects,tests/unit/base/test_checksum.c base/digest_plain.c)
# Test programs reach internal names, so they link the static library.
$(CHECK_BIN): $(MOCK_LIB)
$(RUN_BIN): $(RUN_LIB)
$(CHECK_BIN): $(LIB)
$(CHECK_BIN): LINK_LIBS = $(CHECK_LIBS) $(ALL_LIBS)
$(RUN_BIN): LINK_LIBS = $(CHECK_LIBS) $(ALL_LIBS) $(PROGRAM_LIBS)
PROGRAMS += $(CHECK_BIN)

unit-programs: $(UNIT_BIN) $(PLAIN_BIN)
torture-programs: $(TORTURE_BIN)

# --- integration/tools: programs that pytest runs --------------------------------------------------------------

# Like the examples, they use the public header and the shared library. store_writer speaks to a store below checkpoints.
HELPER_SRC := $(wildcard tests/integration/tools/*.c)
HELPER_BIN := $(call programs,tests/integration,$(HELPER_SRC))
STORE_WRITER := $(BUILD)/tests/integration/store_writer

$(BUILD)/obj/tests/integration/tools/%.o: FILE_CFLAGS = -Iapi
$(call one_source_each,tests/integration,$(HELPER_SRC))
$(STORE_WRITER): $(LIB)
$(filter-out $(STORE_WRITER),$(HELPER_BIN)): $(BUILD)/libcleat.so
$(filter-out $(STORE_WRITER),$(HELPER_BIN)): LINK_LIBS = -L$(BUILD) -lcleat -Wl,-rpath,'$$ORIGIN/../..'
PROGRAMS += $(HELPER_BIN)

integration-programs: $(INTEGRATION_BIN) $(HELPER_BIN)

# --- bench/ --------------------------------------------------------------------------------------------------

BENCH_SRC := $(wildcard tests/bench/*.c)
BENCH_BIN := $(call programs,tests/bench,$(BENCH_SRC))

$(call one_source_each,tests/bench,$(BENCH_SRC))
$(BENCH_BIN): $(MOCK_LIB) $(LIB)
PROGRAMS += $(BENCH_BIN)

bench-programs: $(BENCH_BIN)

# --- fuzz/: a target replays corpora, unless it is built for libFuzzer, which has a main of its own ------------

FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(call programs,tests/fuzz,$(FUZZ_SRC))

$(call one_source_each,tests/fuzz,$(FUZZ_SRC))
$(FUZZ_BIN): $(call objects,tests/fuzz/fuzz.c) $(LIB)
ifneq ($(findstring fuzzer,$(SANITIZE)),)
$(FUZZ_BIN): LINK_LIBS = -fsanitize=fuzzer $(ALL_LIBS)
else
$(FUZZ_BIN): $(call objects,tests/fuzz/replay.c)
endif
# The readers of api/run are the program's.
$(BUILD)/tests/fuzz/fuzz_pickle: $(call objects,api/run/pickle.c api/run/names.c)
PROGRAMS += $(FUZZ_BIN)

fuzz-programs: $(FUZZ_BIN)

# --- gpu/: CUDA memory ---------------------------------------------------------------------------------------

# build/tests/gpu/test_* are on the CUDA Runtime itself. build/tests/gpu/fake_* carry the driver of gpu/ on the stand-in
# for the Runtime, which takes the place of whatever the library was built with; their objects are in build/obj/fake.
fake_objects = $(patsubst %.c,$(BUILD)/obj/fake/%.o,$(1))
GPU_BIN := $(addprefix $(BUILD)/tests/gpu/,test_cuda test_cuda_graphs bench_cuda absent)
GPU_FAKE_BIN := $(patsubst tests/gpu/test_%.c,$(BUILD)/tests/gpu/fake_%,$(wildcard tests/gpu/test_*.c))
FAKE_TRAINER := $(BUILD)/tests/gpu/fake_trainer
FAKE_BENCH := $(BUILD)/tests/gpu/fake_bench_cuda
FAKE_BIN := $(GPU_FAKE_BIN) $(FAKE_TRAINER) $(FAKE_BENCH)

$(BUILD)/obj/tests/gpu/%.o: FILE_CFLAGS = $(CUDA_CFLAGS)
$(GPU_BIN): $(BUILD)/%: $(BUILD)/obj/%.o $(BUILD)/obj/tests/gpu/kit.o $(LIB)

FAKE_CFLAGS := -DCLEAT_FAKE_CUDART -isystem tests/fake_cudart
$(BUILD)/obj/fake/%.o: FILE_CFLAGS = $(FAKE_CFLAGS)
$(BUILD)/obj/fake/api/examples/%.o: FILE_CFLAGS = $(FAKE_CFLAGS) -Iapi -DTRAINER_CUDA
$(GPU_FAKE_BIN): $(BUILD)/tests/gpu/fake_%: $(BUILD)/obj/fake/tests/gpu/test_%.o
$(FAKE_TRAINER): $(call fake_objects,$(TRAINER_SRC))
$(FAKE_BENCH): $(call fake_objects,tests/gpu/bench_cuda.c)
$(FAKE_BIN): $(call fake_objects,gpu/device_cuda.c $(wildcard tests/fake_cudart/*.c) tests/gpu/kit.c) $(LIB)
PROGRAMS += $(GPU_BIN) $(FAKE_BIN)

gpu-programs: $(GPU_FAKE_BIN) $(FAKE_TRAINER)
