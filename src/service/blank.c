/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blank.c - empty files for the output of execs, made before anybody asks
 *
 * To make a file may take half a millisecond: an ext4 without a journal passes over
 * every inode that was freed in the last minutes. To rename one takes microseconds.
 * So a thread keeps some beside the journals, under names that no exec can have,
 * and an exec takes one over by giving it its own name. What an earlier process left
 * there was never used, as using it is renaming it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "service/internal.h"

#define BLANKS 16

struct blanks {
	int dir; /* the service's */
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t change;
	bool stop;
	uint32_t ready; /* a bit for each that is there */
};

struct blank_name {
	char text[16];
};

static struct blank_name name_of(unsigned i)
{
	struct blank_name name;

	(void)snprintf(name.text, sizeof(name.text), ".blank-%u", i);
	return name;
}

static int make(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(
		dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 && errno != EEXIST ? -errno : 0;
}

/* Under the lock, which is let go of for the time of the work. */
static void fill(struct blanks *b)
{
	for (unsigned i = 0; i < BLANKS && !b->stop; i++) {
		int r;

		if (b->ready & 1U << i)
			continue;
		(void)pthread_mutex_unlock(&b->lock);
		r = make(b->dir, name_of(i).text);
		(void)pthread_mutex_lock(&b->lock);
		if (r < 0)
			return; /* who takes the next one tells why */
		b->ready |= 1U << i;
	}
}

static void *blank_main(void *arg)
{
	struct blanks *b = arg;

	(void)pthread_mutex_lock(&b->lock);
	while (!b->stop) {
		fill(b);
		if (!b->stop)
			(void)pthread_cond_wait(&b->change, &b->lock);
	}
	(void)pthread_mutex_unlock(&b->lock);
	return NULL;
}

int blank_open(struct service *s)
{
	struct blanks *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->dir = s->journals;
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_cond_init(&b->change, NULL);
	r = pthread_create(&b->thread, NULL, blank_main, b);
	if (r != 0) {
		free(b);
		return -r;
	}
	s->blanks = b;
	return 0;
}

void blank_close(struct service *s)
{
	struct blanks *b = TAKE_PTR(s->blanks);

	if (!b)
		return;
	(void)pthread_mutex_lock(&b->lock);
	b->stop = true;
	(void)pthread_cond_signal(&b->change);
	(void)pthread_mutex_unlock(&b->lock);
	(void)pthread_join(b->thread, NULL);
	(void)pthread_cond_destroy(&b->change);
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
}

/* Several are made at a time, when half are gone: one after each would be in its way. */
static int take(struct blanks *b)
{
	int i;

	(void)pthread_mutex_lock(&b->lock);
	i = b->ready ? __builtin_ctz(b->ready) : -1;
	if (i >= 0)
		b->ready &= ~(1U << i);
	if (__builtin_popcount(b->ready) <= BLANKS / 2)
		(void)pthread_cond_signal(&b->change);
	(void)pthread_mutex_unlock(&b->lock);
	return i;
}

int blank_take(struct service *s, const char *name)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	int i = take(s->blanks), fd;

	if (i < 0 ||
	    renameat(s->journals, name_of((unsigned)i).text, s->journals, name) < 0)
		flags |= O_CREAT | O_EXCL;
	fd = openat(s->journals, name, flags, 0600);
	return fd < 0 ? -errno : fd;
}
