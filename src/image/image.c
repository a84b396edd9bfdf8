/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - find the directories to mount for an image reference */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/strv.h"
#include "image/base_layer.h"
#include "os/mount.h"

static int open_dir_image(const char *path, const char *state_dir, struct image *image,
			  struct warren_error *err);
static int open_host_image(const char *path, const char *state_dir, struct image *image,
			   struct warren_error *err);
static int open_stored_image(const char *ref, const char *state_dir, struct image *image,
			     struct warren_error *err);

static const struct {
	const char *prefix;
	bool whole; /* the prefix is the whole reference */
	int (*open)(const char *rest, const char *state_dir, struct image *image,
		    struct warren_error *err);
} kinds[] = {
	{ "host", true, open_host_image },
	{ "dir:", false, open_dir_image },
	{ "", false, open_stored_image },
};

/*
 * Directories of the machine that `host` shows, in addition to the files of base_layer.c.
 * They contain code, not state.
 */
static const char *const host_trees[] = {
	"usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
};

/* The text contains "la" for the base layer, and ":lb/" with a short name for each
 * layer. */
_Static_assert(sizeof("la") + STORE_LAYERS_MAX * (4UL + STORE_SHORT_LEN) <=
		       IMAGE_LOWERS_MAX,
	       "the layers do not fit into the mount options of an overlay");
_Static_assert(ARRAY_SIZE(host_trees) + 3 <= IMAGE_MOUNTS_MAX,
	       "the layers, the store and the base do not fit");

static int image_add_mount(struct image *image, const char *at, const char *path,
			   int flags, struct warren_error *err)
{
	struct image_mount *m = &image->mounts[image->n_mounts];

	m->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	if (m->fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	image->n_mounts++;
	m->at = at;
	m->path = strdup(path);
	return m->path ? 0 : error_errno(err, ENOMEM, "open '%s'", path);
}

static int image_add_skel(struct image *image, enum skel_kind kind, const char *state_dir,
			  struct warren_error *err)
{
	struct image_mount *m = &image->mounts[image->n_mounts];
	int r = skel_open(kind, state_dir, &m->fd, &m->path, err);

	if (r < 0)
		return error_wrap(err, "prepare Warren's own layer");
	m->at = "";
	image->n_mounts++;
	return 0;
}

/* Add the topmost layer. */
static int image_begin(struct image *image, enum skel_kind kind, const char *state_dir,
		       struct warren_error *err)
{
	(void)strcpy(image->lowers, "la");
	return image_add_skel(image, kind, state_dir, err);
}

/* Is @inner below the directory @outer (or the same), all links resolved? */
static bool image_holds(int outer, const char *inner)
{
	char name[32];
	AUTO_FREE char *a = NULL, *b = realpath(inner, NULL);
	size_t n;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", outer);
	a = realpath(name, NULL);
	n = a ? strlen(a) : 0;

	if (!a || !b)
		return false;
	return strncmp(a, b, n) == 0 && (a[n - 1] == '/' || b[n] == '/' || b[n] == '\0');
}

static int image_add_dir(struct image *image, const char *path, const char *state_dir,
			 struct warren_error *err)
{
	const struct image_mount *dir;
	int r = image_add_mount(image, "", path, 0, err);

	if (r < 0)
		return r;
	/* Check the opened directory, which is the one that is mounted. */
	dir = &image->mounts[image->n_mounts - 1];
	if (image_holds(dir->fd, state_dir))
		return error_set(
			err, ELOOP,
			"the directory '%s' contains Warren's own state, '%s': an "
			"overlay cannot be mounted on itself",
			path, state_dir);
	return 0;
}

static int open_dir_image(const char *path, const char *state_dir, struct image *image,
			  struct warren_error *err)
{
	int r;

	if (path[0] == '\0')
		return error_set(err, EINVAL,
				 "'dir:' needs a directory (example: dir:/srv/rootfs)");
	r = image_begin(image, SKEL_COMMON, state_dir, err);
	(void)strcpy(image->lowers, "la:lb");
	return r < 0 ? r : image_add_dir(image, path, state_dir, err);
}

static int image_add_trees(struct image *image, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(host_trees); i++) {
		struct warren_error why = WARREN_ERROR_INIT;
		char dir[16] = "/";

		(void)strncat(dir, host_trees[i], sizeof(dir) - 2);
		r = image_add_mount(image, host_trees[i], dir, O_NOFOLLOW, &why);
		/*
		 * A link (/bin on a merged /usr) is in the layer, and a missing one is
		 * skipped.
		 */
		if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
			r = 0;
		else if (r < 0)
			*err = why;
	}
	return r;
}

bool image_is_host_tree(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(host_trees); i++)
		if (strcmp(name, host_trees[i]) == 0)
			return true;
	return false;
}

