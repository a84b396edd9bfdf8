/* SPDX-License-Identifier: Apache-2.0 */
/* code_request.c - from a RunCode to a request of code/plan.h */
#include <errno.h>
#include <string.h>

#include "api/v1/code.h"
#include "api/v1/exec.h"
#include "base/base64.h"
#include "base/strv.h"

/* Number of characters; four of them are three bytes. */
#define CODE_DECODE_SLICE (256U << 10)

void code_wanted_done(struct code_wanted *w)
{
	free((void *)w->args);
	free((void *)w->artifacts);
	(void)strv_free(w->env);
	free(w->files);
	for (size_t i = 0; i < w->n_encoded; i++)
		free(w->encoded[i].data);
	free(w->encoded);
	*w = (struct code_wanted){ 0 };
}

static int code_read_words(const struct body *body, const char *field, const char ***ret)
{
	json_t *list = body_json(body, field);
	size_t n = json_array_size(list);

	*ret = calloc(n + 1, sizeof(**ret));
	for (size_t i = 0; *ret && i < n; i++)
		(*ret)[i] = json_string_value(json_array_get(list, i));
	return *ret ? 0 : -ENOMEM;
}

/* The schema of the API has already checked that the string is base64. */
static int code_add_encoded(struct code_wanted *w, const json_t *text, const void **to,
			    size_t *to_size)
{
	size_t n = json_string_length(text);
	struct code_encoded *e = &w->encoded[w->n_encoded];

	*e = (struct code_encoded){ .text = json_string_value(text),
				    .n = n,
				    .data = malloc(n / 4 * 3 + 1),
				    .to = to,
				    .to_size = to_size };
	w->n_encoded++;
	return e->data ? 0 : -ENOMEM;
}

bool code_wanted_decode(struct code_wanted *w)
{
	size_t left = CODE_DECODE_SLICE;

	while (left > 0 && w->n_decoded < w->n_encoded) {
		struct code_encoded *e = &w->encoded[w->n_decoded];
		size_t n = e->n - e->at < left ? e->n - e->at : left;
		ssize_t size = base64_decode(e->text + e->at, n, e->data + e->size);

		e->size += size < 0 ? 0 : (size_t)size;
		e->at += n;
		left -= n;
		if (e->at < e->n)
			continue;
		*e->to = e->data;
		*e->to_size = e->size;
		w->n_decoded++;
	}
	return w->n_decoded < w->n_encoded;
}

static int code_read_files(const struct body *body, struct code_wanted *w)
{
	json_t *texts = body_json(body, "files"),
	       *bytes = body_json(body, "files_base64");
	size_t n = json_object_size(texts) + json_object_size(bytes), i = 0;
	const char *name;
	json_t *value;
	int r = 0;

	w->files = calloc(n + 1, sizeof(*w->files));
	w->encoded = calloc(json_object_size(bytes) + 1, sizeof(*w->encoded));
	if (!w->files || !w->encoded)
		return -ENOMEM;
	json_object_foreach(texts, name, value) w->files[i++] =
		(struct code_file){ name, json_string_value(value),
				    json_string_length(value) };
	json_object_foreach(bytes, name, value)
	{
		w->files[i].name = name;
		r = code_add_encoded(w, value, &w->files[i].data, &w->files[i].size);
		if (r < 0)
			return r;
		i++;
	}
	w->request.files = w->files;
	w->request.n_files = n;
	return 0;
}

static int code_read_stdin(const struct body *body, struct code_wanted *w)
{
	const char *text = body_text(body, "stdin");

	if (body_has(body, "stdin_base64"))
		return code_add_encoded(w, json_object_get(body->json, "stdin_base64"),
					&w->request.input, &w->request.input_size);
	w->request.input = text;
	w->request.input_size = text ? strlen(text) : 0;
	return 0;
}

int code_wanted_read(const struct body *body, struct code_wanted *w,
		     struct api_error *err)
{
	struct body limits = body_object(body, "limits");
	const char *code = body_text(body, "code");

	if (body_has(body, "stdin") && body_has(body, "stdin_base64")) {
		(void)api_error_set(err, API_ERR_INVALID_REQUEST,
				    "/stdin: give stdin or stdin_base64, not both");
		api_error_text(err, "pointer", "/stdin");
		return -EBADMSG;
	}
	w->request = (struct code_request){
		.language = body_text(body, "language"),
		.code = code,
		.code_size = strlen(code),
		.limits = { .timeout_ms = (uint64_t)body_int(body, "timeout_ms"),
			    .memory = body_size(&limits, "memory"),
			    .disk = body_size(&limits, "disk"),
			    .pids = (uint64_t)body_int(&limits, "pids") },
		.max_output = body_size(body, "max_output"),
		.image = body_text(body, "image"),
	};
	if (code_read_words(body, "args", &w->args) < 0 ||
	    code_read_words(body, "artifacts", &w->artifacts) < 0 ||
	    exec_read_env(body, &w->env) < 0 || code_read_files(body, w) < 0 ||
	    code_read_stdin(body, w) < 0)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	w->request.args = w->args;
	w->request.artifacts = w->artifacts;
	w->request.env = (const char *const *)w->env;
	return 0;
}
