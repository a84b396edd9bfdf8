/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.c - the options of `warren run`: the table, and a reader for each kind of value */
#include "cli/run_options.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macro.h"
#include "base/parse.h"

#define HOSTNAME_MAX 63         /* of the library */
#define LABEL_MAX    63         /* of DNS */
#define USER_MAX     32         /* of useradd(8) */
#define PIDS_MAX     4194304    /* of the kernel: PID_MAX_LIMIT */
#define NOFILE_MIN   4          /* 0, 1, 2, and one to open a library with */
#define NOFILE_MAX   1048576    /* of the kernel: NR_OPEN */
#define IDS_MAX      65536      /* a sandbox has as many */
#define SIZE_MIN     (1U << 20) /* what no process or root gets by with */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

/* "host", "dir:PATH" with a directory that is there, or what the store is asked for. */
static int set_image(void *field, const char *value, struct warren_error *err)
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

static int set_pull(void *field, const char *value, struct warren_error *err)
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
	return error_set(err, EINVAL, "'%s' is neither missing, always nor never", value);
}

/* Judged by who pulls. */
static int set_platform(void *field, const char *value, struct warren_error *err)
{
	if (!strchr(value, '/'))
		return error_set(err, EINVAL, "'%s' is not OS/ARCH[/VARIANT]", value);
	*(const char **)field = value;
	return 0;
}

static int set_text(void *field, const char *value, struct warren_error *err)
{
	(void)err;
	*(const char **)field = value;
	return 0;
}

static bool is_label(const char *s, size_t n)
{
	if (n == 0 || n > LABEL_MAX || s[0] == '-' || s[n - 1] == '-')
		return false;
	return strspn(s, LETTERS DIGITS "-") >= n;
}

static int set_hostname(void *field, const char *value, struct warren_error *err)
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

/* A name is looked up in the image's passwd(5), later and inside. */
static int set_user(void *field, const char *value, struct warren_error *err)
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

/* The first @n bytes of @path: what it means must not depend on what is there. */
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
			return error_set(err, EINVAL, "'%.*s' has '%.*s' in it", (int)n,
					 path, (int)len, path + at);
	}
	return 0;
}

static int set_workdir(void *field, const char *value, struct warren_error *err)
{
	int r = check_inside(value, strlen(value), err);

	if (r == 0)
		*(const char **)field = value;
	return r;
}

static int set_network(void *field, const char *value, struct warren_error *err)
{
	static const char *const names[] = {
		[WARREN_NETWORK_LOOPBACK] = "loopback",
		[WARREN_NETWORK_NONE] = "none",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], value) == 0) {
			*(enum warren_network *)field = (enum warren_network)i;
			return 0;
		}
	}
	return error_set(err, EINVAL, "'%s' is neither none nor loopback", value);
}

static int set_count(uint64_t *field, const char *value, uint64_t min, uint64_t max,
		     struct warren_error *err)
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

static int set_size(void *field, const char *value, struct warren_error *err)
{
	uint64_t n;
	int r = parse_size(value, &n, err);

	if (r < 0)
		return r;
	if (n < SIZE_MIN)
		return error_set(err, ERANGE, "'%s' is less than 1m", value);
	*(uint64_t *)field = n;
	return 0;
}

static int set_pids(void *field, const char *value, struct warren_error *err)
{
	return set_count(field, value, 1, PIDS_MAX, err);
}

static int set_nofile(void *field, const char *value, struct warren_error *err)
{
	return set_count(field, value, NOFILE_MIN, NOFILE_MAX, err);
}

static int add_env(void *field, const char *value, struct warren_error *err)
{
	return env_list_add(field, value, err);
}

static int add_env_file(void *field, const char *value, struct warren_error *err)
{
	return env_list_add_file(field, value, err);
}

/* One more, at the first @n bytes of @target; NULL: it was refused. */
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
		(void)error_errno(err, ENOMEM, "keep a mount");
		return NULL;
	}
	list->n++;
	return m;
}

static int set_source(struct warren_mount *m, const char *path, struct warren_error *err)
{
	/* A bare word is the name of a volume elsewhere: a directory must not be meant by chance. */
	if (!strchr(path, '/') && strcmp(path, ".") != 0 && strcmp(path, "..") != 0)
		return error_set(err, EINVAL, "'%s' is not a path: write ./%s", path,
				 path);
	m->source = realpath(path, NULL);
	return m->source ? 0 : error_errno(err, errno, "'%s'", path);
}

/* SRC:DST[:ro|:rw] */
static int add_volume(void *field, const char *value, struct warren_error *err)
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
static int add_tmpfs(void *field, const char *value, struct warren_error *err)
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

#define FIELD(name) offsetof(struct run_options, name)

