/* SPDX-License-Identifier: Apache-2.0 */
/* user.c - resolve "name", "name:group", "uid" and "uid:gid" to ids, by docker's rules */
#include "initclient/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/passwd.h"

#define FILE_MAX (1U << 20)

/*
 * Read the text of /etc/passwd or /etc/group; a missing or special file is treated as
 * empty.
 */
static ssize_t user_read_text(const char *path, user_open_fn open_file, void *ctx,
			      char **ret)
{
	AUTO_FREE char *text = malloc(FILE_MAX);
	AUTO_CLOSE int fd = open_file(ctx, path);
	ssize_t n = 0;

	if (!text)
		return -ENOMEM;
	if (fd >= 0)
		n = fd_read_all(fd, text, FILE_MAX);
	if (n < 0)
		n = 0; /* it is a directory or a device, not a list of users */
	*ret = TAKE_PTR(text);
	return n;
}

static bool user_numeric(const char *s)
{
	return *s && strspn(s, "0123456789") == strlen(s);
}

static int resolve_group(const char *group, const char *text, size_t size,
			 struct initclient_user *u, struct warren_error *err)
{
	uint64_t gid;

	if (user_numeric(group)) {
		int r = parse_u64(group, UINT32_MAX - 1, &gid, err);

		if (r < 0)
			return r;
		u->gid = (uint32_t)gid;
		return 0;
	}
	if (passwd_find_group(text, size, group, &u->gid) < 0)
		return error_set(err, EINVAL, "the image has no group '%s' in /etc/group",
				 group);
	return 0;
}

static int resolve_name(const char *name, const char *passwd, size_t size,
			struct initclient_user *u, char *login, struct warren_error *err)
{
	struct passwd_entry e = { .home = "/" };
	uint64_t uid = 0;
	int r;

	if (!user_numeric(name)) {
		r = passwd_find(passwd, size, name, 0, &e);
		if (r < 0)
			return error_set(err, EINVAL,
					 "the image has no user '%s' in /etc/passwd",
					 name);
	} else {
		r = parse_u64(name, UINT32_MAX - 1, &uid, err);
		if (r < 0)
			return r;
		/*
		 * A number needs no entry; without an entry, the group is root's, as in
		 * docker.
		 */
		if (passwd_find(passwd, size, NULL, (uint32_t)uid, &e) < 0) {
			e.uid = (uint32_t)uid;
			(void)strcpy(e.home, uid == 0 ? "/root" : "/");
		}
	}
	u->uid = e.uid;
	u->gid = e.gid;
	(void)strcpy(u->home, e.home);
	(void)strcpy(login, e.name);
	(void)strcpy(u->name, e.name[0] ? e.name : name);
	return 0;
}

/* Are the files needed? Root is the most common user, and the same in every image. */
bool user_needs_files(const char *text)
{
	return text && strcmp(text, "root") != 0 && strcmp(text, "0") != 0 &&
	       strcmp(text, "0:0") != 0;
}

int user_resolve(const char *text, user_open_fn open_file, void *ctx,
		 struct initclient_user *ret, struct warren_error *err)
{
	AUTO_FREE char *passwd = NULL, *groups = NULL;
	struct initclient_user u = { .home = "/root", .name = "root" };
	char name[64], login[64] = "";
	const char *colon = text ? strchr(text, ':') : NULL;
	ssize_t n_passwd, n_groups;
	int r;

	if (!user_needs_files(text)) {
		*ret = u;
		return 0;
	}
	r = snprintf(name, sizeof(name), "%.*s",
		     colon ? (int)(colon - text) : (int)strlen(text), text);
	if (r <= 0 || r >= (int)sizeof(name) || (colon && colon[1] == '\0'))
		return error_set(err, EINVAL, "user '%s' is not a name, uid or uid:gid",
				 text);
	n_passwd = user_read_text("/etc/passwd", open_file, ctx, &passwd);
	n_groups = user_read_text("/etc/group", open_file, ctx, &groups);
	if (n_passwd < 0 || n_groups < 0)
		return error_errno(err, ENOMEM, "look up user '%s'", text);
	r = resolve_name(name, passwd, (size_t)n_passwd, &u, login, err);
	if (r < 0)
		return r;
	if (colon)
		r = resolve_group(colon + 1, groups, (size_t)n_groups, &u, err);
	if (r < 0)
		return r;
	/*
	 * The primary group is also one of the supplementary groups, as with login(1): if
	 * a file's mode denies that group something, a set-group-id program cannot avoid
	 * it.
	 */
	u.groups[u.n_groups++] = u.gid;
	if (!colon && login[0])
		u.n_groups += passwd_find_groups(groups, (size_t)n_groups, login,
						 u.groups + u.n_groups,
						 ARRAY_SIZE(u.groups) - u.n_groups);
	*ret = u;
	return 0;
}

struct files {
	int passwd, group;
};

static int open_given(void *ctx, const char *path)
{
	const struct files *f = ctx;
	int fd = strcmp(path, "/etc/passwd") == 0 ? f->passwd : f->group;

	return fd < 0 ? -ENOENT : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int user_resolve_files(const char *text, int passwd, int group,
		       struct initclient_user *ret, struct warren_error *err)
{
	struct files f = { passwd, group };

	return user_resolve(text, open_given, &f, ret, err);
}
