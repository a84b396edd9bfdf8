/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_mount.c - the mounts of RUN --mount
 *
 *	bind	a copy of files of the context, a stage or an image: .dockerignore
 *		applies, and files that the command writes there are discarded
 *	cache	a directory of the store that all builds share, by its id
 *	tmpfs	empty
 *	secret	a file of the user, by --secret; not part of the image or of the key
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strv.h"
#include "cli/image/build.h"
#include "image/copy.h"
#include "image/layer_add.h"

#define SECRET_MAX (1U << 20)

/* ------------------------------------------------------------------ sources */

struct mount_source {
	struct view other;
	struct store_image image;
	struct copy_list list;
	char *name;
};

static void build_mount_source_done(struct mount_source *s)
{
	copy_list_done(&s->list);
	view_close(&s->other);
	store_image_done(&s->image);
	free(s->name);
}

static bool build_mount_ignored(void *ctx, const char *path)
{
	return ignore_match(ctx, path);
}

static int build_mount_add_match(void *ctx, const char *path, const char *name,
				 struct warren_error *err)
{
	struct mount_source *s = ctx;

	if (s->name)
		return error_set(err, EINVAL, "--mount: several files match its source");
	s->name = strdup(name);
	return s->name ? copy_list_add(&s->list, path, "", err)
		       : error_errno(err, ENOMEM, "list the files of a mount");
}

/* List the files of a bind mount. */
static int build_mount_source_open(struct build_step *step,
				   const struct dockerfile_mount *m,
				   struct mount_source *s, struct warren_error *err)
{
	struct build *b = step->b;
	int r = 0;

	*s = (struct mount_source){ .image = { .lock = -1 },
				    .list = { .from = &b->source,
					      .cancelled = build_cancelled } };
	if (m->from) {
		r = build_open_source(b, step->k, m->from, &s->other, &s->image, err);
		s->list.from = &s->other;
	} else {
		s->list.skip = build_mount_ignored;
		s->list.skip_has_exceptions = b->ignore.has_exceptions;
		s->list.ctx = &b->ignore;
	}
	return r < 0 ? r
		     : build_match(s->list.from, m->source, build_mount_add_match, s,
				   err);
}

int build_mounts_hash(struct build_step *step, const struct dockerfile_run *run,
		      struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < run->n_mounts; i++) {
		const struct dockerfile_mount *m = &run->mounts[i];
		CLEANUP(build_mount_source_done)
		struct mount_source s = { .image = { .lock = -1 } };

		hash_number(step->hash, m->type);
		hash_text(step->hash, m->target ? m->target : "");
		hash_text(step->hash, m->id ? m->id : "");
		hash_text(step->hash, m->variable ? m->variable : "");
		hash_number(step->hash, m->size);
		if (m->type != DOCKERFILE_MOUNT_BIND)
			continue;
		r = build_mount_source_open(step, m, &s, err);
		if (r == 0)
			r = copy_list_hash(&s.list, m->from != NULL, step->hash, err);
	}
	return r;
}

/* -------------------------------------------------------------------- mounts */

static int build_mount_add(struct build_mounts *all, const struct dockerfile_mount *m,
			   char *source, bool read_only)
{
	all->sources[all->n] = source;
	all->v[all->n++] = (struct warren_mount){ .source = source,
						  .target = m->target,
						  .read_only = read_only,
						  /* Only Warren's user can enter the
						   * store, and installers set them. */
						  .allow_set_id = true,
						  .size = m->size };
	return 0;
}

/* An empty directory of the temporary directory; its path, which the caller frees. */
static int build_mount_temp(const struct store *s, struct build_mounts *all, char **ret,
			    struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	int r = 0;

	if (all->dir.fd < 0)
		r = store_new_work(s, &all->dir, err);
	if (r < 0)
		return r;
	all->store = s;
	if (asprintf(&path, "%s/%s/%zu", s->path, all->dir.name, all->n) < 0) {
		path = NULL;
		return error_errno(err, ENOMEM, "create a temporary directory");
	}
	if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0)
		return error_errno(err, errno, "create '%s'", path);
	*ret = TAKE_PTR(path);
	return 0;
}

