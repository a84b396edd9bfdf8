/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gitignore.h - the patterns of .gitignore files: pure functions
 *
 * As in git: "*" and "?" match no "/", a pattern with a "/" is relative to the directory
 * of its file, others match a name anywhere below; a trailing "/" matches directories
 * only; "**" matches any number of directories; "!" includes again what an earlier
 * pattern excluded; the last pattern that matches decides, and the file of the deepest
 * directory that has one. Files are hostile: the time of a match grows at most with the
 * length of the pattern times the length of the path, and callers limit the time of all.
 */
#ifndef BASE_GITIGNORE_H
#define BASE_GITIGNORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GITIGNORE_SIZE_MAX ((size_t)1 << 20)
#define GITIGNORE_MAX      20000 /* patterns of one file */
/* Longer ones are ignored: paths are not that long. */
#define GITIGNORE_PATTERN_MAX ((size_t)4096)

struct gitignore_pattern {
	char *glob; /* without "!", a leading and a trailing "/" */
	size_t length;
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
 * pattern matches. @work, unless it is NULL, is what matching may still cost, about one
 * for each character that is compared. If that is not enough, it becomes 0, and the
 * result is -1.
 */
int gitignore_match(const struct gitignore *g, const char *path, bool is_dir,
		    uint64_t *work);
/* What parsing a file of @n bytes costs, in the same unit. */
#define GITIGNORE_PARSE_WORK(n) ((uint64_t)(n)*4)
/* Reduce *@work by @n, at most to 0. */
void gitignore_spend(uint64_t *work, uint64_t n);

#endif /* BASE_GITIGNORE_H */
