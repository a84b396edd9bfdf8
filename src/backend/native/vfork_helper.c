/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfork_helper.c - run the child in the engine's memory, and steps of the create in a
 * thread at the same time
 *
 *	the caller's thread	the thread			the child
 *	starts the thread,
 *	creates the child	waits for the child		reports that it runs
 *	(which uses its stack	maps the child's ids, sends	creates its namespaces,
 *	and its errno)		layers, creates the cgroup	mounts
 *	waits for the thread					becomes init
 *
 * The child writes to no part of the engine's memory except the plan, and exits when it
 * fails. If the thread fails, it kills the child, and the caller waits for the child's
 * end.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/pidfd.h>

#include "backend/native/create_op.h"

#define STACK_SIZE (512U << 10) /* the default of a C library may be small */

enum {
	CHILD_AWAITED,
	CHILD_RUNS,
	CHILD_FAILED
};

struct loan {
	struct create_op *m;
	struct ns_child child;
	uint32_t state;
	int result;
	struct warren_error err;
};

static void run_child(void *ctx)
{
	struct loan *b = ctx;

	/*
	 * Copy the descriptors before another process continues and closes some of them.
	 */
	inside_take_descriptors(b->m->plan);
	ns_reach(&b->state, CHILD_RUNS);
	/*
	 * Close the copy of the connection, if the child has not done it: otherwise the
	 * engine would never see the end of the connection.
	 */
	(void)close(b->m->sandbox->control);
	inside_main(b->m->plan);
}

static void *run_thread(void *ctx)
{
	struct loan *b = ctx;
	struct create_op *m = b->m;

	if (ns_await(&b->state, CHILD_RUNS) == CHILD_FAILED)
		return NULL;
	create_child_started(m, &b->child);
	create_op_mark(m);
	b->result = create_op_run(m, m->meanwhile, m->n_meanwhile, m->first_meanwhile,
				  &b->err);
	if (b->result < 0)
		(void)pidfd_send_signal(m->sandbox->pidfd, SIGKILL, NULL, 0);
	return NULL;
}

/* Block all signals in this thread: signal handlers of the program must not run here. */
static int start_thread(struct loan *b, pthread_t *ret_thread)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int r = pthread_attr_init(&attr);

	if (r != 0)
		return -r;
	(void)sigfillset(&all);
	(void)pthread_attr_setstacksize(&attr, STACK_SIZE);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret_thread, &attr, run_thread, b);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

int vfork_helper_thread(struct create_op *m, uint64_t flags, int cgroup,
			struct warren_error *err)
{
	struct loan b = {
		.m = m,
		.child = { .pidfd = -1, .run = run_child, .ctx = &b },
		.err = WARREN_ERROR_INIT,
	};
	pthread_t thread = 0;
	int r = start_thread(&b, &thread);

	if (r < 0)
		return error_errno(err, -r, "start a thread");
	r = ns_clone_as(m->sandbox->base_id, flags, cgroup, &b.child);
	/* The child may have been killed before it ran any code. */
	if (r < 0 || __atomic_load_n(&b.state, __ATOMIC_ACQUIRE) == CHILD_AWAITED)
		ns_reach(&b.state, r < 0 ? CHILD_FAILED : CHILD_RUNS);
	(void)pthread_join(thread, NULL);
	m->meanwhile_done = true;
	if (r < 0)
		return error_errno(err, -r, "start a process in new namespaces");
	if (b.result < 0)
		*err = b.err;
	return b.result;
}
