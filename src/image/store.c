/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - find images, read and write their records */
#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/hex.h"
#include "base/strv.h"
#include "base/userdirs.h"
#include "image/escape.h"

/* ----------------------------------------------------------- directories of the store */

int store_state_dir(char **ret, struct warren_error *err)
{
	return state_dir_default(ret, err);
}

static int open_dir(int at, const char *name, bool make)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && make) {
		/*
		 * Layers contain set-id files of root, so no other user may access them.
		 */
		if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

int store_open(const char *state_dir, bool make, struct store *ret,
	       struct warren_error *err)
{
	struct store s = { -1, -1, -1, -1, -1, NULL };
	AUTO_CLOSE int state = -1;
	int r = make ? fd_make_dirs(state_dir, 0755) : 0;

	state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r < 0 || state < 0)
		return error_errno(err, r < 0 ? -r : errno,
				   "open the image store in '%s'", state_dir);
	s.images = open_dir(state, "images", make);
	s.layers = s.images < 0 ? s.images : open_dir(state, "layers", make);
	s.refs = s.layers < 0 ? s.layers : open_dir(s.images, "refs", make);
	s.data = s.refs < 0 ? s.refs : open_dir(s.layers, "d", make);
	if (s.data >= 0) {
		s.lock = openat(s.images, "lock",
				O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0600);
		if (s.lock < 0)
			s.data = -errno;
	}
	if (make && s.data >= 0)
		(void)fchmod(s.layers, 0700);
	if (s.data >= 0 && asprintf(&s.path, "%s/layers/d", state_dir) < 0)
		s.data = -ENOMEM;
	if (s.data < 0) {
		r = s.data;
		store_close(&s);
		return error_errno(err, -r, "open the image store in '%s'", state_dir);
	}
	*ret = s;
	return 0;
}

#define PIN "saved-"

int store_pin_image(const char *state_dir, const char *id, const char *saved,
		    struct warren_error *err)
{
	const char *slash = strrchr(saved, '/');
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int dir = -1;
	char name[sizeof(PIN) + 200], to[sizeof("../../saved/") + 200];

	(void)snprintf(name, sizeof(name), PIN "%.200s", slash ? slash + 1 : saved);
	(void)snprintf(to, sizeof(to), "../../saved/%.200s", saved);
	if (asprintf(&path, "%s/images/%s", state_dir, strchr(id, ':') + 1) < 0) {
		path = NULL;
		return error_errno(err, ENOMEM, "keep the image");
	}
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || (symlinkat(to, dir, name) < 0 && errno != EEXIST) ||
	    fsync(dir) < 0)
		return error_errno(err, errno, "keep the image of the sandbox");
	return 0;
}

/* If the files of a link do not exist, the image is not needed. */
bool store_is_pinned(int dir)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	bool pinned = false;
	struct dirent *e;
	struct stat st;

	while (d && !pinned && (e = readdir(d)))
		pinned = strncmp(e->d_name, PIN, strlen(PIN)) == 0 &&
			 (fstatat(dir, e->d_name, &st, 0) == 0 || errno == EACCES);
	if (d)
		(void)closedir(d);
	else if (copy >= 0)
		(void)close(copy);
	return pinned;
}

void store_close(struct store *s)
{
	const int fds[] = { s->images, s->refs, s->layers, s->data, s->lock };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	free(s->path);
	*s = (struct store){ -1, -1, -1, -1, -1, NULL };
}

