/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_run.c - RUN: execute a command in a sandbox, and keep what it writes as a layer
 *
 * The sandbox has the files of the stage, and no network unless the build's options allow
 * one. When the command has ended, its files are copied into a new layer (snapshot), and
 * the sandbox is destroyed, with all processes that are left.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/strv.h"
#include "cli/image/build.h"
#include "cli/run_network.h"
#include "spec/spec.h"

#define RUN_TAIL 16384 /* bytes of output that --quiet shows after a failure */

struct run_work {
	struct build_step *step;
	struct dockerfile_run run;
	struct build_mounts mounts;
	struct run_network network;
	struct warren_sandbox *sb;
	struct warren_exec *ex;
	char **env;
	char tail[RUN_TAIL];
	size_t n_tail;
	bool failed; /* the command: the reason is shown even if the build is quiet */
};

/* -------------------------------------------------------------------- output */

static void build_run_keep_tail(struct run_work *w, const char *data, size_t n)
{
	if (n > RUN_TAIL) {
		data += n - RUN_TAIL;
		n = RUN_TAIL;
	}
	if (w->n_tail + n > RUN_TAIL) {
		size_t drop = w->n_tail + n - RUN_TAIL;

		(void)memmove(w->tail, w->tail + drop, w->n_tail - drop);
		w->n_tail -= drop;
	}
	(void)memcpy(w->tail + w->n_tail, data, n);
	w->n_tail += n;
}

/* Forward some output of the command; return whether there can be more. */
static bool build_run_pass_output(struct run_work *w, int fd)
{
	char data[16384];
	ssize_t n = read(fd, data, sizeof(data));

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	if (w->step->b->o->quiet)
		build_run_keep_tail(w, data, (size_t)n);
	else
		build_put_output(data, (size_t)n);
	return true;
}

/* Forward output until the command has ended and everything that it wrote is read. */
static int build_run_attend(struct run_work *w, struct warren_result *ret,
			    struct warren_error *err)
{
	int fds[2] = { warren_exec_fd(w->ex, 1), warren_exec_fd(w->ex, 2) };
	int r = 0;

	while (r == 0) {
		struct pollfd p[] = { { .fd = fds[0], .events = POLLIN },
				      { .fd = fds[1], .events = POLLIN },
				      { .fd = warren_exec_wait_fd(w->ex),
					.events = POLLIN } };
		bool output = false;

		if (build_cancelled())
			return error_set(err, ECANCELED, "cancelled");
		if (poll(p, ARRAY_SIZE(p), 200) < 0)
			continue;
		for (size_t i = 0; i < 2; i++) {
			if (!p[i].revents)
				continue;
			output = true;
			if (!build_run_pass_output(w, fds[i]))
				fds[i] = -1;
		}
		if (p[2].revents && !output)
			r = warren_exec_wait(w->ex, 0, ret, err);
	}
	return r;
}

static int build_run_judge(struct run_work *w, const struct warren_result *res,
			   struct warren_error *err)
{
	const char *oom = res->oom ? " (memory ran out: raise --memory)" : "";

	if (res->exit_code == 0)
		return 0;
	if (w->n_tail > 0)
		build_put_output(w->tail, w->n_tail);
	if (res->signal)
		return error_set(err, EIO, "the command was ended by signal %d%s",
				 res->signal, oom);
	return error_set(err, EIO, "the command exited with status %d%s", res->exit_code,
			 oom);
}

/* ------------------------------------------------------------------- sandbox */

static int build_run_make_env(struct run_work *w, struct warren_error *err)
{
	const struct build_stage *stage = &w->step->b->stages[w->step->k];
	char **lists[] = { stage->state.env, w->run.env, w->run.proxy, w->mounts.env };

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		for (char **v = lists[k]; v && *v; v++)
			if (strv_add(&w->env, *v) < 0)
				return error_errno(err, ENOMEM, "set the environment");
	return 0;
}

static int build_run_open_sandbox(struct run_work *w, struct warren_error *err)
{
	struct build *b = w->step->b;
	const struct build_stage *stage = &b->stages[w->step->k];
	const char *workdir = stage->state.workdir ? stage->state.workdir : "/";
	struct warren_spec spec = {
		.image = stage->image.id,
		.user = stage->state.user,
		.workdir = workdir,
		.env = (const char *const *)w->env,
		.mounts = w->mounts.v,
		.n_mounts = w->mounts.n,
		.network = w->run.no_network ? WARREN_NETWORK_LOOPBACK
			   : b->request      ? b->request->network
					     : network_options_mode(&b->o->network),
		.soft_limits = b->request ? b->request->soft : 0,
	};
	const struct warren_options options = { .run_dir = b->request
								   ? b->request->run_dir
								   : NULL };
	int r = 0;

	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		spec_limit_set(&spec, i, b->o->limits[i]);
	if (!w->run.no_network && b->request) {
		w->network.policy_text = b->request->policy;
		w->network.dns_servers = b->request->dns_servers;
	} else if (!w->run.no_network) {
		r = run_network_init(&w->network, &b->o->network, err);
	}
	if (r == 0)
		r = run_network_start(&w->network, err);
	if (r == 0 && !b->engine)
		r = warren_open(&options, &b->engine, err);
	if (r == 0)
		r = warren_create(b->engine, &spec, &w->sb, err);
	if (r == 0)
		r = run_network_open(&w->network, w->sb, err);
	if (r == 0 && w->run.script)
		r = warren_file_write(w->sb, DOCKERFILE_SCRIPT_PATH, w->run.script,
				      strlen(w->run.script), 0755, err);
	return r;
}

