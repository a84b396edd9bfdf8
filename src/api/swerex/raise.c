/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raise.c - errors, as the exceptions that a client raises
 *
 * A client imports the class and makes one with the message; so classes are those of its own
 * package and of Python's own, and the errors of files are told as Python tells them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/swerex/internal.h"
#include "api/swerex/python.h"

#define STATUS_RAISED 511 /* which SWE-ReX has chosen for it */
#define SO_FAR_MAX    4096

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

/* Those whose message is a sentence of ours, and no errno's. */
static bool is_value(const char *class)
{
	return strcmp(class, "builtins.ValueError") == 0 ||
	       strcmp(class, "builtins.NotImplementedError") == 0;
}

static void put_exception(struct buf *out, const char *class, const char *message,
			  size_t n, const struct buf *extra)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_open(&j, "swerexception", '{');
	json_strn(&j, "message", message, n);
	json_str(&j, "class_path", class);
	json_str(&j, "traceback", "");
	if (extra)
		json_raw(&j, "extra_info", extra->data, extra->len);
	else
		json_raw(&j, "extra_info", "{}", 2);
	json_close(&j, '}');
	json_close(&j, '}');
}

int raise_write(struct buf *out, const char *class, const struct buf *message,
		const struct buf *extra)
{
	put_exception(out, class, message->data ? message->data : "", message->len,
		      extra);
	out->failed |= message->failed || (extra && extra->failed);
	return STATUS_RAISED;
}

void raise_put_so_far(struct buf *message, const struct buf *shown)
{
	size_t n = shown->len < SO_FAR_MAX ? shown->len : SO_FAR_MAX;
	const char *end = n > 0 ? shown->data + shown->len - n : "";

	/* Not from the middle of a character. */
	while (n > 0 && ((unsigned char)*end & 0xc0) == 0x80)
		end++, n--;
	if (shown->len == 0)
		return;
	buf_printf(message, "\n---- Output so far%s ----\n",
		   n < shown->len ? " (its end)" : "");
	buf_add(message, end, n);
}

static void raise_all(struct job *job, const char *class, const char *message, size_t n,
		      const struct buf *extra)
{
	AUTO_BUF struct buf out = BUF_INIT(ANSWER_MAX);

	put_exception(&out, class, message, n, extra);
	job_answer(job, STATUS_RAISED, &out);
}

void job_raise(struct job *job, const char *class, const char *message, size_t n)
{
	raise_all(job, class, message, n, NULL);
}

void job_raise_with(struct job *job, const char *class, const struct buf *message,
		    const struct buf *extra)
{
	raise_all(job, class, message->data ? message->data : "", message->len, extra);
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
		job_raise(job, class, err->msg, strlen(err->msg));
		return;
	}
	buf_printf(&text, "[Errno %d] %s: ", err->code, strerror(err->code));
	python_repr(&text, path, strlen(path));
	job_raise(job, class, text.data ? text.data : "", text.len);
}
