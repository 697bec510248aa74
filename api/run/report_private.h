/* report_private.h: what report.c and report_metrics.c share. */
#ifndef CLEAT_API_RUN_REPORT_PRIVATE_H
#define CLEAT_API_RUN_REPORT_PRIVATE_H

#include "api/run/report.h"

/* Writes the totals as they are at `now_ms` to options.metrics_path. Errors: as of a file, INVALID
 * (there is something that is no file), NO_MEMORY. */
cleat_status cleat__run_metrics_write(const struct cleat__run_report *report, int64_t now_ms,
                                      struct cleat_error *err);

#endif
