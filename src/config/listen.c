/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.c - parse listeners, mounts and host names; find out which processes can reach a
 * listener
 *
 * A listener that only the owner of the socket can reach needs no token. For a listener
 * that every process of the machine can reach, the service creates a token. A listener
 * that other machines can reach is refused until a token exists.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/parse.h"
#include "config/config_internal.h"

#define HOST_MAX 253

static const struct {
	const char *prefix;
	enum config_transport transport;
} transports[] = {
	{ "unix:", CONFIG_UNIX },
	{ "tcp:", CONFIG_TCP },
	{ "tls:", CONFIG_TLS },
};

static bool is_loopback6(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) ||
	       (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

/* "HOST:PORT", where HOST is an address (in brackets if it has colons) or "localhost". */
static int listen_parse_address(const char *text, struct config_listener *l,
				struct warren_error *err)
{
	const char *colon = strrchr(text, ':');
	char host[HOST_MAX + 1];
	uint64_t port;
	size_t n = colon ? (size_t)(colon - text) : 0;
	bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';

	if (!colon || n == 0 || n > HOST_MAX)
		return error_set(err, EINVAL, "'%.100s' is not HOST:PORT", text);
	if (parse_u64(colon + 1, UINT16_MAX, &port, err) < 0)
		return error_wrap(err, "the port of '%.100s'", text);
	(void)snprintf(host, sizeof(host), "%.*s", (int)(n - (bracketed ? 2 : 0)),
		       text + (bracketed ? 1 : 0));
	if (bracketed && inet_pton(AF_INET6, host, &l->addr.in6.sin6_addr) == 1) {
		l->addr.in6.sin6_family = AF_INET6;
		l->addr.in6.sin6_port = htons((uint16_t)port);
		l->addr_len = sizeof(l->addr.in6);
		l->reach = is_loopback6(&l->addr.in6.sin6_addr) ? CONFIG_LOOPBACK
								: CONFIG_WIDE;
		return 0;
	}
	if (strcmp(host, "localhost") == 0)
		(void)strcpy(host, "127.0.0.1");
	if (bracketed || inet_pton(AF_INET, host, &l->addr.in.sin_addr) != 1)
		return error_set(
			err, EINVAL,
			"'%.100s' is not an address: 127.0.0.1, [::1] or localhost",
			text);
	l->addr.in.sin_family = AF_INET;
	l->addr.in.sin_port = htons((uint16_t)port);
	l->addr_len = sizeof(l->addr.in);
	l->reach = ntohl(l->addr.in.sin_addr.s_addr) >> 24 == 127 ? CONFIG_LOOPBACK
								  : CONFIG_WIDE;
	return 0;
}

static int parse_socket(const char *path, struct config_listener *l,
			struct warren_error *err)
{
	if (path[0] != '/')
		return error_set(err, EINVAL, "'unix:%.100s' is not unix:/PATH", path);
	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return error_set(err, EINVAL,
				 "the path of a socket is longer than %zu bytes",
				 sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
	l->path = path;
	l->reach = CONFIG_OWNER;
	return 0;
}

/* Is this a list of listeners? A comma may also be part of the name of a socket. */
static bool listen_is_list(const char *text)
{
	for (const char *at = strchr(text, ','); at; at = strchr(at + 1, ',')) {
		const char *next = at + 1 + strspn(at + 1, " ");

		if (*next == '/')
			return true;
		for (size_t i = 0; i < ARRAY_SIZE(transports); i++)
			if (strncmp(next, transports[i].prefix,
				    strlen(transports[i].prefix)) == 0)
				return true;
	}
	return false;
}

int config_listener(const char *text, struct config_listener *ret,
		    struct warren_error *err)
{
	if (listen_is_list(text))
		return error_set(err, EINVAL,
				 "'%.100s' has several listeners: repeat --listen for "
				 "each, or use a list in the configuration",
				 text);
	for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
		struct config_listener l = { .transport = transports[i].transport };
		size_t n = strlen(transports[i].prefix);
		int r;

		if (strncmp(text, transports[i].prefix, n) != 0)
			continue;
		r = l.transport == CONFIG_UNIX ? parse_socket(text + n, &l, err)
					       : listen_parse_address(text + n, &l, err);
		if (r == 0)
			*ret = l;
		return r;
	}
	return error_set(err, EINVAL,
			 "'%.100s' is not unix:/PATH, tcp:HOST:PORT or tls:HOST:PORT",
			 text);
}

int config_allow(const struct config *c, uint64_t tokens, struct warren_error *err)
{
	int generate = 0;

	for (size_t i = 0; tokens == 0 && i < c->listen.n; i++) {
		struct config_listener l = { 0 };
		int r = config_listener(c->listen.items[i], &l, err);

		if (r < 0)
			return r;
		if (l.reach == CONFIG_WIDE)
			return error_set(
				err, EACCES,
				"listen: '%.100s' can be reached from other machines, "
				"but there is no token yet: start without it, run "
				"'warren token create', then add it",
				c->listen.items[i]);
		if (l.reach == CONFIG_LOOPBACK)
			generate = 1;
	}
	return generate;
}

int check_listener(const char *text, struct warren_error *err)
{
	struct config_listener l;

	return config_listener(text, &l, err);
}

/* ------------------------------------------------------------------ paths of mounts */

/*
 * The path must be absolute, without empty, "." and ".." parts, which would hide where it
 * leads.
 */
static bool is_clean_path(const char *path, size_t n)
{
	if (n == 0 || path[0] != '/')
		return false;
	for (size_t i = 1; i < n;) {
		size_t part = 0;

		while (i + part < n && path[i + part] != '/')
			part++;
		if (part == 0 || (part == 1 && path[i] == '.') ||
		    (part == 2 && path[i] == '.' && path[i + 1] == '.'))
			return false;
		i += part + 1;
	}
	return n == 1 || path[n - 1] != '/';
}

/* Return the length of the path in "/PATH:ro"; 0 if the format is wrong. */
static size_t mount_path(const char *text, bool *ret_write)
{
	const char *colon = strrchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!colon || (strcmp(colon, ":ro") != 0 && strcmp(colon, ":rw") != 0) ||
	    !is_clean_path(text, n))
		return 0;
	*ret_write = colon[2] == 'w';
	return n;
}