static int build_run_execute(struct run_work *w, struct warren_error *err)
{
	const struct warren_exec_spec spec = { .argv = (const char *const *)w->run.argv,
					       .out = WARREN_STDIO_PIPE,
					       .err = WARREN_STDIO_PIPE };
	struct warren_result res = { 0 };
	int r = warren_exec(w->sb, &spec, &w->ex, err);

	if (r == 0)
		r = build_run_attend(w, &res, err);
	if (r >= 0)
		r = build_run_judge(w, &res, err);
	w->failed = r < 0;
	return r;
}

static void build_run_work_done(struct run_work *w)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	w->ex = warren_exec_free(w->ex);
	if (w->sb)
		(void)warren_destroy(w->sb, &ignored);
	w->sb = NULL;
	run_network_close(&w->network);
	run_network_say(&w->network, image_build.name,
			(w->step->b->o->quiet && !w->failed) || w->step->b->request);
	run_network_done(&w->network);
	build_mounts_done(&w->mounts);
	(void)strv_free(w->env);
	dockerfile_run_done(&w->run);
}

/* --------------------------------------------------------------------- layer */

/* An ordinary user has only one id for the files of an image. */
static void build_run_explain_owner(struct warren_error *err)
{
	size_t n = strlen(err->msg);

	(void)snprintf(
		err->msg + n, sizeof(err->msg) - n,
		"; build as root, or leave the files to root (no 'chown', 'useradd -M' "
		"instead of '-m', and 'mkdir -m 1777' for a home directory)");
}

/* Copy what the command wrote into a new layer. */
static int build_run_save(struct run_work *w, const char *key, struct warren_error *err)
{
	struct build *b = w->step->b;
	const struct build_stage *stage = &b->stages[w->step->k];
	struct view before = { 0 };
	struct warren_saved saved;
	struct store_new layer;
	int r = build_layer_begin(b, &layer, err);

	if (r < 0)
		return r;
	/* The command has ended, but may have left processes behind. */
	r = warren_save_files(w->sb, layer.fd, WARREN_SAVE_KILL, &saved, err);
	if (r == -EOPNOTSUPP)
		build_run_explain_owner(err);
	if (r >= 0)
		r = view_open(&b->store, &stage->image, -1, &before, err);
	if (r >= 0)
		build_mounts_forget(&w->mounts, &before, layer.fd);
	view_close(&before);
	return build_layer_end(w->step, key, &layer, r, err);
}

static int build_run_hash(struct run_work *w, struct warren_error *err)
{
	const struct dockerfile_state *s = &w->step->b->stages[w->step->k].state;
	char **lists[] = { w->run.argv, w->run.env, s->env };
	struct hash *h = w->step->hash;

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
		hash_number(h, strv_len((union strv){ lists[k] }));
		for (char **v = lists[k]; v && *v; v++)
			hash_text(h, *v);
	}
	hash_text(h, s->user ? s->user : "");
	hash_text(h, s->workdir ? s->workdir : "");
	hash_text(h, w->run.script ? w->run.script : "");
	hash_number(h, w->run.no_network);
	hash_number(h, w->run.n_mounts);
	return build_mounts_hash(w->step, &w->run, err);
}

static int build_run_step(struct run_work *w, struct warren_error *err)
{
	struct build *b = w->step->b;
	char key[HASH_LEN + 1];
	int r = build_run_hash(w, err);

	if (r == 0)
		r = build_step_cached(w->step, key, err);
	if (r != 0)
		return r;
	if (!b->stages[w->step->k].image.id[0])
		return error_set(
			err, ENOENT,
			"the stage has no files yet, so it has no shell or program "
			"to run; copy one with COPY");
	r = build_mounts_open(w->step, &w->run, &w->mounts, err);
	if (r == 0)
		r = build_run_make_env(w, err);
	if (r == 0)
		r = build_run_open_sandbox(w, err);
	if (r == 0)
		r = build_run_execute(w, err);
	if (r == 0)
		r = build_run_save(w, key, err);
	return r < 0 ? r : 1;
}

int build_run(struct build_step *step, struct warren_error *err)
{
	struct build *b = step->b;
	struct run_work w = { .step = step,
			      .mounts = BUILD_MOUNTS_NONE,
			      .network = RUN_NETWORK_INIT };
	int r = dockerfile_run_parse(&b->file, step->i, &b->plan.args,
				     &b->stages[step->k].state, &w.run, err);

	if (r < 0)
		return r;
	r = build_run_step(&w, err);
	build_run_work_done(&w);
	return r;
}
