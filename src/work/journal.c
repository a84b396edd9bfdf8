/* SPDX-License-Identifier: Apache-2.0 */
/* journal.c - write and parse the journal of an accept: pure functions */
#include "work/journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "work/record.h"

static const char *const op_names[] = {
	[OP_WIDEN] = "widen", [OP_REMOVE] = "remove", [OP_RMDIR] = "rmdir",
	[OP_MKDIR] = "mkdir", [OP_PUT] = "put",       [OP_CHMOD] = "chmod",
	[OP_DROP] = "drop",   [OP_EDIT] = "edit",     [OP_PART] = "part",
};
_Static_assert(ARRAY_SIZE(op_names) == OP_KIND_MAX, "an operation has no name");

static size_t ops_hash(enum op_kind kind, const char *path)
{
	uint64_t h = 14695981039346656037ULL + (unsigned)kind;

	for (; *path; path++)
		h = (h ^ (unsigned char)*path) * 1099511628211ULL;
	return (size_t)(h ^ h >> 32);
}

/* The slot of the operation, or the free one where it would be. */
static uint32_t *ops_slot(const struct ops *ops, enum op_kind kind, const char *path)
{
	size_t i = ops_hash(kind, path) & (ops->n_slots - 1);

	while (ops->slots[i] && (ops->v[ops->slots[i] - 1].kind != kind ||
				 strcmp(ops->v[ops->slots[i] - 1].path, path) != 0))
		i = (i + 1) & (ops->n_slots - 1);
	return &ops->slots[i];
}

/* The number of slots is a power of two, and at least twice that of the operations. */
static int ops_index(struct ops *ops, size_t n_slots)
{
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots || n_slots > UINT32_MAX) {
		free(slots);
		return -ENOMEM;
	}
	free(ops->slots);
	ops->slots = slots;
	ops->n_slots = n_slots;
	for (size_t i = 0; i < ops->n; i++)
		*ops_slot(ops, ops->v[i].kind, ops->v[i].path) = (uint32_t)i + 1;
	return 0;
}

bool ops_has(const struct ops *ops, enum op_kind kind, const char *path)
{
	return ops->n_slots > 0 && *ops_slot(ops, kind, path);
}

void ops_cut(struct ops *ops, size_t n)
{
	if (n >= ops->n)
		return;
	while (ops->n > n)
		free(ops->v[--ops->n].path);
	(void)memset(ops->slots, 0, ops->n_slots * sizeof(*ops->slots));
	for (size_t i = 0; i < n; i++)
		*ops_slot(ops, ops->v[i].kind, ops->v[i].path) = (uint32_t)i + 1;
}

struct op *ops_add(struct ops *ops, enum op_kind kind, const char *path)
{
	struct op *op;

	if (ops->n == ops->cap) {
		size_t cap = ops->cap ? ops->cap * 2 : 64;

		op = reallocarray(ops->v, cap, sizeof(*op));
		if (!op)
			return NULL;
		ops->v = op;
		ops->cap = cap;
	}
	if (2 * (ops->n + 1) > ops->n_slots &&
	    ops_index(ops, ops->n_slots ? 2 * ops->n_slots : 128) < 0)
		return NULL;
	op = &ops->v[ops->n];
	*op = (struct op){ .kind = kind, .path = strdup(path), .number = ops->n };
	if (!op->path)
		return NULL;
	*ops_slot(ops, kind, path) = (uint32_t)++ops->n;
	return op;
}

void ops_done(struct ops *ops)
{
	for (size_t i = 0; i < ops->n; i++)
		free(ops->v[i].path);
	free(ops->v);
	free(ops->slots);
	*ops = (struct ops){ 0 };
}

static int op_compare(const void *a, const void *b)
{
	const struct op *x = a, *y = b;
	int d;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	d = strcmp(x->path, y->path);
	/* What is in a directory follows the directory; reversed, it is before it: a mode
	 * may forbid to enter the directory. */
	return x->kind == OP_RMDIR || x->kind == OP_CHMOD ? -d : d;
}

