/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_cp.c - warren cp: copy files and trees into and out of a sandbox
 *
 * The rules are docker's: if the destination is an existing directory, the source is
 * copied into it under its own name; "SRC/." means the contents of SRC. Trees are
 * transferred as archives.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "cli/client/commands.h"
#include "cli/client/progress.h"
#include "cli/client/tar.h"
#include "cli/common_options.h"
#include "cli/values.h"

#define BYTES   "application/octet-stream"
#define ARCHIVE "application/x-tar"

struct cp_options {
	const char *user;
	bool tar;
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct cp_options, name)

/* clang-format off */
static const struct opt cp_table[] = {
	{ NULL, OPT_USER("user inside that copies, and owns new files (default: the "
	                 "sandbox's)",
		FIELD(user)) },
	{ NULL, "tar", 0, NULL, NULL,
	  "'-' is a tar archive, not the bytes of a file",
	  opt_flag, FIELD(tar) },
	{ NULL, OPT_QUIET("print no progress", FIELD(quiet)) },
	{ NULL, OPT_JSON("print what was copied as one JSON object", FIELD(json)) },
};
/* clang-format on */

static const struct opts cp_opts = {
	.table = cp_table,
	.n = ARRAY_SIZE(cp_table),
	.operands = "SRC DST",
	.example = "warren cp ./main.py k3f9x2m7qd1w:/work/",
	.mixed = true,
};

struct copy {
	const struct cp_options *o;
	struct client *client;
	char sandbox[ID_LEN + 1];
	const char *inside;  /* the path in the sandbox */
	const char *outside; /* the path on this machine, or "-" */
	int fd;              /* source or destination of the bytes; -1: none */
	uint64_t bytes; /* number of copied bytes; for a tree, the size of its archive */
	bool tree;
	struct tar tar;
	bool packing; /* a process writes the archive to fd, and its exit status counts */
	int failure;
};

/* ----------------------------------------------------------------- paths */

/*
 * Get the last component of @path, without trailing slashes; "" for "/" and names that
 * end in "/.".
 */