int store_layer(const struct store *s, const char *diff_id, char ret[STORE_SHORT_LEN + 1])
{
	char target[64];
	ssize_t n;

	if (!ref_digest_valid(diff_id))
		return -EINVAL;
	n = readlinkat(s->layers, diff_id + 7, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	if (n != STORE_SHORT_LEN + 2 || strncmp(target, "d/", 2) != 0)
		return -EINVAL;
	target[n] = '\0';
	if (faccessat(s->data, target + 2, F_OK, 0) < 0)
		return -errno;
	(void)strcpy(ret, target + 2);
	return 0;
}

/* -------------------------------------------------------------- records of images */

static void store_put_line(struct buf *out, const char *key, const char *value)
{
	if (!value)
		return;
	buf_printf(out, "%s ", key);
	encode_line(out, value);
	buf_puts(out, "\n");
}

static void store_put_list(struct buf *out, const char *key, char **list)
{
	for (; list && *list; list++)
		store_put_line(out, key, *list);
}

void store_write_record(const struct store_image *image, struct buf *out)
{
	buf_puts(out, "warren-image 1\n");
	store_put_line(out, "id", image->id);
	store_put_line(out, "manifest", image->manifest);
	store_put_line(out, "platform", image->platform);
	store_put_line(out, "created", image->created);
	store_put_line(out, "user", image->user);
	store_put_line(out, "workdir", image->workdir);
	if (image->base && image->base[0])
		store_put_line(out, "base", image->base);
	if (image->snapshot && image->snapshot[0])
		store_put_line(out, "snapshot", image->snapshot);
	buf_printf(out, "size %" PRIu64 "\n", image->size);
	store_put_list(out, "env", image->env);
	store_put_list(out, "entrypoint", image->entrypoint);
	store_put_list(out, "cmd", image->cmd);
	store_put_list(out, "volume", image->volumes);
	store_put_list(out, "label", image->labels);
	store_put_list(out, "layer", image->layers);
}

static int store_set_text(char **field, const char *value)
{
	free(*field);
	*field = strdup(value);
	return *field ? 0 : -ENOMEM;
}

static int set_digest(char *field, const char *value)
{
	if (!ref_digest_valid(value))
		return -EBADMSG;
	(void)strcpy(field, value);
	return 0;
}

static int store_add_layer(char ***list, const char *value)
{
	return ref_digest_valid(value) ? strv_add(list, value) : -EBADMSG;
}

static int store_read_line(struct store_image *im, const char *key, const char *value)
{
	struct {
		const char *key;
		char **text, ***list;
		char *digest;
	} fields[] = {
		{ "id", NULL, NULL, im->id },
		{ "manifest", NULL, NULL, im->manifest },
		{ "platform", &im->platform, NULL, NULL },
		{ "created", &im->created, NULL, NULL },
		{ "user", &im->user, NULL, NULL },
		{ "workdir", &im->workdir, NULL, NULL },
		{ "base", &im->base, NULL, NULL },
		{ "snapshot", &im->snapshot, NULL, NULL },
		{ "env", NULL, &im->env, NULL },
		{ "entrypoint", NULL, &im->entrypoint, NULL },
		{ "cmd", NULL, &im->cmd, NULL },
		{ "volume", NULL, &im->volumes, NULL },
		{ "label", NULL, &im->labels, NULL },
	};

	if (strcmp(key, "size") == 0) {
		im->size = strtoull(value, NULL, 10);
		return 0;
	}
	if (strcmp(key, "layer") == 0)
		return store_add_layer(&im->layers, value);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (strcmp(key, fields[i].key) != 0)
			continue;
		if (fields[i].digest)
			return set_digest(fields[i].digest, value);
		return fields[i].text ? store_set_text(fields[i].text, value)
				      : strv_add(fields[i].list, value);
	}
	return -EBADMSG;
}

static int init_image(struct store_image *im)
{
	char ***lists[] = { &im->env,     &im->entrypoint, &im->cmd,
			    &im->volumes, &im->labels,     &im->layers };
	char **texts[] = { &im->platform, &im->created, &im->user,
			   &im->workdir,  &im->base,    &im->snapshot };
	bool ok = true;

	*im = (struct store_image){ .lock = -1 };
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		ok &= (*lists[i] = calloc(1, sizeof(char *))) != NULL;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		ok &= (*texts[i] = strdup("")) != NULL;
	return ok ? 0 : -ENOMEM;
}

int store_read_record(char *text, struct store_image *ret)
{
	struct store_image im;
	char *save = NULL, *line = strtok_r(text, "\n", &save);
	int r = init_image(&im);

	if (r == 0 && (!line || strcmp(line, "warren-image 1") != 0))
		r = -EBADMSG;
	while (r == 0 && (line = strtok_r(NULL, "\n", &save))) {
		char *space = strchr(line, ' ');

		if (!space) {
			r = -EBADMSG;
			break;
		}
		*space = '\0';
		r = decode_line(space + 1);
		if (r == 0)
			r = store_read_line(&im, line, space + 1);
	}
	if (r == 0 && !im.id[0])
		r = -EBADMSG;
	if (r < 0) {
		store_image_done(&im);
		return r;
	}
	*ret = im;
	return 0;
}

const char *store_daemon_image(const char *base)
{
	size_t n = strlen(STORE_DAEMON_BASE);

	/* A reference with the name "docker" has no second colon. */
	return base && strncmp(base, STORE_DAEMON_BASE, n) == 0 &&
			       ref_digest_valid(base + n)
		       ? base + n
		       : NULL;
}

int store_refuse_daemon(struct warren_error *err)
{
	return error_set(err, EOPNOTSUPP,
			 "it is a snapshot of a docker sandbox, stacked on an image that "
			 "only the docker daemon has: create docker sandboxes from it");
}

