/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_copy.c - COPY, ADD and WORKDIR
 *
 * The sources are listed first, then hashed; only if the cache does not have the result,
 * they are copied into a new layer. An archive that ADD unpacks is unpacked into a
 * directory of the store by confined processes (unpack.h), and copied from there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/passwd.h"
#include "base/strv.h"
#include "cli/image/build.h"
#include "image/layer_add.h"
#include "image/oci.h"
#include "image/unpack.h"

#define ID_MAX     65535 /* the highest id in a sandbox */
#define PASSWD_MAX (4U << 20)

/* One source that matches, and the files in it. */
struct copy_source {
	struct copy_list list;
	char *name;   /* the last component, as it was given */
	bool is_dir;  /* its contents are copied, but not the directory itself */
	bool archive; /* ADD unpacks it */
};

struct copy_work {
	struct build_step *step;
	struct dockerfile_copy copy;
	struct view other; /* the files of --from */
	struct store_image image;
	const struct view *from;
	struct copy_source *v;
	size_t n;
	uid_t uid;
	gid_t gid;
};

static void copy_work_done(struct copy_work *w)
{
	for (size_t i = 0; i < w->n; i++) {
		copy_list_done(&w->v[i].list);
		free(w->v[i].name);
	}
	free(w->v);
	view_close(&w->other);
	store_image_done(&w->image);
	dockerfile_copy_done(&w->copy);
}

/* ----------------------------------------------------------------- matching */

struct match_op {
	const struct view *from;
	int (*fn)(void *ctx, const char *path, const char *name,
		  struct warren_error *err);
	void *ctx;
	size_t found;
	struct warren_error *err;
};

/* Resolve the links of a path without patterns; if it exists, call the function. */
static int match_one(struct match_op *op, const char *path)
{
	AUTO_FREE char *resolved = NULL;
	const char *slash = strrchr(path, '/');
	int r = view_resolve(op->from, path, true, &resolved);

	if (r < 0)
		return error_errno(op->err, -r, "find '%s'", path);
	if (r == 0)
		return 0;
	op->found++;
	return op->fn(op->ctx, resolved, slash ? slash + 1 : path, op->err);
}

static int match_rest(struct match_op *op, const char *done, const char *rest);

/* Continue in @name of the directory @done. */
static int match_below(struct match_op *op, const char *done, const char *name,
		       const char *rest)
{
	AUTO_FREE char *path = NULL;

	if (asprintf(&path, "%s%s%s", done, *done ? "/" : "", name) < 0) {
		path = NULL;
		return error_errno(op->err, ENOMEM, "find the sources");
	}
	return match_rest(op, path, rest);
}

/* @done is a path without patterns; @rest is "/component/...". */
static int match_rest(struct match_op *op, const char *done, const char *rest)
{
	AUTO_FREE char *component = NULL, *dir = NULL;
	AUTO_STRV char **names = NULL;
	const char *next;
	int r;

	rest += strspn(rest, "/");
	if (!*rest)
		return match_one(op, done);
	next = rest + strcspn(rest, "/");
	component = strndup(rest, (size_t)(next - rest));
	if (!component)
		return error_errno(op->err, ENOMEM, "find the sources");
	if (!ignore_is_glob(component))
		return match_below(op, done, component, next);
	r = view_resolve(op->from, done, true, &dir);
	if (r < 0)
		return error_errno(op->err, -r, "find '%s'", done);
	r = r > 0 ? view_list(op->from, dir, &names) : 0;
	if (r < 0)
		return error_errno(op->err, -r, "list '%s'", done);
	for (char **n = names; r == 0 && n && *n; n++)
		if (ignore_glob(component, *n))
			r = match_below(op, done, *n, next);
	return r;
}