static void last_part(const char *path, char part[NAME_MAX + 1])
{
	size_t n = strlen(path);
	const char *at;

	while (n > 0 && path[n - 1] == '/')
		n--;
	for (at = path + n; at > path && at[-1] != '/';)
		at--;
	(void)snprintf(part, NAME_MAX + 1, "%.*s", (int)(path + n - at), at);
	if (strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
		part[0] = '\0';
}

/* Return @dir and @part with one slash between them; the caller frees the result. */
static char *cp_below(const char *dir, const char *part)
{
	size_t n = strlen(dir);
	char *path;

	while (n > 0 && dir[n - 1] == '/')
		n--;
	return asprintf(&path, "%.*s/%s", (int)n, dir, part) < 0 ? NULL : path;
}

/* Convert "/a/b/." and "/a/b/" to "/a/b" for the API. */
static char *cp_tidy(const char *path)
{
	size_t n = strlen(path);

	if (n > 1 && strcmp(path + n - 2, "/.") == 0)
		n--;
	while (n > 1 && path[n - 1] == '/')
		n--;
	return strndup(path, n);
}

static void cp_put_path(struct buf *out, const struct copy *cp, const char *what,
			const char *path)
{
	buf_printf(out, "/v1/sandboxes/%s/files%s", cp->sandbox, what);
	put_query(out, "path", path);
	if (cp->o->user)
		put_query(out, "user", cp->o->user);
}

/* Get the metadata of the file at @path inside; *@ret is NULL if it does not exist. */
static int look_inside(const struct copy *cp, const char *path, json_t **ret,
		       struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_FREE char *clean = cp_tidy(path);
	int r;

	*ret = NULL;
	cp_put_path(&url, cp, "/stat", clean ? clean : path);
	put_query(&url, "follow", "true");
	r = client_call(cp->client, "GET", url.data, NULL, ret, err);
	return r < 0 && client_said(cp->client, "file_not_found") ? 0 : r;
}

static bool is_directory(const json_t *info)
{
	return strcmp(print_text_of(info, "type"), "directory") == 0;
}

/* -------------------------------------------------------------- copies into a sandbox */

static ssize_t from_fd(void *arg, char *data, size_t n)
{
	struct copy *cp = arg;
	struct warren_error err = WARREN_ERROR_INIT;
	ssize_t got;

	do
		got = read(cp->fd, data, n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		cp->failure = errno;
	else
		cp->bytes += (uint64_t)got;
	/* A partial archive must not look complete. */
	if (got == 0 && cp->packing && client_tar_end(&cp->tar, &err) < 0) {
		cp->failure = EIO;
		return -1;
	}
	return got;
}

static int cp_put(struct copy *cp, const char *what, const char *path, const char *type,
		  int64_t size, const char *mode, struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	int r;

	cp->tree = strcmp(what, "/tar") == 0;
	cp_put_path(&url, cp, what, path);
	if (mode)
		put_query(&url, "mode", mode);
	r = request_new(cp->client, "PUT", url.data, &request, err);
	if (r == 0) {
		request->from = from_fd;
		request->arg = cp;
		r = request_upload(request, type, size, err);
	}
	if (r == 0)
		r = request_start(request, err);
	if (r == 0)
		r = request_wait(request, err);
	if (cp->failure == EIO && cp->packing)
		err->msg[0] = '\0';
	else if (cp->failure)
		return error_errno(err, cp->failure, "read '%s'", cp->outside);
	return r;
}

static int cp_put_file(struct copy *cp, const struct stat *st, struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_JSON json_t *info = NULL;
	char part[NAME_MAX + 1], mode[8];
	size_t n = strlen(cp->inside);
	bool piped = strcmp(cp->outside, "-") == 0;
	int r = look_inside(cp, cp->inside, &info, err);

	if (r < 0)
		return r;
	last_part(cp->outside, part);
	if (is_directory(info) || cp->inside[n - 1] == '/') {
		if (piped)
			return error_set(err, EISDIR,
					 "'%s' is a directory: stdin needs the name of a "
					 "file, or --tar",
					 cp->inside);
		path = cp_below(cp->inside, part);
	} else {
		path = strdup(cp->inside);
	}
	if (!path)
		return error_errno(err, ENOMEM, "copy '%s'", cp->outside);
	(void)snprintf(mode, sizeof(mode), "%04o", st->st_mode & 0777);
	return cp_put(cp, "", path, BYTES, S_ISREG(st->st_mode) ? st->st_size : -1,
		      piped ? NULL : mode, err);
}

static int put_tree(struct copy *cp, struct warren_error *err)
{
	AUTO_FREE char *outside = cp_tidy(cp->outside), *inside = cp_tidy(cp->inside);
	AUTO_JSON json_t *info = NULL;
	char part[NAME_MAX + 1];
	int r = look_inside(cp, cp->inside, &info, err);

	if (r < 0)
		return r;
	if (!outside || !inside)
		return error_errno(err, ENOMEM, "copy '%s'", cp->outside);
	if (info && !is_directory(info))
		return error_set(err, ENOTDIR, "'%s' is a directory, but '%s' is not",
				 cp->outside, cp->inside);
	last_part(cp->outside, part);
	r = tar_pack(outside, info ? part : "", &cp->tar, err);
	if (r < 0)
		return r;
	cp->fd = cp->tar.fd;
	cp->packing = true;
	return cp_put(cp, "/tar", inside, ARCHIVE, -1, NULL, err);
}

static int cp_copy_in(struct copy *cp, struct warren_error *err)
{
	struct stat st;

	cp->fd = STDIN_FILENO;
	if (strcmp(cp->outside, "-") == 0) {
		if (cp->o->tar)
			return cp_put(cp, "/tar", cp->inside, ARCHIVE, -1, NULL, err);
		if (fstat(STDIN_FILENO, &st) < 0)
			return error_errno(err, errno, "inspect stdin");
		/* Treat stdin as a pipe even if it is a file, because some of its data
		 * may have been read already. */
		st.st_mode = (st.st_mode & ~(mode_t)S_IFMT) | S_IFIFO;
		return cp_put_file(cp, &st, err);
	}
	if (stat(cp->outside, &st) < 0)
		return error_errno(err, errno, "'%s'", cp->outside);
	if (S_ISDIR(st.st_mode))
		return put_tree(cp, err);
	cp->fd = open(cp->outside, O_RDONLY | O_CLOEXEC);
	if (cp->fd < 0)
		return error_errno(err, errno, "'%s'", cp->outside);
	return cp_put_file(cp, &st, err);
}

/* ------------------------------------------------------------ copies out of a sandbox */

static int to_fd(void *arg, const char *data, size_t n)
{
	struct copy *cp = arg;
	int r = fd_write_all(cp->fd, data, n);

	if (r < 0)
		cp->failure = -r;
	else
		cp->bytes += n;
	return r;
}

static int cp_get(struct copy *cp, const char *what, const char *path,
		  struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	int r;

	cp->tree = strcmp(what, "/tar") == 0;
	cp_put_path(&url, cp, what, path);
	r = request_new(cp->client, "GET", url.data, &request, err);
	if (r == 0) {
		request->on_data = to_fd;
		request->arg = cp;
		r = request_start(request, err);
	}
	if (r == 0)
		r = request_wait(request, err);
	if (cp->failure)
		return error_errno(err, cp->failure, "write to '%s'", cp->outside);
	return r;
}

/* Write to an existing device or pipe, without replacing it. */
static int get_into(struct copy *cp, const char *path, struct warren_error *err)
{
	cp->fd = open(path, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (cp->fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	return cp_get(cp, "", cp->inside, err);
}

/* Write to a temporary name and then rename the file, so that no reader sees half of
 * it. */
static int replace_file(struct copy *cp, const char *path, const json_t *info,
			struct warren_error *err)
{
	AUTO_FREE char *temporary = NULL;
	int r;

	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return error_errno(err, ENOMEM, "copy '%s'", cp->inside);
	cp->fd = mkostemp(temporary, O_CLOEXEC);
	if (cp->fd < 0)
		return error_errno(err, errno, "make '%s'", path);
	r = cp_get(cp, "", cp->inside, err);
	if (r == 0) {
		mode_t mask = umask(0);
		mode_t mode =
			(mode_t)strtoul(print_text_of(info, "mode"), NULL, 8) & 0777;

		(void)umask(mask);
		if (fchmod(cp->fd, mode & ~mask) < 0 || rename(temporary, path) < 0)
			r = error_errno(err, errno, "make '%s'", path);
	}
	if (r < 0)
		(void)unlink(temporary);
	return r;
}

/*
 * A link is replaced, not followed, because it may come from a sandbox. Links in /dev are
 * an exception: they lead to devices, which users do not want to replace.
 */
static int get_file(struct copy *cp, const json_t *info, struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	char part[NAME_MAX + 1];
	struct stat st, there;

	last_part(cp->inside, part);
	path = stat(cp->outside, &st) == 0 && S_ISDIR(st.st_mode)
		       ? cp_below(cp->outside, part)
		       : strdup(cp->outside);
	if (!path)
		return error_errno(err, ENOMEM, "copy '%s'", cp->inside);
	if (lstat(path, &st) < 0 || stat(path, &there) < 0 || S_ISREG(there.st_mode) ||
	    S_ISDIR(there.st_mode))
		return replace_file(cp, path, info, err);
	if (S_ISLNK(st.st_mode))
		return error_set(
			err, EINVAL,
			"'%s' is a link to something that is not a file: name its "
			"target, or '-' for stdout",
			path);
	return get_into(cp, path, err);
}

static int get_tree(struct copy *cp, struct warren_error *err)
{
	struct warren_error ended = WARREN_ERROR_INIT;
	AUTO_FREE char *inside = cp_tidy(cp->inside), *into = NULL;
	char part[NAME_MAX + 1];
	struct stat st;
	int r;

	last_part(cp->inside, part);
	into = stat(cp->outside, &st) == 0 && part[0] ? cp_below(cp->outside, part)
						      : strdup(cp->outside);
	if (!inside || !into)
		return error_errno(err, ENOMEM, "copy '%s'", cp->inside);
	r = fd_make_dirs(into, 0755);
	if (r < 0)
		return error_errno(err, -r, "create the directory '%s'", into);
	r = tar_unpack(into, &cp->tar, err);
	if (r < 0)
		return r;
	cp->fd = cp->tar.fd;
	r = cp_get(cp, "/tar", inside, err);
	cp->fd = -1;
	if (client_tar_end(&cp->tar, &ended) < 0 && (r == 0 || cp->failure == EPIPE)) {
		*err = ended;
		return -EIO;
	}
	return r;
}

static int cp_copy_out(struct copy *cp, struct warren_error *err)
{
	AUTO_FREE char *inside = cp_tidy(cp->inside);
	AUTO_JSON json_t *info = NULL;
	int r = look_inside(cp, cp->inside, &info, err);

	if (r < 0)
		return r;
	if (!info || !inside)
		return error_set(err, ENOENT, "there is no '%s' in the sandbox",
				 cp->inside);
	if (strcmp(cp->outside, "-") == 0) {
		cp->fd = STDOUT_FILENO;
		return cp_get(cp, is_directory(info) || cp->o->tar ? "/tar" : "", inside,
			      err);
	}
	return is_directory(info) ? get_tree(cp, err) : get_file(cp, info, err);
}

/* -------------------------------------------------------------------- command line */

/*
 * Split "SANDBOX:PATH". Return NULL for a path on this machine, which includes everything
 * with a slash before the colon.
 */
static const char *cp_split(const char *word, char sandbox[256])
{
	const char *colon = strchr(word, ':');
	size_t n = colon ? (size_t)(colon - word) : 0;

	if (n == 0 || n >= 256 || memchr(word, '/', n) || word[0] == '.')
		return NULL;
	(void)memcpy(sandbox, word, n);
	sandbox[n] = '\0';
	return colon + 1;
}

static int cp_copy(struct copy *cp, const char *sandbox, bool in,
		   struct warren_error *err)
{
	int r;

	if (cp->inside[0] != '/')
		return error_set(err, EINVAL,
				 "'%s' is not an absolute path in the sandbox (example: "
				 "%s)",
				 cp->inside, cp_opts.example);
	r = client_open(&cp->client, err);
	if (r == 0)
		r = resolve_id_find_sandbox(cp->client, sandbox, cp->sandbox, err);
	if (r < 0)
		return r;
	progress_about(cp->o->quiet ? NULL : "copying");
	r = in ? cp_copy_in(cp, err) : cp_copy_out(cp, err);
	progress_about(NULL);
	return r;
}

static int cp_tell(const struct copy *cp, bool in)
{
	AUTO_JSON json_t *all = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:I}", "sandbox_id", cp->sandbox, "direction",
		in ? "in" : "out", "inside", cp->inside, "outside", cp->outside, "type",
		cp->tree ? "tree" : "file", "bytes", (json_int_t)cp->bytes);

	return print_json(&client_cp, all);
}

static int cp_remove_one(const char *path, const struct stat *st UNUSED, int kind UNUSED,
			 struct FTW *at UNUSED)
{
	return remove(path);
}

static int cp_step(const struct cp_options *o, const char *sandbox, const char *inside,
		   const char *outside, bool in, struct copy *cp)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	*cp = (struct copy){ .o = o,
			     .fd = -1,
			     .tar = { .fd = -1 },
			     .inside = inside,
			     .outside = outside };
	r = cp_copy(cp, sandbox, in, &err);
	if (r < 0 && err.msg[0])
		message_say(client_cp.name, "%s", err.msg);
	if (cp->tar.pid > 0)
		(void)!client_tar_end(&cp->tar, &err);
	else if (cp->fd > STDERR_FILENO)
		(void)close(cp->fd);
	cp->client = client_close(cp->client);
	return r;
}

/* Copy from one sandbox to another through a private directory on this machine. */
static int cp_between(const struct cp_options *o, const char *from_box, const char *from,
		      const char *to_box, const char *to)
{
	char dir[] = "/tmp/warren-cp-XXXXXX", name[NAME_MAX + 1];
	AUTO_FREE char *here = NULL, *again = NULL;
	struct copy cp;
	int r;

	last_part(from, name);
	if (!mkdtemp(dir)) {
		message_say(client_cp.name, "create a directory in /tmp: %s",
			    strerrordesc_np(errno));
		return STATUS_FAILED;
	}
	here = cp_below(dir, name[0] ? name : "content");
	again = here ? cp_below(here, ".") : NULL;
	r = again ? cp_step(o, from_box, from, here, false, &cp) : -ENOMEM;
	if (r == 0)
		r = cp_step(o, to_box, to, name[0] ? here : again, true, &cp);
	(void)nftw(dir, cp_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (r == 0 && o->json)
		return cp_tell(&cp, true);
	return r < 0 ? STATUS_FAILED : 0;
}

static int run_cp(int argc, char **argv)
{
	struct cp_options o = { 0 };
	struct copy cp = { .o = &o, .fd = -1, .tar = { .fd = -1 } };
	char sandbox[256], other[256];
	const char *from, *to;
	char **words = NULL;
	int status = 0, r;

	if (!command_operands(&client_cp, argc, argv, &o, 2, 2, &words, &status))
		return status;
	from = cp_split(words[0], sandbox);
	to = cp_split(words[1], from ? other : sandbox);
	if (from && to && !o.tar)
		return cp_between(&o, sandbox, from, other, to);
	if (!from == !to) {
		message_say(client_cp.name,
			    "%s: one of SRC and DST must be SANDBOX:PATH (example: %s)",
			    from ? "--tar needs '-'" : "no sandbox is given",
			    cp_opts.example);
		return STATUS_FAILED;
	}
	cp.inside = from ? from : to;
	cp.outside = from ? words[1] : words[0];
	if (o.json && from && strcmp(cp.outside, "-") == 0) {
		message_say(client_cp.name,
			    "--json and '-' for DST both write to stdout");
		return STATUS_FAILED;
	}
	if (o.tar && strcmp(cp.outside, "-") != 0) {
		message_say(client_cp.name,
			    "--tar needs '-', not '%.100s' (example: warren cp --tar - "
			    "k3f9x2m7qd1w:/work <work.tar)",
			    cp.outside);
		return STATUS_FAILED;
	}
	r = cp_step(&o, sandbox, from ? from : to, from ? words[1] : words[0], to, &cp);
	if (r == 0 && o.json)
		status = cp_tell(&cp, to);
	return r < 0 ? STATUS_FAILED : status;
}

const struct command client_cp = {
	.name = "cp",
	.summary = "Copy files into or out of a sandbox.",
	.about = "SRC or DST is SANDBOX:PATH; '-' is stdin or stdout.\n",
	.opts = &cp_opts,
	.run = run_cp,
};
