/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_writer.h - write bytes to a file of a sandbox
 *
 * In a native sandbox, workers (service/files/files.h) write, because the kernel charges
 * the pages of a file in memory to the process that writes them first. On other backends,
 * the service writes. There, write(2) waits for the lock of the inode. A program inside
 * that has the file open can hold that lock for seconds, with many writing threads.
 * Neither the event loop nor the threads that all tenants share may wait for it. So each
 * such write has its own thread; a tenant has a share of them (LEASE_WRITERS). Writing to
 * a file without a name cannot block in this way, because no process inside can open it.
 */
#ifndef SERVICE_FILES_FILE_WRITER_H
#define SERVICE_FILES_FILE_WRITER_H

#include <stddef.h>

#include "service/files/files.h"

struct file_writer;

/* Return a new stream number for the writes to one file; see files_write(). */
uint32_t file_writer_stream(void);
/* How many writes to one file may be in progress; they are carried out in order. */
unsigned file_writer_ahead(const struct files *f);

/*
 * Write @n bytes at @data, which are copied, to @fd, which is duplicated. 0: @fn is
 * called later from the loop, but not after file_writer_cancel() or files_end(). 1: the
 * write is done; this happens with @nameless files. *@ret may be NULL.
 */
int file_writer_start(struct files *f, int fd, uint32_t stream, bool nameless,
		      const void *data, size_t n, files_fn fn, void *ctx,
		      struct file_writer **ret, struct warren_error *err);
/*
 * Write @n bytes at @data, which are copied, to @fd, which is duplicated, on a separate
 * thread of @tenant. @fn is called later from the loop. -errno: @fn is not called.
 */
int file_writer_thread_start(struct service *s, const char *tenant, int fd,
			     const void *data, size_t n, files_fn fn, void *ctx,
			     struct file_writer **ret, struct warren_error *err);
/* Do not call the callback; a write in progress continues. Accepts NULL; returns NULL. */
struct file_writer *file_writer_cancel(struct file_writer *w);

#endif /* SERVICE_FILES_FILE_WRITER_H */
