/* SPDX-License-Identifier: Apache-2.0 */
/* values.c - parse each kind of value that options have */
#include "cli/values.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/parse.h"
#include "base/volume_name.h"
#include "cli/run_env.h"
#include "spec/spec.h"

#define HOSTNAME_MAX 63         /* maximum that the library accepts */
#define LABEL_MAX    63         /* maximum of DNS */
#define USER_MAX     32         /* maximum of useradd(8) */
#define IDS_MAX      65536      /* number of ids in a sandbox */
#define SIZE_MIN     (1U << 20) /* the minimum for a process or a root */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

/* Parse "host", "dir:PATH" with an existing directory, or the name of an image in the
 * store. */
int value_image(void *field, const char *value, struct warren_error *err)
{
	char **image = field;
	AUTO_FREE char *path = NULL;
	struct stat st;
	char *copy;

	if (strncmp(value, "dir:", 4) == 0) {
		path = realpath(value + 4, NULL);
		if (!path)
			return error_errno(err, errno, "'%s'", value + 4);
		if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
			return error_errno(err, ENOTDIR, "'%s'", value + 4);
	} else if (!*value || *value == '-') {
		return error_set(err, EINVAL, "'%s' is not an image", value);
	}
	if (asprintf(&copy, "%s%s", path ? "dir:" : "", path ? path : value) < 0)
		return error_errno(err, ENOMEM, "'%s'", value);
	free(*image);
	*image = copy;
	return 0;
}

int value_pull(void *field, const char *value, struct warren_error *err)
{
	static const char *const names[] = {
		[PULL_MISSING] = "missing",
		[PULL_ALWAYS] = "always",
		[PULL_NEVER] = "never",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], value) == 0) {
			*(enum pull_when *)field = (enum pull_when)i;
			return 0;
		}
	}
	return error_set(err, EINVAL, "'%s' is not one of missing, always and never",
			 value);
}

/* The value is checked by the program that pulls. */
int value_platform(void *field, const char *value, struct warren_error *err)
{
	if (!strchr(value, '/'))
		return error_set(err, EINVAL, "'%s' is not OS/ARCH[/VARIANT]", value);
	*(const char **)field = value;
	return 0;
}

static bool is_label(const char *s, size_t n)
{
	if (n == 0 || n > LABEL_MAX || s[0] == '-' || s[n - 1] == '-')
		return false;
	return strspn(s, LETTERS DIGITS "-") >= n;
}

int value_hostname(void *field, const char *value, struct warren_error *err)
{
	const char *label = value;
	size_t n = strcspn(label, ".");

	for (; is_label(label, n) && label[n] == '.'; n = strcspn(label, "."))
		label += n + 1;
	if (!is_label(label, n) || strlen(value) > HOSTNAME_MAX)
		return error_set(
			err, EINVAL,
			"'%s' is not a host name: letters, digits and inner hyphens, "
			"at most %d",
			value, HOSTNAME_MAX);
	*(const char **)field = value;
	return 0;
}

/* A name is looked up later, in the image's passwd(5). */
int value_user(void *field, const char *value, struct warren_error *err)
{
	uint32_t uid, gid;
	size_t n = strlen(value);

	if (strspn(value, DIGITS) > 0) {
		int r = parse_ids(value, &uid, &gid, err);

		if (r < 0)
			return r;
		if (uid >= IDS_MAX || (r > 0 && gid >= IDS_MAX))
			return error_set(err, ERANGE,
					 "'%s' is above %d, the last id in a sandbox",
					 value, IDS_MAX - 1);
	} else if (n == 0 || n > USER_MAX || strspn(value, LETTERS "_") == 0 ||
		   strspn(value, LETTERS DIGITS "._-") != n) {
		return error_set(err, EINVAL,
				 "'%s' is not a user: a name, uid or uid:gid", value);
	}
	*(const char **)field = value;
	return 0;
}

/* The meaning of the first @n bytes of @path must not depend on the filesystem. */
static int check_inside(const char *path, size_t n, struct warren_error *err)
{
	if (path[0] != '/')
		return error_set(err, EINVAL, "'%.*s' is not an absolute path", (int)n,
				 path);
	if (n >= PATH_MAX)
		return error_errno(err, ENAMETOOLONG, "'%.60s...'", path);
	for (size_t at = 0, len; at < n; at += len) {
		at += strspn(path + at, "/");
		len = strcspn(path + at, "/");
		if (len > n - at)
			len = n - at;
		if ((len == 1 || len == 2) && strncmp(path + at, "..", len) == 0)
			return error_set(err, EINVAL, "'%.*s' contains '%.*s'", (int)n,
					 path, (int)len, path + at);
	}
	return 0;
}

int value_workdir(void *field, const char *value, struct warren_error *err)
{
	int r = check_inside(value, strlen(value), err);

	if (r == 0)
		*(const char **)field = value;
	return r;
}

static int values_set_count(uint64_t *field, const char *value, uint64_t min,
			    uint64_t max, struct warren_error *err)
{
	uint64_t n;
	int r = parse_u64(value, max, &n, err);

	if (r < 0)
		return r;
	if (n < min)
		return error_set(err, ERANGE, "'%s' is less than %ju", value,
				 (uintmax_t)min);
	*field = n;
	return 0;
}

static int values_set_size(uint64_t *field, const char *value, uint64_t min,
			   struct warren_error *err)
{
	bool whole = min % SPEC_MIB == 0;
	uint64_t n;
	int r = parse_size(value, &n, err);

