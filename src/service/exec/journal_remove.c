/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_remove.c - remove unneeded journals on a thread
 *
 * Removing or emptying a large file takes a long time: a tenth of a second for 256 MiB,
 * and a sandbox may leave a thousand journals. So the loop only queues their names. If
 * the service ends before they are removed, the next start finds journals without a row
 * and removes them (restore.c).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "service/exec/internal.h"

#define END_NS 1000000000 /* time for remaining files when the service ends */

struct removal {
	struct removal *next;
	char name[ID_LEN + 1];
};

struct removals {
	struct service *service; /* contains the directory and the settings */
	pthread_t thread;
	pthread_mutex_t lock; /* protects the following members */
	pthread_cond_t change;
	struct removal *first, **last;
	uint64_t until; /* time by which the thread must end, in ns; 0: continue */
};

static void journal_remove_one(const struct service *s, const char *name)
{
	if (journal_pool_return(s, name) < 0)
		(void)unlinkat(s->journals, name, 0);
}

static void *remove_main(void *arg)
{
	struct removals *r = arg;

	(void)pthread_mutex_lock(&r->lock);
	while (r->first || !r->until) {
		struct removal *one = QUEUE_TAKE(r->first, r->last);
		bool late = r->until && clock_now() > r->until;

		if (!one) {
			(void)pthread_cond_wait(&r->change, &r->lock);
			continue;
		}
		(void)pthread_mutex_unlock(&r->lock);
		if (!late)
			journal_remove_one(r->service, one->name);
		free(one);
		(void)pthread_mutex_lock(&r->lock);
	}
	(void)pthread_mutex_unlock(&r->lock);
	return NULL;
}

int remove_open(struct service *s)
{
	struct removals *r = calloc(1, sizeof(*r));
	int e;

	if (!r)
		return -ENOMEM;
	r->service = s;
	r->last = &r->first;
	(void)pthread_mutex_init(&r->lock, NULL);
	(void)pthread_cond_init(&r->change, NULL);
	e = pthread_create(&r->thread, NULL, remove_main, r);
	if (e != 0) {
		free(r);
		return -e;
	}
	service_execs(s)->removals = r;
	return 0;
}

void remove_close(struct service *s)
{
	struct removals *r = TAKE_PTR(service_execs(s)->removals);

	if (!r)
		return;
	(void)pthread_mutex_lock(&r->lock);
	r->until = clock_now() + END_NS;
	(void)pthread_cond_signal(&r->change);
	(void)pthread_mutex_unlock(&r->lock);
	(void)pthread_join(r->thread, NULL);
	(void)pthread_cond_destroy(&r->change);
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
}

void exec_remove_journal(struct service *s, const char *name)
{
	struct removals *r = service_execs(s)->removals;
	struct removal *one;

	if (!name || !name[0])
		return;
	one = malloc(sizeof(*one));
	if (!one || strlen(name) > ID_LEN) {
		free(one);
		service_untidy(s); /* the file has no row, so the sweep will find it */
		return;
	}
	*one = (struct removal){ 0 };
	(void)strcpy(one->name, name);
	(void)pthread_mutex_lock(&r->lock);
	QUEUE_PUT(r->last, one);
	(void)pthread_cond_signal(&r->change);
	(void)pthread_mutex_unlock(&r->lock);
}
