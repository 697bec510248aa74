/* cleat.h: save and load training checkpoints in object storage.
 *
 * This header is the whole C API. It includes the headers in cleat/, one for each topic. Each of
 * them may also be included alone. They hold declarations and include nothing else of Cleat's.
 *
 * Rules for every function:
 *  - Errors: a function that can fail returns a cleat_status. CLEAT_OK is 0. `err` may be NULL. It
 *    is filled on failure and left alone on success. Warnings of a success go to the log callback.
 *    Damaged checkpoints that were passed over are also in struct cleat_checkpoint_info.
 *  - Out parameters are written on success only.
 *  - Strings are UTF-8 and end with a NUL. Sizes and offsets are in bytes.
 *  - The library prints nothing, never aborts and never installs a signal handler.
 *  - An options struct starts from its _INIT value, which sets `struct_bytes`. A field that stays 0
 *    has its default.
 *  - Thread safety: any number of threads may use a client at once. An open checkpoint is
 *    read-only, so any number of threads may use it too. Any thread may poll or cancel a save or
 *    load handle. A handle is freed once, when nobody uses it any more.
 *  - Forks: a forked child opens a client of its own, after fork() has returned. For a client that
 *    was opened before fork(), and everything made with it, these rules hold in the child:
 *      - Every function that needs a thread, a lock or the store fails at once (UNSUPPORTED).
 *      - Polls say that the operation has ended.
 *      - Lists, removals and the contents of an open checkpoint can still be read.
 *      - Close and free functions return at once. They touch nothing of the parent's, neither in
 *        memory nor in the store. A few kilobytes stay until the child ends.
 *    The child has neither the parent's connections nor its locks on files, so it may outlive the
 *    parent. CUDA does not work in the child of a process that has used it. */
#ifndef CLEAT_H
#define CLEAT_H

#include "cleat/bench.h"
#include "cleat/catalog.h"
#include "cleat/client.h"
#include "cleat/common.h"
#include "cleat/doctor.h"
#include "cleat/error.h"
#include "cleat/load.h"
#include "cleat/manager.h"
#include "cleat/manager_ops.h"
#include "cleat/progress.h"
#include "cleat/resume.h"
#include "cleat/retention.h"
#include "cleat/save.h"
#include "cleat/types.h"

#endif