	if (r < 0)
		return r;
	if (n < min)
		return error_set(err, ERANGE, "'%s' is less than %ju%s", value,
				 (uintmax_t)(whole ? min / SPEC_MIB : min),
				 whole ? "m" : "");
	*field = n;
	return 0;
}

int value_size(void *field, const char *value, struct warren_error *err)
{
	return values_set_size(field, value, SIZE_MIN, err);
}

static int values_set_limit(size_t id, uint64_t *field, const char *value,
			    struct warren_error *err)
{
	const struct spec_limit *l = &spec_limits[id];

	switch (l->unit) {
	case SPEC_BYTES:
		return values_set_size(field, value, l->min, err);
	case SPEC_MILLIS:
		return parse_cpus(value, field, err);
	case SPEC_COUNT:
		return values_set_count(field, value, l->min, l->max, err);
	}
	return -EINVAL;
}

#define SET_LIMIT(id, name, ...)                                                         \
	int value_limit_##name(void *field, const char *value, struct warren_error *err) \
	{                                                                                \
		return values_set_limit(SPEC_##id, field, value, err);                   \
	}
SPEC_LIMITS(SET_LIMIT)

int value_number(void *field, const char *value, struct warren_error *err)
{
	return values_set_count(field, value, 0, INT64_MAX, err);
}

int value_count(void *field, const char *value, struct warren_error *err)
{
	return values_set_count(field, value, 1, INT64_MAX, err);
}

int value_env(void *field, const char *value, struct warren_error *err)
{
	return env_list_add(field, value, err);
}

int value_env_file(void *field, const char *value, struct warren_error *err)
{
	return env_list_add_file(field, value, err);
}

/* Add a mount at the first @n bytes of @target; NULL: it was refused. */
static struct warren_mount *mount_list_add(struct mount_list *list, const char *target,
					   size_t n, struct warren_error *err)
{
	struct warren_mount *m = &list->v[list->n];

	if (check_inside(target, n, err) < 0)
		return NULL;
	if (strspn(target, "/") >= n) {
		(void)error_set(err, EINVAL, "nothing can be mounted over the root");
		return NULL;
	}
	if (list->n == ARRAY_SIZE(list->v)) {
		(void)error_set(err, E2BIG, "more than %zu mounts", list->n);
		return NULL;
	}
	m->target = strndup(target, n);
	if (!m->target) {
		(void)error_errno(err, ENOMEM, "store a mount");
		return NULL;
	}
	list->n++;
	return m;
}

/* A bare word is the name of a volume, as in docker. */
static int set_volume(struct warren_mount *m, const char *name, struct warren_error *err)
{
	if (!volume_name_ok(name))
		return error_set(err, EINVAL,
				 "'%.80s' is not the name of a volume (%s); for a "
				 "directory, write ./%.80s",
				 name, VOLUME_NAME_RULE, name);
	m->volume = true;
	m->source = strdup(name);
	return m->source ? 0 : error_errno(err, ENOMEM, "'%s'", name);
}

/*
 * The source is opened once, so the file that is mounted is the one that the path names
 * now. The path is replaced by the kernel's path of that file.
 */
static int set_source(struct warren_mount *m, const char *path, struct warren_error *err)
{
	char link[32], name[PATH_MAX];
	ssize_t n;

	if (!strchr(path, '/') && strcmp(path, ".") != 0 && strcmp(path, "..") != 0)
		return set_volume(m, path, err);
	m->source_fd = open(path, O_PATH | O_CLOEXEC);
	if (m->source_fd < 0)
		return error_errno(err, errno, "'%s'", path);
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", m->source_fd);
	n = readlink(link, name, sizeof(name));
	if (n < 0 || n == sizeof(name))
		return error_errno(err, n < 0 ? errno : ENAMETOOLONG, "'%s'", path);
	m->source = strndup(name, (size_t)n);
	return m->source ? 0 : error_errno(err, ENOMEM, "'%s'", path);
}

/* SRC:DST[:ro|:rw] */
int value_volume(void *field, const char *value, struct warren_error *err)
{
	size_t n_src = strcspn(value, ":");
	const char *dst = value + n_src + (value[n_src] == ':');
	size_t n_dst = strcspn(dst, ":");
	const char *mode = dst + n_dst;
	struct warren_mount *m;
	char src[PATH_MAX];

	if (n_src == 0 || n_dst == 0)
		return error_set(err, EINVAL, "'%s' is not SRC:DST[:ro|:rw]", value);
	if (*mode && strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0)
		return error_set(err, EINVAL, "'%s' ends in neither :ro nor :rw", value);
	if (n_src >= sizeof(src))
		return error_errno(err, ENAMETOOLONG, "'%.60s...'", value);
	m = mount_list_add(field, dst, n_dst, err);
	if (!m)
		return -err->code;
	m->read_only = strcmp(mode, ":ro") == 0;
	(void)memcpy(src, value, n_src);
	src[n_src] = '\0';
	return set_source(m, src, err);
}

/* DST[:size=SIZE] */
int value_tmpfs(void *field, const char *value, struct warren_error *err)
{
	size_t n = strcspn(value, ":");
	const char *size = value + n;
	struct warren_mount *m = mount_list_add(field, value, n, err);

	if (!m)
		return -err->code;
	if (!*size)
		return 0;
	if (strncmp(size, ":size=", 6) != 0)
		return error_set(err, EINVAL, "'%s' is not DST[:size=SIZE]", value);
	return parse_size(size + 6, &m->size, err);
}

void mount_list_done(struct mount_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->v[i].source_fd > 0)
			(void)close(list->v[i].source_fd);
		free((char *)(uintptr_t)list->v[i].source);
		free((char *)(uintptr_t)list->v[i].target);
	}
}
