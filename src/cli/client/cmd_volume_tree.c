/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_volume_tree.c - warren volume cp of a directory with everything in it
 *
 * The files of a volume are hostile: sandboxes write them, even during the copy. On this
 * machine, each directory is opened without following a link, and a file is created only
 * where none is, so nothing is written outside of the destination.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/strv.h"
#include "cli/client/cmd_volume.h"
#include "cli/client/commands.h"

#define TREE_FDS     32
#define TREE_MODE    0777
#define TREE_WORD    8192
#define TREE_ENTRIES 10000 /* of a directory: the maximum of the API */

/* Report a file that is left out, because it is no file, directory or link. */
static void tree_skip(const char *path)
{
	message_say(volume_cp.name, "'%s' is not a file, directory or link: left out",
		    path);
}

/* ------------------------------------------------------------- into the volume */

/* nftw(3) passes no pointer. */
static struct tree_upload {
	struct volume_copy *cp;
	const char *to; /* VOLUME:PATH */
	size_t skip;    /* length of the path of the directory */
	struct warren_error err;
} tree_upload;

static int tree_make_dir(struct client *c, const char *word, mode_t mode,
			 struct warren_error *err)
{
	const char *colon = strchr(word, ':');
	char url[160], text[8];
	AUTO_JSON json_t *body = NULL;

	(void)snprintf(url, sizeof(url), "/v1/volumes/%.*s/files/mkdir",
		       (int)(colon - word), word);
	(void)snprintf(text, sizeof(text), "%04o", mode & TREE_MODE);
	body = json_pack("{s:s, s:s, s:b}", "path", colon + 1, "mode", text, "parents",
			 1);
	return body ? client_call(c, "POST", url, body, NULL, err)
		    : error_set(err, EILSEQ, "'%s' is not UTF-8", colon + 1);
}

static int tree_put_link(struct client *c, const char *path, const char *word,
			 struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	char target[4096];
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n < 0)
		return error_errno(err, errno, "'%s'", path);
	target[n] = '\0';
	volume_put_url(&url, word);
	put_query(&url, "link", target);
	return url.failed ? error_errno(err, ENAMETOOLONG, "'%s'", path)
			  : client_call(c, "PUT", url.data, NULL, NULL, err);
}

static int tree_put_file(struct volume_copy *cp, const char *path, const char *word,
			 struct warren_error *err)
{
	int r;

	cp->outside.name = path;
	cp->outside.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (cp->outside.fd < 0)
		return error_errno(err, errno, "'%s'", path);
	r = volume_cp_put(cp, word, err);
	(void)close(TAKE_FD(cp->outside.fd));
	return r;
}

static int tree_on_found(const char *path, const struct stat *st, int type,
			 struct FTW *at UNUSED)
{
	struct tree_upload *u = &tree_upload;
	const char *rest = path + u->skip;
	char word[TREE_WORD];
	size_t n = strlen(u->to);
	int r = 0;

	rest += strspn(rest, "/");
	while (n > 0 && u->to[n - 1] == '/')
		n--;
	if (snprintf(word, sizeof(word), "%.*s/%s", (int)n, u->to, rest) >=
	    (int)sizeof(word))
		r = error_errno(&u->err, ENAMETOOLONG, "'%s'", path);
	else if (type == FTW_DNR || type == FTW_NS)
		r = error_errno(&u->err, EACCES, "'%s'", path);
	else if (type == FTW_D && (*rest || strcmp(strchr(word, ':'), ":/") != 0))
		r = tree_make_dir(u->cp->client, word, st->st_mode, &u->err);
	else if (type == FTW_SL || type == FTW_SLN)
		r = tree_put_link(u->cp->client, path, word, &u->err);
	else if (type == FTW_F && S_ISREG(st->st_mode))
		r = tree_put_file(u->cp, path, word, &u->err);
	else if (type == FTW_F)
		tree_skip(path);
	return r < 0 ? 1 : 0;
}

int volume_tree_in(struct volume_copy *cp, const char *from, const char *to,
		   struct warren_error *err)
{
	int r;

	tree_upload = (struct tree_upload){ .cp = cp, .to = to, .skip = strlen(from) };
	r = nftw(from, tree_on_found, TREE_FDS, FTW_PHYS);
	if (r > 0) {
		*err = tree_upload.err;
		return -err->code;
	}
	return r < 0 ? error_errno(err, errno, "'%s'", from) : 0;
}

/* -------------------------------------------------------------- out of the volume */

struct tree_download {
	struct volume_copy *cp;
	const char *from; /* VOLUME:PATH, without a slash at the end */
	int base;         /* the directory on this machine */
	char **dirs;      /* relative to it, still to be copied */
};

