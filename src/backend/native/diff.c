/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff.c - compare the files of a sandbox with its image, or with a snapshot
 *
 * Everything that was written to the root is in the upper directory of its overlay; init
 * also has a view of the image's files below it. A child without privileges on the host
 * compares the two (files_child.h), and writes the differences to a file. A snapshot is a
 * view of the same image, with other upper directories (diff_layers.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/native/diff_layers.h"
#include "backend/native/files_child.h"
#include "base/fd.h"
#include "base/hosts.h"
#include "os/tree_walk.h"

/* Maximum size of all records of a comparison. */
#define DIFF_BYTES_MAX (1U << 20)
#define DIFF_OUT_SIZE  (256U << 10)

/* What the child needs to know. */
struct diff_request {
	uint64_t skip, max;
	char hosts[HOSTS_SIZE]; /* Warren's own /etc/hosts, which is no difference */
};

/* The state of a comparison, in one mapping of the child. */
struct diff_state {
	struct tree_walk walk;
	struct tree_compare compare;
	const struct diff_request *request;
	int out;
	uint64_t seen, n, bytes;
	bool more;
	size_t used;
	char buffer[DIFF_OUT_SIZE];
};

static int diff_flush(struct diff_state *s)
{
	int r = fd_write_all(s->out, s->buffer, s->used);

	s->used = 0;
	return r;
}

static int diff_put(struct diff_state *s, const void *data, size_t n)
{
	int r = 0;

	if (n > sizeof(s->buffer) - s->used)
		r = diff_flush(s);
	if (r < 0)
		return r;
	(void)memcpy(s->buffer + s->used, data, n);
	s->used += n;
	return 0;
}

/* Return 1 if there is no room for another record. */
static int diff_record(struct diff_state *s, char kind, const struct stat *st)
{
	static const char zeros[8] = "";
	size_t length = s->walk.path_length + 1,
	       size = (sizeof(struct warren_change) + length + 7) & ~(size_t)7;
	const struct warren_change c = {
		.record_size = (uint32_t)size,
		.kind = (uint32_t)(unsigned char)kind,
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_sec = st->st_mtim.tv_sec,
		.mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
		.size = (uint64_t)st->st_size,
	};
	int r;

	if (s->seen++ < s->request->skip)
		return 0;
	if (s->n == s->request->max || s->bytes + size > DIFF_BYTES_MAX) {
		s->more = true;
		return 1;
	}
	s->n++;
	s->bytes += size;
	r = diff_put(s, &c, sizeof(c));
	if (r == 0)
		r = diff_put(s, s->walk.path, length);
	return r < 0 ? r : diff_put(s, zeros, size - sizeof(c) - length);
}

/* Is it the file that Warren wrote? */
static bool diff_is_own_hosts(struct diff_state *s, const struct tree_pair *pair)
{
	size_t n = strlen(s->request->hosts);
	AUTO_CLOSE int fd = -1;

	if (strcmp(s->walk.path, "/etc/hosts") != 0 || !S_ISREG(pair->new.st.st_mode))
		return false;
	fd = openat(pair->new.dir, pair->name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && pair->new.st.st_size ==
				  (off_t)n &&pread(fd, s->compare.values[0], n + 1, 0) ==
				  (ssize_t)n &&memcmp(s->compare.values[0],
						      s->request->hosts, n) == 0;
}

/* The walk ends with -ECANCELED when there is no more room. */
static int diff_visit(struct tree_walk *w, const struct tree_pair *pair)
{
	struct diff_state *s = w->ctx;
	bool dir = pair->new.exists &&S_ISDIR(pair->new.st.st_mode);
	int r = 0;

	if (!pair->new.exists)
		r = diff_record(s, 'D', &pair->old.st);
	else if (diff_is_own_hosts(s, pair))
		return 0;
	else if (!pair->old.exists)
		r = diff_record(s, 'A', &pair->new.st);
	else if (tree_compare(&s->compare, pair, false) != 1)
		r = diff_record(s, 'C', &pair->new.st);
	if (r != 0)
		return r < 0 ? r : -ECANCELED;
	return dir;
}

/* Runs in the child. */
static int diff_task(const struct files_child_task *task, const int *fds, const int *dirs,
		     struct files_child_report *report)
{
	struct tree_side old = tree_side(-1, fds[1]), new = tree_side(fds[0], fds[1]);
	struct diff_state *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (s == MAP_FAILED)
		return error_errno(&report->err, ENOMEM, "compare");
	for (; old.n_uppers < task->n_dirs; old.n_uppers++)
		old.uppers[old.n_uppers] = dirs[old.n_uppers];
	s->walk.visit = diff_visit;
	s->walk.ctx = s;
	s->request = task->ctx;
	s->out = fds[2];
	r = tree_walk(&s->walk, &old, &new);
	if (r == -ECANCELED)
		r = 0;
	if (r == 0)
		r = diff_flush(s);
	report->numbers[0] = s->n;
	report->numbers[1] = s->more;
	report->numbers[2] = s->walk.too_deep;
	return r < 0 ? error_errno(&report->err, -r, "compare") : 0;
}

_Static_assert(DIFF_OUT_SIZE > TREE_WALK_PATH_MAX, "a path does not fit");
_Static_assert(DIFF_LAYERS_MAX <= TREE_UPPERS_MAX, "the layers do not fit");
_Static_assert(DIFF_LAYERS_MAX <= FILES_CHILD_DIRS_MAX, "the layers do not fit");

static int diff_in_child(struct native_sandbox *sandbox, const struct diff_layers *layers,
			 int fd, struct warren_diff *diff, struct warren_error *err)
{
	const struct files_child_limits limits = { diff->seconds, diff->cancel };
	struct files_child child = FILES_CHILD_NONE;
	struct files_child_report report;
	struct diff_request request = { .skip = diff->skip, .max = diff->max };
	struct files_child_task task = {
		.n_fds = 3, .n_dirs = layers->n, .ctx = &request, .run = diff_task
	};
	AUTO_CLOSE int upper = -1, lower = -1;
	int r = native_root_dir(sandbox, PROTO_ROLE_UPPER, &upper, err);

	if (r == 0)
		r = native_root_dir(sandbox, PROTO_ROLE_LOWER, &lower, err);
	if (r < 0)
		return r;
	if (request.max == 0 || request.max > WARREN_DIFF_MAX)
		request.max = WARREN_DIFF_MAX;
	if (hosts_text(request.hosts, sandbox->hostname ? sandbox->hostname : "") < 0)
		request.hosts[0] = '\0';
	task.fds[0] = upper;
	task.fds[1] = lower;
	task.fds[2] = fd;
	(void)memcpy(task.dirs, layers->fds, sizeof(*layers->fds) * layers->n);
	r = files_child_start(sandbox, &task, &child, err);
	if (r == 0)
		r = files_child_run(&child, &limits, &report, err);
	files_child_done(&child);
	if (r == 0) {
		diff->n = report.numbers[0];
		diff->more = report.numbers[1];
		diff->too_deep = report.numbers[2];
	}
	return r;
}

int native_diff(void *state UNUSED, struct backend_sandbox *base, int fd,
		struct warren_diff *diff, struct warren_error *err)
{
	struct native_sandbox *sandbox = (struct native_sandbox *)base;
	struct diff_layers layers = DIFF_LAYERS_NONE;
	int r = diff->image ? diff_layers_open(sandbox, diff->image, &layers, err) : 0;

	if (r == 0)
		r = diff_in_child(sandbox, &layers, fd, diff, err);
	diff_layers_close(&layers);
	return r;
}
