/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept_part.c - accept a part of a change in mode WORK_COPY
 *
 * In mode WORK_OVERLAY, changes are compared with the project, so what was accepted is no
 * longer a change. In mode WORK_COPY, changes are compared with the copy, which does not
 * follow the project. So the accepted part must be written to the copy, too: here some
 * hunks, or everything except set-id bits.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/tree_copy.h"
#include "work/accept_internal.h"
#include "work/files_internal.h"

int accept_part_apply(struct accept *a, const char *path, const struct patch *hunks,
		      struct buf *out, struct stat *ret_st, struct warren_error *err)
{
	AUTO_CHANGE_SIDE struct change_side old = { 0 };
	struct change_at at = { .dir = -1 };
	int r = change_at_open(a->lower, path, &at);

	r = r < 0 ? r : change_side_read(&at, &old);
	close_p(&at.dir);
	if (r == 0 && !S_ISREG(old.mode))
		r = -ESTALE;
	*ret_st = at.st;
	return r < 0 ? error_errno(err, -r, "read the copy of '%s'", path)
		     : patch_apply(hunks, old.text, out, err);
}

static int part_hunks(struct accept *a, const struct accept_part *part, struct op *op,
		      struct warren_error *err)
{
	struct buf out AUTO_BUF = BUF_INIT(2 * TEXT_MAX);
	struct stat st;
	int r = accept_part_apply(a, op->path, part->hunks, &out, &st, err);

	if (r < 0)
		return r;
	op->new_mode = st.st_mode & 07777;
	r = upper_stage_edit(a->w, op, TEXT(out.data, out.len), &st);
	return r < 0 ? error_errno(err, -r, "keep the accepted part of '%s'", op->path)
		     : 0;
}

int accept_part_plan(struct accept *a, const struct accept_part *part,
		     struct warren_error *err)
{
	const struct change *c = part->change;
	struct op *op = ops_add(&a->ops, OP_PART, c->path);
	int r = 0;

	if (!op)
		return error_errno(err, ENOMEM, "prepare '%s'", c->path);
	if (part->hunks) {
		op->must = true;
		return part_hunks(a, part, op, err);
	}
	/* The sandbox's mode without the set-id bits that the project does not get. */
	op->new_mode = part->theirs->st.st_mode & 07777 & ~(MODE_SET_ID & ~part->mode);
	if (S_ISREG(c->new_mode) && c->kind != CHANGE_MODE) {
		op->must = true;
		r = upper_stage_part(a->w, op, part->theirs);
	}
	return r < 0 ? error_errno(err, -r, "keep the accepted part of '%s'", c->path)
		     : 0;
}
