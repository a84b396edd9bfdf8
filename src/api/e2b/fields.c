/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fields.c - the names of fields in errors, as clients of this API write them
 *
 * A request becomes one of v1, whose checks name the field that is not valid by a pointer
 * into that request: "/mounts/0/volume: ...". Clients of this API read
 * "volumeMounts[0].name: ...". A field that only this API has keeps its name.
 */
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"

/* In a pointer, "*" is any one part. The first row that matches counts. */
static const struct {
	const char *ours, *theirs;
	bool whole; /* what follows has no counterpart */
} fields[] = {
	{ "/image", "templateID", true },
	{ "/template", "templateID", true },
	{ "/user", "templateID", true },
	{ "/workdir", "templateID", true },
	{ "/pull", "templateID", true },
	{ "/backend", "templateID", true },
	{ "/tier", "templateID", true },
	{ "/env", "envVars", false },
	{ "/labels", "metadata", false },
	{ "/ttl_ms", "timeout", true },
	{ "/on_ttl", "autoPause", true },
	{ "/wake_on_use", "autoResume.enabled", true },
	{ "/mounts/*/volume", "volumeMounts[*].name", true },
	{ "/mounts/*/target", "volumeMounts[*].path", true },
	{ "/mounts", "volumeMounts", false },
	{ "/network/allow/*/headers", "network.rules", true },
	{ "/network/allow", "network.allowOut", true },
	{ "/network/deny", "network.denyOut", true },
	{ "/limits/cpus", "cpuCount", true },
	{ "/limits/memory", "memoryMB", true },
	{ "/limits/disk", "minFreeDiskMb", true },
};

/*
 * The length of the part of @pointer that @pattern matches; 0: it does not match. @part
 * and @n_part are set to what "*" stands for.
 */
static size_t field_match(const char *pattern, const char *pointer, const char **part,
			  size_t *n_part)
{
	const char *at = pointer;

	for (; *pattern; pattern++) {
		if (*pattern == '*') {
			*part = at;
			*n_part = strcspn(at, "/");
			at += *n_part;
		} else if (*pattern != *at++) {
			return 0;
		}
	}
	return *at == '\0' || *at == '/' ? (size_t)(at - pointer) : 0;
}

static bool field_is_index(const char *part, size_t n)
{
	return n > 0 && n <= 9 && strspn(part, "0123456789") >= n;
}

/* Write a pointer as a path: "/a/0/b" as "a[0].b". */
static void field_put_path(struct buf *out, const char *pointer)
{
	while (*pointer == '/') {
		size_t n = strcspn(++pointer, "/");

		if (field_is_index(pointer, n) && out->len > 0)
			buf_printf(out, "[%.*s]", (int)n, pointer);
		else
			buf_printf(out, "%s%.*s", out->len > 0 ? "." : "", (int)n,
				   pointer);
		pointer += n;
	}
}

static void field_put(struct buf *out, const char *pointer)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *part = "", *at = fields[i].theirs;
		size_t n_part = 0,
		       n = field_match(fields[i].ours, pointer, &part, &n_part);

		if (n == 0)
			continue;
		for (; *at; at++)
			if (*at == '*')
				buf_add(out, part, n_part);
			else
				buf_add(out, at, 1);
		if (!fields[i].whole)
			field_put_path(out, pointer + n);
		return;
	}
	field_put_path(out, pointer);
}

const char *e2b_message(const struct api_error *err)
{
	static char room[2 * sizeof(err->message)]; /* there is one thread */
	struct buf out = BUF_IN(room);
	const char *pointer = NULL;
	size_t n;

	for (size_t i = 0; i < err->n_details; i++)
		if (strcmp(err->details[i].key, "pointer") == 0)
			pointer = err->details[i].text;
	n = pointer ? strlen(pointer) : 0;
	if (n == 0 || strncmp(err->message, pointer, n) != 0 || err->message[n] != ':')
		return err->message;
	field_put(&out, pointer);
	buf_puts(&out, err->message + n);
	return out.failed ? err->message : out.data;
}