int build_match(const struct view *from, const char *source,
		int (*fn)(void *ctx, const char *path, const char *name,
			  struct warren_error *err),
		void *ctx, struct warren_error *err)
{
	struct match_op op = { .from = from, .fn = fn, .ctx = ctx, .err = err };
	AUTO_FREE char *clean = dockerfile_join("/", source);
	int r = clean ? match_rest(&op, "", clean)
		      : error_errno(err, ENOMEM, "find the sources");

	if (r == 0 && op.found == 0 && !ignore_is_glob(source))
		return error_set(err, ENOENT, "'%.300s' does not exist", source);
	return r;
}

/* ------------------------------------------------------------------ sources */

static bool copy_ignored(void *ctx, const char *path)
{
	return ignore_match(ctx, path);
}

/* Return whether the file is compressed or a tar archive. */
static bool copy_is_archive(const struct view *from, const char *path, size_t layer)
{
	static const struct {
		size_t at;
		const char *magic;
		size_t n;
	} known[] = { { 0, "\x1f\x8b", 2 },
		      { 0, "BZh", 3 },
		      { 0,
			"\xfd"
			"7zXZ",
			5 },
		      { 0, "\x28\xb5\x2f\xfd", 4 },
		      { 257, "ustar", 5 } };
	AUTO_CLOSE int fd = view_open_in(from, layer, path);
	char head[512] = "";
	ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);

	for (size_t i = 0; n > 0 && i < ARRAY_SIZE(known); i++)
		if ((size_t)n >= known[i].at + known[i].n &&
		    memcmp(head + known[i].at, known[i].magic, known[i].n) == 0)
			return true;
	return false;
}

static int copy_excluded(const char *path, struct warren_error *err)
{
	return error_set(err, ENOENT,
			 "'%.300s' is excluded by .dockerignore, or is a socket", path);
}

static int copy_add_match(void *ctx, const char *path, const char *name,
			  struct warren_error *err)
{
	struct copy_work *w = ctx;
	struct build *b = w->step->b;
	bool context = !w->copy.from;
	struct copy_source *grown = reallocarray(w->v, w->n + 1, sizeof(*grown)), *s;
	struct stat st;
	size_t layer;
	int r;

	if (!grown)
		return error_errno(err, ENOMEM, "list the files to copy");
	w->v = grown;
	s = &grown[w->n];
	*s = (struct copy_source){ .list = { .from = w->from,
					     .skip = context ? copy_ignored : NULL,
					     .skip_has_exceptions =
						     b->ignore.has_exceptions,
					     .ctx = &b->ignore,
					     .cancelled = build_cancelled },
				   .name = strdup(name) };
	w->n++;
	if (!s->name)
		return error_errno(err, ENOMEM, "list the files to copy");
	r = view_stat(w->from, path, &st, &layer);
	if (r < 0)
		return error_errno(err, -r, "inspect '%s'", path);
	s->is_dir = S_ISDIR(st.st_mode);
	s->archive = w->copy.unpack && S_ISREG(st.st_mode) &&
		     copy_is_archive(w->from, path, layer);
	r = copy_list_add(&s->list, path, "", err);
	return r == 0 && s->list.n == 0 && !s->is_dir ? copy_excluded(path, err) : r;
}

static int copy_find_sources(struct copy_work *w, struct warren_error *err)
{
	struct build *b = w->step->b;
	int r = 0;

	w->from = &b->source;
	if (w->copy.from) {
		r = build_open_source(b, w->step->k, w->copy.from, &w->other, &w->image,
				      err);
		w->from = &w->other;
	}
	for (char **s = w->copy.sources; r == 0 && s && *s; s++) {
		AUTO_FREE char *clean = dockerfile_join("/", *s);

		r = build_match(w->from, *s, copy_add_match, w, err);
		/* A client of the service does not send what is excluded. */
		if (r == -ENOENT && b->request && !w->copy.from && clean &&
		    ignore_match(&b->ignore, clean + 1))
			r = copy_excluded(clean + 1, err);
	}
	return r;
}

/* -------------------------------------------------------------------- owner */

