/* SPDX-License-Identifier: Apache-2.0 */
/* saved.h - what backends have in common that copy the files of a sandbox */
#ifndef BACKEND_SAVED_H
#define BACKEND_SAVED_H

#include <stdint.h>

#include "base/error.h"

/*
 * Check that the filesystem of @dir has space for everything in the filesystem of
 * @from. -ENOSPC: the message says how much is needed.
 */
int saved_check_space(int from, int dir, struct warren_error *err);

/*
 * For files that share their filesystem with those of others. A part of the filesystem of
 * the copy stays free, because the database and the journals of all tenants are in it.
 */
struct saved_space {
	uint64_t keep; /* bytes that stay free: see tree_copy.keep_free */
	uint64_t bytes, files;
};

/* Find out what is free in the filesystem of @dir for a copy. */
void saved_look_at_space(int dir, struct saved_space *ret);
/*
 * Check that the tree @from fits, which may change in the meantime. -ENOSPC: the message
 * says how much is needed.
 */
int saved_check_tree(int from, const struct saved_space *have, struct warren_error *err);
/* After a copy failed with -ENOSPC, say in @err how much it needs. Returns -ENOSPC. */
int saved_explain_space(int from, const struct saved_space *have,
			struct warren_error *err);
/* Return 1 if @dir has an entry @name, 0 if not, -errno if this cannot be found out. */
int saved_exists(int dir, const char *name, struct warren_error *err);
/* Remove etc/hosts from the copy @dir if it is the file that Warren wrote. */
void saved_drop_hosts(int dir, const char *hostname);

#endif /* BACKEND_SAVED_H */
