/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - read patches and lists of paths that are given to a command */
#ifndef CLI_WORK_INPUT_H
#define CLI_WORK_INPUT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/macro.h"

/* The maximum size of a list of paths, in bytes. */
#define INPUT_PATHS_MAX ((size_t)16 << 20)

/* A file that is given to a command. */
struct input {
	const char *path; /* "-": standard input; NULL: none */
	/* If not 0, the file must have this many bytes: what writes to the pipe may die.
	 */
	size_t size;
};

/* Read a file. -EFBIG: it is larger than ret->max. */
int input_read(const struct input *in, struct buf *ret,
	       struct warren_error *err) MUST_CHECK;

struct input_paths {
	char **v; /* NULL-terminated; the strings are borrowed */
	struct buf text;
};

/*
 * List @paths, and then those in the file @in, in which each path ends with a NUL byte.
 * -EINVAL: there are none in the file.
 */
int input_paths(const struct input *in, char *const *paths, struct input_paths *ret,
		struct warren_error *err) MUST_CHECK;
void input_paths_done(struct input_paths *p);

#define AUTO_PATHS CLEANUP(input_paths_done)

#endif /* CLI_WORK_INPUT_H */
