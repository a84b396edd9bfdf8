/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patch.h - the changes of one file, as in a patch: make, select, split, apply, parse
 *
 * A patch is made from two texts (patch_from_diff()) or parsed from the output of
 * `git diff` (patches_parse()). The lines of its hunks are slices of the texts that it
 * was made from, which must outlive it.
 */
#ifndef TEXTDIFF_PATCH_H
#define TEXTDIFF_PATCH_H

#include <sys/types.h>

#include "base/buf.h"
#include "textdiff/diff.h"

enum patch_kind {
	PATCH_MODIFIED,
	PATCH_ADDED,
	PATCH_REMOVED,
	PATCH_RENAMED, /* with or without other changes */
	PATCH_COPIED,
};

struct patch_line {
	char kind; /* ' ': context; '-': only in the old text; '+': only in the new one */
	struct text text; /* with "\n", unless it is the last line and has none */
};

struct patch_hunk {
	uint32_t old_at, old_n; /* line numbers from 0, and numbers of lines */
	uint32_t new_at, new_n;
	struct patch_line *v;
	size_t n;
	bool skip; /* patch_apply() and unified_write() leave this hunk out */
};

/* A binary file's new (or, to undo the patch, old) contents. */
struct patch_binary {
	bool present;
	char *data; /* owned */
	size_t len;
};

struct patch {
	enum patch_kind kind;
	char *old_path,
		*new_path; /* relative; both are set, except by patch_from_diff() */
	mode_t old_mode,
		new_mode; /* as git has them: 0100644, 0100755, 0120000; 0: not said */
	struct patch_hunk *v;
	size_t n;
	bool binary; /* then there are no hunks */
	struct patch_binary forward, reverse;
};

/* -------------------------------------------------------------------- make */

#define PATCH_CONTEXT 3

/* Group the edits of @d into hunks with @context lines around them. */
int patch_from_diff(const struct text_diff *d, unsigned context, struct patch *ret,
		    struct warren_error *err) MUST_CHECK;
void patch_done(struct patch *p);

/* Return how many hunks patch_split() would make of hunk @at; 1: it cannot be split. */
size_t patch_split_count(const struct patch *p, size_t at);
/* Split hunk @at between the changes in it; their context overlaps, as in git. */
int patch_split(struct patch *p, size_t at, struct warren_error *err) MUST_CHECK;

/*
 * Replace hunk @at by the hunk in @edited: lines that begin with ' ', '+' or '-' (others
 * that begin with '#' are ignored; so is the "@@" line). The old lines must still
 * be those of @old. @edited must outlive the patch. -EINVAL: the hunk does not fit.
 */
int patch_replace_hunk(struct patch *p, size_t at, struct text old, struct text edited,
		       struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------------------------- apply */

/*
 * Apply all hunks that are not skipped to @old: at their place, or at the next place
 * where their old lines are found. -EINVAL: one of them fits nowhere.
 */
int patch_apply(const struct patch *p, struct text old, struct buf *out,
		struct warren_error *err) MUST_CHECK;

/* ------------------------------------------------------------------- parse */

struct patches {
	struct patch *v;
	size_t n;
};

/*
 * Parse the output of `git diff`, `git format-patch` or `diff -u` for any number of
 * files. Paths are relative, and have no "." or ".." components and no NUL; the prefixes
 * "a/" and "b/" are removed. The error names the line. -EINVAL: it is not a valid patch.
 */
int patches_parse(struct text t, struct patches *ret,
		  struct warren_error *err) MUST_CHECK;
void patches_done(struct patches *p);

#define AUTO_PATCH   CLEANUP(patch_done)
#define AUTO_PATCHES CLEANUP(patches_done)

#endif /* TEXTDIFF_PATCH_H */
