/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h - what an accept does to the project, so that it can be undone or completed
 *
 * <work>/journal exists from the moment when all new contents are on disk, until the last
 * change is made; it is then renamed to <work>/journal.done, which exists until the work
 * knows about it. So an accept that was interrupted is undone if there is a journal, and
 * completed if there is a journal.done.
 *
 * New files are in the staging directory as n<number>, and originals are kept there as
 * o<number>, or as n<number> if the two files changed places. Inodes say which of them is
 * where, so each step can be repeated.
 */
#ifndef WORK_JOURNAL_H
#define WORK_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"

#define JOURNAL_SIZE_MAX ((size_t)1 << 30)

enum op_kind {
	/* In the order in which they are done. */
	OP_WIDEN,  /* a directory's mode, so that its owner can change what is in it */
	OP_REMOVE, /* a file or a link */
	OP_RMDIR,  /* a directory, if it is empty */
	OP_MKDIR,
	OP_PUT,   /* a file or a link, with or without an old one */
	OP_CHMOD, /* a file's or a directory's mode */
	/* After all changes are made: */
	OP_DROP, /* remove the change from the sandbox's changes */
	OP_EDIT, /* the sandbox gets the file <work>/edited/<number> */
	OP_PART, /* put that file (if .must) and the mode .new_mode into the copy */
	OP_KIND_MAX,
};

/* Enough of a file to notice that it is another one, or has other contents. */
struct op_file {
	uint64_t ino, mtime_ns, size; /* ino 0: there is none */
};

struct op {
	enum op_kind kind;
	char *path;
	uint64_t number;
	struct op_file old, new;
	uint64_t old_mode, new_mode; /* OP_WIDEN, OP_CHMOD, OP_PART */
	/*
	 * OP_RMDIR: fail if it is not empty. OP_PUT: the file has changes of the user and
	 * only a part of the sandbox's, so both still differ from what was before.
	 */
	uint64_t must;
	uint64_t clean; /* the user had not changed the old file */
	/* Not in the journal: */
	uint64_t old_ctime_ns;
};

struct ops {
	struct op *v;
	size_t n, cap;
	uint32_t *slots; /* private: the operations by kind and path, until ops_sort() */
	size_t n_slots;
};

/* Append an operation; NULL: out of memory. It is valid until the next one is added. */
struct op *ops_add(struct ops *ops, enum op_kind kind, const char *path);
/* Has the operation been added? Not after ops_sort(). */
bool ops_has(const struct ops *ops, enum op_kind kind, const char *path);
/* Forget all operations but the first @n. */
void ops_cut(struct ops *ops, size_t n);
/* Sort by kind; directories are made from the top down, and removed from the bottom up.
 */
void ops_sort(struct ops *ops);
void ops_done(struct ops *ops);

void journal_write(struct buf *b, const struct ops *ops);
/* Parse @text, which is changed. -EBADMSG: it is damaged, or incomplete. */
int journal_parse(char *text, size_t n, struct ops *ret, struct warren_error *err);

struct op_file op_file_of(const struct stat *st);
bool op_file_same(const struct op_file *f, const struct stat *st);

#define AUTO_OPS CLEANUP(ops_done)

#endif /* WORK_JOURNAL_H */