/*
 * Look up a user or group, given by name or number, in /etc/passwd or /etc/group of the
 * image.
 */
static int owner_id(const struct view *image, const char *file, const char *text,
		    bool group, struct passwd_entry *user, uint32_t *ret,
		    struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_FREE char *data = NULL;
	uint64_t number;
	size_t size = 0;
	int r;

	if (parse_u64(text, UINT32_MAX, &number, &ignored) == 0) {
		*ret = (uint32_t)number;
		return number > ID_MAX
			       ? error_set(err, EINVAL,
					   "--chown: %s is more than %d, the highest id",
					   text, ID_MAX)
			       : 0;
	}
	r = view_read(image, file, PASSWD_MAX, &data, &size);
	if (r < 0 && r != -ENOENT)
		return error_errno(err, -r, "read /%s of the image", file);
	r = !data   ? -ENOENT
	    : group ? passwd_find_group(data, size, text, ret)
		    : passwd_find(data, size, text, 0, user);
	if (r < 0)
		return error_set(err, ENOENT, "--chown: the image has no %s '%.80s'",
				 group ? "group" : "user", text);
	if (!group)
		*ret = user->uid;
	return 0;
}

/* "user", "user:group", "1:1"; without a group, a number is also the group. */
static int copy_owner(struct copy_work *w, const struct view *image,
		      struct warren_error *err)
{
	struct passwd_entry entry = { 0 };
	AUTO_FREE char *user = NULL;
	char *group;
	uint32_t uid = 0, gid = 0;
	int r;

	if (!w->copy.owner)
		return 0;
	user = strdup(w->copy.owner);
	if (!user)
		return error_errno(err, ENOMEM, "read --chown");
	group = strchr(user, ':');
	if (group)
		*group++ = '\0';
	r = owner_id(image, "etc/passwd", user, false, &entry, &uid, err);
	if (r == 0 && group)
		r = owner_id(image, "etc/group", group, true, NULL, &gid, err);
	else if (r == 0)
		gid = entry.name[0] ? entry.gid : uid;
	w->uid = uid;
	w->gid = gid;
	return r;
}

/* --------------------------------------------------------------------- hash */

static int copy_hash(struct copy_work *w, struct warren_error *err)
{
	struct hash *h = w->step->hash;
	int r = 0;

	hash_text(h, w->copy.dest);
	hash_number(h, w->copy.owner != NULL);
	hash_number(h, w->uid);
	hash_number(h, w->gid);
	hash_number(h, (uint64_t)(int64_t)w->copy.mode);
	hash_number(h, w->copy.unpack);
	for (size_t i = 0; i < w->copy.n_files; i++) {
		hash_text(h, w->copy.files[i].name);
		hash_text(h, w->copy.files[i].data);
	}
	for (size_t i = 0; r == 0 && i < w->n; i++) {
		hash_text(h, w->v[i].is_dir ? "" : w->v[i].name);
		r = copy_list_hash(&w->v[i].list, w->copy.from && !w->copy.owner, h, err);
	}
	return r;
}

/* --------------------------------------------------------------------- copy */

/* "dest/name" if the destination is a directory. */
static int copy_target(const struct layer_add *a, const char *dest, const char *name,
		       char **ret, struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	size_t n = strlen(dest);
	bool dir = dest[n - 1] == '/';
	int r = layer_add_resolve(a, dest, &path, err);

	if (r < 0)
		return r;
	if (!dir && r == 0) {
		*ret = TAKE_PTR(path);
		return 0;
	}
	if (asprintf(ret, "%s%s%s", path, *path ? "/" : "", name) < 0)
		return error_errno(err, ENOMEM, "copy files");
	return 0;
}

static bool copy_cancelled(void *ctx UNUSED)
{
	return build_cancelled();
}

/*
 * Unpack an archive, and copy its tree to the destination, which is a directory. *@ret_is
 * is false if the file is not an archive.
 */
