/* SPDX-License-Identifier: Apache-2.0 */
/* devcontainer.c - find devcontainer.json, and read its properties by a table */
#include "setup/devcontainer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/did_you_mean.h"
#include "base/parse.h"
#include "base/strv.h"
#include "setup/jsonc.h"
#include "setup/steps.h"
#include "setup/tree.h"

#define FOLDERS_MAX 100

struct devcontainer {
	struct devcontainer_vars vars;
	struct setup_plan *plan;
	char *dir; /* of the file, below the project */
};

/* -------------------------------------------------------------- properties */

static int devcontainer_refuse(const struct devcontainer *d, const char *name,
			       const char *why, struct warren_error *err)
{
	return error_set(err, EINVAL, "%s: '%s' %s", d->plan->config, name, why);
}

/* Set *@ret to the text of a property. */
static int devcontainer_text(const struct devcontainer *d, const char *name,
			     const json_t *value, char **ret, struct warren_error *err)
{
	char *text;

	if (!json_is_string(value))
		return devcontainer_refuse(d, name, "must be a string", err);
	text = devcontainer_expand(&d->vars, json_string_value(value));
	if (!text)
		return error_errno(err, ENOMEM, "read %s", d->plan->config);
	free(*ret);
	*ret = text;
	return 0;
}

static int devcontainer_image(struct devcontainer *d, const char *name,
			      const json_t *value, struct warren_error *err)
{
	return devcontainer_text(d, name, value, &d->plan->image, err);
}

/* remoteUser comes after containerUser in the table, and takes precedence. */
static int devcontainer_user(struct devcontainer *d, const char *name,
			     const json_t *value, struct warren_error *err)
{
	return devcontainer_text(d, name, value, &d->plan->user, err);
}

/* Replace or append NAME=VALUE; @value NULL removes the variable. */
static int devcontainer_set_env(char ***env, const char *name, const char *value)
{
	AUTO_FREE char *text = NULL;
	size_t n = strlen(name), i;

	if (value && asprintf(&text, "%s=%s", name, value) < 0)
		return -ENOMEM;
	for (i = 0; *env && (*env)[i]; i++)
		if (strncmp((*env)[i], name, n) == 0 && (*env)[i][n] == '=')
			break;
	if (!*env || !(*env)[i])
		return text ? strv_add(env, text) : 0;
	free((*env)[i]);
	if (text) {
		(*env)[i] = TAKE_PTR(text);
		return 0;
	}
	for (; (*env)[i]; i++)
		(*env)[i] = (*env)[i + 1];
	return 0;
}

static int devcontainer_env(struct devcontainer *d, const char *name, const json_t *value,
			    struct warren_error *err)
{
	const char *key;
	json_t *one;

	if (!json_is_object(value))
		return devcontainer_refuse(d, name, "must be an object of strings", err);
	json_object_foreach((json_t *)value, key, one)
	{
		AUTO_FREE char *text = NULL;
		int r = 0;

		if (!key[0] || strchr(key, '='))
			return devcontainer_refuse(
				d, name, "has a name that is not valid for a variable",
				err);
		if (!json_is_null(one))
			r = devcontainer_text(d, name, one, &text, err);
		if (r == 0 && devcontainer_set_env(&d->plan->env, key, text) < 0)
			r = error_errno(err, ENOMEM, "read %s", d->plan->config);
		if (r < 0)
			return r;
	}
	return 0;
}

static int devcontainer_folder(struct devcontainer *d, const char *name,
			       const json_t *value, struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	int r = devcontainer_text(d, name, value, &path, err);

	if (r < 0)
		return r;
	if (path[0] != '/' || strstr(path, "/../") || strstr(path, "//"))
		return devcontainer_refuse(d, name, "must be an absolute path", err);
	free(d->plan->workdir);
	d->plan->workdir = TAKE_PTR(path);
	if (!d->vars.o->workdir)
		d->vars.inside = d->plan->workdir;
	return 0;
}

/* ------------------------------------------------------------------- build */

static int devcontainer_below(const struct devcontainer *d, const char *name,
			      const json_t *value, char **ret, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	int r = devcontainer_text(d, name, value, &text, err);

	if (r < 0)
		return r;
	free(*ret);
	*ret = setup_path_below(d->dir, text);
	return *ret ? 0
		    : devcontainer_refuse(d, name, "must be a path inside the project",
					  err);
}

static int devcontainer_dockerfile(struct devcontainer *d, const char *name,
				   const json_t *value, struct warren_error *err)
{
	return devcontainer_below(d, name, value, &d->plan->build.dockerfile, err);
}

