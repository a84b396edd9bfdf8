/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - check a spec once, so that later code can rely on it */
#include "core/check.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/id.h"
#include "image/ref.h"

#define HOSTNAME_LEN_MAX 63
#define ENV_NAME_MAX     256

int check_path(const char *what, const char *path, struct warren_error *err)
{
	if (path[0] != '/')
		return error_set(err, EINVAL,
				 "%s '%s' is not absolute: it must begin with '/'", what,
				 path);
	if (strlen(path) >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "%s '%.64s...' is too long", what,
				 path);
	for (const char *p = path; *p;) {
		size_t n;

		p += strspn(p, "/");
		n = strcspn(p, "/");
		if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return error_set(err, EINVAL, "%s '%s' contains '%.*s'", what,
					 path, (int)n, p);
		p += n;
	}
	return 0;
}

static int check_env(const char *const *env, struct warren_error *err)
{
	for (; env && *env; env++) {
		size_t n = strcspn(*env, "=");

		if (n == 0 || (*env)[n] != '=')
			return error_set(err, EINVAL,
					 "variable '%.64s' is not NAME=value", *env);
		if (n > ENV_NAME_MAX)
			return error_set(
				err, EINVAL,
				"the name of the variable '%.64s...' is too long", *env);
	}
	return 0;
}

static int check_hostname(const char *s, struct warren_error *err)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
	size_t n = strlen(s);

	if (n == 0 || n > HOSTNAME_LEN_MAX || strspn(s, allowed) != n || s[0] == '-' ||
	    s[0] == '.' || s[n - 1] == '-' || s[n - 1] == '.')
		return error_set(
			err, EINVAL,
			"host name '%.80s' is not valid: use 1 to %d letters, digits, "
			"'-' and '.', with a letter or digit first and last",
			s, HOSTNAME_LEN_MAX);
	return 0;
}

static int check_user(const char *s, struct warren_error *err)
{
	size_t n = strlen(s);

	if (n == 0 || n > 64 || strpbrk(s, "/ \t\n\r\v\f") || s[0] == ':' ||
	    s[n - 1] == ':' || s[0] == '-' || strchr(s, ':') != strrchr(s, ':'))
		return error_set(err, EINVAL,
				 "user '%.80s' is not a name, uid or uid:gid", s);
	return 0;
}

static int check_layers(const char *const *layers, struct warren_error *err)
{
	int r = 0;

	for (; r == 0 && layers && *layers; layers++)
		r = check_path("layer", *layers, err);
	return r;
}

static int check_writes(const struct warren_mount *m, struct warren_error *err)
{
	if (!m->writes && !m->layers && !m->below)
		return 0;
	if (!m->writes || !m->source)
		return error_set(err, EINVAL,
				 "mount point '%s': layers need a directory below them, "
				 "and one for changes",
				 m->target);
	if (m->read_only || m->volume)
		return error_set(err, EINVAL,
				 "mount point '%s': changes to a volume or a read-only "
				 "mount cannot go to another directory",
				 m->target);
	if (check_path("directory for changes", m->writes, err) < 0)
		return -err->code;
	return check_layers(m->layers, err) < 0 ? -err->code
						: check_layers(m->below, err);
}

/* A durable sandbox outlives the process that locks the directories. */
static int check_root_writes(const struct warren_spec *spec, struct warren_error *err)
{
	bool any = spec->writes || spec->layers;

	for (size_t i = 0; i < spec->n_mounts; i++)
		any = any || spec->mounts[i].writes;
	if (any && (spec->durable || spec->restore || spec->persist))
		return error_set(err, EINVAL,
				 "a durable sandbox cannot have layers or a directory "
				 "for changes");
	if (spec->writes && check_path("directory for changes", spec->writes, err) < 0)
		return -err->code;
	return check_layers(spec->layers, err);
}

