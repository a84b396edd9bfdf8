/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_spool.c - unpack outer archives (docker save, OCI archive) into plain files
 *
 * Owners, modes, times and attributes are ignored. Docker uses symbolic links to list one
 * layer in several images; such a link becomes another name of the file that it points
 * to. The link may come before the file.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "image/unpack_tar.h"

static const struct unpack_meta dir_meta = { .mode = 0755 };

static int unpack_spool_refuse(const char *name, const char *why,
			       struct warren_error *err)
{
	return error_set(err, EBADMSG, "'%.200s' %s", name, why);
}

static int unpack_spool_clean(const char *raw, char name[4096], struct warren_error *err)
{
	if (!raw || !*raw)
		return error_set(err, EBADMSG, "an entry has no name");
	if (*raw == '/')
		return unpack_spool_refuse(raw, "is absolute", err);
	return unpack_clean_name(raw, UNPACK_SPOOL, name, err);
}

static int unpack_spool_make_file(struct untar *u, struct archive_entry *e,
				  const char *name, struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = unpack_tree_file(&u->tree, name, 0644, &fd, err);

	return r < 0 ? r : untar_data(u, e, name, fd, err);
}

/* Resolve a link: "a/b" and "../c/d" become "c/d". Return -EBADMSG if the link leaves the
 * archive. */
static int unpack_spool_resolve(const char *name, const char *target, char ret[4096])
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
			if (unpack_add_part(ret, &len, p, n) < 0)
				return -EBADMSG;
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
	size_t n = strlen(name) + 1;
	struct untar_link *link;
	char path[4096];

	if (!target || !*name || unpack_spool_resolve(name, target, path) < 0)
		return unpack_spool_refuse(
			name, "is a link to something that is not in the archive", err);
	if (++u->n_links > UNPACK_LINKS)
		return error_set(err, EFBIG, "the archive has more than %d links",
				 UNPACK_LINKS);
	link = malloc(sizeof(*link) + n + strlen(path) + 1);
	if (!link)
		return error_errno(err, ENOMEM, "read the links");
	link->next = u->links;
	link->target = link->name + n;
	(void)memcpy(link->name, name, n);
	(void)memcpy(link->target, path, strlen(path) + 1);
	u->links = link;
	return 0;
}

int untar_spool_entry(struct untar *u, struct archive_entry *e, struct warren_error *err)
{
	const char *to = archive_entry_hardlink(e);
	char name[4096] = "", target[4096] = "";
	int fd, r = unpack_spool_clean(archive_entry_pathname(e), name, err);

	if (r < 0)
		return r;
	if (to) {
		r = unpack_spool_clean(to, target, err);
		return r < 0 ? r : unpack_tree_hardlink(&u->tree, name, target, err);
	}
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return unpack_spool_make_file(u, e, name, err);
	case AE_IFDIR:
		return *name ? unpack_tree_dir(&u->tree, name, &dir_meta, &fd, err) : 0;
	case AE_IFLNK:
		return add_link(u, name, archive_entry_symlink(e), err);
	default:
		return unpack_spool_refuse(name, "is not a file, a directory or a link",
					   err);
	}
}

/* Create the links in several passes, because a link may point to a later one. */
int untar_spool_links(struct untar *u, struct warren_error *err)
{
	for (bool progress = true; progress;) {
		struct untar_link **p = &u->links, *done;

		progress = false;
		while ((done = *p)) {
			int r = unpack_tree_hardlink(&u->tree, done->name, done->target,
						     err);

			if (r == -EBADMSG) {
				p = &done->next;
				continue;
			}
			if (r < 0)
				return r;
			*p = done->next;
			free(done);
			progress = true;
		}
	}
	if (u->links)
		return unpack_spool_refuse(
			u->links->name,
			"is a link to something that is not in the archive", err);
	return 0;
}

void untar_spool_done(struct untar *u)
{
	while (u->links) {
		struct untar_link *next = u->links->next;

		free(u->links);
		u->links = next;
	}
	u->n_links = 0;
}
