/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_copy.h - the bytes of files, between the sandbox and descriptors
 *
 * Whoever opens a file gets a regular one of ours. To be read, it is filled first. To be
 * written, it is empty, and what was written to it goes to where it belongs when its last
 * descriptor but ours is closed: at the latest before the next request that names the
 * file, which is answered with the error if that fails. (A lease tells: the kernel gives
 * a lease for writing only on a file that nobody else has open.)
 */
#ifndef SHIM_CORE_FILE_COPY_H
#define SHIM_CORE_FILE_COPY_H

#include "shim/core/workers.h"

#define SPOOL_INLINE 65536 /* bytes that go through a hand: more go by their own exec */

/* An empty file, on disk if possible; a descriptor or -errno. */
int spool_new(void);
#define SPOOL_UNTOLD (64ULL << 30) /* the size of a file that nobody tells */
/*
 * Room for a copy of a file of @size bytes: *@ret_fd is to be filled and passed on, and
 * has fewer than *@ret_most bytes. It counts until all have closed it. -EFBIG, -ENOSPC:
 * there is none (copy_budget.h).
 */
int spool_prepare(uint64_t size, uint64_t *ret_most, int *ret_fd,
		  struct warren_error *err);
/* In a child that fills one: all the rest is its parent's. */
void spool_leave(void);
/*
 * All of the file @path inside, into @fd; -errno. Says that it is at it while it lasts.
 * What has @most bytes has no end (-EFBIG): our disk is not for that.
 */
int spool_read(const char *user, const char *path, uint64_t most, int fd,
	       struct warren_error *err);
/*
 * Refuses what is written beyond what there is room for. To be called while we wait, so
 * often:
 */
void spool_guard(void);
#define SPOOL_TICK_MS 100
/*
 * @ms that we would wait (-1: forever), or SPOOL_TICK_MS if there is something to guard.
 */
int spool_wait_ms(int ms);
/*
 * `sh -c` of script_tools and @last, with PATH as $1 and these streams (-1: /dev/null),
 * to its end, saying the same; what it complains of is the error.
 */
int spool_run(const char *user, const char *last, const char *path, int in, int out,
	      struct warren_error *err);
/* What becomes of a file that the platform writes by itself. */
struct spool_owner {
	uint32_t mode, uid, gid;
};

/*
 * A file that is to be written: our end is kept until it was, by the platform if there is
 * an @owner, and else by a shell inside.
 */
int spool_write(const char *user, const char *path, bool append,
		const struct spool_owner *owner, int *ret_fd, struct warren_error *err);
/* What was written to @path goes there; 0 also when nothing was. */
int spool_settle(const char *path, struct warren_error *err);
/* The same for all that is in the directory @path. Errors wait for who names the file. */
void spool_settle_dir(const char *path);
/* No one wants it any more. */
void spool_forget(const char *path);
/*
 * A file that has a name for a while (".warren-ID~"), until it is whole and renamed. It
 * goes with the connection by which it was asked for, if that ends before.
 */
void spool_note(uint64_t connection, const char *user, const char *path);
void spool_unnote(const char *path);
void spool_abandon(uint64_t connection);
/* From time to time, while there is something: what was closed is written. */
bool spool_tick(void);

#endif /* SHIM_CORE_FILE_COPY_H */
