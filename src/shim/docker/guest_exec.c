/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_exec.c - operations that a second process of the guest agent performs inside,
 * because an image may lack tools for them
 *
 * The program of the guest agent is run a second time, with a word for the operation
 * (agent/guest/main.c), and the shim waits for its end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "shim/docker/docker.h"

#define WAIT_MS   5
#define WAIT_MOST 2000

int docker_errand(struct docker *d, const struct shim_sandbox *p, const char *step,
		  json_t *exec, struct warren_error *err)
{
	const struct timespec t = { .tv_nsec = WAIT_MS * 1000000L };
	char container[DOCKER_ID_LEN + 1], id[65] = "";
	json_t *detached = json_pack("{s:b}", "Detach", 1);
	AUTO_CLOSE int lock = -1;
	int r = docker_lock_start(d, p, &lock, err);

	if (r == 0)
		r = docker_id(d, p, step, container, err);
	if (r == 0)
		r = docker_ask(d, step, "POST", exec, err, "/containers/%s/exec",
			       container);
	if (r >= 0) {
		const char *said = json_string_value(json_object_get(d->answer, "Id"));

		(void)snprintf(id, sizeof(id), "%s", said ? said : "");
		r = docker_ask(d, step, "POST", detached, err, "/exec/%s/start", id);
	}
	json_decref(detached);
	/* The daemon answers when the process runs, or when it could not be started. */
	if (lock >= 0)
		(void)close(TAKE_FD(lock));
	for (int i = 0; r >= 0 && i < WAIT_MOST; i++) {
		const json_t *code;

		r = docker_ask(d, step, "GET", NULL, err, "/exec/%s/json", id);
		code = json_object_get(d->answer, "ExitCode");
		if (r >= 0 && json_is_integer(code) &&
		    !json_is_true(json_object_get(d->answer, "Running")))
			return (int)json_integer_value(code) & 0xff;
		(void)nanosleep(&t, NULL);
	}
	return r < 0 ? r : error_errno(err, ETIMEDOUT, "%s: %s", d->name, step);
}

/*
 * Run as the user of the processes, because the environment of other users' processes
 * cannot be read.
 */
int docker_signal(struct shim_sandbox *p, const char *mark, const char *user, bool all,
		  int sig, struct warren_error *err)
{
	static const char step[] = "signal a command";
	AUTO_DOCKER struct docker d = { 0 };
	char number[12];
	json_t *exec;
	int r = docker_open(&d, p->name, p->config, err);

	if (r < 0)
		return r;
	(void)snprintf(number, sizeof(number), "%d", sig);
	exec = json_pack("{s:[s,s,s,s], s:s*}", "Cmd", DOCKER_GUEST,
			 all ? "all" : "first", number, mark, "User",
			 user ? user : p->user);
	r = docker_errand(&d, p, step, exec, err);
	json_decref(exec);
	return r > 0 ? error_errno(err, ESRCH, "%s: %s", p->name, step) : r;
}
