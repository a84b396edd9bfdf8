/* SPDX-License-Identifier: Apache-2.0 */
/* strv.c - NULL-terminated lists of strings */
#include "base/strv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

size_t strv_len(union strv v)
{
	size_t n = 0;

	while (v.list && v.list[n])
		n++;
	return n;
}

size_t strv_bytes(union strv v)
{
	size_t n = 0;

	for (size_t i = 0; v.list && v.list[i]; i++)
		n += strlen(v.list[i]) + 1;
	return n;
}

char **strv_free(char **v)
{
	for (char **p = v; p && *p; p++)
		free(*p);
	free(v);
	return NULL;
}

char **strv_copy(union strv v)
{
	size_t n = strv_len(v);
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(v.list[i]);
		if (!copy[i])
			copy = strv_free(copy);
	}
	return copy;
}

int strv_add(char ***v, const char *s)
{
	size_t n = strv_len(*v);
	char **more = reallocarray(*v, n + 2, sizeof(*more));

	if (!more)
		return -ENOMEM;
	*v = more;
	more[n] = strdup(s);
	more[n + 1] = NULL;
	return more[n] ? 0 : -ENOMEM;
}

bool strv_has(union strv v, const char *s)
{
	for (const char *const *p = v.all_const; p && *p; p++)
		if (strcmp(*p, s) == 0)
			return true;
	return false;
}

bool strv_has_case(union strv v, const char *s)
{
	for (size_t i = 0; v.list && v.list[i]; i++)
		if (strcasecmp(v.list[i], s) == 0)
			return true;
	return false;
}
