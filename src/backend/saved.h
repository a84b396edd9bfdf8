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
/* Bytes that are free in the filesystem of @dir. */
uint64_t saved_free_space(int dir);
/*
 * After a copy of @from failed with -ENOSPC, say in @err how much it needs; @have was
 * free before. Returns -ENOSPC.
 */
int saved_explain_space(int from, uint64_t have, struct warren_error *err);
/* Remove etc/hosts from the copy @dir if it is the file that Warren wrote. */
void saved_drop_hosts(int dir, const char *hostname);

#endif /* BACKEND_SAVED_H */