static int devcontainer_context(struct devcontainer *d, const char *name,
				const json_t *value, struct warren_error *err)
{
	return devcontainer_below(d, name, value, &d->plan->build.context, err);
}

static int devcontainer_args(struct devcontainer *d, const json_t *value,
			     struct warren_error *err)
{
	const char *key;
	json_t *one;

	if (!json_is_object(value))
		return devcontainer_refuse(d, "build.args",
					   "must be an object of strings", err);
	json_object_foreach((json_t *)value, key, one)
	{
		AUTO_FREE char *text = NULL;
		int r = devcontainer_text(d, "build.args", one, &text, err);

		if (r == 0 && devcontainer_set_env(&d->plan->build.args, key, text) < 0)
			r = error_errno(err, ENOMEM, "read %s", d->plan->config);
		if (r < 0)
			return r;
	}
	return 0;
}

static void devcontainer_note_build(struct devcontainer *d, const char *key)
{
	bool known = strcmp(key, "cacheFrom") == 0 || strcmp(key, "options") == 0;

	setup_plan_note(d->plan, "%s: 'build.%s' is %s", d->plan->config, key,
			!known ? "unknown, and not honoured"
			: key[0] == 'c'
				? "not honoured: Warren has its own build cache"
				: "not honoured: 'warren image build' has other options");
}

