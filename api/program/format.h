/* format.h: numbers, times and texts for people. No state; local times depend on TZ. Any thread. */
#ifndef CLEAT_API_PROGRAM_FORMAT_H
#define CLEAT_API_PROGRAM_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLEAT__CLI_FORMAT_MAX 64

/* Writes `text`. Control characters and bytes that are not UTF-8 become '?'. */
void cleat__cli_put_text(FILE *out, const char *text);

/* Formats "512 B", "3.2 GiB". */
void cleat__cli_format_size(double bytes, char text[CLEAT__CLI_FORMAT_MAX]);

/* Formats "0.04 s", "4.1 s", "2 min 05 s", "3 h 07 min". */
void cleat__cli_format_duration(double seconds, char text[CLEAT__CLI_FORMAT_MAX]);

/* Formats "0:42", "1:02:03". */
void cleat__cli_format_clock(double seconds, char text[CLEAT__CLI_FORMAT_MAX]);

/* Formats an RFC 3339 time in UTC as local time, "2026-11-21 13:00:05". Another text is copied. */
void cleat__cli_format_local(const char *rfc3339, char text[CLEAT__CLI_FORMAT_MAX]);

/* The same as an age, "3 hours ago". "" if the text is not a time. */
void cleat__cli_format_age(const char *rfc3339, char text[CLEAT__CLI_FORMAT_MAX]);

/* Formats "1 file", "12 files". */
void cleat__cli_format_count(uint64_t count, const char *noun, char text[CLEAT__CLI_FORMAT_MAX]);

/* The columns that cleat__cli_put_text uses, if each character is one column wide. */
size_t cleat__cli_format_columns(const char *text);

/* Reads an age such as 90m, 24h or 7d, in seconds. False: not an age, without a unit, 0, or too large. */
bool cleat__cli_format_read_age(const char *text, uint64_t *seconds);

/* Reads a size such as 256M or 64MiB. False: not a size, 0, or too large. */
bool cleat__cli_format_read_size(const char *text, uint64_t *bytes);

#endif
