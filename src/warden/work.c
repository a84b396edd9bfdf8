/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.c - start the separate program that shows, accepts and rejects works
 *
 * The api process never opens works or projects: warren-work(1) does that, as the user
 * who runs the service. The api reads its answer through a pipe (cli/work/request.h), and
 * writes a patch or paths to another one. It chooses only from the verbs and options
 * below, and the names of works (warden_proto_check()).
 *
 * A program that only reads ends when the api closes the pipe. One that accepts or
 * rejects changes, or removes a work, is always completed. The number of concurrent
 * programs is limited, as in image.c: each program holds one end of an unused pipe, and
 * when the other end is readable, it has ended.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/libexec.h"
#include "warden/internal.h"

#define WORK_ARGS_MAX 24

struct works {
	pthread_mutex_t lock;
	struct work_room {
		int alive; /* readable when the program has ended; -1: none */
		bool reads;
	} rooms[WARDEN_WORKS_MAX];
};

struct works *works_new(void)
{
	struct works *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	(void)pthread_mutex_init(&all->lock, NULL);
	for (size_t i = 0; i < WARDEN_WORKS_MAX; i++)
		all->rooms[i].alive = -1;
	return all;
}

struct works *works_free(struct works *all)
{
	if (!all)
		return NULL;
	for (size_t i = 0; i < WARDEN_WORKS_MAX; i++)
		if (all->rooms[i].alive >= 0)
			(void)close(all->rooms[i].alive);
	(void)pthread_mutex_destroy(&all->lock);
	free(all);
	return NULL;
}

/* Find a free place; NULL: none. The caller holds the lock. */
static struct work_room *works_find_room(struct works *all, bool reads)
{
	struct work_room *found = NULL;
	unsigned n_reads = 0;

	for (size_t i = 0; i < WARDEN_WORKS_MAX; i++) {
		struct work_room *room = &all->rooms[i];
		struct pollfd p = { .fd = room->alive };

		if (room->alive >= 0 && poll(&p, 1, 0) > 0)
			(void)close(TAKE_FD(room->alive));
		if (room->alive < 0)
			found = room;
		else
			n_reads += room->reads;
	}
	return reads && n_reads >= WARDEN_READERS_MAX ? NULL : found;
}

/* ---------------------------------------------------------------- arguments */

static const struct {
	const char *word;
	bool reads;
} work_verbs[WIRE_WORK_MAX] = {
	[WIRE_WORK_LIST] = { "list", true },
	[WIRE_WORK_SHOW] = { "show", true },
	[WIRE_WORK_CHANGES] = { "changes", true },
	[WIRE_WORK_DIFF] = { "diff", true },
	[WIRE_WORK_ACCEPT] = { "accept", false },
	[WIRE_WORK_REJECT] = { "reject", false },
	[WIRE_WORK_REMOVE] = { "remove", false },
};

#define WORK_WORD(word) word,
static const char *const work_allow[] = { WIRE_WORK_ALLOW(WORK_WORD) };
static const char *const work_conflicts[] = { WIRE_WORK_CONFLICTS(WORK_WORD) };

_Static_assert(ARRAY_SIZE(work_allow) == WIRE_WORK_ALLOW_N, "a permission has no bit");
_Static_assert(ARRAY_SIZE(work_conflicts) == WIRE_WORK_CONFLICTS_N,
	       "a word has no number");

struct work_args {
	const char *v[WORK_ARGS_MAX];
	size_t n;
	char input[24], limit[24];
};

static void work_put(struct work_args *a, const char *word)
{
	a->v[a->n++] = word;
	a->v[a->n] = NULL;
}

static void work_put_args(const struct warden_proto_work *m, struct work_args *a)
{
	(void)snprintf(a->input, sizeof(a->input), "%" PRIu32, m->input);
	(void)snprintf(a->limit, sizeof(a->limit), "%" PRIu32, m->limit);
	work_put(a, "request"); /* REQUEST_WORD in cli/work/request.h */
	work_put(a, work_verbs[m->verb].word);
	if (m->flags & WIRE_WORK_IGNORED)
		work_put(a, "--ignored");
	if (m->input) {
		work_put(a, m->flags & WIRE_WORK_PATCH ? "--patch" : "--paths");
		work_put(a, a->input);
	}
	for (size_t i = 0; i < WIRE_WORK_ALLOW_N; i++)
		if (m->allow & 1U << i) {
			work_put(a, "--allow");
			work_put(a, work_allow[i]);
		}
	work_put(a, "--conflicts");
	work_put(a, work_conflicts[m->conflicts]);
	if (m->verb == WIRE_WORK_LIST) {
		work_put(a, "--limit");
		work_put(a, a->limit);
	}
	if (m->after[0]) {
		work_put(a, "--after");
		work_put(a, m->after);
	}
	work_put(a, "--");
	if (m->work[0])
		work_put(a, m->work);
}

/* -------------------------------------------------------------------- start */

/* The program's end of its pipes; -1: none. */
struct work_ends {
	int in, out, alive;
};

static int work_spawn(const struct warden_proto_work *m, const struct work_ends *ends,
		      struct warren_error *err)
{
	const struct warden_fd fds[] = { { ends->in, 0 },
					 { ends->out, 1 },
					 { -1, 2 },
					 { ends->alive, WARDEN_FD_MAX } };
	struct work_args args = { 0 };
	char program[PATH_MAX];
	int r = libexec_find("warren-work", program, err);

	if (r < 0)
		return r;
	work_put_args(m, &args);
	r = warden_spawn(program, args.v, NULL, fds, ARRAY_SIZE(fds), NULL);
	return r < 0 ? error_errno(err, -r, "start '%s'", program) : 0;
}

/* Answer with the pipe to read from, or with a bundle of that and the one to write to. */
static int work_pass_on(int *report, int *input, int *ret_fd, struct warren_error *err)
{
	int fds[WIRE_WORK_FDS] = { TAKE_FD(*report), -1 };

	if (*input < 0) {
		*ret_fd = fds[0];
		return 0;
	}
	fds[1] = TAKE_FD(*input);
	*ret_fd = fd_bundle(fds, ARRAY_SIZE(fds));
	return *ret_fd < 0 ? error_errno(err, -*ret_fd, "pass on a pipe") : 0;
}

int works_start(struct works *all, const struct warden_proto_work *m, int *ret_fd,
		struct warren_error *err)
{
	AUTO_CLOSE int report = -1, out = -1, alive = -1, theirs = -1;
	AUTO_CLOSE int in = -1, input = -1;
	struct work_room *room;
	int r = warden_pipe(&report, &out, err);

	if (r == 0)
		r = warden_pipe(&alive, &theirs, err);
	if (r == 0 && m->input)
		r = warden_pipe(&in, &input, err);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&all->lock);
	room = works_find_room(all, work_verbs[m->verb].reads);
	if (!room)
		r = error_set(err, EAGAIN,
			      "too many requests about works are in progress; try again");
	else
		r = work_spawn(m, &(const struct work_ends){ in, out, theirs }, err);
	if (r == 0)
		*room = (struct work_room){ TAKE_FD(alive), work_verbs[m->verb].reads };
	(void)pthread_mutex_unlock(&all->lock);
	return r < 0 ? r : work_pass_on(&report, &input, ret_fd, err);
}