static int open_host_image(const char *path UNUSED, const char *state_dir,
			   struct image *image, struct warren_error *err)
{
	int r = image_begin(image, SKEL_HOST, state_dir, err);

	return r < 0 ? r : image_add_trees(image, err);
}

/* Add the image that the layers of a snapshot are stacked on. */
static int image_add_base(struct image *image, const char *base, const char *state_dir,
			  struct warren_error *err)
{
	size_t len = strlen(image->lowers);
	int r;

	if (len + sizeof(":lc") > sizeof(image->lowers))
		return error_set(err, E2BIG, "it has too many layers");
	(void)strcpy(image->lowers + len, ":lc");
	if (strcmp(base, "host") != 0)
		return image_add_dir(image, base + strlen("dir:"), state_dir, err);
	r = image_add_skel(image, SKEL_HOST, state_dir, err);
	return r < 0 ? r : image_add_trees(image, err);
}

/* Add the layers, each of which is in the store once, from top to bottom. */
static int stack_layers(const struct store *s, struct image *image,
			struct warren_error *err)
{
	size_t n = strv_len(image->config.layers), len = strlen(image->lowers);

	if (n > STORE_LAYERS_MAX)
		return error_set(err, E2BIG,
				 "it has %zu layers, but an overlay can have at most %d",
				 n, STORE_LAYERS_MAX);
	while (n-- > 0) {
		char name[STORE_SHORT_LEN + 1];
		int r = store_layer(s, image->config.layers[n], name);

		if (r < 0)
			return error_errno(err, -r,
					   "its layer %s is missing; pull it again",
					   image->config.layers[n]);
		len += (size_t)snprintf(image->lowers + len, sizeof(image->lowers) - len,
					":lb/%s", name);
	}
	return 0;
}

static int open_stored_image(const char *ref, const char *state_dir, struct image *image,
			     struct warren_error *err)
{
	struct store s;
	int r = store_open(state_dir, false, &s, err);

	if (r == -ENOENT) {
		struct ref parsed;

		/* Report an invalid reference as with a store, not as a missing image. */
		r = ref_parse(ref, &parsed, err);
		return r < 0 ? r
			     : error_set(err, ENOENT,
					 "there is no image '%s' on this machine", ref);
	}
	if (r < 0)
		return r;
	r = store_find(&s, ref, &image->config, err);
	image->has_config = r == 0;
	if (r == 0 && store_daemon_image(image->config.base))
		r = store_refuse_daemon(err);
	if (r == 0)
		r = image_begin(image, SKEL_COMMON, state_dir, err);
	if (r == 0)
		r = image_add_mount(image, "", s.path, 0, err);
	if (r == 0)
		r = stack_layers(&s, image, err);
	if (r == 0 && image->config.base[0])
		r = image_add_base(image, image->config.base, state_dir, err);
	store_close(&s);
	return r;
}

int image_open(const char *ref, const char *state_dir, struct image *ret,
	       struct warren_error *err)
{
	struct image image = { 0 };
	size_t i = 0;
	int r;

	while (strncmp(ref, kinds[i].prefix, strlen(kinds[i].prefix)) != 0 ||
	       (kinds[i].whole && strcmp(ref, kinds[i].prefix) != 0))
		i++; /* the last kind accepts everything */
	r = kinds[i].open(ref + strlen(kinds[i].prefix), state_dir, &image, err);
	if (r < 0) {
		image_close(&image);
		return error_wrap(err, "image '%s'", ref);
	}
	*ret = image;
	return 0;
}

void image_close(struct image *image)
{
	for (size_t i = 0; i < image->n_mounts; i++) {
		(void)close(image->mounts[i].fd);
		free(image->mounts[i].path);
	}
	if (image->has_config)
		store_image_done(&image->config);
	*image = (struct image){ 0 };
}

/* Find the file without opening it, because opening a device may have effects. */
static int open_regular(int dir, const char *path)
{
	AUTO_CLOSE int at = mount_openat2(dir, path, O_PATH, 0,
					  RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	char name[32];
	struct stat st;
	int fd;

	if (at < 0)
		return at;
	if (fstat(at, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
	fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int image_open_file(const struct image *image, const char *path)
{
	AUTO_FREE char *lowers = strdup(image->lowers);
	char *save = NULL;
	int fd = -ENOENT;

	for (char *l = lowers ? strtok_r(lowers, ":", &save) : NULL; l && fd == -ENOENT;
	     l = strtok_r(NULL, ":", &save)) {
		/* "la" or "lb/name" */
		int mount = image->mounts[l[1] - 'a'].fd;
		AUTO_CLOSE int dir =
			openat(mount, l[2] ? l + 3 : ".",
			       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (dir >= 0)
			fd = open_regular(dir, path);
	}
	return fd;
}
