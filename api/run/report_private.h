/* report_private.h: shared by report.c and report_metrics.c. */
#ifndef CLEAT_API_RUN_REPORT_PRIVATE_H
#define CLEAT_API_RUN_REPORT_PRIVATE_H

#include "api/run/report.h"

/* Writes the totals of `now_ms` to options.metrics_path. Errors: those of a file, INVALID (the path
 * is not a regular file), NO_MEMORY. */
cleat_status cleat__run_metrics_write(const struct cleat__run_report *report, int64_t now_ms, struct cleat_error *err);

#endif
