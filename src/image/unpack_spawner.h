/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_spawner.h - the process that starts unpacking processes
 *
 * Unpacking processes are forked (unpack.h), and so have all the memory of their parent.
 * The process that pulls has passwords and tokens somewhere in libcurl's memory. The
 * unpacking processes are therefore forked from another process, the foreman, which was
 * forked before any secret was read. The foreman receives jobs over a connection and ends
 * with it. Its children end with the foreman.
 */
#ifndef IMAGE_UNPACK_SPAWNER_H
#define IMAGE_UNPACK_SPAWNER_H

#include <sys/types.h>

#include "image/store.h"

struct oci_foreman {
	pid_t pid;   /* 0: there is none */
	int control; /* the caller's end of the connection */
};

/*
 * Call this before the first secret is read. The workers use @s, which must stay valid
 * until they have ended.
 */
int oci_foreman_start(struct oci_foreman *ret, const struct store *s,
		      struct warren_error *err);

/*
 * Unpack the archive @blob into a layer of the store. @lock, which may be -1, is the
 * layer's lock: the worker holds it while it lives. When the worker has ended, a struct
 * warren_error can be read from @ret_report, with code 0 on success; an immediate end of
 * file means that the worker was killed.
 */
int oci_foreman_unpack(const struct oci_foreman *f, const char *diff_id,
		       uint64_t max_bytes, int blob, int lock, int *ret_report,
		       struct warren_error *err);

/* End the foreman and all processes that it started, and wait until they have ended. */
void oci_foreman_stop(struct oci_foreman *f);

#endif /* IMAGE_UNPACK_SPAWNER_H */
