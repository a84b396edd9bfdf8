/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settle.c - complete or undo the accepts that were interrupted in a project
 *
 * As long as there is a journal, the project may be half changed: then neither the user
 * nor a sandbox may see it. Before that, a directory with new files may have been left.
 * It can be that of any work on the same project, or on a directory above or below it.
 * While an accept is in progress, its work is locked; so a journal of a work that is not
 * locked is one that was left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "work/accept_internal.h"
#include "work/files_internal.h"
#include "work/record.h"
#include "work/work_internal.h"

/* How long to wait for an accept of another process, which takes much less. */
#define SETTLE_TRIES   60
#define SETTLE_WAIT_US 50000

/* Is one directory the other one, or below it? */
static bool settle_overlaps(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), less = n < m ? n : m;
	const char *longer = n < m ? b : a;

	return strncmp(a, b, less) == 0 && (longer[less] == '\0' || longer[less] == '/' ||
					    (less > 0 && longer[less - 1] == '/'));
}

static bool settle_has_journal(int works, const char *id)
{
	static const char *const names[] = { "journal", "journal.done" };
	AUTO_CLOSE int dir = beneath_dir(works, id, O_PATH);

	for (size_t i = 0; dir >= 0 && i < ARRAY_SIZE(names); i++)
		if (faccessat(dir, names[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

/* Without a journal, nothing in the project has changed, but the new files are there. */
static bool settle_has_stage(int project, const char *id)
{
	char name[ID_LEN + 16];

	stage_name(id, name);
	return faccessat(project, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Is the work's project @project, or does one of them contain the other? */
static bool settle_concerns(int works, const char *id, const char *project, int fd)
{
	AUTO_CLOSE int dir = beneath_dir(works, id, O_RDONLY);
	struct work_record record = { 0 };
	struct warren_error ignored;
	bool concerns;

	if (dir < 0 || work_read_record(dir, &record, &ignored) < 0)
		return false;
	concerns =
		settle_overlaps(record.project, project) || work_is_project(&record, fd);
	work_record_done(&record);
	return concerns;
}

static int settle_one(int works, const char *id, struct warren_error *err)
{
	int r = 0;

	for (int tries = 0; tries < SETTLE_TRIES; tries++) {
		AUTO_WORK struct work *w = NULL;

		r = work_open(id, true, &w, err);
		/* Another process has completed it, or it was removed. */
		if (r == 0 || !settle_has_journal(works, id))
			return 0;
		if (r != -EBUSY)
			return error_wrap(err,
					  "accepting changes of work '%s' was "
					  "interrupted, and cannot be undone now",
					  id);
		(void)usleep(SETTLE_WAIT_US);
	}
	return error_set(err, EBUSY,
			 "another process is accepting changes of work '%s', so the "
			 "project is half changed at this moment: try again when it "
			 "has ended",
			 id);
}

int works_settle(const char *project, const char *except, struct warren_error *err)
{
	AUTO_FREE struct dir_reader *reader = calloc(1, sizeof(*reader));
	AUTO_CLOSE int works = works_dir(false, NULL, err), fd = -1;
	const struct dir_entry *e;
	int r;

	if (works == -ENOENT)
		return 0;
	if (works < 0)
		return works;
	if (!reader)
		return error_errno(err, ENOMEM, "look for interrupted accepts");
	fd = open(project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open the project '%s'", project);
	reader->fd = works;
	while ((r = dir_next(reader, &e)) > 0) {
		if (!id_valid(e->name) || (except && strcmp(e->name, except) == 0) ||
		    (!settle_has_journal(works, e->name) &&
		     !settle_has_stage(fd, e->name)) ||
		    !settle_concerns(works, e->name, project, fd))
			continue;
		r = settle_one(works, e->name, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? error_errno(err, -r, "list the works") : 0;
}
