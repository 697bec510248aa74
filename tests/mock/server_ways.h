/* server_ways.h: how the S3 servers of the tests differ from S3. The rows of server_ways.c have the reasons. A case of
 * the store table asserts for such a server what is promised there. */
#ifndef CLEAT_TESTS_MOCK_SERVER_WAYS_H
#define CLEAT_TESTS_MOCK_SERVER_WAYS_H

#include "storage/common/store.h"

/* What S3 has and a server may lack. */
enum server_lack {
  /* Conditions */
  SERVER_CREATE_ONLY = 1 << 0,    /* If-None-Match is obeyed; else it is ignored */
  SERVER_IF_MATCH = 1 << 1,       /* If-Match is obeyed; else it is ignored */
  SERVER_CONDITIONS = 1 << 2,     /* conditions are known; else refused (501) */
  SERVER_ATOMIC_CREATE = 1 << 3,  /* of creates that race, one wins */
  SERVER_ATOMIC_REPLACE = 1 << 4, /* of puts with If-Match that race, one wins */
  SERVER_WHOLE_RACES = 1 << 5,    /* of puts that race, one remains, and its own checksum with it */
  /* Objects and lists */
  SERVER_BACKSLASH = 1 << 6,  /* a key may have one */
  SERVER_FIRST_BYTE = 1 << 7, /* bytes=0-0 is the first byte; else the whole object, or a byte that never comes */
  SERVER_CUT_PUTS = 1 << 8,   /* a put that was cut leaves no object; else what had arrived of it */
  SERVER_CUT_TRACES = 1 << 9, /* a put that was cut leaves nothing in lists */
  SERVER_PAGES = 1 << 10,     /* a list of common prefixes comes in pages, too */
  /* Checksums */
  SERVER_CHECKSUMS = 1 << 11,       /* a body is compared with its CRC-32C; else a wrong one is stored */
  SERVER_BAD_DIGEST = 1 << 12,      /* a wrong CRC-32C has a code of its own; else it is any refusal */
  SERVER_PART_CHECKSUMS = 1 << 13,  /* a part is compared with its CRC-32C */
  SERVER_LISTED_CRC32C = 1 << 14,   /* ListParts has the CRC-32C of each part */
  SERVER_NAMED_CHECKSUMS = 1 << 15, /* a Complete may name the checksums of its parts */
  SERVER_NO_TRACE = 1 << 16,        /* a body that was refused leaves no object */
  /* Uploads */
  SERVER_PART_MINIMUM = 1 << 17,     /* parts of less than 5 MiB are refused */
  SERVER_ABORT_SPARES = 1 << 18,     /* an abort touches no other upload and no object of the key */
  SERVER_SECOND_COMPLETE = 1 << 19,  /* an upload is still there after a Complete that was refused */
  SERVER_SURVIVES_A_HOLE = 1 << 20,  /* a Complete that names a part that never came ends no server */
  SERVER_COMPLETE_IS_GONE = 1 << 21, /* the parts of an upload that is complete are no longer listed */
  SERVER_STRAY_PARTS = 1 << 22,      /* a part of an upload that never was is not kept; else no abort removes it */
  /* Requests */
  SERVER_SIGNATURES = 1 << 23,  /* are verified */
  SERVER_CLOCK = 1 << 24,       /* a signature of an hour ago is refused */
  SERVER_REQUEST_IDS = 1 << 25, /* each reply has one */
  SERVER_TAGS = 1 << 26,
  SERVER_STORAGE_CLASS = 1 << 27, /* REDUCED_REDUNDANCY is known */
  SERVER_BUCKETS = 1 << 28,       /* a put does not create a bucket that is not there */
  SERVER_NO_SUCH_BUCKET = 1 << 29 /* a DELETE in a bucket that is not there fails */
};

/* What an operation on an upload gives that is not there. */
struct server_gone {
  cleat_status list_parts;
  cleat_status part;
  cleat_status complete;
  cleat_status abort;
};

/* The code, and what the hint to the caller names. */
struct server_refusal {
  const char *code;
  const char *hint;
};

struct server_ways {
  const char *name; /* the start of CLEAT_TEST_SERVER */
  unsigned lacks;   /* of enum server_lack */
  cleat_status list_parts;
  cleat_status abort;
  struct server_gone gone;
  cleat_status second_complete; /* of an upload that is complete */
  size_t key_max;               /* what is promised, below a folder of the bucket; 0: as in S3 */
  struct server_refusal wrong_secret;
  struct server_refusal wrong_access_key; /* one that nobody has */
};

/* The one that CLEAT_TEST_SERVER names, or MinIO. Ends the program if the name is unknown. */
const struct server_ways *server_ways(void);

/* Of S3 itself, which lacks nothing. */
const struct server_ways *server_ways_of_s3(void);

#endif
