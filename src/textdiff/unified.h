/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unified.h - write changes like `git diff` or `git diff --full-index --binary`
 *
 * The output can be applied with `git apply`. If the buffer is full, .failed is set in
 * it.
 */
#ifndef TEXTDIFF_UNIFIED_H
#define TEXTDIFF_UNIFIED_H

#include "textdiff/patch.h"

/* Escape sequences for a terminal; NULL: no colours. */
struct unified_colors {
	const char *meta, *hunk, *removed, *added, *reset;
};

/* A file before or after the change. */
struct unified_side {
	const char *path; /* NULL: the file does not exist on this side */
	mode_t mode;      /* type and permissions; git knows only the executable bit */
	struct text text; /* the contents; of a symbolic link, its target */
};

struct unified_options {
	unsigned context;
	bool binary;   /* write full ids, and the contents of binary files; otherwise,
			  only that these differ */
	bool terminal; /* escape control characters in lines: the output is for a person
			*/
	const struct unified_colors *colors;
};

/* Write the headers and hunks of one file; a change of type becomes two files. */
int unified_write(struct buf *out, const struct unified_side *old,
		  const struct unified_side *new, const struct unified_options *o,
		  struct warren_error *err) MUST_CHECK;
/* Write only one hunk, with its "@@" line. @old finds the function for it, or is NULL. */
void unified_write_hunk(struct buf *out, const struct patch_hunk *h,
			const struct text_lines *old, const struct unified_options *o);

/*
 * Write bytes so that they can do no harm on a terminal, nor look like something else:
 * control characters as "^[", bytes that are not UTF-8 as "<80>", and characters that
 * change the direction of text, or are invisible, as "<U+202E>". Tabs are kept; "\n" is
 * kept if it is the last byte.
 */
void text_put_visible(struct buf *out, struct text t);

/*
 * Write a path as git does: in quotes with escapes, if it has unusual characters, or
 * blanks where they cannot be seen.
 */
void unified_quote(struct buf *out, const char *prefix, const char *path);
/* Always write it in quotes. */
void unified_quote_always(struct buf *out, const char *prefix, const char *path);

#define UNIFIED_ID_SIZE 41
/* Compute the id (SHA-1) that git gives a file with these contents. */
void unified_blob_id(struct text t, char ret[UNIFIED_ID_SIZE]);

#endif /* TEXTDIFF_UNIFIED_H */
