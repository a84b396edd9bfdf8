/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.c - read the spec of a sandbox strictly, as libwarren wrote it
 * (backend/shimmed/lifecycle.c)
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/core/shim.h"
#include "spec/spec.h"

static int spec_bad(const char *key, struct warren_error *err)
{
	return error_set(err, EINVAL, "the spec has a '%s' that is not valid", key);
}

/* The list is NULL-terminated; its strings belong to the document. */
static int spec_read_env(const json_t *v, struct warren_spec *ret,
			 struct warren_error *err)
{
	size_t n = json_array_size(v);
	const char **env = calloc(n + 1, sizeof(*env));

	if (!env)
		return error_errno(err, ENOMEM, "read the spec");
	ret->env = env;
	for (size_t i = 0; i < n; i++) {
		env[i] = json_string_value(json_array_get(v, i));
		if (!env[i])
			return spec_bad("env", err);
	}
	return 0;
}

/*
 * Open the source of a volume once. Its type was checked before (libwarren has it open);
 * if another file has the name now, it is refused.
 */
static int spec_open_source(struct warren_mount *m, const char *is,
			    struct warren_error *err)
{
	uintmax_t dev = 0, ino = 0;
	struct stat st;

	if (sscanf(is, "%jx:%jx", &dev, &ino) != 2)
		return spec_bad("mounts", err);
	m->source_fd = open(m->source, O_PATH | O_CLOEXEC);
	if (m->source_fd < 0 || fstat(m->source_fd, &st) < 0)
		return error_errno(err, errno, "volume '%s'", m->source);
	if (st.st_dev != dev || st.st_ino != ino)
		return error_set(err, ESTALE,
				 "volume '%s': its name no longer refers to the same "
				 "file as when it was allowed",
				 m->source);
	return 0;
}

/* Take over the filesystem of a volume, one of the shim's first descriptors. */
static int spec_take_volume(struct warren_mount *m, unsigned n, struct warren_error *err)
{
	if (!m->source || fcntl(FD_VOLUMES + (int)n, F_GETFD) < 0)
		return spec_bad("mounts", err);
	m->volume = true;
	m->source_fd = FD_VOLUMES + (int)n;
	return 0;
}

static int spec_read_mounts(const json_t *v, struct warren_spec *ret,
			    struct warren_error *err)
{
	size_t n = json_array_size(v);
	unsigned volumes = 0;
	struct warren_mount *m = calloc(n + 1, sizeof(*m));

	if (!m)
		return error_errno(err, ENOMEM, "read the spec");
	ret->mounts = m;
	ret->n_mounts = n;
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_array_get(v, i);
		const char *is = json_string_value(json_object_get(one, "is"));
		int r;

		m[i].source = json_string_value(json_object_get(one, "source"));
		m[i].target = json_string_value(json_object_get(one, "target"));
		m[i].read_only = json_is_true(json_object_get(one, "read_only"));
		m[i].size = (uint64_t)json_integer_value(json_object_get(one, "size"));
		if (!m[i].target || (is && !m[i].source))
			return spec_bad("mounts", err);
		if (json_is_true(json_object_get(one, "volume")))
			r = spec_take_volume(&m[i], volumes++, err);
		else
			r = is ? spec_open_source(&m[i], is, err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_field(const struct spec_field *f, const json_t *v,
		      struct warren_spec *ret, struct warren_error *err)
{
	switch (f->kind) {
	case SPEC_TEXT:
		spec_text_set(ret, f, json_string_value(v));
		return json_is_string(v) ? 0 : spec_bad(f->name, err);
	case SPEC_FLAG:
		spec_flag_set(ret, f, json_is_true(v));
		return json_is_boolean(v) ? 0 : spec_bad(f->name, err);
	case SPEC_SOFT_LIMITS:
		ret->soft_limits = (uint64_t)json_integer_value(v);
		return json_is_integer(v) ? 0 : spec_bad(f->name, err);
	case SPEC_NETWORK:
		ret->network = (enum warren_network)json_integer_value(v);
		return json_is_integer(v) ? 0 : spec_bad(f->name, err);
	case SPEC_ENV:
		return spec_read_env(v, ret, err);
	case SPEC_MOUNTS:
		return spec_read_mounts(v, ret, err);
	}
	return -EINVAL;
}

/* Read a limit or another field by its name. */
static int read_named(const char *name, const json_t *v, struct warren_spec *ret,
		      struct warren_error *err)
{
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		if (strcmp(spec_limits[i].name, name) != 0)
			continue;
		spec_limit_set(ret, i, (uint64_t)json_integer_value(v));
		return json_is_integer(v) ? 0 : spec_bad(name, err);
	}
	for (size_t i = 0; i < spec_n_fields; i++)
		if (strcmp(spec_fields[i].name, name) == 0)
			return read_field(&spec_fields[i], v, ret, err);
	return spec_bad(name, err);
}

int spec_read(const json_t *doc, struct warren_spec *ret, struct warren_error *err)
{
	const char *name;
	json_t *v;
	int r = 0;

	*ret = (struct warren_spec){ .id = this_sandbox.id };
	json_object_foreach((json_t *)(uintptr_t)doc, name, v)
	{
		r = read_named(name, v, ret, err);
		if (r < 0)
			break;
	}
	return r;
}

void spec_done(struct warren_spec *spec)
{
	for (size_t i = 0; i < spec->n_mounts; i++)
		if (spec->mounts[i].source_fd > 0)
			(void)close(spec->mounts[i].source_fd);
	free((void *)(uintptr_t)spec->env);
	free((void *)(uintptr_t)spec->mounts);
}
