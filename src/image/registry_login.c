/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_login.c - check a login, and store or erase it where registry_creds.c reads it
 *
 * Other programs use the docker configuration too, so every key that is not a login for
 * this registry is written back unchanged. The new file replaces the old one atomically,
 * with mode 0600; a lock on its directory keeps two processes of Warren from overwriting
 * each other's entries. If the configuration names a credential helper, the login is
 * stored there, and the file contains no copy of the secret.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "image/registry_creds.h"
#include "image/registry_internal.h"

/* ------------------------------------------------------------------- checking a login */

bool registry_unreachable(int code)
{
	static const int codes[] = { EHOSTUNREACH, ENETUNREACH, ENETDOWN,  EHOSTDOWN,
				     ECONNREFUSED, ETIMEDOUT,   ECONNRESET };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i] == code || codes[i] == -code)
			return true;
	return false;
}

static int login_ask(struct registry *reg, struct warren_error *err)
{
	CLEANUP(http_done) struct http h = { 0 };
	int code = http_init(&h, reg, "API", err);

	if (code < 0)
		return code;
	h.body_max = REGISTRY_ERROR_BODY_MAX;
	h.path = strdup("/v2/");
	if (!h.path)
		return error_errno(err, ENOMEM, "log in");
	code = http_run(&h, err);
	if (code < 0)
		return code;
	return reg->logins == 0; /* the registry answered without requiring a login */
}

int registry_check_login(const char *registry, const struct registry_options *options,
			 const char *user, const char *secret, struct warren_error *err)
{
	struct registry *reg = NULL;
	struct ref ref = { 0 };
	int code;

	(void)snprintf(ref.registry, sizeof(ref.registry), "%s", registry);
	code = registry_open(&ref, options, &reg, err);
	if (code < 0)
		return code;
	reg->creds.user = strdup(user);
	reg->creds.secret = strdup(secret);
	reg->creds_read = true;
	if (reg->creds.user && reg->creds.secret)
		code = login_ask(reg, err);
	else
		code = error_errno(err, ENOMEM, "log in");
	(void)registry_close(reg);
	return code;
}

/* ------------------------------------------------------------- the configuration file */

/* The user's configuration, locked while it is changed. */
struct login_file {
	char path[CREDS_PATH_MAX]; /* path with symbolic links resolved, because the links
				      stay */
	int lock;                  /* lock of its directory; -1: none */
	bool exists;
	uid_t uid;
	gid_t gid;
	json_t *config;
};

static void login_file_close(struct login_file *f)
{
	json_decref(f->config);
	close_p(&f->lock);
}

/* Find the path of the file, which may not exist yet. */
static int login_file_find(struct login_file *f, struct warren_error *err)
{
	char path[CREDS_PATH_MAX];
	AUTO_FREE char *real = NULL;

	creds_path(NULL, path);
	if (!path[0])
		return error_set(err, ENOENT,
				 "logins cannot be stored: set HOME or DOCKER_CONFIG");
	real = realpath(path, NULL);
	if (!real && errno != ENOENT)
		return error_errno(err, errno, "find the docker configuration %.300s",
				   path);
	if (strlen(real ? real : path) >= sizeof(f->path))
		return error_errno(err, ENAMETOOLONG, "find the docker configuration");
	(void)strcpy(f->path, real ? real : path);
	return 0;
}

/* If @make is set, create a missing directory; otherwise return -ENOENT. */
static int login_file_open(struct login_file *f, bool make, struct warren_error *err)
{
	char copy[CREDS_PATH_MAX];
	const char *folder;
	struct stat st;
	int code = login_file_find(f, err);

	if (code < 0)
		return code;
	(void)strcpy(copy, f->path);
	folder = dirname(copy);
	code = make ? fd_make_dirs(folder, 0700) : 0;
	if (code == 0) {
		f->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		code = f->lock < 0 || flock(f->lock, LOCK_EX) < 0 ? -errno : 0;
	}
	if (code < 0)
		return error_errno(err, -code, "open the folder %.300s", folder);
	f->exists = stat(f->path, &st) == 0;
	if (f->exists) {
		f->uid = st.st_uid;
		f->gid = st.st_gid;
		return creds_load(f->path, &f->config, err);
	}
	if (errno != ENOENT)
		return error_errno(err, errno, "read the docker configuration %.300s",
				   f->path);
	f->config = json_object();
	return f->config ? 0 : error_errno(err, ENOMEM, "log in");
}

static int login_file_fill(const struct login_file *f, int fd, const char *text)
{
	int code = fd_write_all(fd, text, strlen(text));

	if (code == 0)
		code = fd_write_all(fd, "\n", 1);
	/* The file keeps its owner, no matter which user writes it. */
	if (code == 0 && f->exists && f->uid != geteuid() &&
	    fchown(fd, f->uid, f->gid) < 0)
		code = -errno;
	if (code == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0))
		code = -errno;
	return code;
}

static int login_file_save(const struct login_file *f, struct warren_error *err)
{
	char *text = json_dumps(f->config, JSON_INDENT(4));
	char temp[CREDS_PATH_MAX + 16];
	int fd = -1, code = 0;

	(void)snprintf(temp, sizeof(temp), "%s.XXXXXX", f->path);
	if (!text)
		code = -ENOMEM;
	else if ((fd = mkostemp(temp, O_CLOEXEC)) < 0) /* with mode 0600 */
		code = -errno;
	if (code == 0) {
		code = login_file_fill(f, fd, text);
		if (close(fd) < 0 && code == 0)
			code = -errno;
		if (code == 0 && rename(temp, f->path) < 0)
			code = -errno;
		if (code < 0)
			(void)unlink(temp);
	}
	creds_free_secret(&text);
	return code < 0 ? error_errno(err, -code, "write the docker configuration %.300s",
				      f->path)
			: 0;
}