static int check_mounts(const struct warren_spec *spec, struct warren_error *err)
{
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct warren_mount *m = &spec->mounts[i];
		int r;

		if (!m->target)
			return error_set(err, EINVAL, "a mount has no target");
		r = check_path("mount point", m->target, err);
		if (r == 0 && strspn(m->target, "/") == strlen(m->target))
			r = error_set(err, EINVAL,
				      "nothing can be mounted over the root");
		if (r == 0 && m->source && !m->volume && m->source[0] != '/')
			r = error_set(err, EINVAL, "volume '%s' is not absolute",
				      m->source);
		if (r == 0 && m->source_fd && (m->source_fd < 0 || !m->source))
			r = error_set(err, EINVAL,
				      "a volume has a descriptor and no name, or a "
				      "descriptor that is not valid");
		if (r == 0 && m->volume && m->source_fd <= 0)
			r = error_set(err, EINVAL, "a volume has no descriptor");
		if (r == 0)
			r = check_writes(m, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * A backend may use the image as an argument or as part of a URL, so the image must be
 * `host`, a directory, or a valid reference, which never looks like an option.
 */
static int core_check_image(const char *image, struct warren_error *err)
{
	struct ref ignored;
	int r = 0;

	if (strcmp(image, "host") != 0 && strncmp(image, "dir:", 4) != 0)
		r = ref_parse(image, &ignored, err);
	return r < 0 ? error_wrap(err, "image '%.200s'", image) : 0;
}

int check_spec(const struct warren_spec *spec, struct warren_error *err)
{
	int r = check_env(spec->env, err);

	if (r == 0 && spec->image)
		r = core_check_image(spec->image, err);
	if (r == 0 && spec->hostname)
		r = check_hostname(spec->hostname, err);
	if (r == 0 && spec->user)
		r = check_user(spec->user, err);
	if (r == 0 && spec->workdir)
		r = check_path("working directory", spec->workdir, err);
	if (r == 0 && spec->network != WARREN_NETWORK_LOOPBACK &&
	    spec->network != WARREN_NETWORK_NONE &&
	    spec->network != WARREN_NETWORK_CAPTURED)
		r = error_set(err, EINVAL, "there is no such network mode");
	if (r == 0 && spec->id && !id_valid(spec->id))
		r = error_set(err, EINVAL, "'%.32s' is not the id of a sandbox",
			      spec->id);
	if (r == 0 && spec->durable && spec->one_shot)
		r = error_set(err, EINVAL,
			      "a sandbox for a single exec cannot be durable");
	if (r == 0)
		r = check_mounts(spec, err);
	return r < 0 ? r : check_root_writes(spec, err);
}

static int core_check_control(const struct warren_exec_spec *spec,
			      struct warren_error *err)
{
	const uint8_t at[] = { spec->child_result_fd, spec->child_wakeup_fd,
			       spec->child_command_fd };

	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		if (at[i] && (at[i] < 3 || at[i] == at[(i + 1) % ARRAY_SIZE(at)]))
			return error_set(
				err, EINVAL,
				"each descriptor inside needs its own number, 3 or higher");
	if ((spec->child_command_fd == 0) != (spec->command_fd == 0))
		return error_set(
			err, EINVAL,
			"each file for the exec needs a number, and each number a file");
	return 0;
}

static int check_streams(const struct warren_exec_spec *spec, struct warren_error *err)
{
	if (spec->in != WARREN_STDIO_NULL && spec->in != WARREN_STDIO_PIPE)
		return error_set(err, EINVAL, "stdin must be empty or a pipe");
	if (spec->out > WARREN_STDIO_JOURNAL || spec->err > WARREN_STDIO_JOURNAL)
		return error_set(
			err, EINVAL,
			"stdout and stderr must be discarded, a pipe or a journal");
	if (spec->pty &&
	    (spec->in || spec->err || (spec->out && spec->out != WARREN_STDIO_JOURNAL)))
		return error_set(err, EINVAL, "a terminal replaces all three streams");
	if (spec->hold && spec->out != WARREN_STDIO_JOURNAL &&
	    spec->err != WARREN_STDIO_JOURNAL)
		return error_set(err, EINVAL, "output can be held only in a journal");
	if (spec->journal_fd < 0 || spec->command_fd < 0)
		return error_set(err, EINVAL,
				 "a file must be given as a descriptor above 0");
	return core_check_control(spec, err);
}

int check_exec_spec(const struct warren_exec_spec *spec, struct warren_error *err)
{
	int r;

	if (!spec->argv || !spec->argv[0] || !spec->argv[0][0])
		return error_set(err, EINVAL, "there is no command to run");
	r = check_env(spec->env, err);
	if (r == 0 && spec->user)
		r = check_user(spec->user, err);
	if (r == 0 && spec->cwd)
		r = check_path("working directory", spec->cwd, err);
	return r < 0 ? r : check_streams(spec, err);
}