static int devcontainer_build(struct devcontainer *d, const char *name,
			      const json_t *value, struct warren_error *err)
{
	const char *key;
	json_t *one;
	int r = 0;

	if (!json_is_object(value))
		return devcontainer_refuse(d, name, "must be an object", err);
	json_object_foreach((json_t *)value, key, one)
	{
		if (strcmp(key, "dockerfile") == 0)
			r = devcontainer_dockerfile(d, "build.dockerfile", one, err);
		else if (strcmp(key, "context") == 0)
			r = devcontainer_context(d, "build.context", one, err);
		else if (strcmp(key, "target") == 0)
			r = devcontainer_text(d, "build.target", one,
					      &d->plan->build.target, err);
		else if (strcmp(key, "args") == 0)
			r = devcontainer_args(d, one, err);
		else
			devcontainer_note_build(d, key);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ------------------------------------------------------------------ mounts */

struct devcontainer_mount {
	char *type, *source, *target, *size;
};

static void devcontainer_mount_done(struct devcontainer_mount *m)
{
	free(m->type);
	free(m->source);
	free(m->target);
	free(m->size);
}

/* The field of a mount with docker's name for it; NULL: another word. */
static char **devcontainer_mount_field(struct devcontainer_mount *m, const char *key)
{
	if (strcmp(key, "type") == 0)
		return &m->type;
	if (strcmp(key, "source") == 0 || strcmp(key, "src") == 0)
		return &m->source;
	if (strcmp(key, "target") == 0 || strcmp(key, "dst") == 0 ||
	    strcmp(key, "destination") == 0)
		return &m->target;
	return strcmp(key, "tmpfs-size") == 0 ? &m->size : NULL;
}

static void devcontainer_note_mount(const struct devcontainer *d, const char *key)
{
	/* It matters only between machines. */
	if (strcmp(key, "consistency") != 0)
		setup_plan_note(d->plan, "%s: '%s' of a mount is not honoured",
				d->plan->config, key);
}

/* Parse "type=tmpfs,target=/x" or an object with these members. */
static int devcontainer_mount_parse(const struct devcontainer *d, const json_t *value,
				    struct devcontainer_mount *m,
				    struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	const char *key;
	json_t *one;
	char *save = NULL;
	int r = 0;

	if (json_is_object(value)) {
		json_object_foreach((json_t *)value, key, one)
		{
			char **field = devcontainer_mount_field(m, key);

			if (!field)
				devcontainer_note_mount(d, key);
			else if (r == 0)
				r = devcontainer_text(d, "mounts", one, field, err);
		}
		return r;
	}
	r = devcontainer_text(d, "mounts", value, &text, err);
	if (r < 0)
		return r;
	for (char *w = strtok_r(text, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *equals = strchr(w, '=');
		char **field;

		if (equals)
			*equals = '\0';
		field = equals ? devcontainer_mount_field(m, w) : NULL;
		if (!field) {
			devcontainer_note_mount(d, w);
			continue;
		}
		free(*field);
		*field = strdup(equals + 1);
		if (!*field)
			return error_errno(err, ENOMEM, "read %s", d->plan->config);
	}
	return 0;
}

/* Would a sandbox refuse to mount something there? Then setup must not accept it. */
static const char *devcontainer_target_fault(const char *target)
{
	const char *at = target;

	if (!target || target[0] != '/')
		return "needs an absolute target";
	if (strspn(target, "/") == strlen(target))
		return "cannot cover the root";
	while (*at) {
		size_t slashes = strspn(at, "/"), n = strcspn(at + slashes, "/");
		const char *part = at + slashes;

		if ((n == 1 && part[0] == '.') || (n == 2 && strncmp(part, "..", 2) == 0))
			return "needs a target without '.' and '..'";
		if (at == target && n == 4 && strncmp(part, "proc", 4) == 0)
			return "cannot have a target in /proc";
		at = part + n;
	}
	return NULL;
}

/* Only a tmpfs is mounted: everything else belongs to the host. */
static int devcontainer_mount(struct devcontainer *d, const json_t *value,
			      struct warren_error *err)
{
	struct devcontainer_mount CLEANUP(devcontainer_mount_done) m = { 0 };
	struct setup_plan *p = d->plan;
	int r = devcontainer_mount_parse(d, value, &m, err);
	const char *fault;

	if (r < 0)
		return r;
	fault = devcontainer_target_fault(m.target);
	if (fault)
		return devcontainer_refuse(d, "mounts", fault, err);
	if (!m.type || strcmp(m.type, "tmpfs") != 0) {
		bool bind = m.type && strcmp(m.type, "bind") == 0;

		setup_plan_note(p, "%s: the %s %s on %s is not mounted%s%s%s%s",
				p->config, bind ? "directory" : "volume",
				m.source ? m.source : "", m.target,
				bind ? "; allow it with -v " : "",
				bind && m.source ? m.source : "", bind ? ":" : "",
				bind ? m.target : "");
		return 0;
	}
	if (p->n_mounts == SETUP_MOUNTS_MAX)
		return devcontainer_refuse(d, "mounts", "has too many entries", err);
	p->mounts[p->n_mounts].size = 0;
	if (m.size && parse_size(m.size, &p->mounts[p->n_mounts].size, err) < 0)
		return error_wrap(err, "%s: 'mounts'", p->config);
	p->mounts[p->n_mounts++].target = TAKE_PTR(m.target);
	return 0;
}

static int devcontainer_mounts(struct devcontainer *d, const char *name,
			       const json_t *value, struct warren_error *err)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(value))
		return devcontainer_refuse(d, name, "must be a list", err);
	json_array_foreach(value, i, one)
	{
		int r = devcontainer_mount(d, one, err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* A number, or "localhost:3000"; ports of other hosts are named. */
static int devcontainer_ports(struct devcontainer *d, const char *name,
			      const json_t *value, struct warren_error *err)
{
	struct setup_plan *p = d->plan;
	const json_t *one;
	size_t i;

	if (!json_is_array(value))
		return devcontainer_refuse(d, name, "must be a list", err);
	json_array_foreach(value, i, one)
	{
		const char *text = json_string_value(one);
		uint64_t port = 0;

		if (json_is_integer(one) && json_integer_value(one) > 0)
			port = (uint64_t)json_integer_value(one);
		else if (text && strncmp(text, "localhost:", 10) == 0)
			text += 10;
		if (text && strchr(text, ':')) {
			setup_plan_note(p,
					"%s: 'forwardPorts' %s is another host, and is "
					"not forwarded",
					p->config, text);
			continue;
		}
		if (text && parse_u64(text, UINT16_MAX, &port, err) < 0)
			return error_wrap(err, "%s: 'forwardPorts'", p->config);
		if (port == 0 || port > UINT16_MAX)
			return devcontainer_refuse(d, name, "must be a list of ports",
						   err);
		if (p->n_ports == SETUP_PORTS_MAX)
			return devcontainer_refuse(d, name, "has too many entries", err);
		p->ports[p->n_ports++] = (uint16_t)port;
	}
	return 0;
}

/* ---------------------------------------------------------------- commands */

static int devcontainer_step(struct devcontainer *d, const char *name,
			     const json_t *value, struct warren_error *err)
{
	return devcontainer_command(&d->vars, name, value, false, err);
}

static int devcontainer_start(struct devcontainer *d, const char *name,
			      const json_t *value, struct warren_error *err)
{
	return devcontainer_command(&d->vars, name, value, true, err);
}

/* ------------------------------------------------------------------- table */

struct devcontainer_row {
	const char *name;
	/* NULL: not honoured. */
	int (*read)(struct devcontainer *d, const char *name, const json_t *value,
		    struct warren_error *err);
	const char *why;  /* it is not honoured; NULL: it has no effect anyway */
	const char *fine; /* a JSON value that asks for what Warren does; NULL: none */
};

/* In the order in which they are read: later ones may use variables of earlier ones. */
static const struct devcontainer_row devcontainer_table[] = {
	{ "$schema", NULL, NULL },
	{ "name", NULL, NULL },
	{ "init", NULL, NULL },    /* a sandbox has an init */
	{ "waitFor", NULL, NULL }, /* all commands end before work starts */
	{ "workspaceFolder", devcontainer_folder, NULL },
	{ "image", devcontainer_image, NULL },
	{ "context", devcontainer_context, NULL }, /* before there was `build` */
	{ "dockerFile", devcontainer_dockerfile, NULL },
	{ "build", devcontainer_build, NULL },
	{ "containerEnv", devcontainer_env, NULL },
	{ "remoteEnv", devcontainer_env, NULL },
	{ "containerUser", devcontainer_user, NULL },
	{ "remoteUser", devcontainer_user, NULL },
	{ "mounts", devcontainer_mounts, NULL },
	{ "forwardPorts", devcontainer_ports, NULL },
	{ "onCreateCommand", devcontainer_step, NULL },
	{ "updateContentCommand", devcontainer_step, NULL },
	{ "postCreateCommand", devcontainer_step, NULL },
	{ "postStartCommand", devcontainer_start, NULL },
	{ "initializeCommand", NULL, "commands of a project never run on this machine" },
	{ "postAttachCommand", NULL, "no editor attaches" },
	{ "workspaceMount", NULL, "the project is mounted as --mode says" },
	{ "features", NULL, "install their tools in the image" },
	{ "overrideFeatureInstallOrder", NULL, "features are not installed" },
	{ "runArgs", NULL, "use the options of warren work" },
	{ "appPort", NULL, "use forwardPorts" },
	{ "privileged", NULL, "a sandbox has no privileges" },
	{ "capAdd", NULL, "a sandbox has no privileges" },
	{ "securityOpt", NULL, "a sandbox has no privileges" },
	{ "dockerComposeFile", NULL, "one sandbox runs one image" },
	{ "service", NULL, "one sandbox runs one image" },
	{ "runServices", NULL, "one sandbox runs one image" },
	{ "customizations", NULL, "it is for editors" },
	{ "settings", NULL, "it is for editors" },
	{ "extensions", NULL, "it is for editors" },
	{ "devPort", NULL, "it is for editors" },
	{ "portsAttributes", NULL, "it is for editors" },
	{ "otherPortsAttributes", NULL, "it is for editors" },
	{ "hostRequirements", NULL, "use --memory, --cpus and --disk" },
	{ "secrets", NULL, "give those that the command may know with -e NAME" },
	{ "overrideCommand", NULL, "the command of the image does not run", "true" },
	{ "shutdownAction", NULL, "the sandbox ends with the command",
	  "\"stopContainer\"" },
	{ "updateRemoteUserUID", NULL,
	  "the project belongs to the user inside, whatever its number is", "true" },
	{ "userEnvProbe", NULL,
	  "startup files of shells are not read; set variables with remoteEnv",
	  "\"none\"" },
};

static const struct devcontainer_row *devcontainer_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(devcontainer_table); i++)
		if (strcmp(devcontainer_table[i].name, name) == 0)
			return &devcontainer_table[i];
	return NULL;
}

/* Does the value ask for nothing? */
static bool devcontainer_is_empty(const json_t *value)
{
	return json_is_null(value) || json_is_false(value) ||
	       (json_is_array(value) && json_array_size(value) == 0) ||
	       (json_is_object(value) && json_object_size(value) == 0);
}

/* Does the value ask for what Warren does anyway? */
static bool devcontainer_is_fine(const struct devcontainer_row *row, const json_t *value)
{
	json_t *fine;
	bool same;

	if (!row || !row->fine)
		return devcontainer_is_empty(value);
	fine = json_loads(row->fine, JSON_DECODE_ANY, NULL);
	same = json_is_null(value) || json_equal(fine, (json_t *)value);
	json_decref(fine);
	return same;
}

static void devcontainer_note_unknown(struct devcontainer *d, const char *key)
{
	struct suggestion near = { .word = key };

	for (size_t i = 0; i < ARRAY_SIZE(devcontainer_table); i++)
		suggest_consider(&near, devcontainer_table[i].name);
	setup_plan_note(d->plan, "%s: '%s' is unknown, and not honoured%s%s%s",
			d->plan->config, key, near.best ? "; did you mean '" : "",
			near.best ? near.best : "", near.best ? "'?" : "");
}

static void devcontainer_note_rest(struct devcontainer *d, const json_t *root)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)root, key, value)
	{
		const struct devcontainer_row *row = devcontainer_find(key);

		if (!row)
			devcontainer_note_unknown(d, key);
		else if (!row->read && row->why && !devcontainer_is_fine(row, value))
			setup_plan_note(d->plan, "%s: '%s' is not honoured: %s",
					d->plan->config, key, row->why);
	}
}

