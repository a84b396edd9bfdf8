/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exceptions.c - errors as the exceptions that a client raises
 *
 * A client imports the class and creates an exception with the message. So the classes
 * are those of SWE-ReX and of Python, and errors of files have Python's messages.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/errors.h"
#include "api/swerex/internal.h"
#include "api/swerex/pyrepr.h"
#include "config/config.h"

#define STATUS_RAISED 511 /* the status that SWE-ReX uses for it */
#define SO_FAR_MAX    4096
#define MESSAGE_MAX   (16U << 20) /* maximum size, not counting the output of a program */

static const struct {
	int errnum;
	const char *class;
} classes[] = {
	{ ENOENT, "builtins.FileNotFoundError" },
	{ EISDIR, "builtins.IsADirectoryError" },
	{ ENOTDIR, "builtins.NotADirectoryError" },
	{ EEXIST, "builtins.FileExistsError" },
	{ EACCES, "builtins.PermissionError" },
	{ EPERM, "builtins.PermissionError" },
	{ EPIPE, "builtins.BrokenPipeError" },
	{ ETIMEDOUT, "builtins.TimeoutError" },
	{ ENOMEM, "builtins.MemoryError" },
	{ EINVAL, "builtins.ValueError" },
	{ EBADMSG, "builtins.ValueError" },
	{ ENODEV, "builtins.ValueError" },
	{ EXDEV, "builtins.ValueError" },
	{ EOPNOTSUPP, "builtins.NotImplementedError" },
};

/* Does the exception have Warren's own message, rather than that of an errno? */
static bool is_value(const char *class)
{
	return strcmp(class, "builtins.ValueError") == 0 ||
	       strcmp(class, "builtins.NotImplementedError") == 0;
}

void raise_open(struct reply *r)
{
	r->status = STATUS_RAISED;
	buf_puts(&r->json, "{\"swerexception\":{\"message\":\"");
}

void raise_put(struct reply *r, const struct buf *message)
{
	AUTO_BUF struct buf quoted = BUF_INIT(MESSAGE_MAX);
	struct json j = { .out = &quoted };

	json_strn(&j, NULL, message->data ? message->data : "", message->len);
	if (!quoted.failed)
		buf_add(&r->json, quoted.data + 1, quoted.len - 2);
	r->json.failed |= quoted.failed || message->failed;
}

void raise_class(struct reply *r, const char *class)
{
	buf_printf(&r->json,
		   "\",\"class_path\":\"%s\",\"traceback\":\"\",\"extra_info\":{", class);
}

void raise_close(struct reply *r)
{
	buf_puts(&r->json, "}}}");
}

void raise_put_so_far(struct buf *message, const char *shown, size_t n)
{
	AUTO_BUF struct buf text = BUF_INIT(4 * SO_FAR_MAX + 1);
	size_t last = n < SO_FAR_MAX ? n : SO_FAR_MAX;
	const char *end = n > 0 ? shown + n - last : "";

	/* Do not start in the middle of a character. */
	for (int i = 0; i < 3 && last < n && ((unsigned char)*end & 0xc0) == 0x80; i++)
		end++, last--;
	if (n == 0)
		return;
	python_decode(&text, end, last);
	buf_printf(message, "\n---- Output so far%s ----\n",
		   last < n ? " (last part)" : "");
	buf_add(message, text.data ? text.data : "", text.len);
}

void job_raise(struct job *job, const char *class, const char *message, size_t n)
{
	AUTO_BUF struct buf out = BUF_INIT(ANSWER_MAX);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_open(&j, "swerexception", '{');
	json_strn(&j, "message", message, n);
	json_str(&j, "class_path", class);
	json_str(&j, "traceback", "");
	json_raw(&j, "extra_info", "{}", 2);
	json_close(&j, '}');
	json_close(&j, '}');
	job_answer(job, STATUS_RAISED, &out);
}

void job_raisef(struct job *job, const char *class, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	job_raise(job, class, text, strlen(text));
}

void job_fail(struct job *job, const struct warren_error *err, const char *path)
{
	AUTO_BUF struct buf text = BUF_INIT(16384);
	const char *class = "builtins.OSError";

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (classes[i].errnum == err->code)
			class = classes[i].class;
	if (!path || is_value(class)) {
		struct warren_error shown = *err;

		error_hide_dir(shown.msg, job->sx->config->run_dir);
		error_hide_dir(shown.msg, job->sx->config->state_dir);
		job_raise(job, class, shown.msg, strlen(shown.msg));
		return;
	}
	buf_printf(&text, "[Errno %d] %s: ", err->code, strerror(err->code));
	python_repr(&text, path, strlen(path));
	job_raise(job, class, text.data ? text.data : "", text.len);
}
