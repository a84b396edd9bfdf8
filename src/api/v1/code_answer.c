/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_answer.c - the result of a code run as JSON, slice by slice
 *
 * Its parts are: the fields, stdout, stderr, each artifact, and the end.
 */
#include <string.h>

#include "api/v1/code.h"
#include "base/json.h"
#include "base/utf8.h"

#define CODE_SLICE (48U << 10) /* three bytes become four characters of base64 */
/* Maximum number of bytes that are checked in one turn. */
#define CODE_CHECK (512U << 10)

enum {
	CODE_PART_FIELDS,
	CODE_PART_STDOUT,
	CODE_PART_STDERR,
	CODE_PART_ARTIFACTS,
};

size_t code_answer_size(const struct code_answer *a)
{
	size_t n = a->no_output ? 0 : a->result->output[0].len + a->result->output[1].len;

	for (size_t i = 0; i < a->result->n_artifacts; i++)
		n += a->result->artifacts[i].size + strlen(a->result->artifacts[i].path);
	return n;
}

static void code_put_fields(const struct code_answer *a, struct buf *out)
{
	const struct code_result *r = a->result;
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "language", r->language);
	json_str(&j, "phase", r->compiler ? "compile" : "run");
	json_int(&j, "exit_code", r->exit_code);
	json_int(&j, "signal", r->exec.signal);
	json_bool(&j, "timed_out", r->exec.timed_out);
	json_bool(&j, "oom", r->exec.oom);
	json_u64(&j, "duration_ms", r->duration_usec / 1000);
	json_bool(&j, "stdout_truncated", r->truncated[0]);
	json_bool(&j, "stderr_truncated", r->truncated[1]);
	json_bool(&j, "artifacts_complete", r->artifacts_complete);
	json_raw(&j, "enforced", r->enforced.data, r->enforced.len);
	json_raw(&j, "usage", "", 0);
	result_to_json(out, &r->exec);
	out->failed = out->failed || r->enforced.failed;
}

/* Write a slice of a string; returns whether it was the last. */
static bool code_put_slice(struct code_answer *a, struct buf *out, const char *data,
			   size_t size)
{
	AUTO_BUF struct buf quoted = BUF_INIT(8UL * CODE_SLICE);
	size_t n = size - a->at < CODE_SLICE ? size - a->at : CODE_SLICE;

	if (!a->base64 && a->at + n < size)
		n -= utf8_cut(data + a->at, n);
	if (n > 0) {
		bytes_to_json(&quoted, data + a->at, n, a->base64);
		out->failed = out->failed || quoted.failed;
		if (!quoted.failed)
			buf_add(out, quoted.data + 1, quoted.len - 2);
	}
	a->at += n;
	return a->at >= size;
}

/* Check whether the data is text, and record the result in ->base64. Return false if
 * there is more to check. */
static bool code_check_slice(struct code_answer *a, const char *data, size_t size)
{
	size_t n = size - a->at < CODE_CHECK ? size - a->at : CODE_CHECK;

	if (a->at + n < size)
		n -= utf8_cut(data + a->at, n);
	a->base64 =
		n > 0 && (!utf8_valid(data + a->at, n) || memchr(data + a->at, '\0', n));
	a->at += n;
	return a->base64 || a->at == size;
}

static void code_open_artifact(const struct code_answer *a, struct buf *out, size_t i)
{
	const struct code_artifact *f = &a->result->artifacts[i];
	struct json j = { .out = out };

	buf_puts(out, i == 0 ? ",\"artifacts\":[" : ",");
	json_open(&j, NULL, '{');
	json_str(&j, "path", f->path);
	json_u64(&j, "size", f->size);
	json_str(&j, "encoding", a->base64 ? "base64" : "utf-8");
	buf_puts(out, ",\"content\":\"");
}

static void code_open_output(const struct code_answer *a, struct buf *out)
{
	const char *name = a->part == CODE_PART_STDOUT ? "stdout" : "stderr";

	buf_printf(out, ",\"%s_encoding\":\"%s\",\"%s\":\"", name,
		   a->base64 ? "base64" : "utf-8", name);
}

/* Write a slice of stdout, stderr or an artifact. */
static void code_put_string(struct code_answer *a, struct buf *out)
{
	size_t i = a->part - CODE_PART_ARTIFACTS;
	bool output = a->part < CODE_PART_ARTIFACTS;
	const struct buf *b = &a->result->output[output ? a->part - CODE_PART_STDOUT : 0];
	const char *data = output ? b->data : a->result->artifacts[i].data;
	size_t size = output ? b->len : a->result->artifacts[i].size;

	if (!a->opened) {
		if (!code_check_slice(a, data, size))
			return;
		a->opened = true;
		a->at = 0;
		if (output)
			code_open_output(a, out);
		else
			code_open_artifact(a, out, i);
	}
	if (!code_put_slice(a, out, data, size))
		return;
	buf_puts(out, output ? "\"" : "\"}");
	a->opened = false;
	a->at = 0;
	a->part++;
}

int code_answer_next(struct code_answer *a, struct buf *out)
{
	if (a->part == CODE_PART_FIELDS) {
		code_put_fields(a, out);
		a->part = a->no_output ? CODE_PART_ARTIFACTS : CODE_PART_STDOUT;
		return 1;
	}
	if (a->part < CODE_PART_ARTIFACTS + a->result->n_artifacts) {
		code_put_string(a, out);
		return 1;
	}
	buf_puts(out, a->result->n_artifacts > 0 ? "]}" : ",\"artifacts\":[]}");
	return 0;
}
