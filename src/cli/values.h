/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - strict parsers for the values of common options
 *
 * Each is a `set` of struct opt (opts.h); the comment gives the type of its field.
 */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

#include <stddef.h>

#include "base/error.h"
#include "spec/limits.h"

/* Owns the strings of its mounts. */
struct mount_list {
	struct warren_mount v[64];
	size_t n;
};

void mount_list_done(struct mount_list *list);

enum pull_when {
	PULL_MISSING,
	PULL_ALWAYS,
	PULL_NEVER,
};

typedef int value_fn(void *field, const char *value, struct warren_error *err);

value_fn value_image;    /* char *, owned; a relative directory is made absolute */
value_fn value_pull;     /* enum pull_when */
value_fn value_platform; /* const char *; checked by the program that pulls */
value_fn value_hostname; /* const char * */
value_fn value_user;     /* const char *: a name, uid or uid:gid */
value_fn value_workdir;  /* const char *: an absolute, normalised path */
value_fn value_size;     /* uint64_t, at least 1m */
value_fn value_number;   /* uint64_t, may be 0 */
value_fn value_count;    /* uint64_t, at least 1 */
value_fn value_env;      /* struct env_list: NAME[=VALUE] */
value_fn value_env_file; /* struct env_list: a file of NAME[=VALUE] lines */
value_fn value_volume;   /* struct mount_list: SRC:DST[:ro|:rw] */
value_fn value_tmpfs;    /* struct mount_list: DST[:size=SIZE] */

/* uint64_t: value_limit_memory and so on, one for each row of spec/limits.h */
#define VALUE_LIMIT(id, field, ...) value_fn value_limit_##field;
SPEC_LIMITS(VALUE_LIMIT)

#endif /* CLI_VALUES_H */