void store_image_done(struct store_image *im)
{
	char **lists[] = { im->env,     im->entrypoint, im->cmd,
			   im->volumes, im->labels,     im->layers };
	char *texts[] = { im->platform, im->created, im->user,
			  im->workdir,  im->base,    im->snapshot };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		(void)strv_free(lists[i]);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(texts[i]);
	if (im->lock >= 0)
		(void)close(im->lock);
	*im = (struct store_image){ .lock = -1 };
}

/* ----------------------------------------------------------------- search */

static int load_image(const struct store *s, const char *hex, struct store_image *ret)
{
	AUTO_CLOSE int dir =
		openat(s->images, hex, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FREE char *text = malloc(STORE_RECORD_MAX);
	struct stat st;
	ssize_t n;
	int r;

	if (!text)
		return -ENOMEM;
	if (dir < 0 || flock(dir, LOCK_SH) < 0)
		return -errno;
	/* It was removed between the two calls. */
	if (fstatat(s->images, hex, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	n = fd_read_file_at(dir, "record", text, STORE_RECORD_MAX);
	if (n < 0)
		return (int)n;
	/* Layers are at the end: a part of a record would look like fewer of them. */
	if (n == 0 || strlen(text) != (size_t)n || text[n - 1] != '\n')
		return -EBADMSG;
	r = store_read_record(text, ret);
	if (r == 0 && strcmp(ret->id + 7, hex) != 0) {
		store_image_done(ret);
		return -EBADMSG;
	}
	if (r == 0)
		ret->lock = TAKE_FD(dir);
	return r;
}

/* Find the id that the reference names. */
static int resolve_ref(const struct store *s, const struct ref *ref,
		       char hex[STORE_HEX_LEN + 1])
{
	char text[REF_TEXT_MAX], id[REF_DIGEST_LEN + 2];
	AUTO_BUF struct buf name = BUF_INIT(4096);
	ssize_t n;

	ref_text(ref, text);
	encode_name(&name, text);
	if (name.failed)
		return -ENAMETOOLONG;
	n = fd_read_file_at(s->refs, name.data, id, sizeof(id));
	if (n < 0)
		return (int)n;
	id[strcspn(id, "\n")] = '\0';
	if (!ref_digest_valid(id))
		return -EBADMSG;
	(void)strcpy(hex, id + 7);
	return 0;
}

/* Is the image a snapshot? It then belongs to a tenant, and only its whole id finds it.
 */
static bool is_snapshot(const struct store *s, const char *hex)
{
	struct store_image image = { 0 };
	bool is;

	if (load_image(s, hex, &image) < 0)
		return false;
	is = image.snapshot && image.snapshot[0];
	store_image_done(&image);
	return is;
}

/* Find the only image whose id begins with @prefix. */
static int resolve_prefix(const struct store *s, const char *prefix,
			  char hex[STORE_HEX_LEN + 1])
{
	int copy = openat(s->images, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;
	int found = 0;

	while (d && (e = readdir(d))) {
		if (strlen(e->d_name) != STORE_HEX_LEN ||
		    strncmp(e->d_name, prefix, strlen(prefix)) != 0 ||
		    is_snapshot(s, e->d_name))
			continue;
		found++;
		(void)memcpy(hex, e->d_name, STORE_HEX_LEN + 1);
	}
	if (d)
		(void)closedir(d);
	return found == 1 ? 0 : found ? -ENOTUNIQ : -ENOENT;
}

static bool looks_like_id(const char *text)
{
	size_t n = strlen(text);

	return n >= 6 && n <= STORE_HEX_LEN && hex_is(text, n);
}

int store_find(const struct store *s, const char *text, struct store_image *ret,
	       struct warren_error *err)
{
	const char *id = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;
	char hex[STORE_HEX_LEN + 1] = "";
	struct ref ref;
	int r = -ENOENT;

	if (id == text) {
		r = ref_parse(text, &ref, err);
		if (r < 0)
			return r;
		r = resolve_ref(s, &ref, hex);
	}
	if (r == -ENOENT && strlen(id) == STORE_HEX_LEN && looks_like_id(id)) {
		(void)memcpy(hex, id, sizeof(hex)); /* no need to read the whole list */
		r = 0;
	} else if (r == -ENOENT && looks_like_id(id)) {
		r = resolve_prefix(s, id, hex);
	}
	if (r == 0)
		r = load_image(s, hex, ret);
	if (r == -ENOENT)
		return error_set(err, ENOENT, "there is no image '%s' on this machine",
				 text);
	if (r == -ENOTUNIQ)
		return error_set(err, ENOTUNIQ,
				 "'%s' is ambiguous: several image ids begin with it",
				 text);
	if (r < 0)
		return error_errno(err, -r, "read image '%s'", text);
	return 0;
}
