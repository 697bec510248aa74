/* document.h: what all of Cleat's JSON documents have in common: "format" and "version" come first. Pure. */
#ifndef CLEAT_UPLOADER_MODEL_DOCUMENT_H
#define CLEAT_UPLOADER_MODEL_DOCUMENT_H

#include "base/error.h"

/* Checks that the document has the format `format` and the major version 1. It reads no further than needed, so that a
 * newer document is recognised as newer, whatever else it contains. Errors: FORMAT, NEWER (with the version of Cleat
 * that wrote it, if the document names it), NO_MEMORY. */
cleat_status cleat__document_check(const char *json, size_t size, const char *what, const char *format,
                                   struct cleat_error *err) CLEAT_MUST_USE;

#endif
