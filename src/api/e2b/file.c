/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - read files, and what the data plane says about itself */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/fs_call.h"
#include "net/http_head.h"

/* ------------------------------------------------------------------------- read */

struct file_reading {
	struct fs_call fs;
	char asked[4096];
	char disposition[1024];
};

/* Does the client accept a file as it is? (RFC 9110, 12.5.3) */
static bool accepts_identity(const struct http_request *req)
{
	const char *text = http_header(req, "Accept-Encoding");
	bool accepts = true;

	while (text && *text) {
		size_t n = strcspn(text, ","), name = strcspn(text, "; \t,");
		bool exact = name == 8 && strncasecmp(text, "identity", 8) == 0;
		const char *q = memchr(text, '=', n);
		bool zero = q && strspn(q, "=0. \t") == (size_t)(text + n - q);

		if (exact || (name == 1 && *text == '*'))
			accepts = !zero;
		if (exact)
			return accepts;
		text += n;
		text += strspn(text, ", \t");
	}
	return accepts;
}

/* Name the file for a browser that saves it. A name can have any bytes. */
static void file_set_disposition(struct file_reading *k)
{
	const char *slash = strrchr(k->fs.fc.path, '/');
	const char *name = slash ? slash + 1 : k->fs.fc.path;
	struct buf b = BUF_IN(k->disposition);

	if (http_is_token(name)) {
		buf_printf(&b, "inline; filename=%s", name);
	} else {
		buf_puts(&b, "inline; filename*=utf-8''");
		for (; *name; name++)
			if (http_is_token((char[]){ *name, '\0' }) &&
			    !strchr("%'*", *name))
				buf_add(&b, name, 1);
			else
				buf_printf(&b, "%%%02X", (unsigned char)*name);
	}
	if (!b.failed)
		(void)http_add_header(k->fs.fc.call->req, "Content-Disposition",
				      k->disposition);
}

static void e2b_file_on_open(void *ctx, struct files_answer *a,
			     const struct warren_error *err)
{
	struct file_reading *k = ctx;
	struct call *c = k->fs.fc.call;
	AUTO_CLOSE int fd = err ? -1 : TAKE_FD(a->fd);
	struct stat st;

	if (err && err->code == ENOENT)
		e2b_refuse(c, 404, "path '%s' does not exist", k->fs.fc.path);
	else if (err && err->code == EISDIR)
		e2b_refuse(c, 400, "path '%s' is a directory", k->fs.fc.path);
	else if (err)
		file_fail(c, err);
	else if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode))
		e2b_refuse(c, 400, "path '%s' is a directory", k->fs.fc.path);
	else if (!S_ISREG(st.st_mode))
		e2b_refuse(c, 400, "path '%s' is not a regular file", k->fs.fc.path);
	else if (!accepts_identity(c->req))
		e2b_refuse(c, 406, "no acceptable encoding found, supported: [identity]");
	else {
		file_set_disposition(k);
		file_send(c, TAKE_FD(fd), &st);
	}
}

static void file_read(struct fs_call *f)
{
	files_open(f->fc.files, -1, f->fc.path, O_RDONLY, 0, e2b_file_on_open, f);
}

void e2b_file_read(struct call *c)
{
	struct file_reading *k;
	char user[64];

	if (!e2b_may_use_file(c))
		return;
	k = calloc(1, sizeof(*k));
	if (k)
		(void)e2b_query(c, "path", k->asked, sizeof(k->asked));
	(void)e2b_query(c, "username", user, sizeof(user));
	if (k)
		k->fs.next = file_read;
	fs_begin(c, k ? &k->fs : NULL, user[0] ? user : NULL, k ? k->asked : "");
}

/* ------------------------------------------------------------------ the data plane */

void e2b_envd_health(struct call *c)
{
	call_empty(c, 204);
}

void e2b_envd_envs(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4U << 20);
	const struct sandbox *sandbox =
		sandbox_find(c->v1->service, NULL, c->route.sandbox);
	json_t *spec = sandbox ? json_loads(sandbox_row(sandbox)->spec, 0, NULL) : NULL;
	json_t *env = json_object_get(spec, "env");
	char *text = env ? json_dumps(env, JSON_COMPACT) : NULL;

	buf_puts(&out, text ? text : "{}");
	call_json(c, 200, &out);
	free(text);
	json_decref(spec);
}
