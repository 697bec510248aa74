/* file/journal.c: the file beside an upload that says which key it is for and which parts it holds. See file.h and
 * file/multipart.c.
 *
 * It has a header of fixed size with the last segment of the key; the folder of the journal gives the rest. Then
 * follows one record of fixed size for each part, at the place of its number. Every record has its own checksum. So
 * many threads add records without a lock, and a torn write is not a valid record. Journals are not synced. After a
 * power cut, a record proves nothing about the bytes of its part. So the bytes are read and compared before an
 * upload is adopted. No state after a call; any thread. */
#include "storage/file/file.h"

#include "base/checksum.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEADER_MAGIC 0x4C505543u /* "CUPL" in memory on a little-endian machine */
#define RECORD_MAGIC 0x54525043u /* "CPRT" */

struct header {
  uint32_t magic;
  uint32_t check; /* CRC-32C of the name up to its end */
  char name[NAME_MAX + 1];
};

struct record {
  uint32_t magic;
  uint32_t number;
  uint64_t size;
  uint32_t crc32c;
  uint32_t check; /* CRC-32C of the fields before it */
};

uint64_t cleat__file_part_count(const struct cleat__upload *upload) {
  assert(upload->part_bytes > 0);
  return upload->size / upload->part_bytes + (upload->size % upload->part_bytes != 0);
}

uint64_t cleat__file_part_size(const struct cleat__upload *upload, uint32_t number) {
  if (upload->part_bytes == 0 || number == 0 || number > cleat__file_part_count(upload))
    return 0;
  uint64_t left = upload->size - (number - 1) * upload->part_bytes;
  return left < upload->part_bytes ? left : upload->part_bytes;
}

void cleat__file_part_etag(uint32_t crc32c, char etag[CLEAT__ETAG_MAX]) {
  snprintf(etag, CLEAT__ETAG_MAX, "%08" PRIx32, crc32c);
}

static off_t record_place(uint32_t number) {
  /* Parts are numbered from 1. */
  assert(number >= 1);
  return (off_t)(sizeof(struct header) + (number - 1) * sizeof(struct record));
}

static uint32_t record_check(const struct record *record) {
  return cleat__crc32c(0, record, offsetof(struct record, check));
}

/* Writes to the journal `name` in `folder`; 0 or an errno value. */
static int journal_write(int folder, const char *name, const void *bytes, size_t size, off_t at) {
  int fd = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0)
    return errno;
  ssize_t written = pwrite(fd, bytes, size, at);
  int failure = written == (ssize_t)size ? 0 : written < 0 ? errno : EIO;
  if (close(fd) != 0 && failure == 0)
    failure = errno;
  return failure;
}

int cleat__file_journal_begin(int journal, const char *object) {
  struct header header = {.magic = HEADER_MAGIC};
  if (snprintf(header.name, sizeof header.name, "%s", object) >= (int)sizeof header.name)
    return ENAMETOOLONG;
  header.check = cleat__crc32c(0, header.name, strlen(header.name));
  ssize_t written = pwrite(journal, &header, sizeof header, 0);
  return written == (ssize_t)sizeof header ? 0 : written < 0 ? errno : EIO;
}

bool cleat__file_journal_object(int folder, const char *name, char object[NAME_MAX + 1]) {
  struct header header;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t got = pread(fd, &header, sizeof header, 0);
  close(fd);
  if (got != (ssize_t)sizeof header || header.magic != HEADER_MAGIC ||
      memchr(header.name, '\0', sizeof header.name) == NULL ||
      header.check != cleat__crc32c(0, header.name, strlen(header.name)))
    return false;
  memcpy(object, header.name, sizeof header.name);
  return true;
}

int cleat__file_journal_note(int folder, const char *name, const struct cleat__stored_part *part) {
  struct record record = {.magic = RECORD_MAGIC, .number = part->number, .size = part->size, .crc32c = part->crc32c};
  record.check = record_check(&record);
  return journal_write(folder, name, &record, sizeof record, record_place(part->number));
}

int cleat__file_journal_drop(int folder, const char *name, uint32_t number) {
  static const struct record none;
  return journal_write(folder, name, &none, sizeof none, record_place(number));
}

bool cleat__file_journal_read(int journal, const struct cleat__upload *upload, uint32_t number,
                              struct cleat__stored_part *part) {
  struct record record;
  if (pread(journal, &record, sizeof record, record_place(number)) != (ssize_t)sizeof record)
    return false;
  if (record.magic != RECORD_MAGIC || record.number != number || record.check != record_check(&record) ||
      record.size != cleat__file_part_size(upload, number))
    return false;
  *part =
      (struct cleat__stored_part){.number = number, .size = record.size, .crc32c = record.crc32c, .has_crc32c = true};
  cleat__file_part_etag(record.crc32c, part->etag);
  return true;
}

cleat_status cleat__file_journal_open(const struct cleat__file_store *files, const struct cleat__upload *upload,
                                      int folder, const char *name, int *fd, uint32_t *slots, struct cleat_error *err) {
  struct stat info = {0};
  int journal = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  int failure = journal < 0 || fstat(journal, &info) != 0 ? errno : 0;
  if (failure != 0 && journal >= 0)
    close(journal);
  if (failure != 0 && failure != ENOENT)
    return cleat__file_fail(files, failure, "read the parts of", upload->key, err);
  uint64_t bytes =
      failure == 0 && (size_t)info.st_size > sizeof(struct header) ? (uint64_t)info.st_size - sizeof(struct header) : 0;
  uint64_t count = bytes / sizeof(struct record);
  *fd = failure == 0 ? journal : -1;
  *slots = count > files->base.max_parts ? files->base.max_parts : (uint32_t)count;
  return CLEAT_OK;
}
