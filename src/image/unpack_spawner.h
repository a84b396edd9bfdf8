/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_spawner.h - the process that starts unpacking processes
 *
 * Unpacking is done by forks (unpack.h), which have all the memory of the process
 * they are forked from; and the process that pulls has passwords and tokens in
 * places that only libcurl knows. So the unpacking processes are not forked from it, but
 * from a process that was forked from it before it knew any secret: the foreman. The
 * foreman gets its orders over a connection and ends with it; when it has ended, so have
 * all of its children.
 */
#ifndef IMAGE_UNPACK_SPAWNER_H
#define IMAGE_UNPACK_SPAWNER_H

#include <sys/types.h>

#include "image/store.h"

struct oci_foreman {
	pid_t pid;   /* 0: there is none */
	int control; /* our end of the connection */
};

/* Before the first secret is read. @s is used by the workers, and outlives them. */
int oci_foreman_start(struct oci_foreman *ret, const struct store *s,
		      struct warren_error *err);

/*
 * Unpack the archive @blob into a layer of the store. @lock, which may be -1, is the
 * layer's lock: it is held as long as the worker lives. When the worker has ended, a
 * struct warren_error can be read from @ret_report, with code 0 on success; an immediate
 * end of file means that the worker was killed.
 */
int oci_foreman_unpack(const struct oci_foreman *f, const char *diff_id,
		       uint64_t max_bytes, int blob, int lock, int *ret_report,
		       struct warren_error *err);

/* Kills and reaps everything that it started. */
void oci_foreman_stop(struct oci_foreman *f);

#endif /* IMAGE_UNPACK_SPAWNER_H */
