/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - print lines of JSON to stdout, for a calling program */
#include "cli/image/report.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/utf8.h"

static const char *const phases[] = {
	[OCI_WAITING] = "waiting",     [OCI_DOWNLOADING] = "downloading",
	[OCI_UNPACKING] = "unpacking", [OCI_PACKING] = "packing",
	[OCI_UPLOADING] = "uploading", [OCI_PRESENT] = "present",
	[OCI_DONE] = "present",
};

_Static_assert(ARRAY_SIZE(phases) == OCI_DONE + 1, "a state has no phase");

static struct {
	bool wanted;
	struct warren_error error; /* the first */
	struct warren_error hidden;
	struct oci_layer *told;
	size_t n;
	char cut[4]; /* beginning of a character of the output */
	size_t n_cut;
} report;

void report_start(void)
{
	report.wanted = true;
}

bool report_wanted(void)
{
	return report.wanted;
}

void image_report_error(const struct warren_error *err)
{
	if (report.error.code == 0)
		report.error = *err;
}

struct warren_error *report_hidden(void)
{
	return &report.hidden;
}

static bool report_is_new(const struct oci_layer *was, const struct oci_layer *is)
{
	return was->state != is->state || was->done != is->done ||
	       strcmp(was->digest, is->digest) != 0;
}

static void report_put_layer(struct buf *out, const struct oci_layer *l)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "type", "layer");
	json_str(&j, "digest", l->digest);
	json_str(&j, "phase", phases[l->state]);
	json_u64(&j, "done", l->done);
	json_u64(&j, "total", l->size);
	json_close(&j, '}');
	buf_puts(out, "\n");
}

bool report_is_read(void)
{
	struct pollfd fd = { .fd = STDOUT_FILENO };

	return poll(&fd, 1, 0) == 0 || !(fd.revents & (POLLERR | POLLNVAL));
}

int report_layers(const struct oci_layer *layers, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);

	if (n != report.n) {
		free(report.told);
		/* An empty string is not a digest. */
		report.told = calloc(n, sizeof(*report.told));
		report.n = report.told ? n : 0;
	}
	for (size_t i = 0; i < report.n; i++) {
		if (report_is_new(&report.told[i], &layers[i]))
			report_put_layer(&out, &layers[i]);
		report.told[i] = layers[i];
	}
	if (!report_is_read())
		return EPIPE;
	return out.len > 0 && !out.failed
		       ? -fd_write_all(STDOUT_FILENO, out.data, out.len)
		       : 0;
}

/* A character may be cut at the end of one piece; the next piece has the rest. */
void image_report_output(const char *data, size_t n)
{
	AUTO_BUF struct buf text = BUF_INIT(1U << 20), out = BUF_INIT(8U << 20);
	struct json j = { .out = &out };

	buf_add(&text, report.cut, report.n_cut);
	buf_add(&text, data, n);
	report.n_cut = utf8_cut(text.data, text.len);
	text.len -= report.n_cut;
	(void)memcpy(report.cut, text.data + text.len, report.n_cut);
	json_open(&j, NULL, '{');
	json_str(&j, "type", "output");
	json_strn(&j, "text", text.data, text.len);
	json_close(&j, '}');
	buf_puts(&out, "\n");
	if (!out.failed && !text.failed)
		(void)!fd_write_all(STDOUT_FILENO, out.data, out.len);
}

int report_end(int status)
{
	AUTO_BUF struct buf out = BUF_INIT(16384);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "type", "end");
	json_int(&j, "status", status);
	if (status != 0 && report.error.code) {
		json_int(&j, "errno", report.error.code);
		json_str(&j, "message", report.error.msg);
		if (report.hidden.code)
			json_str(&j, "detail", report.hidden.msg);
	}
	json_close(&j, '}');
	buf_puts(&out, "\n");
	(void)fd_write_all(STDOUT_FILENO, out.data, out.len);
	return status;
}