static int devcontainer_properties(struct devcontainer *d, const json_t *root,
				   struct warren_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(devcontainer_table); i++) {
		const struct devcontainer_row *row = &devcontainer_table[i];
		const json_t *value = json_object_get(root, row->name);
		int r;

		if (!value || json_is_null(value) || !row->read)
			continue;
		r = row->read(d, row->name, value, err);
		if (r < 0)
			return r;
	}
	devcontainer_note_rest(d, root);
	if (json_object_get(root, "dockerComposeFile") && !d->vars.o->image)
		return error_set(
			err, EOPNOTSUPP,
			"%s uses dockerComposeFile, which Warren cannot run; give "
			"--image, or ignore the file with --no-setup",
			d->plan->config);
	if (d->plan->build.dockerfile && !d->plan->build.context) {
		d->plan->build.context = strdup(d->dir);
		if (!d->plan->build.context)
			return error_errno(err, ENOMEM, "read %s", d->plan->config);
	}
	return 0;
}

/* ---------------------------------------------------------------- the file */

static int devcontainer_parse(int project_fd, struct devcontainer *d,
			      struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	json_error_t why;
	json_t *root;
	size_t n = 0;
	int r = setup_tree_read(project_fd, d->plan->config, &text, &n, err);

	if (r < 0)
		return r;
	jsonc_to_json(text, n);
	root = json_loadb(text, n, 0, &why);
	if (!root)
		return error_set(err, EINVAL, "%s:%d:%d: %s", d->plan->config, why.line,
				 why.column, why.text);
	r = json_is_object(root)
		    ? devcontainer_properties(d, root, err)
		    : error_set(err, EINVAL, "%s must be an object", d->plan->config);
	json_decref(root);
	return r;
}

