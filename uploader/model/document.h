/* document.h: what Cleat's JSON documents have in common: "format" and "version" in front. Pure. */
#ifndef CLEAT_UPLOADER_MODEL_DOCUMENT_H
#define CLEAT_UPLOADER_MODEL_DOCUMENT_H

#include "base/error.h"

/* Checks that the document says it is of `format`, and of major version 1. Reads no further than it
 * must, so that a newer version is told from a damaged one whatever else it holds. Errors: FORMAT,
 * NEWER (with the version of Cleat that wrote it, when it says so), NO_MEMORY. */
cleat_status cleat__document_check(const char *json, size_t size, const char *what,
                                   const char *format, struct cleat_error *err) CLEAT_MUST_USE;

#endif