static int build_mount_bind(struct build_step *step, const struct dockerfile_mount *m,
			    struct build_mounts *all, struct warren_error *err)
{
	CLEANUP(build_mount_source_done)
	struct mount_source s = { .image = { .lock = -1 } };
	AUTO_CLOSE int dir = -1;
	AUTO_FREE char *path = NULL;
	struct layer_add a;
	char *source = NULL;
	bool is_dir;
	int r = 0;

	if (step->b->request && !m->read_only)
		return error_set(err, EOPNOTSUPP,
				 "a build by the service cannot write to the bind mount "
				 "'%s': no limit counts what it writes",
				 m->target);
	r = build_mount_source_open(step, m, &s, err);
	if (r == 0)
		r = build_mount_temp(&step->b->store, all, &path, err);
	if (r < 0 || !path)
		return r;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "open '%s'", path);
	r = layer_add_init(&a, &step->b->store, NULL, dir, err);
	if (r < 0)
		return r;
	is_dir = s.list.n == 0 || S_ISDIR(s.list.v[0].st.st_mode);
	a.keep_ids = m->from != NULL;
	r = layer_add_list(&a, &s.list, is_dir ? "" : s.name, err);
	if (r == 0)
		r = layer_add_finish(&a, err);
	layer_add_done(&a);
	if (r == 0 && asprintf(&source, "%s%s%s", path, is_dir ? "" : "/",
			       is_dir ? "" : s.name) < 0)
		r = error_errno(err, ENOMEM, "mount '%s'", m->target);
	return r < 0 ? r : build_mount_add(all, m, source, m->read_only);
}

