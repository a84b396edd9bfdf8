/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - read patches and lists of paths that are given to a command */
#ifndef CLI_WORK_INPUT_H
#define CLI_WORK_INPUT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/macro.h"

/* The most bytes of a list of paths. */
#define INPUT_PATHS_MAX ((size_t)16 << 20)

/* Read the file @path ("-": standard input). -EFBIG: it is larger than ret->max. */
int input_read(const char *path, struct buf *ret, struct warren_error *err) MUST_CHECK;

struct input_paths {
	char **v; /* NULL-terminated; the strings are borrowed */
	struct buf text;
};

/*
 * List @paths, and then those in the file @from ("-": standard input; NULL: none), in
 * which each path ends with a NUL byte. -EINVAL: there are none in the file.
 */
int input_paths(const char *from, char *const *paths, struct input_paths *ret,
		struct warren_error *err) MUST_CHECK;
void input_paths_done(struct input_paths *p);

#define AUTO_PATHS CLEANUP(input_paths_done)

#endif /* CLI_WORK_INPUT_H */
