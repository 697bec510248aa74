/* bench.h: the bench as a job of a client. api/cleat/bench.h documents ownership, threads and errors. bench/run.h says
 * what it does. */
#ifndef CLEAT_UPLOADER_BENCH_BENCH_H
#define CLEAT_UPLOADER_BENCH_BENCH_H

#include "uploader/engine/client.h"

cleat_status cleat__bench_start(struct cleat_client *client, const struct cleat_bench_options *options,
                                struct cleat_bench **bench, struct cleat_error *err);
cleat_status cleat__bench_wait(struct cleat_bench *bench, struct cleat_error *err);
void cleat__bench_get_progress(const struct cleat_bench *bench, struct cleat_bench_progress *progress);
void cleat__bench_cancel(struct cleat_bench *bench);
const struct cleat_bench_report *cleat__bench_report(const struct cleat_bench *bench);
void cleat__bench_free(struct cleat_bench *bench);

#endif