/* Return the member @key of @of, and create it if it is missing; NULL: it has another
 * type. */
static json_t *login_object(json_t *of, const char *key)
{
	json_t *value = json_object_get(of, key);

	if (!value && json_object_set_new(of, key, json_object()) == 0)
		value = json_object_get(of, key);
	return json_is_object(value) ? value : NULL;
}

/* Remove the login from an entry, and keep everything else. */
static bool login_entry_clear(json_t *entry)
{
	static const char *const secrets[] = { "auth", "identitytoken", "registrytoken",
					       "username", "password" };
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		found = json_object_del(entry, secrets[i]) == 0 || found;
	return found;
}

static int login_file_set(struct login_file *f, const char *registry,
			  const struct creds *c, struct warren_error *err)
{
	json_t *auths = login_object(f->config, "auths"), *entry = NULL;
	char *login = auth_basic(c);
	int code = 0;

	if (auths)
		entry = login_object(auths, creds_server(registry));
	if (!login)
		code = error_errno(err, ENOMEM, "log in");
	else if (!entry)
		code = error_set(err, EINVAL,
				 "%.300s: \"auths\" is not in the format of docker",
				 f->path);
	if (code == 0) {
		(void)login_entry_clear(entry);
		if (json_object_set_new(entry, "auth",
					json_string(login + strlen("Basic "))) < 0)
			code = error_errno(err, ENOMEM, "log in");
	}
	creds_free_secret(&login);
	return code;
}

/*
 * Remove the entries of a registry: completely if @whole is set, otherwise only their
 * secrets, because docker keeps an entry without a secret if a helper has it. Return 1 if
 * something was removed.
 */
static int login_file_drop(struct login_file *f, const char *registry, bool whole)
{
	json_t *auths = json_object_get(f->config, "auths"), *entry;
	const char *key;
	int found = 0;
	void *next;

	json_object_foreach_safe(auths, next, key, entry)
	{
		if (!creds_key_is_for(key, registry))
			continue;
		found = login_entry_clear(entry) || whole || found;
		if (whole)
			(void)json_object_del(auths, key);
	}
	return found;
}

/* ----------------------------------------------------------------- credential helpers */

/* Write the error message of a helper on one line. */
static void login_helper_said(const char *output, char said[128])
{
	size_t n = 0;

	for (; output && *output && *output != '\n' && n < 127; output++)
		if (*output >= ' ' && *output <= '~')
			said[n++] = *output;
	said[n] = '\0';
}

/* Return 0, 1 if there is nothing to erase, or an error. */
static int login_helper(const char *name, const char *verb, const char *input,
			const struct helper_watch *watch, struct warren_error *err)
{
	char *output = NULL;
	char said[128];
	int code = helper_call(name, verb, input, watch, &output, err);

	login_helper_said(output, said);
	creds_free_secret(&output);
	if (code <= 0)
		return code;
	if (strcmp(verb, "erase") == 0 && strstr(said, "not found"))
		return 1;
	return error_set(err, EIO, "docker-credential-%.64s %s failed%s%s", name, verb,
			 said[0] ? ": " : "", said);
}

static int login_helper_store(const char *name, const char *registry,
			      const struct creds *c, const struct helper_watch *watch,
			      struct warren_error *err)
{
	json_t *login = json_pack("{s:s, s:s, s:s}", "ServerURL", creds_server(registry),
				  "Username", c->user, "Secret", c->secret);
	char *input = login ? json_dumps(login, JSON_COMPACT) : NULL;
	int code;

	if (input)
		code = login_helper(name, "store", input, watch, err);
	else
		code = error_set(err, EILSEQ,
				 "docker-credential-%.64s takes UTF-8 text, which this "
				 "name or password is not",
				 name);
	creds_free_secret(&input);
	json_decref(login);
	return code;
}

int creds_store(const char *registry, const char *user, const char *secret,
		const struct helper_watch *watch, char ret_where[CREDS_WHERE_MAX],
		struct warren_error *err)
{
	const struct creds c = { .user = (char *)(uintptr_t)user,
				 .secret = (char *)(uintptr_t)secret };
	CLEANUP(login_file_close) struct login_file f = { .lock = -1 };
	const char *helper;
	int code = login_file_open(&f, true, err);

	if (code < 0)
		return code;
	helper = creds_helper(f.config, registry);
	if (helper) {
		(void)snprintf(ret_where, CREDS_WHERE_MAX, "docker-credential-%s",
			       helper);
		code = login_helper_store(helper, registry, &c, watch, err);
		if (code == 0 && login_file_drop(&f, registry, false))
			code = login_file_save(&f, err);
		return code;
	}
	(void)snprintf(ret_where, CREDS_WHERE_MAX, "%s", f.path);
	code = login_file_set(&f, registry, &c, err);
	return code < 0 ? code : login_file_save(&f, err);
}

int creds_erase(const char *registry, const struct helper_watch *watch,
		struct warren_error *err)
{
	CLEANUP(login_file_close) struct login_file f = { .lock = -1 };
	const char *helper;
	int found = 0, code = login_file_open(&f, false, err);

	if (code == -ENOENT && f.path[0]) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		return 0;
	}
	if (code < 0)
		return code;
	helper = creds_helper(f.config, registry);
	if (login_file_drop(&f, registry, true)) {
		found = 1;
		code = login_file_save(&f, err);
	}
	if (code == 0 && helper) {
		code = login_helper(helper, "erase", creds_server(registry), watch, err);
		found = found || code == 0;
	}
	return code < 0 ? code : found;
}
