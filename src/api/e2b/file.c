/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - contents of files, and what the data plane says about itself
 *
 * A file can also be read or written with a signature in the URL instead of the access
 * token, until a time in the URL. Such a URL names no sandbox on a host that all sandboxes
 * share.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/fs_call.h"
#include "base/base64.h"
#include "base/parse.h"

/* ---------------------------------------------------------------------- signatures */

static void sign(const char *path, const char *operation, const char *user,
		 const char *token, const char *expires, char ret[64])
{
	AUTO_BUF struct buf raw = BUF_INIT(16384);
	unsigned char hash[SHA256_DIGEST_LENGTH];
	size_t n;

	buf_printf(&raw, "%s:%s:%s:%s", path, operation, user, token);
	if (*expires)
		buf_printf(&raw, ":%s", expires);
	(void)SHA256((const unsigned char *)raw.data, raw.len, hash);
	(void)memcpy(ret, "v1_", 3);
	n = base64_size(sizeof(hash));
	base64_encode(hash, sizeof(hash), ret + 3);
	while (ret[3 + n - 1] == '=')
		n--;
	ret[3 + n] = '\0';
}

bool e2b_may_use_file(struct call *c, const char *operation)
{
	const char *given = http_header(c->req, "X-Access-Token");
	char token[E2B_TOKEN_LEN + 1], signature[128], expires[32], wanted[64];
	char path[4096], user[64];
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t when = 0;

	e2b_token(call_e2b(c), c->route.sandbox, "envd", token);
	if (given) {
		if (strlen(given) == E2B_TOKEN_LEN &&
		    CRYPTO_memcmp(given, token, E2B_TOKEN_LEN) == 0)
			return true;
		e2b_refuse(c, 401,
			   "access token present in header but does not match");
		return false;
	}
	if (!e2b_query(c, "signature", signature, sizeof(signature))) {
		e2b_refuse(c, 401, "missing signature query parameter");
		return false;
	}
	(void)e2b_query(c, "signature_expiration", expires, sizeof(expires));
	(void)e2b_query(c, "path", path, sizeof(path));
	(void)e2b_query(c, "username", user, sizeof(user));
	sign(path, operation, user, token, expires, wanted);
	if (strlen(wanted) != strlen(signature) ||
	    CRYPTO_memcmp(wanted, signature, strlen(wanted)) != 0) {
		e2b_refuse(c, 401, "invalid signature");
		return false;
	}
	if (expires[0] && (parse_u64(expires, INT64_MAX / 1000, &when, &why) < 0 ||
			   (int64_t)when * 1000 < service_wall(service_time()))) {
		e2b_refuse(c, 401, "signature is already expired");
		return false;
	}
	return true;
}

/* ------------------------------------------------------------------------- read */

struct file_reading {
	struct fs_call fs;
	char asked[4096];
};

static void file_on_open(void *ctx, struct files_answer *a, const struct warren_error *err)
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
	else
		file_send(c, TAKE_FD(fd), &st);
}

static void file_read(struct fs_call *f)
{
	files_open(f->fc.files, -1, f->fc.path, O_RDONLY, 0, file_on_open, f);
}

void e2b_file_read(struct call *c)
{
	struct file_reading *k;
	char user[64];

	if (!e2b_may_use_file(c, "read"))
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
