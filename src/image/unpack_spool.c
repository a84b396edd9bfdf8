/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_spool.c - outer archives (docker save, OCI archive): plain files, whatever they say
 *
 * Owners, modes, times and attributes mean nothing here. Symbolic links, with which
 * docker names one layer in several images, become further names of the file that
 * they point to; they may come before it.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "image/unpack_tar.h"

static const struct unpack_meta dir_meta = { .mode = 0755 };

static int refuse(const char *name, const char *why, struct warren_error *err)
{
	return error_set(err, EBADMSG, "'%.200s' %s", name, why);
}

static int clean(const char *raw, char name[4096], struct warren_error *err)
{
	if (!raw || !*raw)
		return error_set(err, EBADMSG, "an entry has no name");
	if (*raw == '/')
		return refuse(raw, "is an absolute name", err);
	return unpack_clean_name(raw, UNPACK_SPOOL, name, err);
}

static int make_file(struct untar *u, struct archive_entry *e, const char *name,
		     struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = unpack_tree_file(&u->tree, name, 0644, &fd, err);

	return r < 0 ? r : untar_data(u, e, name, fd, err);
}

/* "a/b" and "../c/d" make "c/d"; -EBADMSG when it leaves the archive. */
static int resolve(const char *name, const char *target, char ret[4096])
{
	const char *slash = strrchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : 0;

	if (*target == '/')
		return -EBADMSG;
	(void)memcpy(ret, name, len);
	for (const char *p = target; *p;) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			if (len == 0)
				return -EBADMSG;
			while (len > 0 && ret[--len] != '/')
				;
		} else if (n > 0 && !(n == 1 && p[0] == '.')) {
			if (len + n + 2 > 4096)
				return -EBADMSG;
			if (len > 0)
				ret[len++] = '/';
			(void)memcpy(ret + len, p, n);
			len += n;
		}
		p += n;
		p += *p == '/';
	}
	ret[len] = '\0';
	return len > 0 ? 0 : -EBADMSG;
}

static int add_link(struct untar *u, const char *name, const char *target,
		    struct warren_error *err)
{
	char path[4096];
	struct untar_link *link;

	if (!target || !*name || resolve(name, target, path) < 0)
		return refuse(name, "is a link to what is not in the archive", err);
	if (u->n_links >= UNPACK_LINKS)
		return error_set(err, EFBIG, "the archive has more than %d links",
				 UNPACK_LINKS);
	if (!u->links)
		u->links = calloc(UNPACK_LINKS, sizeof(*u->links));
	if (!u->links)
		return error_errno(err, ENOMEM, "read the links");
	link = &u->links[u->n_links];
	link->name = strdup(name);
	link->target = strdup(path);
	u->n_links++;
	return link->name && link->target ? 0
					  : error_errno(err, ENOMEM, "read the links");
}

int untar_spool_entry(struct untar *u, struct archive_entry *e, struct warren_error *err)
{
	const char *to = archive_entry_hardlink(e);
	char name[4096], target[4096];
	int fd, r = clean(archive_entry_pathname(e), name, err);

	if (r < 0)
		return r;
	if (to) {
		r = clean(to, target, err);
		return r < 0 ? r : unpack_tree_hardlink(&u->tree, name, target, err);
	}
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return make_file(u, e, name, err);
	case AE_IFDIR:
		return *name ? unpack_tree_dir(&u->tree, name, &dir_meta, &fd, err) : 0;
	case AE_IFLNK:
		return add_link(u, name, archive_entry_symlink(e), err);
	default:
		return refuse(name, "is neither a file nor a directory nor a link", err);
	}
}

/* In rounds, since a link may point to one that comes later. */
int untar_spool_links(struct untar *u, struct warren_error *err)
{
	size_t left = u->n_links;

	for (bool progress = true; left > 0 && progress;) {
		progress = false;
		for (size_t i = 0; i < left;) {
			struct untar_link *link = &u->links[i], made = *link;
			int r = unpack_tree_hardlink(&u->tree, link->name, link->target,
						     err);

			if (r == -EBADMSG) {
				i++;
				continue;
			}
			if (r < 0)
				return r;
			progress = true;
			*link = u->links[--left];
			u->links[left] = made;
		}
	}
	return left == 0 ? 0
			 : refuse(u->links[0].name,
				  "is a link to what is not in the archive", err);
}

void untar_spool_done(struct untar *u)
{
	for (size_t i = 0; i < u->n_links; i++) {
		free(u->links[i].name);
		free(u->links[i].target);
	}
	free(u->links);
	u->links = NULL;
	u->n_links = 0;
}