void ops_sort(struct ops *ops)
{
	size_t out = 0;

	free(ops->slots);
	ops->slots = NULL;
	ops->n_slots = 0;
	if (ops->n == 0)
		return;
	qsort(ops->v, ops->n, sizeof(*ops->v), op_compare);
	for (size_t i = 0; i < ops->n; i++) {
		struct op *last = out > 0 ? &ops->v[out - 1] : NULL;

		if (last && op_compare(last, &ops->v[i]) == 0) {
			last->must |= ops->v[i].must;
			free(ops->v[i].path);
		} else {
			ops->v[out++] = ops->v[i];
		}
	}
	ops->n = out;
}

struct op_file op_file_of(const struct stat *st)
{
	return (struct op_file){ .ino = st->st_ino,
				 .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000 +
					     (uint64_t)st->st_mtim.tv_nsec,
				 .size = (uint64_t)st->st_size };
}

bool op_file_same(const struct op_file *f, const struct stat *st)
{
	const struct op_file other = op_file_of(st);

	/* A directory's time and size change with what is in it. */
	return f->ino == other.ino &&
	       (S_ISDIR(st->st_mode) ||
		(f->mtime_ns == other.mtime_ns && f->size == other.size));
}

/* The numbers of an operation, in the order of the journal. */
#define OP_NUMBERS 11

static void op_numbers(struct op *op, uint64_t *ret[OP_NUMBERS])
{
	uint64_t *all[OP_NUMBERS] = { &op->number,   &op->old.ino,  &op->old.mtime_ns,
				      &op->old.size, &op->new.ino,  &op->new.mtime_ns,
				      &op->new.size, &op->old_mode, &op->new_mode,
				      &op->must,     &op->clean };

	(void)memcpy(ret, all, sizeof(all));
}

void journal_write(struct buf *b, const struct ops *ops)
{
	char count[24];

	for (size_t i = 0; i < ops->n; i++) {
		struct buf key AUTO_BUF = BUF_INIT(512);
		uint64_t *numbers[OP_NUMBERS];
		struct op copy = ops->v[i];

		buf_puts(&key, op_names[copy.kind]);
		op_numbers(&copy, numbers);
		for (size_t k = 0; k < OP_NUMBERS; k++)
			buf_printf(&key, ",%llu", (unsigned long long)*numbers[k]);
		if (key.failed)
			b->failed = true;
		else
			record_line(b, key.data, copy.path);
	}
	(void)snprintf(count, sizeof(count), "%zu", ops->n);
	record_line(b, "end", count);
}

/* Paths must stay within the project, even if the journal was forged. */
static bool journal_path_valid(const char *path)
{
	if (!*path)
		return false;
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 0 || n > 255 || (n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += n;
		if (*path && !*++path)
			return false;
	}
	return true;
}

static int journal_op(struct ops *ops, char *key, const char *path)
{
	struct warren_error ignored;
	uint64_t *numbers[OP_NUMBERS];
	const char *name = strsep(&key, ",");
	struct op *op;
	size_t kind = 0;

	while (kind < OP_KIND_MAX && strcmp(op_names[kind], name) != 0)
		kind++;
	if (kind == OP_KIND_MAX || !journal_path_valid(path))
		return -EBADMSG;
	op = ops_add(ops, (enum op_kind)kind, path);
	if (!op)
		return -ENOMEM;
	op_numbers(op, numbers);
	for (size_t k = 0; k < OP_NUMBERS; k++) {
		const char *field = strsep(&key, ",");

		if (!field || parse_u64(field, UINT64_MAX, numbers[k], &ignored) < 0)
			return -EBADMSG;
	}
	return key ? -EBADMSG : 0;
}

int journal_parse(char *text, size_t n, struct ops *ret, struct warren_error *err)
{
	struct ops ops AUTO_OPS = { 0 };
	char *at = text, *key, *value, count[24];
	bool end = false;
	int r;

	while ((r = record_next(&at, text + n, &key, &value)) > 0) {
		if (strcmp(key, "end") == 0) {
			(void)snprintf(count, sizeof(count), "%zu", ops.n);
			end = at == text + n && strcmp(value, count) == 0;
			break;
		}
		r = journal_op(&ops, key, value);
		if (r < 0)
			break;
	}
	if (r >= 0 && !end)
		r = -EBADMSG;
	if (r < 0)
		return error_set(err, -r,
				 r == -ENOMEM ? "out of memory"
					      : "the journal of the work is damaged");
	*ret = ops;
	ops = (struct ops){ 0 };
	return 0;
}
