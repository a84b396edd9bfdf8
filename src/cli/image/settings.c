/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - read settings from files with two words per line, and from two environment
 * variables */
#include "cli/image/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

#define MACHINE_FILE "/etc/warren/registries.conf"
#define FILE_MAX     (64U << 10)
#define BLANK        " \t\r"

int host_list_add(void *list, const char *host, struct warren_error *err)
{
	struct host_list *l = list;

	if (!*host || strpbrk(host, "/, "))
		return error_set(err, EINVAL, "'%.200s' is not HOST or HOST:PORT", host);
	if (l->n == SETTINGS_HOSTS_MAX)
		return error_set(err, E2BIG, "more than %d registries",
				 SETTINGS_HOSTS_MAX);
	l->v[l->n++] = host;
	return 0;
}

static int add_insecure(struct settings *s, const char *value, struct warren_error *err)
{
	return host_list_add(&s->insecure, value, err);
}

static int add_trusted(struct settings *s, const char *value, struct warren_error *err)
{
	return host_list_add(&s->trusted, value, err);
}

static int set_ca(struct settings *s, const char *value, struct warren_error *err)
{
	if (*value != '/')
		return error_set(err, EINVAL, "'%.200s' is not an absolute path", value);
	s->ca_file = value;
	return 0;
}

static const struct {
	const char *key;
	int (*set)(struct settings *s, const char *value, struct warren_error *err);
} keys[] = {
	{ "insecure", add_insecure },
	{ "trusted", add_trusted },
	{ "ca", set_ca },
};

/* A file name may contain spaces: the second word is the rest of the line. */
static int settings_read_line(struct settings *s, char *line, struct warren_error *err)
{
	char *value;
	size_t n;

	line[strcspn(line, "#")] = '\0';
	line += strspn(line, BLANK);
	for (n = strlen(line); n > 0 && strchr(BLANK, line[n - 1]); n--)
		line[n - 1] = '\0';
	if (!*line)
		return 0;
	value = line + strcspn(line, BLANK);
	if (*value)
		*value++ = '\0';
	value += strspn(value, BLANK);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcmp(line, keys[i].key) == 0)
			return keys[i].set(s, value, err);
	return error_set(
		err, EINVAL,
		"'%.100s' is not a setting (example: insecure registry.lan:5000)", line);
}

static int read_file(struct settings *s, const char *path, char **ret_text,
		     struct warren_error *err)
{
	char *text = calloc(1, FILE_MAX), *rest = text, *line;
	unsigned number = 0;
	ssize_t n;
	int r = 0;

	*ret_text = text;
	if (!text)
		return error_errno(err, ENOMEM, "read %.300s", path);
	n = fd_read_file_at(AT_FDCWD, path, text, FILE_MAX);
	if (n == -ENOENT || n == -ENOTDIR)
		return 0;
	if (n < 0)
		return error_errno(err, (int)-n, "read %.300s", path);
	while (r == 0 && (line = strsep(&rest, "\n"))) {
		number++;
		r = settings_read_line(s, line, err);
	}
	return r < 0 ? error_wrap(err, "%.300s: line %u", path, number) : 0;
}

static int read_user_file(struct settings *s, char **ret_text, struct warren_error *err)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char path[PATH_MAX];
	int n;

	if (config && config[0] == '/')
		n = snprintf(path, sizeof(path), "%s/warren/registries.conf", config);
	else if (home && home[0] == '/')
		n = snprintf(path, sizeof(path), "%s/.config/warren/registries.conf",
			     home);
	else
		return 0;
	if (n < 0 || (size_t)n >= sizeof(path))
		return error_set(err, ENAMETOOLONG,
				 "the path of the user's configuration is too long");
	return read_file(s, path, ret_text, err);
}

static int read_environment(struct settings *s, char **ret_text, struct warren_error *err)
{
	const char *ca = getenv("WARREN_CA_FILE");
	const char *hosts = getenv("WARREN_INSECURE_REGISTRIES");
	char *save = NULL;
	int r = 0;

	if (ca && *ca)
		s->ca_file = ca;
	if (!hosts)
		return 0;
	*ret_text = strdup(hosts);
	if (!*ret_text)
		return error_errno(err, ENOMEM, "read WARREN_INSECURE_REGISTRIES");
	for (char *h = strtok_r(*ret_text, ", ", &save); h && r == 0;
	     h = strtok_r(NULL, ", ", &save))
		r = host_list_add(&s->insecure, h, err);
	return r < 0 ? error_wrap(err, "WARREN_INSECURE_REGISTRIES") : 0;
}

int settings_read(struct settings *ret, struct warren_error *err)
{
	struct settings s = { 0 };
	int r = read_file(&s, MACHINE_FILE, &s.texts[0], err);

	if (r == 0)
		r = read_user_file(&s, &s.texts[1], err);
	if (r == 0)
		r = read_environment(&s, &s.texts[2], err);
	if (r < 0)
		settings_done(&s);
	else
		*ret = s;
	return r;
}

void settings_done(struct settings *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->texts); i++)
		free(s->texts[i]);
	*s = (struct settings){ 0 };
}

int settings_apply(const struct settings *s, struct host_list *insecure,
		   const char **ca_file, struct warren_error *err)
{
	int r = 0;

	if (!*ca_file)
		*ca_file = s->ca_file;
	for (size_t i = 0; r == 0 && i < s->insecure.n; i++)
		r = host_list_add(insecure, s->insecure.v[i], err);
	return r;
}
