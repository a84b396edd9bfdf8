/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gitignore.h - the patterns of .gitignore files: pure functions
 *
 * As in git: "*" and "?" match no "/", a pattern with a "/" is relative to the directory
 * of its file, others match a name anywhere below; a trailing "/" matches directories
 * only; "**" matches any number of directories; "!" includes again what an earlier
 * pattern excluded; the last pattern that matches decides, and the file of the deepest
 * directory that has one. Files are hostile: a match takes a limited number of steps, and
 * a pattern that would need more does not match.
 */
#ifndef BASE_GITIGNORE_H
#define BASE_GITIGNORE_H

#include <stdbool.h>
#include <stddef.h>

#define GITIGNORE_SIZE_MAX ((size_t)1 << 20)
#define GITIGNORE_MAX      20000 /* patterns of one file */

struct gitignore_pattern {
	char *glob; /* without "!", a leading and a trailing "/" */
	bool negated;
	bool dirs_only;
	bool anchored; /* it is compared with the path, otherwise with the name */
	bool literal;  /* it has no special characters */
};

/* The patterns of one file. */
struct gitignore {
	struct gitignore_pattern *v;
	size_t n;
	bool any_case; /* compare without regard to case */
};

/* Add the patterns of a file. Lines beyond the limit are ignored. 0 or -ENOMEM. */
int gitignore_parse(struct gitignore *g, const char *text, size_t n);
void gitignore_done(struct gitignore *g);

/*
 * @path is relative to the directory of the file. 1: ignored; 0: included again; -1: no
 * pattern matches.
 */
int gitignore_match(const struct gitignore *g, const char *path, bool is_dir);

/* Return whether @glob matches @path, in which "*" matches no "/". */
bool gitignore_glob(const char *glob, const char *path, bool any_case);

#endif /* BASE_GITIGNORE_H */
