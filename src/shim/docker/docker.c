/* SPDX-License-Identifier: Apache-2.0 */
/* docker.c - the table of the platform, and the life of a container after its creation */
#include "shim/docker/docker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "os/cgroup.h"

/*
 * The file has the same name as in the first version, so that containers from before an
 * upgrade are found.
 */
void docker_guest(const struct shim_sandbox *p, char path[DOCKER_GUEST_MAX])
{
	(void)snprintf(path, DOCKER_GUEST_MAX, "%s/anchor", p->dir);
}

void docker_engine(const struct shim_sandbox *p, char engine[sizeof(p->dir)])
{
	char *slash;

	(void)strcpy(engine, p->dir);
	slash = strrchr(engine, '/');
	if (slash)
		*slash = '\0';
}

static void docker_nap(unsigned ms)
{
	const struct timespec t = { .tv_sec = ms / 1000,
				    .tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&t, NULL);
}

void docker_volume_name(const struct shim_sandbox *p, unsigned n,
			char name[DOCKER_VOLUME_MAX])
{
	(void)snprintf(name, DOCKER_VOLUME_MAX, "warren-%s-%u", p->id, n);
}

/*
 * Remove named volumes, which stay when their container is removed; most containers have
 * none.
 */
static int remove_volumes(struct docker *d, const struct shim_sandbox *p,
			  struct warren_error *err)
{
	static const char step[] = "remove a volume";
	struct warren_error why = WARREN_ERROR_INIT;
	char name[DOCKER_VOLUME_MAX];
	int r = 0;

	for (unsigned n = 0; r >= 0; n++) {
		docker_volume_name(p, n, name);
		r = docker_ask(d, step, "DELETE", NULL, &why, "/volumes/%s", name);
	}
	if (r == -ENOENT)
		return 0;
	*err = why;
	return r;
}

/* If the container is busy, another process is working on it: wait for that process. */
int docker_remove(struct docker *d, const struct shim_sandbox *p,
		  struct warren_error *err)
{
	static const char step[] = "remove the container";
	uint64_t until = clock_now() + (uint64_t)d->patience_ms * 1000000;
	struct warren_error why = WARREN_ERROR_INIT;
	int r = docker_inspect(d, p, err);

	while (r > 0 && clock_now() < until) {
		char id[DOCKER_ID_LEN + 1];

		(void)strcpy(id, json_string_value(json_object_get(d->answer, "Id")));
		r = docker_ask(d, step, "DELETE", NULL, &why,
			       "/containers/%s?force=true&v=true", id);
		if (r < 0 && r != -EBUSY && r != -ENOENT) {
			*err = why;
			return r;
		}
		if (r == -EBUSY)
			docker_nap(100);
		r = docker_inspect(d, p, err);
	}
	if (r > 0)
		return error_set(err, EBUSY, "%s: %s: it still exists", d->name, step);
	return r < 0 ? r : remove_volumes(d, p, err);
}

static bool is_running(const struct docker *d)
{
	const json_t *state = json_object_get(d->answer, "State");

	return json_is_true(json_object_get(state, "Running"));
}

/* End all processes of the container; the daemon keeps its files. */
static int docker_stop(struct docker *d, const struct shim_sandbox *p,
		       struct warren_error *err)
{
	static const char step[] = "stop the container";
	char id[DOCKER_ID_LEN + 1];
	int r = docker_inspect(d, p, err);

	if (r <= 0 || !is_running(d))
		return r < 0 ? r : 0;
	(void)strcpy(id, json_string_value(json_object_get(d->answer, "Id")));
	r = docker_ask(d, step, "POST", NULL, err, "/containers/%s/stop?t=0", id);
	return r < 0 ? r : 0;
}

static int docker_destroy(struct shim_sandbox *p, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	char path[DOCKER_GUEST_MAX];
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0)
		r = shim_sandbox_is_saved(p) ? docker_stop(&d, p, err)
					     : docker_remove(&d, p, err);
	docker_guest(p, path);
	if (r == 0 && unlink(path) < 0 && errno != ENOENT)
		r = error_errno(err, errno, "%s: remove '%s'", p->name, path);
	docker_guest_socket_path(p, path);
	if (r == 0 && unlink(path) < 0 && errno != ENOENT)
		r = error_errno(err, errno, "%s: remove '%s'", p->name, path);
	docker_id_path(p, path);
	if (r == 0 && unlink(path) < 0 && errno != ENOENT)
		r = error_errno(err, errno, "%s: remove '%s'", p->name, path);
	for (unsigned n = 0, more = r == 0; more; n++) {
		docker_volume_link(p, n, path);
		more = unlink(path) == 0;
	}
	return r;
}

/*
 * A daemon that is down does not report the state of its containers, some of which may
 * survive it ("live restore"). So ask again until it answers.
 */