/* clang-format off */
static const struct opt run_table[] = {
	{ "Computer", "image", 0, "IMAGE", "dir:./rootfs",
	  "host (the default), dir:PATH, or a reference: python:3.12",
	  set_image, FIELD(image) },
	{ NULL, "pull", 0, "WHEN", "always",
	  "missing (the default), always, or never",
	  set_pull, FIELD(pull) },
	{ NULL, "platform", 0, "OS/ARCH", "linux/arm64",
	  "of several, which to pull (default: this machine's)",
	  set_platform, FIELD(platform) },
	{ NULL, "hostname", 0, "NAME", "burrow",
	  "its name (default: the sandbox's id)",
	  set_hostname, FIELD(hostname) },
	{ NULL, "network", 0, "MODE", "none",
	  "loopback (the default), or none",
	  set_network, FIELD(network) },
	{ NULL, "read-only", 0, NULL, NULL,
	  "let nothing write to the root",
	  opt_flag, FIELD(read_only) },
	{ NULL, "volume", 'v', "SRC:DST[:ro]", "./data:/data:ro",
	  "show a file or directory of yours at DST",
	  add_volume, FIELD(mounts) },
	{ NULL, "tmpfs", 0, "DST[:size=SIZE]", "/scratch:size=64m",
	  "an empty tmpfs at DST",
	  add_tmpfs, FIELD(mounts) },

	{ "Command", "env", 'e', "NAME[=VALUE]", "DEBUG=1",
	  "a variable; without a value: the caller's",
	  add_env, FIELD(env_option) },
	{ NULL, "env-file", 0, "FILE", "./settings.env",
	  "variables, one on a line",
	  add_env_file, FIELD(env_file) },
	{ NULL, "workdir", 'w', "DIR", "/work",
	  "where it starts (default: the image's, or /)",
	  set_workdir, FIELD(workdir) },
	{ NULL, "user", 'u', "USER", "1000:1000",
	  "a name, uid or uid:gid (default: the image's, or root)",
	  set_user, FIELD(user) },
	{ NULL, "entrypoint", 0, "PROGRAM", "/bin/sh",
	  "in place of the image's own; '' for none",
	  set_text, FIELD(entrypoint) },
	{ NULL, "interactive", 'i', NULL, NULL,
	  "pass stdin on (else it is /dev/null)",
	  opt_flag, FIELD(interactive) },
	{ NULL, "tty", 't', NULL, NULL,
	  "give it a terminal",
	  opt_flag, FIELD(tty) },

	{ "Limits", "memory", 'm', "SIZE", "512m",
	  "memory, without swap",
	  set_size, FIELD(memory) },
	{ NULL, "cpus", 0, "N", "1.5",
	  "processors",
	  opt_cpus, FIELD(cpu_millis) },
	{ NULL, "pids", 0, "N", "100",
	  "processes and threads",
	  set_pids, FIELD(pids) },
	{ NULL, "disk", 0, "SIZE", "1g",
	  "what writes to the root may take",
	  set_size, FIELD(disk) },
	{ NULL, "nofile", 0, "N", "1024",
	  "open files of each process",
	  set_nofile, FIELD(nofile) },
	{ NULL, "timeout", 0, "DURATION", "30s",
	  "then all of it is killed, status 124",
	  opt_duration, FIELD(timeout_ms) },

	{ "Output", "json", 0, NULL, NULL,
	  "the result, output included, as one JSON object",
	  opt_flag, FIELD(json) },
	{ NULL, "quiet", 0, NULL, NULL,
	  "nothing from Warren itself but errors",
	  opt_flag, FIELD(quiet) },
	{ NULL, "verbose", 0, NULL, NULL,
	  "what is enforced, and where the time goes",
	  opt_flag, FIELD(verbose) },
};
/* clang-format on */

static const struct opt_conflict run_conflicts[] = {
	{ "quiet", "verbose", "one asks for less, the other for more" },
	{ "json", "tty", "a terminal mixes the streams that --json reports apart" },
};

const struct opts run_opts = {
	.table = run_table,
	.n = ARRAY_SIZE(run_table),
	.conflicts = run_conflicts,
	.n_conflicts = ARRAY_SIZE(run_conflicts),
	.operands = "[--] [CMD [ARG...]]",
	.example = "warren run -m 512m --timeout 30s -- make test",
};

static int check_targets(const struct mount_list *list, struct warren_error *err)
{
	for (size_t i = 1; i < list->n; i++)
		for (size_t j = 0; j < i; j++)
			if (strcmp(list->v[i].target, list->v[j].target) == 0)
				return error_set(
					err, EINVAL,
					"two mounts at '%s': --volume and --tmpfs need a "
					"place each (example: --tmpfs /scratch)",
					list->v[i].target);
	return 0;
}

bool run_options_stored(const struct run_options *o)
{
	return o->image && strcmp(o->image, "host") != 0 &&
	       strncmp(o->image, "dir:", 4) != 0;
}

static int check_pull(const struct run_options *o, struct warren_error *err)
{
	const char *image = o->image ? o->image : "host";

	if (o->platform && o->pull == PULL_NEVER)
		return error_set(
			err, EINVAL,
			"--platform chooses what to pull, and --pull never forbids it");
	if (o->platform && !run_options_stored(o))
		return error_set(
			err, EINVAL,
			"--platform chooses what to pull, and '%s' is not pulled", image);
	if (o->pull == PULL_ALWAYS && !run_options_stored(o))
		return error_set(err, EINVAL, "--pull always: '%s' is not pulled", image);
	return 0;
}

int run_options_finish(struct run_options *o, struct warren_error *err)
{
	const char *term = getenv("TERM");
	int r = check_targets(&o->mounts, err);

	if (r < 0)
		return r;
	r = check_pull(o, err);
	if (r < 0)
		return r;
	if (o->tty && o->interactive && !isatty(STDIN_FILENO))
		return error_set(
			err, ENOTTY,
			"--tty: stdin is not a terminal, leave out -t to pass it on "
			"(example: echo hello | warren run -i -- cat)");
	if (o->tty) {
		r = env_list_add(&o->env, term && *term ? "TERM" : "TERM=xterm", err);
		if (r < 0)
			return r;
	}
	r = env_list_add_all(&o->env, &o->env_file, err);
	return r < 0 ? r : env_list_add_all(&o->env, &o->env_option, err);
}

void run_options_done(struct run_options *o)
{
	free(o->image);
	env_list_done(&o->env);
	env_list_done(&o->env_file);
	env_list_done(&o->env_option);
	for (size_t i = 0; i < o->mounts.n; i++) {
		free((char *)(uintptr_t)o->mounts.v[i].source);
		free((char *)(uintptr_t)o->mounts.v[i].target);
	}
}
