/* SPDX-License-Identifier: Apache-2.0 */
/* devcontainer_vars.c - ${localEnv:NAME:default} and the other variables */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "setup/devcontainer.h"

#define EXPANDED_MAX (1 << 20)
#define NAME_MAX_LEN 200

static const char *devcontainer_vars_base(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

/* The value of @name in a list of NAME=VALUE; NULL: it is not there. */
static const char *devcontainer_vars_find(const char *const *list, const char *name)
{
	size_t n = strlen(name);

	for (; list && *list; list++)
		if (strncmp(*list, name, n) == 0 && (*list)[n] == '=')
			return *list + n + 1;
	return NULL;
}

/*
 * @args: "NAME" or "NAME:default". Like the reference, a default ends at the next ':'.
 * NULL: the environment of the image is not known yet.
 */
static const char *devcontainer_vars_env(const struct devcontainer_vars *v, char *args,
					 bool local)
{
	char *fallback = strchr(args, ':');
	const char *value;

	if (fallback) {
		*fallback++ = '\0';
		fallback[strcspn(fallback, ":")] = '\0';
	}
	if (local) {
		value = devcontainer_vars_find(v->o->env, args);
	} else {
		value = devcontainer_vars_find((const char *const *)v->plan->env, args);
		if (!value)
			value = devcontainer_vars_find(v->o->image_env, args);
		if (!value && !v->o->image_env)
			return NULL;
	}
	if (value)
		return value;
	if (local)
		setup_plan_note(
			v->plan,
			"${localEnv:%s} was not filled in: variables of this machine "
			"are not visible inside; allow it with -e %s",
			args, args);
	return fallback ? fallback : "";
}

/* The value of the variable @name; NULL: it is not known, and stays as it is. */
static const char *devcontainer_vars_value(const struct devcontainer_vars *v, char *name)
{
	char *args = strchr(name, ':');

	if (args)
		*args++ = '\0';
	if (args && args[0] &&
	    (strcmp(name, "localEnv") == 0 || strcmp(name, "env") == 0))
		return devcontainer_vars_env(v, args, true);
	if (args && args[0] && strcmp(name, "containerEnv") == 0)
		return devcontainer_vars_env(v, args, false);
	if (strcmp(name, "localWorkspaceFolder") == 0)
		return v->o->project;
	if (strcmp(name, "localWorkspaceFolderBasename") == 0)
		return devcontainer_vars_base(v->o->project);
	if (strcmp(name, "containerWorkspaceFolder") == 0)
		return v->inside;
	if (strcmp(name, "containerWorkspaceFolderBasename") == 0)
		return devcontainer_vars_base(v->inside);
	if (strcmp(name, "devcontainerId") == 0)
		return v->id;
	return NULL;
}

char *devcontainer_expand(const struct devcontainer_vars *given, const char *text)
{
	const struct devcontainer_vars v = *given;
	struct buf out = BUF_INIT(EXPANDED_MAX);

	buf_puts(&out, "");
	for (const char *p = text; *p;) {
		const char *end = strncmp(p, "${", 2) == 0 ? strchr(p, '}') : NULL;
		char name[NAME_MAX_LEN];
		const char *value = NULL;

		if (end && (size_t)(end - p - 2) < sizeof(name)) {
			(void)snprintf(name, sizeof(name), "%.*s", (int)(end - p - 2),
				       p + 2);
			value = devcontainer_vars_value(&v, name);
		}
		if (!value) {
			buf_add(&out, p++, 1);
			continue;
		}
		buf_puts(&out, value);
		p = end + 1;
	}
	if (out.failed) {
		buf_done(&out);
		return NULL;
	}
	return out.data;
}

/* The sum of the labels as a number in base 32, with 52 digits: as the reference does. */
void devcontainer_id(const char *project, const char *config, char ret[64])
{
	struct sha256 h = SHA256_INIT;
	struct buf labels = BUF_INIT(65536);
	struct json j = { .out = &labels };
	unsigned char sum[SHA256_BYTES];
	AUTO_FREE char *file = NULL;

	if (asprintf(&file, "%s/%s", project, config) < 0)
		file = NULL;
	json_open(&j, NULL, '{');
	json_str(&j, "devcontainer.config_file", file);
	json_str(&j, "devcontainer.local_folder", project);
	json_close(&j, '}');
	sha256_add(&h, labels.data ? labels.data : "", labels.len);
	buf_done(&labels);
	sha256_bytes(&h, sum);
	for (size_t digit = 0; digit < 52; digit++) {
		unsigned value = 0;

		/* Five bits from the end; the first digit has only one. */
		for (size_t bit = 0; bit < 5; bit++) {
			size_t at = digit * 5 + bit;

			if (at < 256 && sum[31 - at / 8] >> (at % 8) & 1)
				value |= 1U << bit;
		}
		ret[51 - digit] = "0123456789abcdefghijklmnopqrstuv"[value];
	}
	ret[52] = '\0';
}
