/* s3_config_kit.h: an environment without anything of AWS, a config file in a temporary place, and what
 * storage/s3/config.c makes of a URL there. For tests that each have their own; the file is removed. */
#ifndef CLEAT_TESTS_UNIT_STORAGE_S3_S3_CONFIG_KIT_H
#define CLEAT_TESTS_UNIT_STORAGE_S3_S3_CONFIG_KIT_H

#include "storage/s3/config.h"

#include "tests/mock/environment.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat_client_options options;
static struct cleat__s3_config config;
static char file_path[64];

static inline void write_config(const char *text) {
  FILE *file = fopen(file_path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  fclose(file);
}

static inline void setup(void) {
  environment_unset("AWS_");
  snprintf(file_path, sizeof file_path, "%s", "/tmp/cleat-test-XXXXXX");
  int fd = mkstemp(file_path);
  ck_assert_int_ge(fd, 0);
  close(fd);
  setenv("AWS_CONFIG_FILE", file_path, 1);
  memset(&err, 0, sizeof err);
  memset(&config, 0, sizeof config);
  options = (struct cleat_client_options)CLEAT_CLIENT_OPTIONS_INIT;
}

static inline void teardown(void) {
  cleat__s3_config_clear(&config);
  unlink(file_path);
}

static inline cleat_status init(const char *location) {
  cleat__s3_config_clear(&config);
  return cleat__s3_config_init(&config, location, &options, &err);
}

static inline void init_ok(const char *location) {
  cleat_status status = init(location);
  ck_assert_msg(status == CLEAT_OK, "%s: %s", location, err.message);
}

#endif