/* Open a directory that tree_get_dir() has made, without following a link. */
static int tree_open_dir(int base, const char *path)
{
	int at = fcntl(base, F_DUPFD_CLOEXEC, 3);

	while (at >= 0 && *path) {
		size_t n = strcspn(path, "/");
		char name[256];
		int next;

		if (n >= sizeof(name)) {
			(void)close(at);
			errno = ENAMETOOLONG;
			return -1;
		}
		(void)memcpy(name, path, n);
		name[n] = '\0';
		next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(at);
		at = next;
		path += n + strspn(path + n, "/");
	}
	return at;
}

/* Replace a file, but not a directory. */
static int tree_get_file(struct tree_download *d, int dir, const char *name,
			 const char *word, const json_t *entry, struct warren_error *err)
{
	mode_t mode = (mode_t)strtoul(print_text_of(entry, "mode"), NULL, 8) & TREE_MODE;
	int r;

	d->cp->outside.name = name;
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return error_errno(err, errno, "replace '%s'", name);
	d->cp->outside.fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       mode | 0200);
	if (d->cp->outside.fd < 0)
		return error_errno(err, errno, "create '%s'", name);
	r = volume_cp_get(d->cp, word, err);
	(void)close(TAKE_FD(d->cp->outside.fd));
	return r;
}

static int tree_get_entry(struct tree_download *d, int dir, const char *rel,
			  const json_t *entry, struct warren_error *err)
{
	const char *type = print_text_of(entry, "type");
	const char *slash = strrchr(print_text_of(entry, "path"), '/');
	const char *name = slash ? slash + 1 : "";
	char below[TREE_WORD], word[TREE_WORD];

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return error_set(err, EPROTO,
				 "the service sent a name that is not valid");
	if (snprintf(below, sizeof(below), "%s%s%s", rel, *rel ? "/" : "", name) >=
		    (int)sizeof(below) ||
	    snprintf(word, sizeof(word), "%s/%s", d->from, below) >= (int)sizeof(word))
		return error_errno(err, ENAMETOOLONG, "'%s'", name);
	if (strcmp(type, "directory") == 0) {
		if (mkdirat(dir, name, TREE_MODE) < 0 && errno != EEXIST)
			return error_errno(err, errno, "create '%s'", below);
		return strv_add(&d->dirs, below) < 0
			       ? error_errno(err, ENOMEM, "copy '%s'", below)
			       : 0;
	}
	if (strcmp(type, "link") == 0) {
		if ((unlinkat(dir, name, 0) < 0 && errno != ENOENT) ||
		    symlinkat(print_text_of(entry, "link_target"), dir, name) < 0)
			return error_errno(err, errno, "create '%s'", below);
		return 0;
	}
	if (strcmp(type, "file") == 0)
		return tree_get_file(d, dir, name, word, entry, err);
	tree_skip(word);
	return 0;
}

static int tree_get_dir(struct tree_download *d, const char *rel,
			struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_JSON json_t *answer = NULL;
	AUTO_CLOSE int dir = tree_open_dir(d->base, rel);
	char word[TREE_WORD];
	const json_t *entries;
	int r = 0;

	if (dir < 0)
		return error_errno(err, errno, "open '%s'", rel);
	(void)snprintf(word, sizeof(word), "%s/%s", d->from, rel);
	buf_printf(&url, "/v1/volumes/%.*s/files/list", (int)(strchr(word, ':') - word),
		   word);
	put_query(&url, "path", strchr(word, ':') + 1);
	r = client_call(d->cp->client, "GET", url.data, NULL, &answer, err);
	if (r == 0 && json_is_true(json_object_get(answer, "truncated")))
		r = error_set(err, E2BIG, "'%s' has more than %d entries", word,
			      TREE_ENTRIES);
	entries = json_object_get(answer, "entries");
	for (size_t i = 0; r == 0 && i < json_array_size(entries); i++)
		r = tree_get_entry(d, dir, rel, json_array_get(entries, i), err);
	return r;
}

int volume_tree_out(struct volume_copy *cp, const char *from, const char *to,
		    struct warren_error *err)
{
	struct tree_download d = { .cp = cp };
	AUTO_CLOSE int base = -1;
	char word[TREE_WORD];
	int r;

	(void)snprintf(word, sizeof(word), "%s", from);
	for (size_t n = strlen(word); n > 0 && word[n - 1] == '/'; n--)
		word[n - 1] = '\0';
	d.from = word;
	if (mkdir(to, TREE_MODE) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create '%s'", to);
	base = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base < 0)
		return error_errno(err, errno, "open '%s'", to);
	d.base = base;
	r = tree_get_dir(&d, "", err);
	for (size_t i = 0; r == 0 && d.dirs && d.dirs[i]; i++)
		r = tree_get_dir(&d, d.dirs[i], err);
	(void)strv_free(d.dirs);
	return r;
}
