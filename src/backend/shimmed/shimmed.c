/* SPDX-License-Identifier: Apache-2.0 */
/* shimmed.c - the backends whose sandboxes have a shim: their tables */
#include "backend/shimmed/shimmed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROBED_MAX (1U << 20)

/* For whoever comes after us. */
static int note_paused(const struct kept *k, struct kept_box *box, bool paused)
{
	char path[ID_LEN + 10];
	AUTO_CLOSE int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/paused", box->base.id);
	if (paused)
		fd = openat(k->dir_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (paused ? fd < 0 : unlinkat(k->dir_fd, path, 0) < 0 && errno != ENOENT)
		return -errno;
	box->paused = paused;
	return 0;
}

/* By the shim itself, which has what is saved. */
static int ask_to_save(const struct kept *k, struct kept_box *box, bool save,
		       struct warren_error *err)
{
	struct proto_save msg = { .h = { .type = save ? PROTO_SAVE : PROTO_RESTORE } };
	CLEANUP(answer_done) struct answer a = { 0 };
	int r = client_ask(kept_talk(box), &msg, sizeof(msg), -1, &a, err), code;

	if (r == -EPIPE)
		return error_set(
			err, EREMOTEIO,
			"its shim was killed over it, and the sandbox is lost");
	if (r < 0)
		return r;
	code = reply_code(&a.m.reply);
	if (code)
		return a.m.why[0] ? error_set(err, code, "%s", a.m.why)
				  : error_errno(err, code, "ask its shim");
	box->saved = save;
	note_paused(k, box, save);
	return 0;
}

static int kept_checkpoint(void *state, struct backend_box *base,
			   struct warren_error *err)
{
	struct kept_box *box = (struct kept_box *)base;
	bool before = box->paused;
	int r;

	if (box->paused && !box->saved)
		return error_set(err, EBUSY,
				 "it is paused, with all its memory: resume it first");
	/* As of a pause: if we are killed meanwhile, its shim is asked what became of it. */
	r = note_paused(state, box, true);
	if (r < 0)
		return error_errno(err, -r, "note that it is paused");
	r = ask_to_save(state, box, true, err);
	if (r < 0 && !before)
		(void)note_paused(state, box, false);
	return r;
}

static int kept_pause(void *state, struct backend_box *base, bool paused,
		      struct warren_error *err)
{
	struct kept *k = state;
	struct kept_box *box = (struct kept_box *)base;
	bool before = box->paused;
	int r = 0;

	if (box->saved)
		return paused ? 0 : ask_to_save(k, box, false, err);
	/*
	 * If we are killed meanwhile, who does it goes on, and nobody would know: it counts as
	 * paused from before a pause until after a resume, which may be done twice.
	 */
	if (paused)
		r = note_paused(k, box, true);
	if (r < 0)
		return error_errno(err, -r, "note that it is paused");
	r = kept_call(k, paused ? "pause" : "resume", k->path, base->id, NULL, NULL, NULL,
		      err);
	if (r < 0 ? paused && !before : !paused)
		(void)note_paused(k, box, false);
	return r;
}

static int kept_stats(void *state, struct backend_box *base, struct warren_stats *ret,
		      struct warren_error *err)
{
	struct kept *k = state;
	AUTO_BUF struct buf out = BUF_INIT(65536);
	int r = kept_call(k, "stats", k->path, base->id, NULL, NULL, &out, err);

	if (r < 0)
		return r;
	if (out.len != sizeof(*ret))
		return error_set(err, EPROTO, "warren-shim is of another build");
	(void)memcpy(ret, out.data, sizeof(*ret));
	return 0;
}

static int kept_update(void *state, struct backend_box *base,
		       const struct warren_limits *limits, struct warren_error *err)
{
	struct kept *k = state;
	char memory[24], cpu[24], pids[24];
	const char *more[] = { memory, cpu, pids, NULL };
	const struct {
		const char *name;
		uint64_t value;
	} changed[] = { { "memory", limits->memory },
			{ "cpus", limits->cpu_millis },
			{ "pids", limits->pids } };
	int r;

	(void)snprintf(memory, sizeof(memory), "%" PRIu64, limits->memory);
	(void)snprintf(cpu, sizeof(cpu), "%" PRIu64, limits->cpu_millis);
	(void)snprintf(pids, sizeof(pids), "%" PRIu64, limits->pids);
	r = kept_call(k, "update", k->path, base->id, more, NULL, NULL, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(changed); i++)
		if (changed[i].value)
			backend_enforce(base, changed[i].name, true,
					"%" PRIu64 "%s by %s", changed[i].value,
					i == 1 ? " thousandths" : "", k->kind);
	return base->durable
		       ? door_write_state(k->boxes_fd, (struct talk_box *)base, NULL, err)
		       : 0;
}

static int kept_connection(void *state, struct backend_box *base, int *ret_fd,
			   struct warren_error *err)
{
	const struct kept *k = state;

	return door_connection(k->boxes_fd, (struct talk_box *)base, ret_fd, err);
}

static int kept_describe(void *state UNUSED, struct backend_box *base, struct buf *out)
{
	state_encode((const struct talk_box *)base, NULL, out);
	return 0;
}

/* What is there, as the platform tells it; features with texts of their own, kept by us. */
static int kept_probe(void *state, struct warren_feature *features,
		      struct warren_error *err)
{
	struct kept *k = state;
	AUTO_BUF struct buf out = BUF_INIT(PROBED_MAX);
	int r = kept_call(k, "features", k->kind, "", NULL, k->config ? k->config : "{}",
			  &out, err);
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
						 "warren-shim is of another build");
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

/* All alike: what differs is linked into the shim. */
#define KEPT(kind)                                                                     \
	{                                                                              \
		.name = (kind), .open = kept_open, .close = kept_close,                \
		.probe = kept_probe, .create = kept_create, .destroy = kept_destroy,   \
		.exec = talk_exec, .exec_wait = talk_exec_wait,                        \
		.exec_signal = talk_exec_signal, .exec_free = talk_exec_free,          \
		.exec_wait_fd = talk_exec_wait_fd, .exec_resize = talk_exec_resize,    \
		.exec_output = talk_exec_output, .file_open = talk_file_open,          \
		.file_settle = talk_file_settle, .connect = talk_connect,              \
		.pause = kept_pause, .checkpoint = kept_checkpoint, .list = kept_list, \
		.find = kept_find, .adopt = kept_adopt, .release = kept_release,       \
		.update = kept_update, .connection = kept_connection,                  \
		.describe = kept_describe, .exec_attach = talk_exec_attach,            \
		.exec_number = talk_exec_number,                                       \
		.exec_close_input = talk_exec_close_input, .exec_ack = talk_exec_ack,  \
		.exec_signal_to = talk_exec_signal_to, .stats = kept_stats,            \
	}

const struct backend_ops backend_docker = KEPT("docker");
const struct backend_ops backend_gvisor = KEPT("gvisor");
const struct backend_ops backend_command = KEPT("command");