static int devcontainer_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Collect .devcontainer/<folder>/devcontainer.json, sorted. */
static int devcontainer_list(int project_fd, char ***ret)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	int fd =
		(int)syscall(SYS_openat2, project_fd, ".devcontainer", &how, sizeof(how));
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int r = 0;

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return 0;
	}
	for (size_t n = 0; r == 0 && n < FOLDERS_MAX && (e = readdir(dir));) {
		AUTO_FREE char *path = NULL;

		if (e->d_name[0] == '.')
			continue;
		n++;
		if (asprintf(&path, ".devcontainer/%s/devcontainer.json", e->d_name) < 0)
			r = -ENOMEM;
		else if (setup_tree_has(project_fd, path))
			r = strv_add(ret, path);
	}
	(void)closedir(dir);
	if (*ret)
		qsort(*ret, strv_len((union strv){ .list = *ret }), sizeof(char *),
		      devcontainer_compare);
	return r;
}

/* Set the path of the file that counts; it stays NULL if there is none. */
static int devcontainer_choose(int project_fd, struct setup_plan *p)
{
	static const char *const places[] = { ".devcontainer/devcontainer.json",
					      ".devcontainer.json" };
	char AUTO_STRV **found = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (setup_tree_has(project_fd, places[i])) {
			p->config = strdup(places[i]);
			return p->config ? 0 : -ENOMEM;
		}
	r = devcontainer_list(project_fd, &found);
	if (r < 0 || !found)
		return r;
	p->config = strdup(found[0]);
	if (!p->config)
		return -ENOMEM;
	for (char **v = found + 1; *v; v++)
		setup_plan_note(p, "%s is not used; the first file is %s", *v, p->config);
	return 0;
}

int devcontainer_read(int project_fd, const struct setup_options *o, struct setup_plan *p,
		      struct warren_error *err)
{
	struct devcontainer d = { .vars = { .o = o, .plan = p }, .plan = p };
	int r = devcontainer_choose(project_fd, p);

	if (r < 0)
		return error_errno(err, -r, "look for devcontainer.json");
	if (!p->config)
		return 0;
	d.vars.inside = o->workdir ? o->workdir : o->project;
	devcontainer_id(o->project, p->config, d.vars.id);
	d.dir = strdup(p->config);
	if (!d.dir)
		return error_errno(err, ENOMEM, "read %s", p->config);
	if (strrchr(d.dir, '/'))
		*strrchr(d.dir, '/') = '\0';
	else
		d.dir[0] = '\0';
	r = devcontainer_parse(project_fd, &d, err);
	free(d.dir);
	return r < 0 ? r : 1;
}
