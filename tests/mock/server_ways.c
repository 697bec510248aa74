/* server_ways.c: see server_ways.h. Each row was seen at the version that tests/tools starts. */
#include "tests/mock/server_ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_KEY "AWS_SECRET_ACCESS_KEY"
#define ACCESS_KEY "AWS_ACCESS_KEY_ID"

static const struct server_ways SERVERS[] = {
    /* Lacks nothing. */
    {.name = "minio-",
     .gone = {CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_OK},
     .wrong_secret = {"SignatureDoesNotMatch", SECRET_KEY},
     .wrong_access_key = {"InvalidAccessKeyId", ACCESS_KEY}},

    /* It checks the condition, receives the body, then puts the object in place. Of two that check at the same time
     * both win, and the later one remains. */
    {.name = "versitygw-",
     .lacks = SERVER_ATOMIC_CREATE | SERVER_ATOMIC_REPLACE,
     .gone = {CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_OK},
     .wrong_secret = {"SignatureDoesNotMatch", SECRET_KEY},
     .wrong_access_key = {"XAdminUserNotFound", ACCESS_KEY}},

    /* Version 16 knows no CRC-32C. It has only the class STANDARD unless it is configured. */
    {.name = "ceph",
     .lacks = SERVER_CHECKSUMS | SERVER_PART_CHECKSUMS | SERVER_LISTED_CRC32C | SERVER_STORAGE_CLASS,
     .gone = {CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_OK},
     .wrong_secret = {"SignatureDoesNotMatch", SECRET_KEY},
     .wrong_access_key = {"InvalidAccessKeyId", ACCESS_KEY}},

    /* It ignores conditions. It compares only the day of a signature with its clock. Its database limits keys. */
    {.name = "garage",
     .lacks = SERVER_CREATE_ONLY | SERVER_IF_MATCH | SERVER_PART_MINIMUM | SERVER_CLOCK | SERVER_REQUEST_IDS,
     .gone = {CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_OK},
     .key_max = 450,
     .wrong_secret = {"AccessDenied", "not allowed"},
     .wrong_access_key = {"AccessDenied", "not allowed"}},

    /* A mock: it checks no signature, time and checksum. */
    {.name = "moto",
     .lacks = SERVER_CHECKSUMS | SERVER_PART_CHECKSUMS | SERVER_LISTED_CRC32C | SERVER_SIGNATURES | SERVER_CLOCK,
     .gone = {CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_OK}},

    /* A mock: it checks no signature and time. It checks conditions first and stores later. An abort removes what all
     * uploads of the key have, and the object. */
    {.name = "s3mock",
     .lacks = SERVER_ATOMIC_CREATE | SERVER_ATOMIC_REPLACE | SERVER_BACKSLASH | SERVER_PAGES | SERVER_BAD_DIGEST |
              SERVER_ABORT_SPARES | SERVER_SIGNATURES | SERVER_CLOCK | SERVER_REQUEST_IDS,
     .gone = {CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_OK}},

    /* It writes a body into a file beside the object, and a cut put leaves this file behind. It checks If-Match first
     * and stores later. It stores parts of uploads that never were. It refuses headers that it does not know (501). */
    {.name = "s3proxy",
     .lacks = SERVER_ATOMIC_REPLACE | SERVER_CUT_TRACES | SERVER_LISTED_CRC32C | SERVER_STRAY_PARTS | SERVER_TAGS |
              SERVER_NO_SUCH_BUCKET,
     .gone = {CLEAT_OK, CLEAT_OK, CLEAT_NOT_FOUND, CLEAT_OK},
     .wrong_secret = {"SignatureDoesNotMatch", SECRET_KEY},
     .wrong_access_key = {"InvalidAccessKeyId", ACCESS_KEY}},

    /* It ignores conditions and checksums, and takes any key with its own name. ListParts and aborts are refused (405).
     * A body that was cut is stored as it is. A Complete that names a part that never came ends the server. */
    {.name = "s3rver",
     .lacks = SERVER_CREATE_ONLY | SERVER_IF_MATCH | SERVER_FIRST_BYTE | SERVER_CUT_PUTS | SERVER_PAGES |
              SERVER_CHECKSUMS | SERVER_PART_CHECKSUMS | SERVER_PART_MINIMUM | SERVER_SURVIVES_A_HOLE |
              SERVER_SIGNATURES | SERVER_REQUEST_IDS,
     .list_parts = CLEAT_UNSUPPORTED,
     .abort = CLEAT_UNSUPPORTED,
     .gone = {CLEAT_UNSUPPORTED, CLEAT_OK, CLEAT_STORE, CLEAT_UNSUPPORTED},
     .second_complete = CLEAT_STORE},

    /* It checks conditions first and stores later, the body apart from its checksum. A refused body stays. It lists
     * parts without their ETags. A Complete that fails ends the upload. What is gone is AccessDenied. Keys are names of
     * files. A put creates the bucket. */
    {.name = "s3s_fs",
     .lacks = SERVER_ATOMIC_CREATE | SERVER_ATOMIC_REPLACE | SERVER_WHOLE_RACES | SERVER_PART_CHECKSUMS |
              SERVER_NO_TRACE | SERVER_SECOND_COMPLETE | SERVER_REQUEST_IDS | SERVER_BUCKETS,
     .list_parts = CLEAT_STORE,
     .gone = {CLEAT_OK, CLEAT_DENIED, CLEAT_DENIED, CLEAT_DENIED},
     .second_complete = CLEAT_DENIED,
     .key_max = 120,
     .wrong_secret = {"SignatureDoesNotMatch", SECRET_KEY},
     .wrong_access_key = {"NotSignedUp", ACCESS_KEY}},

    /* It refuses conditions (501), so that a create looks first. It ignores checksums of bodies, and refuses a Complete
     * that names them. The parts of an object that was completed stay listed. */
    {.name = "swift",
     .lacks = SERVER_CONDITIONS | SERVER_ATOMIC_CREATE | SERVER_ATOMIC_REPLACE | SERVER_CHECKSUMS |
              SERVER_PART_CHECKSUMS | SERVER_LISTED_CRC32C | SERVER_NAMED_CHECKSUMS | SERVER_COMPLETE_IS_GONE |
              SERVER_TAGS | SERVER_STORAGE_CLASS,
     .gone = {CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_NOT_FOUND, CLEAT_OK},
     .wrong_secret = {"SignatureDoesNotMatch", SECRET_KEY},
     .wrong_access_key = {"SignatureDoesNotMatch", SECRET_KEY}},
};

const struct server_ways *server_ways(void) {
  const char *name = getenv("CLEAT_TEST_SERVER");
  for (size_t i = 0; name != NULL && i < sizeof SERVERS / sizeof SERVERS[0]; i++)
    if (strncmp(name, SERVERS[i].name, strlen(SERVERS[i].name)) == 0)
      return &SERVERS[i];
  if (name != NULL) {
    fprintf(stderr, "CLEAT_TEST_SERVER=%s: server_ways.c has no such server\n", name);
    exit(1);
  }
  return &SERVERS[0];
}

const struct server_ways *server_ways_of_s3(void) {
  return &SERVERS[0];
}