int check_mount(const char *text, struct warren_error *err)
{
	bool write;

	if (mount_path(text, &write) == 0)
		return error_set(err, EINVAL, "'%.100s' is not /PATH:ro or /PATH:rw",
				 text);
	return 0;
}

bool config_mount_allowed(const struct config *c, const char *path, bool read_only)
{
	if (!is_clean_path(path, strlen(path)))
		return false;
	for (size_t i = 0; i < c->mounts.n; i++) {
		const char *allowed = c->mounts.items[i];
		bool write = false;
		size_t n = mount_path(allowed, &write);

		if (n == 0 || strncmp(path, allowed, n) != 0 || (!write && !read_only))
			continue;
		if (n == 1 || path[n] == '\0' || path[n] == '/')
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------- names */

static bool all_of(const char *text, const char *allowed)
{
	return text[0] && text[strspn(text, allowed)] == '\0';
}

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

int check_domain(const char *text, struct warren_error *err)
{
	size_t n = strlen(text);

	if (n > HOST_MAX || !all_of(text, LOWER DIGITS ".-") || strstr(text, "..") ||
	    strchr(".-", text[0]) || strchr(".-", text[n - 1]))
		return error_set(err, EINVAL, "'%.100s' is not a domain in lower case",
				 text);
	return 0;
}

int check_registry(const char *text, struct warren_error *err)
{
	if (strlen(text) > HOST_MAX || !all_of(text, LOWER UPPER DIGITS ".-:[]"))
		return error_set(err, EINVAL, "'%.100s' is not HOST or HOST:PORT", text);
	return 0;
}

int check_name(const char *text, struct warren_error *err)
{
	if (strlen(text) > 63 || !all_of(text, LOWER UPPER DIGITS "_-.") ||
	    text[0] == '-')
		return error_set(err, EINVAL, "'%.100s' is not a name", text);
	return 0;
}

/* The name must be valid in openapi.yaml, and short enough for the name of an engine. */
int check_backend_name(const char *text, struct warren_error *err)
{
	size_t n = strlen(text);

	if (n == 0 || n > CONFIG_BACKEND_NAME_MAX || !all_of(text, LOWER DIGITS "-") ||
	    text[0] == '-' || text[n - 1] == '-')
		return error_set(err, EINVAL,
				 "'%.100s' is not a name: at most %d of a-z, 0-9 and -",
				 text, CONFIG_BACKEND_NAME_MAX);
	return 0;
}
