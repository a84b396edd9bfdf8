/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_copy.h - copy the contents of files between the sandbox and descriptors
 *
 * A client that opens a file gets a regular file of the shim. For reading, it is filled
 * first. For writing, it is empty. The shim copies its contents to the destination when
 * all descriptors except the shim's are closed, or before the next request that names the
 * file, if that comes first. If copying fails, that request gets the error. (A lease
 * detects the last close: the kernel grants a write lease only on a file that no other
 * process has open.)
 */
#ifndef SHIM_CORE_FILE_COPY_H
#define SHIM_CORE_FILE_COPY_H

#include "shim/core/workers.h"

#define SPOOL_INLINE \
	65536 /* maximum bytes through a pooled shell; more use a separate exec */

/* Create an empty file, on disk if possible; return a descriptor or -errno. */
int spool_new(void);
#define SPOOL_UNTOLD (64ULL << 30) /* stands for an unknown file size */
/*
 * Reserve space for a copy of a file of @size bytes: the caller fills *@ret_fd, with
 * fewer than *@ret_most bytes, and sends it to the client. It counts until all of its
 * descriptors are closed. -EFBIG, -ENOSPC: there is no space (copy_budget.h).
 */
int spool_prepare(uint64_t size, uint64_t *ret_most, int *ret_fd,
		  struct warren_error *err);
/*
 * Forget all other copies; for a child that fills one, because they belong to its parent.
 */
void spool_leave(void);
/* For the same child: record that @fd has been filled, so that other shims count it. */
void spool_done(int fd);
/*
 * Copy the whole file @path inside to @fd; 0 or -errno. During the copy, the client is
 * informed that the shim is busy. A file with @most bytes or more counts as endless
 * (-EFBIG), to protect the service's disk.
 */
int spool_read(const char *user, const char *path, uint64_t most, int fd,
	       struct warren_error *err);
/*
 * Stop writes that exceed the available space. Call this every SPOOL_TICK_MS while the
 * shim waits.
 */
void spool_guard(void);
#define SPOOL_TICK_MS 100
/* The time to wait: @ms (-1: forever), or SPOOL_TICK_MS if there are writes to guard. */
int spool_wait_ms(int ms);
/*
 * Run `sh -c` with script_tools and @last, with @path as $1 and these streams (-1:
 * /dev/null), until it ends. While it waits, it tells the client that the shim is busy.
 * The script's stderr becomes the error message.
 */
int spool_run(const char *user, const char *last, const char *path, int in, int out,
	      struct warren_error *err);
/* Attributes of a file that the platform writes itself. */
struct spool_owner {
	uint32_t mode, uid, gid;
};

/*
 * Create a file for a client to write. The shim keeps it until the data is copied to
 * @path: by the platform if there is an @owner, otherwise by a shell inside.
 */
int spool_write(const char *user, const char *path, bool append,
		const struct spool_owner *owner, int *ret_fd, struct warren_error *err);
/* Copy the data written for @path to its destination; 0 if there is none. */
int spool_settle(const char *path, struct warren_error *err);
/*
 * Copy the data written for all files in the directory @path. An error is reported to the
 * next request that names the file.
 */
void spool_settle_dir(const char *path);
/* Drop the data for @path. */
void spool_forget(const char *path);
/*
 * Remember a file with a temporary name (".warren-ID~"), until it is complete and
 * renamed. If the connection that requested it ends first, the file is removed.
 */
void spool_note(uint64_t connection, const char *user, const char *path);
void spool_unnote(const char *path);
void spool_abandon(uint64_t connection);
/* Copy files that were closed. Call this from time to time while it returns true. */
bool spool_tick(void);

#endif /* SHIM_CORE_FILE_COPY_H */
