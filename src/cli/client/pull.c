/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c - let the service pull or push an image, and follow its stream of events to the
 * result
 */
#include "cli/client/pull.h"

#include <errno.h>
#include <string.h>

#include "cli/client/commands.h"
#include "cli/client/progress.h"
#include "cli/client/spec.h"

struct pull_result {
	json_t *event;           /* of type `done`; NULL: none yet */
	struct warren_error err; /* the error that the service reported */
};

static int pull_on_event(void *arg, const char *line, size_t n)
{
	AUTO_JSON json_t *event = json_loadb(line, n, 0, NULL);
	const char *type = print_text_of(event, "type");
	struct pull_result *result = arg;

	if (strcmp(type, "error") == 0) {
		(void)error_set(
			&result->err, EIO, "%s",
			print_text_of(json_object_get(event, "error"), "message"));
	} else if (strcmp(type, "done") == 0) {
		json_decref(result->event);
		result->event = json_incref(event);
	}
	return 0;
}

static int pull_follow(struct request *request, const json_t *body, const char *about,
		       struct warren_error *err)
{
	int r = request_json(request, body, err);

	if (r < 0)
		return r;
	progress_about(about);
	r = request_start(request, err);
	if (r == 0)
		r = request_wait(request, err);
	progress_about(NULL);
	return r;
}

/* *@ret gets the last event. */
static int pull_transfer(struct client *c, const char *path, const json_t *body,
			 const char *about, json_t **ret, struct warren_error *err)
{
	struct pull_result result = { .err = WARREN_ERROR_INIT };
	AUTO_REQUEST struct request *stream = NULL;
	int r = request_new(c, "POST", path, &stream, err);

	if (r < 0)
		return r;
	stream->on_line = pull_on_event;
	stream->arg = &result;
	r = pull_follow(stream, body, about, err);
	if (r == 0 && result.err.code) {
		*err = result.err;
		r = -result.err.code;
	} else if (r == 0 && !result.event) {
		r = error_set(err, EPIPE,
			      "the service ended the transfer without a result; try "
			      "again");
	}
	if (r == 0)
		*ret = TAKE_PTR(result.event);
	json_decref(result.event);
	return r;
}

int pull_image(struct client *c, const struct pull_request *request, json_t **ret,
	       struct warren_error *err)
{
	AUTO_JSON json_t *body = json_object(), *event = NULL;
	int r;

	spec_put_text(body, "image", request->image);
	spec_put_text(body, "platform", request->platform);
	spec_put_text(body, "backend", request->backend);
	r = pull_transfer(c, "/v1/images/pull", body,
			  request->quiet ? NULL : "pulling the image", &event, err);
	if (r == 0 && ret)
		*ret = json_incref(json_object_get(event, "image"));
	return r;
}

int pull_push_image(struct client *c, const json_t *body, bool quiet, json_t **ret,
		    struct warren_error *err)
{
	return pull_transfer(c, "/v1/images/push", body,
			     quiet ? NULL : "pushing the image", ret, err);
}