static int docker_wait(struct shim_sandbox *p, struct warren_error *err)
{
	static const char step[] = "wait for the container";
	AUTO_DOCKER struct docker d = { 0 };
	char id[DOCKER_ID_LEN + 1];
	int r = docker_open(&d, p->name, p->config, err);

	while (r >= 0) {
		r = docker_inspect(&d, p, err);
		if (r == 0 || (r > 0 && !is_running(&d)))
			return 0;
		if (r > 0 && docker_id(&d, p, step, id, err) == 0) {
			d.pace = DOCKER_EVER;
			r = docker_ask(&d, step, "POST", NULL, err,
				       "/containers/%s/wait?condition=not-running", id);
			if (r >= 0)
				continue;
		}
		docker_nap(500);
		r = 0;
	}
	return r;
}

/* Do not request a state that is already reached: the daemon would report a conflict. */
static int docker_pause(struct shim_sandbox *p, bool paused, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	const char *step = paused ? "pause the container" : "resume the container";
	char id[DOCKER_ID_LEN + 1];
	AUTO_CLOSE int lock = -1;
	const json_t *state;
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0 && paused)
		r = docker_lock_pause(&d, p, &lock, err);
	if (r == 0)
		r = docker_inspect(&d, p, err);
	if (r < 0) {
		p->unchanged = true;
		return r;
	}
	if (r == 0)
		return error_set(err, ESRCH, "%s: %s: it does not exist", p->name, step);
	state = json_object_get(d.answer, "State");
	if (json_is_true(json_object_get(state, "Paused")) == paused)
		return 0;
	r = docker_id(&d, p, step, id, err);
	if (r == 0)
		r = docker_ask(&d, step, "POST", NULL, err, "/containers/%s/%s", id,
			       paused ? "pause" : "unpause");
	return r < 0 ? r : 0;
}

static int docker_silent(struct shim_sandbox *p, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0)
		r = docker_inspect(&d, p, err);
	if (r < 0)
		return r;
	if (r == 0 || !is_running(&d))
		return error_set(err, ESRCH, "%s: the container %s", p->name,
				 r == 0 ? "was removed" : "is no longer running");
	if (json_is_true(json_object_get(json_object_get(d.answer, "State"), "Paused")))
		return error_set(err, EBUSY, "%s: the container is paused", p->name);
	return 0;
}

static uint64_t docker_number(const json_t *from, const char *object, const char *key)
{
	json_int_t n =
		json_integer_value(json_object_get(json_object_get(from, object), key));

	return n > 0 ? (uint64_t)n : 0;
}

static int docker_stats(struct shim_sandbox *p, struct warren_stats *ret,
			struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	static const char step[] = "read the container's usage";
	struct warren_stats s = { 0 };
	char id[DOCKER_ID_LEN + 1];
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0)
		r = docker_id(&d, p, step, id, err);
	if (r == 0)
		r = docker_ask(&d, step, "GET", NULL, err,
			       "/containers/%s/stats?stream=false&one-shot=true", id);
	if (r < 0)
		return r;
	s.memory = docker_number(d.answer, "memory_stats", "usage");
	s.memory_peak = docker_number(d.answer, "memory_stats", "max_usage");
	if (s.memory_peak < s.memory)
		s.memory_peak = s.memory;
	s.pids = docker_number(d.answer, "pids_stats", "current");
	s.cpu_usec = docker_number(json_object_get(d.answer, "cpu_stats"), "cpu_usage",
				   "total_usage") /
		     1000;
	docker_meet(&d, p);
	if (p->memory < 0 || cgroup_kills(p->memory, &s.oom_kills) < 0) {
		r = docker_inspect(&d, p, err);
		if (r < 0)
			return r;
		/* The daemon reports only that there was an OOM kill. */
		s.oom_kills = json_is_true(
			json_object_get(json_object_get(d.answer, "State"), "OOMKilled"));
	}
	*ret = s;
	return 0;
}

static int docker_update(struct shim_sandbox *p, const struct warren_limits *limits,
			 struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	static const char step[] = "change the container's limits";
	char id[DOCKER_ID_LEN + 1];
	json_t *body = json_object();
	int r = docker_open(&d, p->name, p->config, err);

	if (r == 0)
		r = docker_id(&d, p, step, id, err);
	if (r == 0 && !docker_put_limits(body, limits))
		r = error_errno(err, ENOMEM, "%s: %s", p->name, step);
	if (r == 0)
		r = docker_ask(&d, step, "POST", body, err, "/containers/%s/update", id);
	json_decref(body);
	/* This version of the daemon does not know the path at all. */
	if (r == -ENOENT && !d.answer)
		return error_set(err, EOPNOTSUPP, "%s: %s: not supported by this daemon",
				 p->name, step);
	return r < 0 ? r : 0;
}

const struct shim_driver shim_driver_docker = {
	.kind = &backend_kind_docker,
	.tells_start = true,
	.guest = DOCKER_GUEST,
	.probe = docker_probe,
	.create = docker_create,
	.destroy = docker_destroy,
	.exec = docker_exec,
	.pull = docker_pull,
	.wait = docker_wait,
	.pause = docker_pause,
	.stats = docker_stats,
	.network = docker_network,
	.mounts = docker_mounts,
	.update = docker_update,
	.signal = docker_signal,
	.silent = docker_silent,
	.slack = DOCKER_SLACK,
	.read_file = docker_read_file,
	.write_file = docker_write_file,
};
