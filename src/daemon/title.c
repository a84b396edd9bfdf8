/* SPDX-License-Identifier: Apache-2.0 */
/*
 * title.c - set the title of the process by overwriting the memory of argv, which the
 * kernel reports as the command line
 *
 * The name of the process (/proc/PID/comm) stays "warren-serve".
 */
#include "daemon/title.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	char *at; /* position of argv[0]; NULL: the title is not changed */
	size_t size;
	char **words, **env; /* the copies, which are never freed */
} title_room;

/* Copy the strings; NULL: out of memory. */
static char **title_copy(char **list, size_t n)
{
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(list[i]);
		if (!copy[i])
			return NULL;
	}
	return copy;
}

char **title_open(int argc, char **argv)
{
	char **words = argc > 0 ? title_copy(argv, (size_t)argc) : NULL;
	char *end = words ? argv[argc - 1] + strlen(argv[argc - 1]) : NULL;
	size_t n = 0;

	while (environ[n])
		n++;
	title_room.words = words;
	title_room.env = words ? title_copy(environ, n) : NULL;
	if (!title_room.env)
		return argv;
	/*
	 * The environment follows the arguments in memory, so there is space for a title
	 * even with few arguments.
	 */
	for (size_t i = 0; i < n && environ[i] == end + 1; i++)
		end = environ[i] + strlen(environ[i]);
	environ = title_room.env;
	title_room.at = argv[0];
	title_room.size = (size_t)(end - argv[0]) + 1;
	return words;
}

void title_set(const char *role)
{
	if (!title_room.at)
		return;
	(void)memset(title_room.at, 0, title_room.size);
	(void)snprintf(title_room.at, title_room.size, "warren: %s", role);
}