/* Take the lock that keeps `image prune` from removing the caches. */
static int build_mount_lock(const struct store *s, struct build_mounts *all)
{
	if (all->lock >= 0)
		return 0;
	all->lock = openat(s->images, BUILD_MOUNTS_DIR,
			   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return all->lock < 0 || flock(all->lock, LOCK_SH) < 0 ? -errno : 0;
}

static int build_mount_cache(struct build_step *step, const struct dockerfile_mount *m,
			     struct build_mounts *all, struct warren_error *err)
{
	const struct store *s = &step->b->store;
	AUTO_HASH struct hash *h = hash_new();
	char key[HASH_LEN + 1], name[128], *source = NULL;
	int r;

	/* A client could fill the disk of all with files that no limit counts. */
	if (step->b->request)
		return build_mount_add(all, m, NULL, false);
	hash_text(h, m->id);
	/* What one build leaves there decides what another one installs. */
	if (step->b->o->cache_scope)
		hash_text(h, step->b->o->cache_scope);
	r = hash_end(h, key);
	(void)snprintf(name, sizeof(name), BUILD_MOUNTS_DIR "/%s", key);
	/* Collection must not remove the directories before they are locked. */
	if (r == 0)
		r = store_lock(s, false, true);
	if (r < 0)
		return error_errno(err, -r, "create the cache '%s'", m->id);
	if ((mkdirat(s->images, STORE_BUILD_DIR, 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(s->images, BUILD_MOUNTS_DIR, 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(s->images, name, 0755) < 0 && errno != EEXIST))
		r = -errno;
	if (r == 0)
		r = build_mount_lock(s, all);
	store_unlock(s);
	/* <state>/layers/d */
	if (r == 0 && asprintf(&source, "%s/../../images/%s", s->path, name) < 0)
		r = -ENOMEM;
	if (r < 0)
		return error_errno(err, -r, "create the cache '%s'", m->id);
	return build_mount_add(all, m, source, m->read_only);
}

static int build_mount_tmpfs(struct build_step *step UNUSED,
			     const struct dockerfile_mount *m, struct build_mounts *all,
			     struct warren_error *err UNUSED)
{
	return build_mount_add(all, m, NULL, false);
}

/* Return FILE of "--secret id=ID,src=FILE"; NULL: the secret is not given. */
static char *build_secret_path(const struct build *b, const char *id)
{
	for (size_t i = 0; i < b->o->secrets.n; i++) {
		AUTO_FREE char *text = strdup(b->o->secrets.v[i]);
		char *save = NULL, *name = NULL, *path = NULL;

		for (char *p = text ? strtok_r(text, ",", &save) : NULL; p;
		     p = strtok_r(NULL, ",", &save)) {
			if (strncmp(p, "id=", 3) == 0)
				name = p + 3;
			else if (strncmp(p, "src=", 4) == 0)
				path = p + 4;
			else if (strncmp(p, "source=", 7) == 0)
				path = p + 7;
		}
		if (name && path && strcmp(name, id) == 0)
			return realpath(path, NULL);
	}
	return NULL;
}

static int build_secret_variable(const struct dockerfile_mount *m, const char *path,
				 struct build_mounts *all, struct warren_error *err)
{
	AUTO_FREE char *text = malloc(SECRET_MAX), *pair = NULL;
	ssize_t n = text ? fd_read_file_at(AT_FDCWD, path, text, SECRET_MAX) : -ENOMEM;

	if (n < 0)
		return error_errno(err, (int)-n, "read the secret '%s'", m->id);
	if (asprintf(&pair, "%s=%s", m->variable, text) < 0)
		pair = NULL;
	return pair && strv_add(&all->env, pair) == 0
		       ? 0
		       : error_errno(err, ENOMEM, "read the secret '%s'", m->id);
}

static int build_mount_secret(struct build_step *step, const struct dockerfile_mount *m,
			      struct build_mounts *all, struct warren_error *err)
{
	AUTO_FREE char *path = build_secret_path(step->b, m->id);
	int r = 0;

	if (!path)
		return m->required ? error_set(err, ENOENT,
					       "the secret '%.80s' is required (example: "
					       "--secret id=%.80s,src=./file)",
					       m->id, m->id)
				   : 0;
	if (m->variable)
		r = build_secret_variable(m, path, all, err);
	return r < 0 || !m->target ? r : build_mount_add(all, m, TAKE_PTR(path), true);
}

static int (*const mounters[])(struct build_step *step, const struct dockerfile_mount *m,
			       struct build_mounts *all, struct warren_error *err) = {
	[DOCKERFILE_MOUNT_BIND] = build_mount_bind,
	[DOCKERFILE_MOUNT_CACHE] = build_mount_cache,
	[DOCKERFILE_MOUNT_TMPFS] = build_mount_tmpfs,
	[DOCKERFILE_MOUNT_SECRET] = build_mount_secret,
};

int build_mounts_open(struct build_step *step, const struct dockerfile_run *run,
		      struct build_mounts *ret, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < run->n_mounts; i++)
		r = mounters[run->mounts[i].type](step, &run->mounts[i], ret, err);
	return r;
}

void build_mounts_done(struct build_mounts *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->sources[i]);
	if (m->dir.fd >= 0)
		store_drop_layer(m->store, &m->dir);
	close_p(&m->lock);
	(void)strv_free(m->env);
	*m = (struct build_mounts)BUILD_MOUNTS_NONE;
}

/*
 * Starting at the mount point, remove directories upwards while they are new and empty.
 * The command may have replaced a directory above the mount point with a link.
 */
void build_mounts_forget(const struct build_mounts *m, const struct view *before,
			 int layer)
{
	for (size_t i = 0; i < m->n; i++) {
		AUTO_FREE char *path = dockerfile_join("/", m->v[i].target);
		char *slash;

		while (path && path[0] && path[1]) {
			AUTO_CLOSE int at = -1;
			struct stat st;

			if (before->n > 0 && view_stat(before, path + 1, &st, NULL) == 0)
				break;
			slash = strrchr(path, '/');
			*slash = '\0';
			at = copy_open_dir(layer, path[0] ? path + 1 : ".");
			if (at < 0 ||
			    (unlinkat(at, slash + 1, AT_REMOVEDIR) < 0 &&
			     (fstatat(at, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			      !S_ISREG(st.st_mode) || st.st_size > 0 ||
			      unlinkat(at, slash + 1, 0) < 0)))
				break;
		}
	}
}
