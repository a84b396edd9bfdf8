/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_images.c - pull an image with a backend that has its own images
 *
 * warren-shim(1) asks the backend's daemon to pull. It reports in lines of JSON: the
 * progress of each layer, then the image, then the result.
 */
#include "cli/image/backend_images.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/libexec.h"

#define LAYERS_MAX 512

struct theirs {
	struct progress *progress;
	struct oci_layer *layers;
	size_t n;
	char *id; /* id of the image, once it is known */
	bool begun, ended;
	struct warren_error *err;
};

static struct oci_layer *layer_of(struct theirs *t, const char *digest)
{
	struct oci_layer *more;

	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->layers[i].digest, digest) == 0)
			return &t->layers[i];
	more = t->n < LAYERS_MAX ? reallocarray(t->layers, t->n + 1, sizeof(*t->layers))
				 : NULL;
	if (!more)
		return NULL;
	t->layers = more;
	more = &t->layers[t->n++];
	*more = (struct oci_layer){ 0 };
	(void)snprintf(more->digest, sizeof(more->digest), "%s", digest);
	return more;
}

static void take_layer(struct theirs *t, const json_t *line)
{
	static const struct {
		const char *phase;
		enum oci_state state;
	} phases[] = {
		{ "waiting", OCI_WAITING },
		{ "downloading", OCI_DOWNLOADING },
		{ "unpacking", OCI_UNPACKING },
		{ "present", OCI_DONE },
	};
	const char *digest = json_string_value(json_object_get(line, "digest"));
	const char *phase = json_string_value(json_object_get(line, "phase"));
	json_int_t total = json_integer_value(json_object_get(line, "total"));
	struct oci_layer *l = digest && phase ? layer_of(t, digest) : NULL;

	if (!l)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(phases); i++)
		if (strcmp(phases[i].phase, phase) == 0)
			l->state = phases[i].state;
	/* After a layer is complete, the daemon no longer reports its size. */
	if (total > 0) {
		l->size = (uint64_t)total;
		l->done = (uint64_t)json_integer_value(json_object_get(line, "done"));
	}
	/*
	 * Nothing is shown before all layers are known: they are listed one by one, and
	 * then started.
	 */
	t->begun |= l->state == OCI_DOWNLOADING || l->state == OCI_UNPACKING;
	if (t->begun)
		(void)progress_show(t->progress, t->layers, t->n);
}

static void backend_images_take_line(struct theirs *t, const struct buf *text)
{
	json_t *line = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, NULL);
	const char *type = json_string_value(json_object_get(line, "type"));
	const char *id =
		json_string_value(json_object_get(json_array_get(line, 0), "id"));
	const char *why = json_string_value(json_object_get(line, "message"));
	int code = (int)json_integer_value(json_object_get(line, "errno"));

	if (id && strlen(id) <= REF_DIGEST_LEN)
		(void)strcpy(t->id, id);
	else if (type && strcmp(type, "layer") == 0)
		take_layer(t, line);
	else if (type && strcmp(type, "end") == 0) {
		t->ended = true;
		(void)progress_show(t->progress, t->layers, t->n);
		if (code > 0)
			(void)error_set(t->err, code, "%s", why ? why : "");
	}
	json_decref(line);
}

static void backend_images_take_all(struct theirs *t, FILE *from)
{
	char *text = NULL;
	size_t size = 0;
	ssize_t n;

	while ((n = getline(&text, &size, from)) > 0) {
		struct buf line = { .data = text, .len = (size_t)n };

		backend_images_take_line(t, &line);
	}
	free(text);
}

static int backend_images_start(const char *program, const char *const *argv, int out,
				pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);

	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (r == 0)
		r = posix_spawn(ret_pid, program, &actions, NULL,
				(char *const *)(uintptr_t)argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

int theirs_pull(const char *kind, const char *image, bool missing,
		struct progress *progress, char id[REF_DIGEST_LEN + 1],
		struct warren_error *err)
{
	const char *argv[] = { "warren-shim", missing ? "pull-missing" : "pull", kind,
			       image, NULL };
	struct theirs t = { .progress = progress, .id = id, .err = err };
	char program[PATH_MAX];
	FILE *from = NULL;
	int ends[2], r = libexec_find("warren-shim", program, err);
	pid_t pid = -1;

	if (r < 0)
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	r = backend_images_start(program, argv, ends[1], &pid);
	(void)close(ends[1]);
	from = fdopen(ends[0], "r");
	if (r == 0 && from)
		backend_images_take_all(&t, from);
	if (from)
		(void)fclose(from);
	else
		(void)close(ends[0]);
	if (r < 0)
		return error_errno(err, -r, "start '%s'", program);
	(void)waitpid(pid, NULL, 0);
	free(t.layers);
	if (!t.ended)
		return error_set(err, EIO, "warren-shim ended before it was done");
	return err->code ? -err->code : 0;
}
