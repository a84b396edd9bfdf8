/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - from a reference to the directories it is made of */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
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

static int open_dir_image(const char *path, const char *state_dir, struct image *image,
			  struct warren_error *err)
{
	struct image_tree *root = add_tree(image, "");
	int r;

	if (path[0] == '\0')
		return error_set(err, EINVAL, "image 'dir:' names no directory (example: dir:/srv/rootfs)");
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

int image_open_file(const struct image *image, const char *path)
{
	int fd = -ENOENT;

	for (size_t i = 0; i < image->trees[0].n_lowers && fd == -ENOENT; i++) {
		struct stat st;

		/* Non-blocking: a FIFO in place of the file must not hold us up. */
		fd = mount_openat2(image->trees[0].lowers[i].fd, path,
				   O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
				   RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
		if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
			(void)close(fd);
			return -EINVAL;
		}
	}
	return fd;
}
