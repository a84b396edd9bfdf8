/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_writer.h - write bytes to a file of a sandbox
 *
 * A native sandbox has workers (service/files/files.h) that write, because the pages of a
 * file in memory are charged to the process that writes them first. Elsewhere the service
 * writes. There write(2) waits for the lock of the inode. Code that has the file open
 * inside can keep that lock for seconds, by many threads that write, and neither the
 * event loop nor the threads that all tenants share may wait for it. So each such write
 * has its own thread; a tenant has a share of them (LEASE_WRITERS). A file without a name
 * needs none of this, because no process inside can open it.
 */
#ifndef SERVICE_FILES_FILE_WRITER_H
#define SERVICE_FILES_FILE_WRITER_H

#include <stddef.h>

#include "service/files/files.h"

struct file_writer;

/* A number for the writes to one file, see files_write(). */
uint32_t file_writer_stream(void);
/* How many writes to one file may be under way: they are done in order. */
unsigned file_writer_ahead(const struct files *f);

/*
 * Write @n bytes at @data, which is copied, to @fd, which is duplicated. 0: @fn comes
 * later, from the loop, with an error or without; never after file_writer_cancel() or
 * files_end(). 1: it is done, which happens with @nameless files. *@ret may be NULL.
 */
int file_writer_start(struct files *f, int fd, uint32_t stream, bool nameless,
		      const void *data, size_t n, files_fn fn, void *ctx,
		      struct file_writer **ret, struct warren_error *err);
/*
 * Its callback is not called; a write that is under way continues. NULL is fine. Returns
 * NULL.
 */
struct file_writer *file_writer_cancel(struct file_writer *w);

#endif /* SERVICE_FILES_FILE_WRITER_H */
