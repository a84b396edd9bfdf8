/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_writer.h - bytes to a file that code in a sandbox can hold up
 *
 * write(2) waits for the lock of the inode. Whoever has the file open inside can keep that lock
 * for seconds, by many threads that write, and neither the event loop nor the threads that
 * all tenants share may wait for it. So each such write has a thread of its own; a tenant has a
 * share of them (LEASE_WRITERS). A file that has no name yet needs none of this: nobody
 * inside can open it.
 */
#ifndef SERVICE_FILE_WRITER_H
#define SERVICE_FILE_WRITER_H

#include <stddef.h>

#include "service/files.h"

struct file_writer;

/* The result: 0, or -errno; @err, then, has the words. */
typedef void (*file_writer_fn)(void *ctx, int r, const struct warren_error *err);

/*
 * Write @n bytes at @data, which is copied, to @fd, which is duplicated. @fn comes later, from
 * the loop, if this succeeds; never after file_writer_cancel().
 */
int file_writer_start(struct files *f, int fd, const void *data, size_t n,
		      file_writer_fn fn, void *ctx, struct file_writer **ret,
		      struct warren_error *err);
/* Nobody hears of it; what is under way goes on. NULL is fine. Returns NULL. */
struct file_writer *file_writer_cancel(struct file_writer *w);

#endif /* SERVICE_FILE_WRITER_H */
