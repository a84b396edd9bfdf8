/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - from a reference to the directories it is made of */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "image/skel.h"
#include "os/mount.h"

static int open_dir_image(const char *path, const char *state_dir, struct image *image,
			  struct warren_error *err);
static int open_host_image(const char *path, const char *state_dir, struct image *image,
			   struct warren_error *err);

static const struct {
	const char *prefix;
	bool whole; /* the prefix is all of the reference */
	int (*open)(const char *rest, const char *state_dir, struct image *image,
		    struct warren_error *err);
} kinds[] = {
	{ "host", true, open_host_image },
	{ "dir:", false, open_dir_image },
};

/* What of the machine's root `host` shows, besides what skel.c copies: code, no state. */
static const char *const host_trees[] = {
	"usr", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32",
};

_Static_assert(ARRAY_SIZE(host_trees) < IMAGE_TREES_MAX, "and the root");

static struct image_tree *add_tree(struct image *image, const char *at)
{
	struct image_tree *t = &image->trees[image->n_trees++];

	t->at = at;
	return t;
}

static int add_lower(struct image_tree *t, const char *path, struct warren_error *err)
{
	struct image_lower *l = &t->lowers[t->n_lowers];

	l->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	t->n_lowers++;
	l->path = strdup(path);
	return l->path ? 0 : error_errno(err, ENOMEM, "open '%s'", path);
}

static int add_skel(struct image_tree *t, enum skel_kind kind, const char *state_dir,
		    struct warren_error *err)
{
	struct image_lower *l = &t->lowers[t->n_lowers];
	int r = skel_open(kind, state_dir, &l->fd, &l->path, err);

	if (r < 0)
		return error_wrap(err, "prepare Warren's own layer");
	t->n_lowers++;
	return 0;
}

/* Is @inner below @outer (or the same), all links resolved? */
static bool holds(const char *outer, const char *inner)
{
	AUTO_FREE char *a = realpath(outer, NULL), *b = realpath(inner, NULL);
	size_t n = a ? strlen(a) : 0;

	if (!a || !b)
		return false;
	return strncmp(a, b, n) == 0 && (a[n - 1] == '/' || b[n] == '/' || b[n] == '\0');
}

static int open_dir_image(const char *path, const char *state_dir, struct image *image,
			  struct warren_error *err)
{
	struct image_tree *root = add_tree(image, "");
	int r;

	if (path[0] == '\0')
		return error_set(err, EINVAL, "image 'dir:' names no directory (example: dir:/srv/rootfs)");
	if (holds(path, state_dir))
		return error_set(err, ELOOP,
				 "the directory '%s' holds Warren's own state, '%s': an overlay cannot "
				 "lie on itself",
				 path, state_dir);
	r = add_skel(root, SKEL_COMMON, state_dir, err);
	return r < 0 ? r : add_lower(root, path, err);
}

static int open_host_image(const char *path UNUSED, const char *state_dir, struct image *image,
			   struct warren_error *err)
{
	int r = add_skel(add_tree(image, ""), SKEL_HOST, state_dir, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(host_trees); i++) {
		char dir[16] = "/";
		struct stat st;

		(void)strncat(dir, host_trees[i], sizeof(dir) - 2);
		/* A link (/bin on a merged /usr) is in the layer, and absent is absent. */
		if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		r = add_lower(add_tree(image, host_trees[i]), dir, err);
	}
	return r;
}

int image_open(const char *ref, const char *state_dir, struct image *ret, struct warren_error *err)
{
	struct image image = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t n = strlen(kinds[i].prefix);
		int r;

		if (strncmp(ref, kinds[i].prefix, n) != 0 || (kinds[i].whole && ref[n] != '\0'))
			continue;
		r = kinds[i].open(ref + n, state_dir, &image, err);
		if (r < 0) {
			image_close(&image);
			return error_wrap(err, "image '%s'", ref);
		}
		*ret = image;
		return 0;
	}
	return error_set(err, ENOENT, "there is no image '%s': host, or dir:PATH for a directory",
			 ref);
}

void image_close(struct image *image)
{
	for (size_t i = 0; i < image->n_trees; i++) {
		for (size_t k = 0; k < image->trees[i].n_lowers; k++) {
			(void)close(image->trees[i].lowers[k].fd);
			free(image->trees[i].lowers[k].path);
		}
	}
	*image = (struct image){ 0 };
}

/* Found without opening it: to open a device may be to act on it. */
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
	int fd = -ENOENT;

	for (size_t i = 0; i < image->trees[0].n_lowers && fd == -ENOENT; i++)
		fd = open_regular(image->trees[0].lowers[i].fd, path);
	return fd;
}