static int copy_unpack(struct copy_work *w, struct layer_add *a,
		       const struct copy_source *s, bool *ret_is,
		       struct warren_error *err)
{
	const struct store *store = &w->step->b->store;
	const struct build_request *q = w->step->b->request;
	const struct unpack_watch watch = { copy_cancelled, NULL };
	const struct unpack_options o = { .max_bytes = q ? BUILD_BYTES_MAX - q->bytes
							 : OCI_BYTES_MAX,
					  .watch = &watch };
	AUTO_CLOSE int blob =
		view_open_in(w->from, s->list.v[0].layer, s->list.v[0].path);
	AUTO_FREE char *dest = NULL;
	struct copy_list list = { .cancelled = build_cancelled };
	struct store_new dir = { .fd = -1 };
	struct view view = { 0 };
	struct unpack_result res;
	bool keep = a->keep_ids;
	int r;

	if (blob < 0)
		return error_errno(err, -blob, "open '%s'", s->list.v[0].path);
	r = store_new_work(store, &dir, err);
	if (r == 0)
		r = unpack_archive(blob, dir.fd, &o, &res, err);
	*ret_is = r == 0;
	if (r == 0 && view_open_plain(dir.fd, &view) < 0)
		r = error_errno(err, ENOMEM, "open the archive");
	list.from = &view;
	if (r == 0)
		r = copy_list_add(&list, "", "", err);
	if (r == 0)
		r = layer_add_resolve(a, w->copy.dest, &dest, err);
	a->keep_ids = !w->copy.owner;
	if (r >= 0)
		r = layer_add_list(a, &list, dest, err);
	a->keep_ids = keep;
	copy_list_done(&list);
	view_close(&view);
	store_drop_layer(store, &dir);
	return r;
}

