/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c - the list of claims, and the number of sandboxes, which is checked against the
 * run directory, and the directory with saved files
 *
 * The number is kept in memory, and read again from these directories when it reaches the
 * maximum, at most once a second: sandboxes also end without the warden, and if the
 * number were too high, requests would be refused forever. A sandbox that a request
 * creates or destroys at the time of the look counts once, whether its state file is
 * there or not, because that request adds or subtracts it.
 */
#include "warden/claim.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"

#define STATE_SUFFIX ".state"
#define AWAIT_S      2             /* maximum time to wait for a claim to end */
#define LOOK_NS      1000000000ULL /* minimum time between two looks */

struct claims {
	pthread_mutex_t lock;
	pthread_cond_t dropped;
	struct claim *first;
	char *sandboxes; /* the directory with a state file for each sandbox; NULL:
			    unknown */
	char *saved;     /* the directory with the saved files of those that hibernate */
	uint64_t max, n;
	uint64_t looked; /* time of the last look at the directories, in ns */
};

static const struct claim *claims_find(const struct claims *all, const char *id)
{
	const struct claim *c = all->first;

	while (c && strcmp(c->id, id) != 0)
		c = c->next;
	return c;
}

static bool claims_counted(const struct claims *all, const char *id)
{
	const struct claim *c = claims_find(all, id);

	return c && c->counted;
}

/*
 * Count the state files. A sandbox with a state file is complete; one without is being
 * created or prepared in advance.
 */
static uint64_t count_states(const struct claims *all)
{
	DIR *d = all->sandboxes ? opendir(all->sandboxes) : NULL;
	struct dirent *e;
	uint64_t n = 0;

	while (d && (e = readdir(d))) {
		char id[ID_LEN + 1];
		const char *dot = strchr(e->d_name, '.');

		if (!dot || dot - e->d_name != ID_LEN || strcmp(dot, STATE_SUFFIX) != 0)
			continue;
		(void)snprintf(id, sizeof(id), "%.*s", ID_LEN, e->d_name);
		n += !claims_counted(all, id);
	}
	if (d)
		(void)closedir(d);
	return n;
}

/*
 * Count the sandboxes with saved files in @path. One that also has a state file is being
 * saved or woken, and counted there.
 */
static uint64_t count_saved_at(const struct claims *all, const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	uint64_t n = 0;

	while (d && (e = readdir(d))) {
		char name[PATH_MAX];

		if (!id_valid(e->d_name) || claims_counted(all, e->d_name))
			continue;
		(void)snprintf(name, sizeof(name), "%s/%s%s", all->sandboxes, e->d_name,
			       STATE_SUFFIX);
		n += access(name, F_OK) < 0;
	}
	if (d)
		(void)closedir(d);
	return n;
}

/* Each of the other backends has a directory below that of the native one. */
static uint64_t count_saved(const struct claims *all)
{
	DIR *d = all->saved ? opendir(all->saved) : NULL;
	uint64_t n = d ? count_saved_at(all, all->saved) : 0;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char name[PATH_MAX];

		if (e->d_name[0] == '.' || id_valid(e->d_name))
			continue;
		(void)snprintf(name, sizeof(name), "%s/%s", all->saved, e->d_name);
		n += count_saved_at(all, name);
	}
	if (d)
		(void)closedir(d);
	return n;
}

static uint64_t claims_look(const struct claims *all)
{
	uint64_t n = count_states(all) + count_saved(all);

	for (const struct claim *c = all->first; c; c = c->next)
		n += c->counted;
	return n;
}

struct claims *claims_new(const char *run_dir, const char *state_dir, uint64_t max)
{
	struct claims *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	(void)pthread_mutex_init(&all->lock, NULL);
	(void)pthread_cond_init(&all->dropped, NULL);
	all->max = max;
	if (max && run_dir && asprintf(&all->sandboxes, "%s/boxes", run_dir) < 0) {
		all->sandboxes = NULL;
		return claims_free(all);
	}
	if (all->sandboxes && state_dir &&
	    asprintf(&all->saved, "%s/saved", state_dir) < 0) {
		all->saved = NULL;
		return claims_free(all);
	}
	all->n = claims_look(all);
	return all;
}

struct claims *claims_free(struct claims *all)
{
	if (!all)
		return NULL;
	(void)pthread_cond_destroy(&all->dropped);
	(void)pthread_mutex_destroy(&all->lock);
	free(all->sandboxes);
	free(all->saved);
	free(all);
	return NULL;
}

int claims_take(struct claims *all, struct claim *claim, const char *id, bool brief)
{
	const struct claim *other;

	(void)pthread_mutex_lock(&all->lock);
	while ((other = claims_find(all, id)) && other->brief)
		(void)pthread_cond_wait(&all->dropped, &all->lock);
	if (!other) {
		*claim = (struct claim){ .next = all->first, .id = id, .brief = brief };
		all->first = claim;
	}
	(void)pthread_mutex_unlock(&all->lock);
	return other ? -EBUSY : 0;
}

int claims_await(struct claims *all, const char *id)
{
	struct timespec end;
	int r = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += AWAIT_S;
	(void)pthread_mutex_lock(&all->lock);
	while (r == 0 && claims_find(all, id))
		r = pthread_cond_clockwait(&all->dropped, &all->lock, CLOCK_MONOTONIC,
					   &end);
	(void)pthread_mutex_unlock(&all->lock);
	return r == 0 ? 0 : -EBUSY;
}

void claims_drop(struct claims *all, struct claim *claim)
{
	(void)pthread_mutex_lock(&all->lock);
	(void)LIST_REMOVE(all->first, claim);
	(void)pthread_cond_broadcast(&all->dropped);
	(void)pthread_mutex_unlock(&all->lock);
}

int claims_count(struct claims *all, struct claim *claim)
{
	int r = 0;

	if (!all->max)
		return 0;
	(void)pthread_mutex_lock(&all->lock);
	/* Other requests wait for the lock: a client must not cause one look after
	 * another.
	 */
	if (all->n >= all->max && clock_now() - all->looked >= LOOK_NS) {
		all->n = claims_look(all);
		all->looked = clock_now();
	}
	if (all->n >= all->max) {
		r = -EDQUOT;
	} else {
		all->n++;
		claim->counted = true;
	}
	(void)pthread_mutex_unlock(&all->lock);
	return r;
}

void claims_created(struct claims *all, struct claim *claim, bool created)
{
	(void)pthread_mutex_lock(&all->lock);
	if (claim->counted && !created)
		all->n -= all->n > 0;
	claim->counted = false;
	(void)pthread_mutex_unlock(&all->lock);
}

void claims_destroying(struct claims *all, struct claim *claim)
{
	(void)pthread_mutex_lock(&all->lock);
	claim->counted = true;
	(void)pthread_mutex_unlock(&all->lock);
}

void claims_destroyed(struct claims *all, struct claim *claim, bool destroyed)
{
	claims_created(all, claim, !destroyed);
}
