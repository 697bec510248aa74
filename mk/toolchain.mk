# Compiler, flags and libraries, as the variables of the Makefile choose them.

ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local

# --- the folder of a build: each kind has its own --------------------------------------------------------------

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

# --- libraries -------------------------------------------------------------------------------------------------

# STANDALONE=1 needs a compiler alone (and CUDA, if it is there): file:// is the only store, checksums are our own, and
# there is the library without the program. It is what `make gpu-test` builds.
ifneq ($(STANDALONE),1)
PKGS := libcurl libcrypto expat libisal
# What the program alone needs: it prints JSON.
PROGRAM_PKGS := libcjson
endif
# $(call once,NAME,QUESTION): asks pkg-config when NAME is first used, and only then. `make deps` works before
# pkg-config exists.
once = $(eval $(1) := $$(shell $(PKG_CONFIG) $(2) 2>/dev/null))$($(1))
PKG_CFLAGS = $(call once,PKG_CFLAGS,--cflags $(PKGS) $(PROGRAM_PKGS))
PKG_LIBS = $(call once,PKG_LIBS,--libs $(PKGS))
PROGRAM_LIBS = $(call once,PROGRAM_LIBS,--libs $(PROGRAM_PKGS))
CHECK_LIBS = $(call once,CHECK_LIBS,--libs check)

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

# --- flags -----------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wconversion -Wvla -Wcast-qual -Wmissing-prototypes -Wshadow
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif
OPTIMIZE := -O2
CFLAGS_EXTRA := $(if $(PKGS),,-DCLEAT_NO_S3)
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

# BASE_CFLAGS: what every file needs to be understood, by the compiler and by clang-tidy. CFLAGS, LDFLAGS: the user's.
BASE_CFLAGS = -std=c11 -D_GNU_SOURCE -I. $(PKG_CFLAGS)
MORE_CFLAGS = $(OPTIMIZE) -g -fPIC -fvisibility=hidden -pthread $(WARNINGS) $(CFLAGS_EXTRA) $(CFLAGS)
ALL_CFLAGS = $(BASE_CFLAGS) $(MORE_CFLAGS)
ALL_LDFLAGS = -pthread $(LDFLAGS_EXTRA) $(LDFLAGS)
ALL_LIBS = $(PKG_LIBS) $(CUDA_LIBS) -lm
