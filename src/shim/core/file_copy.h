/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_copy.h - the bytes of files, between the sandbox and descriptors
 *
 * A client that opens a file gets a regular file of the shim. For reading, it is filled
 * first. For writing, it is empty, and its contents are copied to the destination when
 * its last descriptor except the shim's is closed, at the latest before the next request
 * that names the file; if that fails, the answer to that request is the error. (A lease
 * detects this: the kernel grants a write lease only on a file that no other process has
 * open.)
 */
#ifndef SHIM_CORE_FILE_COPY_H
#define SHIM_CORE_FILE_COPY_H

#include "shim/core/workers.h"

#define SPOOL_INLINE 65536 /* bytes that go through a hand: more go by their own exec */

/* An empty file, on disk if possible; a descriptor or -errno. */
int spool_new(void);
#define SPOOL_UNTOLD (64ULL << 30) /* the size of a file whose size is not known */
/*
 * Reserve space for a copy of a file of @size bytes: the caller fills *@ret_fd, with
 * fewer than *@ret_most bytes, and passes it on. It counts until all of its descriptors
 * are closed. -EFBIG, -ENOSPC: there is none (copy_budget.h).
 */
int spool_prepare(uint64_t size, uint64_t *ret_most, int *ret_fd,
		  struct warren_error *err);
/* In a child that fills one: everything else belongs to its parent. */
void spool_leave(void);
/*
 * Copy the whole file @path inside to @fd; -errno. Reports that it is busy while it
 * lasts. A file with @most bytes or more counts as endless (-EFBIG), to protect the
 * service's disk.
 */
int spool_read(const char *user, const char *path, uint64_t most, int fd,
	       struct warren_error *err);
/*
 * Stops writes that exceed the available space. To be called this often while the shim
 * waits:
 */
void spool_guard(void);
#define SPOOL_TICK_MS 100
/*
 * @ms, the time to wait (-1: forever), or SPOOL_TICK_MS if there is something to guard.
 */
int spool_wait_ms(int ms);
/*
 * Run `sh -c` with script_tools and @last, with PATH as $1 and these streams (-1:
 * /dev/null), until it ends, reporting the same; its error output becomes the error.
 */
int spool_run(const char *user, const char *last, const char *path, int in, int out,
	      struct warren_error *err);
/* What becomes of a file that the platform writes by itself. */
struct spool_owner {
	uint32_t mode, uid, gid;
};

/*
 * A file to be written: the shim keeps its end until the data was copied, by the platform
 * if there is an @owner, otherwise by a shell inside.
 */
int spool_write(const char *user, const char *path, bool append,
		const struct spool_owner *owner, int *ret_fd, struct warren_error *err);
/* Copy what was written to @path to its destination; 0 also if nothing was. */
int spool_settle(const char *path, struct warren_error *err);
/*
 * The same for all files in the directory @path. Errors wait for the next request that
 * names the file.
 */
void spool_settle_dir(const char *path);
/* The file is no longer wanted. */
void spool_forget(const char *path);
/*
 * A file that has a name for a while (".warren-ID~"), until it is whole and renamed. It
 * is removed with the connection that requested it, if that ends first.
 */
void spool_note(uint64_t connection, const char *user, const char *path);
void spool_unnote(const char *path);
void spool_abandon(uint64_t connection);
/* Call from time to time, while there is something: copies files that were closed. */
bool spool_tick(void);

#endif /* SHIM_CORE_FILE_COPY_H */
