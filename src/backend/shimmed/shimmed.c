/* SPDX-License-Identifier: Apache-2.0 */
/* shimmed.c - the tables of backends whose sandboxes have a shim */
#include "backend/shimmed/shimmed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "initclient/sandbox_desc.h"
#include "spec/spec.h"

#define PROBED_MAX (1U << 20)

int shimmed_note_paused(const struct shimmed *k, struct shimmed_sandbox *sandbox,
			bool paused)
{
	char path[ID_LEN + 10];
	AUTO_CLOSE int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/paused", sandbox->base.id);
	if (paused)
		fd = openat(k->dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			    0600);
	if (paused ? fd < 0 : unlinkat(k->dir_fd, path, 0) < 0 && errno != ENOENT)
		return -errno;
	sandbox->paused = paused;
	sandbox->left_paused = false;
	return 0;
}

int shimmed_note_left_paused(const struct shimmed *k, const char *id)
{
	static const char reason[] = "copy\n";
	char path[ID_LEN + 10];
	AUTO_CLOSE int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/paused", id);
	fd = openat(k->dir_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd_write_all(fd, reason, strlen(reason));
}

/* Ask the shim to save or restore the sandbox, because the shim has the saved state. */
static int ask_to_save(const struct shimmed *k, struct shimmed_sandbox *sandbox,
		       bool save, struct warren_error *err)
{
	struct proto_save msg = { .h = { .type = save ? PROTO_SAVE : PROTO_RESTORE } };
	CLEANUP(init_reply_done) struct init_reply a = { 0 };
	int r = client_ask(shimmed_talk(sandbox), &msg, sizeof(msg), -1, &a, err), code;

	if (r == -EPIPE)
		return error_set(
			err, EREMOTEIO,
			"its shim was killed during the operation; the sandbox is lost");
	if (r < 0)
		return r;
	code = reply_code(&a.m.reply);
	if (code)
		return a.m.why[0] ? error_set(err, code, "%s", a.m.why)
				  : error_errno(err, code, "ask its shim");
	sandbox->saved = save;
	shimmed_note_paused(k, sandbox, save);
	return 0;
}

static int shimmed_checkpoint(void *state, struct backend_sandbox *base,
			      struct warren_error *err)
{
	struct shimmed_sandbox *sandbox = (struct shimmed_sandbox *)base;
	bool before = sandbox->paused;
	int r;

	if (sandbox->paused && !sandbox->saved)
		return error_set(err, EBUSY,
				 "it is paused and still in memory: resume it first");
	/*
	 * As for a pause: if this process is killed here, the next process asks the shim
	 * for the state.
	 */
	r = shimmed_note_paused(state, sandbox, true);
	if (r < 0)
		return error_errno(err, -r, "record that it is paused");
	r = ask_to_save(state, sandbox, true, err);
	if (r < 0 && !before)
		(void)shimmed_note_paused(state, sandbox, false);
	return r;
}

int shimmed_thaw(const struct shimmed *k, const char *id, struct warren_error *err)
{
	char path[ID_LEN + 10];
	int r = shimmed_call(k, "resume", k->path, id, NULL, NULL, -1, NULL, err);

	(void)snprintf(path, sizeof(path), "%s/paused", id);
	if (r == 0)
		(void)unlinkat(k->dir_fd, path, 0);
	return r;
}

/*
 * If this process is killed here, the shim continues, and its result is lost: so a
 * sandbox counts as paused from before a pause until after a resume, which may be
 * repeated.
 */
int shimmed_try_pause(struct shimmed *k, struct shimmed_sandbox *sandbox,
		      bool *ret_may_be, struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	bool before = sandbox->paused;
	int r = shimmed_note_paused(k, sandbox, true);

	*ret_may_be = false;
	if (r < 0)
		return error_errno(err, -r, "record that it is paused");
	r = shimmed_call(k, "pause", k->path, sandbox->base.id, NULL, NULL, -1, &out,
			 err);
	*ret_may_be = r != -EOPNOTSUPP && r != -ESRCH &&
		      (out.len != strlen(PROTO_UNCHANGED) ||
		       memcmp(out.data, PROTO_UNCHANGED, out.len) != 0);
	if (r < 0 && !before)
		(void)shimmed_note_paused(k, sandbox, false);
	return r;
}

int shimmed_pause(void *state, struct backend_sandbox *base, bool paused,
		  struct warren_error *err)
{
	struct shimmed *k = state;
	struct shimmed_sandbox *sandbox = (struct shimmed_sandbox *)base;
	bool ignored;
	int r;

	if (sandbox->saved)
		return paused ? 0 : ask_to_save(k, sandbox, false, err);
	if (paused)
		return shimmed_try_pause(k, sandbox, &ignored, err);
	r = shimmed_call(k, "resume", k->path, base->id, NULL, NULL, -1, NULL, err);
	if (r == 0) {
		(void)shimmed_note_paused(k, sandbox, false);
		shimmed_forget_frozen(k, base->id);
	}
	return r;
}

static int shimmed_stats(void *state, struct backend_sandbox *base,
			 struct warren_stats *ret, struct warren_error *err)
{
	struct shimmed *k = state;
	AUTO_BUF struct buf out = BUF_INIT(65536);
	int r = shimmed_call(k, "stats", k->path, base->id, NULL, NULL, -1, &out, err);

	if (r < 0)
		return r;
	if (out.len != sizeof(*ret))
		return error_set(err, EPROTO, "warren-shim is from another build");
	(void)memcpy(ret, out.data, sizeof(*ret));
	return 0;
}

static int shimmed_update(void *state, struct backend_sandbox *base,
			  const struct warren_limits *limits, struct warren_error *err)
{
	struct shimmed *k = state;
	char words[SPEC_LIVE_MAX][24];
	const char *more[SPEC_LIVE_MAX + 1] = { NULL };
	int r;

	for (size_t i = 0; i < SPEC_LIVE_MAX; i++) {
		(void)snprintf(words[i], sizeof(words[i]), "%" PRIu64,
			       spec_live_get(limits, i));
		more[i] = words[i];
	}
	r = shimmed_call(k, "update", k->path, base->id, more, NULL, -1, NULL, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		if (spec_live_get(limits, i))
			backend_enforce(
				base, spec_limits[i].word, true, "%s%s by %s", words[i],
				spec_limits[i].unit == SPEC_MILLIS ? " thousandths" : "",
				k->kind);
	return base->durable
		       ? sandbox_socket_write_state(k->sandboxes_fd,
						    (struct initclient_sandbox *)base,
						    NULL, err)
		       : 0;
}

static int shimmed_capture_network(void *state, struct backend_sandbox *base,
				   int ret_fds[WARREN_CAPTURE_FDS],
				   struct warren_error *err)
{
	struct shimmed *k = state;
	AUTO_CLOSE int theirs = -1;
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a connection");
	theirs = ends[1];
	r = shimmed_call(k, "capture", k->path, base->id, NULL, NULL, theirs, NULL, err);
	if (r < 0) {
		(void)close(ends[0]);
		return r;
	}
	r = fd_unbundle(ends[0], ret_fds, WARREN_CAPTURE_FDS);
	return r < 0 ? error_errno(err, -r, "receive the sockets") : 0;
}

static int shimmed_trust(void *state, struct backend_sandbox *base, int bundle,
			 struct warren_error *err)
{
	struct shimmed *k = state;

	return shimmed_call(k, "trust", k->path, base->id, NULL, NULL, bundle, NULL, err);
}

static int shimmed_connection(void *state, struct backend_sandbox *base, int *ret_fd,
			      struct warren_error *err)
{
	const struct shimmed *k = state;

	return sandbox_socket_connection(k->sandboxes_fd,
					 (struct initclient_sandbox *)base, ret_fd, err);
}

static int shimmed_describe(void *state UNUSED, struct backend_sandbox *base,
			    struct buf *out)
{
	state_encode((const struct initclient_sandbox *)base, &description_more, out);
	return 0;
}

/* Report the features according to the platform; the texts are kept by this backend. */
static int shimmed_probe(void *state, struct warren_feature *features,
			 struct warren_error *err)
{
	struct shimmed *k = state;
	AUTO_BUF struct buf out = BUF_INIT(PROBED_MAX);
	int r = shimmed_call(k, "features", k->kind, "", NULL,
			     k->config ? k->config : "{}", -1, &out, err);
	const char *at, *end;
	int n = 0;

	if (r < 0)
		return r;
	free((void *)(uintptr_t)k->probed);
	k->probed = at = TAKE_PTR(out.data);
	end = at + out.len;
	for (; at && at < end && n < BACKEND_FEATURES_MAX; n++) {
		const char *word[6];

		for (size_t i = 0; i < ARRAY_SIZE(word); i++) {
			if (at >= end || !memchr(at, '\0', (size_t)(end - at)))
				return error_set(err, EPROTO,
						 "warren-shim is from another build");
			word[i] = at;
			at += strlen(at) + 1;
		}
		features[n] = (struct warren_feature){
			.name = word[0],
			.ok = word[1][0] == '1',
			.required = word[2][0] == '1',
			.effect = word[4][0] ? word[4] : NULL,
			.fix = word[5][0] ? word[5] : NULL,
		};
		(void)snprintf(features[n].detail, sizeof(features[n].detail), "%s",
			       word[3]);
	}
	return n;
}

/* All kinds have the same table: the differences are linked into the shim. */
#define SHIMMED(kind)                                                                 \
	{                                                                             \
		.name = (kind), .open = shimmed_open, .close = shimmed_close,         \
		.probe = shimmed_probe, .create = shimmed_create,                     \
		.destroy = shimmed_destroy, .exec = initclient_exec,                  \
		.exec_wait = initclient_exec_wait,                                    \
		.exec_signal = initclient_exec_signal,                                \
		.exec_free = initclient_exec_free,                                    \
		.exec_wait_fd = initclient_exec_wait_fd,                              \
		.exec_resize = initclient_exec_resize,                                \
		.exec_output = initclient_exec_output,                                \
		.file_open = initclient_file_open,                                    \
		.file_settle = initclient_file_settle, .connect = initclient_connect, \
		.pause = shimmed_pause, .checkpoint = shimmed_checkpoint,             \
		.list = shimmed_list, .find = shimmed_find, .adopt = shimmed_adopt,   \
		.release = shimmed_release, .update = shimmed_update,                 \
		.connection = shimmed_connection, .describe = shimmed_describe,       \
		.exec_attach = initclient_exec_attach,                                \
		.exec_number = initclient_exec_number,                                \
		.exec_close_input = initclient_exec_close_input,                      \
		.exec_ack = initclient_exec_ack,                                      \
		.exec_signal_to = initclient_exec_signal_to, .stats = shimmed_stats,  \
		.capture_network = shimmed_capture_network, .trust = shimmed_trust,   \
		.save_files = shimmed_save_files, .hibernate = shimmed_hibernate,     \
		.forget_saved = shimmed_forget_saved, .has_saved = shimmed_has_saved, \
		.image = shimmed_image, .reset = shimmed_reset,                       \
	}

#define SHIMMED_OPS(name) const struct backend_ops backend_##name = SHIMMED(#name);
BACKEND_KINDS_SHIMMED(SHIMMED_OPS)