/* A compressed file that is not an archive is copied as it is. */
static bool copy_named_archive(const char *name)
{
	static const char *const ends[] = { ".tar",     ".tar.gz",  ".tgz",
					    ".tar.bz2", ".tbz2",    ".tar.xz",
					    ".txz",     ".tar.zst", ".tzst" };
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (n > strlen(ends[i]) &&
		    strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

static int copy_source(struct copy_work *w, struct layer_add *a,
		       const struct copy_source *s, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	AUTO_FREE char *to = NULL;
	bool is = copy_named_archive(s->name);
	int r;

	if (s->archive) {
		bool unpacked = false;

		r = copy_unpack(w, a, s, &unpacked, &why);
		if (r >= 0)
			return r;
		if (is || unpacked) {
			*err = why;
			return error_wrap(err, "unpack '%.200s'", s->name);
		}
	}
	r = s->is_dir ? layer_add_resolve(a, w->copy.dest, &to, err)
		      : copy_target(a, w->copy.dest, s->name, &to, err);
	return r < 0 ? r : layer_add_list(a, &s->list, to, err);
}

static int copy_files(struct copy_work *w, struct layer_add *a, struct warren_error *err)
{
	int r = 0;

	a->keep_ids = w->copy.from && !w->copy.owner;
	a->uid = w->uid;
	a->gid = w->gid;
	a->mode = w->copy.mode;
	if (w->copy.dest[strlen(w->copy.dest) - 1] == '/')
		r = layer_add_dirs(a, w->copy.dest, err);
	for (size_t i = 0; r == 0 && i < w->n; i++)
		r = copy_source(w, a, &w->v[i], err);
	for (size_t i = 0; r == 0 && i < w->copy.n_files; i++) {
		const struct dockerfile_file *f = &w->copy.files[i];
		AUTO_FREE char *to = NULL;

		r = copy_target(a, w->copy.dest, f->name, &to, err);
		if (r == 0)
			r = layer_add_file(a, to, f->data, strlen(f->data), err);
	}
	return r < 0 ? r : layer_add_finish(a, err);
}

static void copy_note_owner(struct copy_work *w)
{
	struct build *b = w->step->b;

	if (!w->copy.owner || geteuid() == 0 || b->noted_owner ||
	    (w->uid == 0 && w->gid == 0))
		return;
	b->noted_owner = true;
	message_say(image_build.name,
		    "note: --chown has no effect, because an ordinary user's images have "
		    "only one owner");
}

static int copy_run(struct copy_work *w, struct warren_error *err)
{
	struct build *b = w->step->b;
	struct build_stage *stage = &b->stages[w->step->k];
	const struct store_image *image = stage->image.id[0] ? &stage->image : NULL;
	char key[HASH_LEN + 1];
	struct store_new layer;
	struct layer_add a;
	int r = copy_hash(w, err);

	if (r == 0)
		r = build_step_cached(w->step, key, err);
	if (r != 0)
		return r;
	copy_note_owner(w);
	r = build_layer_begin(b, &layer, err);
	if (r < 0)
		return r;
	r = layer_add_init(&a, &b->store, image, layer.fd, err);
	if (r == 0) {
		r = copy_files(w, &a, err);
		layer_add_done(&a);
	}
	r = build_layer_end(w->step, key, &layer, r, err);
	return r < 0 ? r : 1;
}

int build_copy(struct build_step *step, struct warren_error *err)
{
	const struct build_stage *stage = &step->b->stages[step->k];
	struct copy_work w = { .step = step, .image = { .lock = -1 } };
	struct view files = { 0 };
	int r = dockerfile_copy_parse(&step->b->file, step->i, &stage->state, &w.copy,
				      err);

	if (r < 0)
		return r;
	r = copy_find_sources(&w, err);
	if (r == 0 && w.copy.owner && stage->image.id[0])
		r = view_open(&step->b->store, &stage->image, -1, &files, err);
	if (r == 0)
		r = copy_owner(&w, &files, err);
	view_close(&files);
	if (r == 0)
		r = copy_run(&w, err);
	copy_work_done(&w);
	return r;
}

/* ------------------------------------------------------------------ WORKDIR */

/* 1: the image has a directory there. */
static int workdir_exists(struct build *b, const struct store_image *image,
			  const char *path, struct warren_error *err)
{
	AUTO_FREE char *resolved = NULL;
	struct view files = { 0 };
	struct stat st;
	int r;

	if (strcmp(path, "/") == 0 || !image)
		return strcmp(path, "/") == 0;
	r = view_open(&b->store, image, -1, &files, err);
	if (r < 0)
		return r;
	r = view_resolve(&files, path, true, &resolved);
	if (r > 0)
		r = view_stat(&files, resolved, &st, NULL) == 0 && S_ISDIR(st.st_mode);
	view_close(&files);
	return r < 0 ? error_errno(err, -r, "find '%s'", path) : r;
}

static int workdir_make(struct build_step *step, const struct store_image *image,
			const char *path, const char *key, struct warren_error *err)
{
	struct store_new layer;
	struct layer_add a;
	int r = build_layer_begin(step->b, &layer, err);

	if (r < 0)
		return r;
	r = layer_add_init(&a, &step->b->store, image, layer.fd, err);
	if (r == 0) {
		r = layer_add_dirs(&a, path, err);
		if (r == 0)
			r = layer_add_finish(&a, err);
		layer_add_done(&a);
	}
	return build_layer_end(step, key, &layer, r, err);
}

int build_workdir(struct build_step *step, struct warren_error *err)
{
	const struct build_stage *stage = &step->b->stages[step->k];
	const struct store_image *image = stage->image.id[0] ? &stage->image : NULL;
	const char *path = stage->state.workdir;
	char key[HASH_LEN + 1];
	int r = workdir_exists(step->b, image, path, err);

	if (r != 0)
		return r < 0 ? r : 0;
	hash_text(step->hash, path);
	r = build_step_cached(step, key, err);
	if (r != 0)
		return r;
	r = workdir_make(step, image, path, key, err);
	return r < 0 ? r : 1;
}
