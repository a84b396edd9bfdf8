/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal_pool.c - empty files for the output of execs, created in advance
 *
 * Creating a file may take half a millisecond, because ext4 without a journal skips every
 * inode that was freed in the last minutes. Renaming a file takes microseconds. So a
 * thread keeps some files next to the journals, under names that no exec can have, and an
 * exec renames one of them. Files of an earlier process are removed, because their state
 * is unknown after a power cut.
 *
 * A journal that is not needed any more is emptied and kept for another exec, if no
 * process has it open: neither a reader in the service nor an init. The kernel grants a
 * write lease only in this case. An init that kept a reference to the file (O_PATH)
 * cannot open it again, because it belongs to another user. If the service runs as an
 * ordinary user, init could open the file again, so no journal is reused.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/exec/internal.h"

#define BLANKS 64
#define ENOUGH 16 /* number of files to create; returned ones may exceed it */

struct journal_pool {
	int dir; /* the service's */
	pthread_t thread;
	pthread_mutex_t lock; /* protects the following members */
	pthread_cond_t change;
	bool stop;
	uint64_t ready; /* one bit for each file that exists */
	uint64_t busy;  /* one bit for each file that is being created */
	unsigned next;  /* the next file to use; files are used in turn */
};

_Static_assert(BLANKS <= 64, "they are bits of a number");

struct journal_pool_name {
	char text[16];
};

static struct journal_pool_name journal_pool_name_of(unsigned i)
{
	struct journal_pool_name name;

	(void)snprintf(name.text, sizeof(name.text), ".blank-%u", i);
	return name;
}

static int journal_pool_make(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(
		dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : 0;
}

/* Return an unused number for a new file; -1: all are in use. */
static int journal_pool_begin(struct journal_pool *b)
{
	uint64_t free = ~(b->ready | b->busy);
	int i = free ? __builtin_ctzll(free) : BLANKS;

	if (i >= BLANKS)
		return -1;
	b->busy |= 1ULL << i;
	return i;
}

static void journal_pool_finish(struct journal_pool *b, int i, bool made)
{
	b->busy &= ~(1ULL << i);
	if (made)
		b->ready |= 1ULL << i;
}

/* Called with the lock, which is released during the work. */
static void journal_pool_fill(struct journal_pool *b)
{
	while (!b->stop && __builtin_popcountll(b->ready) < ENOUGH) {
		int i = journal_pool_begin(b), r;

		if (i < 0)
			return;
		(void)pthread_mutex_unlock(&b->lock);
		r = journal_pool_make(b->dir, journal_pool_name_of((unsigned)i).text);
		(void)pthread_mutex_lock(&b->lock);
		journal_pool_finish(b, i, r == 0);
		if (r < 0)
			return; /* the next request tries again, and reports the error */
	}
}

static void *journal_pool_main(void *arg)
{
	struct journal_pool *b = arg;

	(void)pthread_mutex_lock(&b->lock);
	while (!b->stop) {
		journal_pool_fill(b);
		if (!b->stop)
			(void)pthread_cond_wait(&b->change, &b->lock);
	}
	(void)pthread_mutex_unlock(&b->lock);
	return NULL;
}

int journal_pool_open(struct service *s)
{
	struct journal_pool *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->dir = s->journals;
	for (unsigned i = 0; i < BLANKS; i++)
		(void)unlinkat(b->dir, journal_pool_name_of(i).text, 0);
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_cond_init(&b->change, NULL);
	r = pthread_create(&b->thread, NULL, journal_pool_main, b);
	if (r != 0) {
		free(b);
		return -r;
	}
	service_execs(s)->journal_pool = b;
	return 0;
}

void journal_pool_close(struct service *s)
{
	struct journal_pool *b = TAKE_PTR(service_execs(s)->journal_pool);

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

static int next_ready(struct journal_pool *b)
{
	uint64_t later = b->ready & (b->next < BLANKS ? ~0ULL << b->next : 0);
	int i = b->ready ? __builtin_ctzll(later ? later : b->ready) : -1;

	if (i >= 0)
		b->next = (unsigned)i + 1;
	return i;
}

/*
 * When half of the files are used, create several at once: creating one after each use
 * would delay the next use.
 */
static int exec_journal_pool_take(struct journal_pool *b)
{
	int i;

	(void)pthread_mutex_lock(&b->lock);
	i = next_ready(b);
	if (i >= 0)
		b->ready &= ~(1ULL << i);
	if (__builtin_popcountll(b->ready) <= ENOUGH / 2)
		(void)pthread_cond_signal(&b->change);
	(void)pthread_mutex_unlock(&b->lock);
	return i;
}

int journal_pool_take(struct service *s, const char *name)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
	int i = exec_journal_pool_take(service_execs(s)->journal_pool), fd;
	struct journal_pool_name blank = journal_pool_name_of(i < 0 ? 0 : (unsigned)i);

	if (i < 0 || renameat(s->journals, blank.text, s->journals, name) < 0)
		flags |= O_CREAT | O_EXCL;
	/* If the file cannot be renamed, its name is free again, as if the file did not
	 * exist. */
	if (i >= 0 && flags & O_CREAT)
		(void)unlinkat(s->journals, blank.text, 0);
	fd = openat(s->journals, name, flags, 0600);
	return fd < 0 ? -errno : fd;
}

/* Empty the file, unless another process has it open. */
static int journal_pool_clear(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink != 1)
		return -EMLINK; /* another process has it open */
	return ftruncate(fd, 0) < 0 ? -errno : 0;
}

int journal_pool_return(const struct service *s, const char *name)
{
	struct journal_pool *b = service_execs(s)->journal_pool;
	int i, r;

	if (!service_execs(s)->reuse)
		return -EPERM;
	(void)pthread_mutex_lock(&b->lock);
	i = journal_pool_begin(b);
	(void)pthread_mutex_unlock(&b->lock);
	if (i < 0)
		return -EXFULL;
	r = journal_pool_clear(s->journals, name);
	if (r == 0 && renameat(s->journals, name, s->journals,
			       journal_pool_name_of((unsigned)i).text) < 0)
		r = -errno;
	(void)pthread_mutex_lock(&b->lock);
	journal_pool_finish(b, i, r == 0);
	(void)pthread_mutex_unlock(&b->lock);
	return r;
}
