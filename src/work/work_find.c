/* SPDX-License-Identifier: Apache-2.0 */
/* work_find.c - list works, and find one by its id, the beginning of it, or its name */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "work/files_internal.h"
#include "work/record.h"
#include "work/work_internal.h"

/* Fewer characters of an id are too easily those of another project's work. */
#define ID_PREFIX_MIN 4

void work_list_done(struct work_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		work_record_done((struct work_record *)&l->v[i]);
	free(l->v);
	*l = (struct work_list){ 0 };
}

static int work_list_by_age(const void *a, const void *b)
{
	const struct work_item *x = a, *y = b;

	if (x->started_ns != y->started_ns)
		return x->started_ns < y->started_ns ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* Works that are damaged, or just created or removed, have no record and are skipped. */
static int work_list_add(struct work_list *l, int works, const char *id, int project)
{
	AUTO_CLOSE int dir =
		openat(works, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct warren_error ignored;
	struct work_item item = { 0 }, *more;

	if (dir < 0 || work_read_record(dir, (struct work_record *)&item, &ignored) < 0)
		return 0;
	if (strcmp(item.id, id) != 0 ||
	    (project >= 0 &&
	     !work_is_project((const struct work_record *)&item, project))) {
		work_record_done((struct work_record *)&item);
		return 0;
	}
	item.running = work_is_locked(dir);
	item.remains = !item.running &&
		       faccessat(dir, "unprepared", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	more = reallocarray(l->v, l->n + 1, sizeof(*more));
	if (!more) {
		work_record_done((struct work_record *)&item);
		return -ENOMEM;
	}
	l->v = more;
	l->v[l->n++] = item;
	return 0;
}

int works_list(const char *project, struct work_list *ret, struct warren_error *err)
{
	AUTO_WORK_LIST struct work_list l = { 0 };
	AUTO_CLOSE int works = works_dir(false, NULL, err);
	struct dir_reader reader = { .fd = works };
	const struct dir_entry *e;
	AUTO_CLOSE int at = -1;
	int r;

	if (works == -ENOENT) {
		*ret = l;
		return 0;
	}
	if (works < 0)
		return works;
	if (project)
		at = open(project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (project && at < 0)
		return error_errno(err, errno, "find the project '%s'", project);
	while ((r = dir_next(&reader, &e)) > 0) {
		r = id_valid(e->name) ? work_list_add(&l, works, e->name, at) : 0;
		if (r < 0)
			break;
	}
	if (r < 0)
		return error_errno(err, -r, "list the works");
	if (l.n > 0)
		qsort(l.v, l.n, sizeof(*l.v), work_list_by_age);
	*ret = l;
	l = (struct work_list){ 0 };
	return 0;
}

int work_find_id(const char *id_or_name, char ret[ID_LEN + 1], struct warren_error *err)
{
	AUTO_WORK_LIST struct work_list all = { 0 };
	size_t n = strlen(id_or_name), found = 0;
	const char *match = NULL;
	int r = works_list(NULL, &all, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++) {
		const struct work_item *w = &all.v[i];

		if (strcmp(w->id, id_or_name) == 0 ||
		    (w->name && strcmp(w->name, id_or_name) == 0)) {
			match = w->id;
			found = 1;
			break;
		}
		if (n >= ID_PREFIX_MIN && strncmp(w->id, id_or_name, n) == 0) {
			match = w->id;
			found++;
		}
	}
	if (found == 0)
		return error_set(
			err, ENOENT,
			"there is no work '%s' ('warren work --list' lists them)",
			id_or_name);
	if (found > 1)
		return error_set(err, EINVAL,
				 "'%s' is ambiguous (%zu matches); use more of the id",
				 id_or_name, found);
	(void)memcpy(ret, match, ID_LEN + 1);
	return 0;
}

bool work_exists(const char *id_or_name)
{
	char id[ID_LEN + 1];
	struct warren_error ignored;

	return work_find_id(id_or_name, id, &ignored) == 0;
}
