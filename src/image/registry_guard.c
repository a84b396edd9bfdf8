/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_guard.c - restrict a client's pull to public and listed servers, and hide
 * details of errors
 *
 * The reference comes from a tenant, who may also control the registry, its redirects,
 * and the token server that it names. So each server is checked separately:
 *
 * - it uses TLS, or its host and port are listed as insecure;
 * - the address that curl is about to connect to is public and not one of this machine's
 *   own addresses, or the host and port are listed.
 *
 * The address is checked when the socket is created, so exactly the checked address is
 * used: it does not help an attacker if a name resolves differently the next time, or if
 * an address is written in an unusual way.
 *
 * A proxy in the environment was set by the administrator. It resolves names itself and
 * must check them itself; hosts that are written as numbers are checked here even then.
 * This file also decides whether a connection uses the proxy, so that curl cannot decide
 * otherwise and connect without a check.
 *
 * Details of an error are only for the administrator. The tenant gets the same sentence
 * whether a port is closed, open, filtered or forbidden.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "image/registry_internal.h"

/* ------------------------------------------------------------------- lists of hosts */

static bool same_host(const char *a, size_t n, const char *b)
{
	struct sockaddr_storage x, y;
	char text[300];

	if (strlen(b) == n && strncasecmp(a, b, n) == 0)
		return true;
	if (n >= sizeof(text))
		return false;
	(void)memcpy(text, a, n);
	text[n] = '\0';
	return address_parse(text, &x) && address_parse(b, &y) &&
	       memcmp(&x, &y, sizeof(x)) == 0;
}

/* "HOST" stands for the default port of the scheme, "HOST:PORT" for that port. */
static bool list_has(const char *const *list, const char *host, const char *port,
		     const char *usual)
{
	for (; list && *list; list++) {
		const char *colon = strrchr(*list, ':');
		size_t n;

		if (colon && strchr(colon, ']'))
			colon = NULL;
		n = colon ? (size_t)(colon - *list) : strlen(*list);
		if (strcmp(colon ? colon + 1 : usual, port) == 0 &&
		    same_host(*list, n, host))
			return true;
	}
	return false;
}

static bool url_listed(const char *const *list, const char *url)
{
	AUTO_FREE char *scheme = http_url_part(url, CURLUPART_SCHEME);
	AUTO_FREE char *host = http_url_part(url, CURLUPART_HOST);
	AUTO_FREE char *port = http_url_part(url, CURLUPART_PORT);

	return scheme && host && port &&
	       list_has(list, host, port, strcmp(scheme, "https") == 0 ? "443" : "80");
}

bool guard_url_ok(const struct registry *reg, const char *url)
{
	return http_url_ok(url, url_listed(reg->insecure_list, url));
}

/* ------------------------------------------------------------------- proxies */

static const char *registry_guard_first_of(const char *const *names)
{
	for (; *names; names++) {
		const char *value = getenv(*names);

		if (value && *value)
			return value;
	}
	return NULL;
}

/* "10.0.0.0/8" */
static bool net_has(const char *net, const char *slash, const struct sockaddr_storage *a)
{
	struct sockaddr_storage base;
	char text[64];
	unsigned bits = (unsigned)strtoul(slash + 1, NULL, 10), size, i;
	const uint8_t *x, *y;

	if ((size_t)(slash - net) >= sizeof(text))
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(slash - net), net);
	if (!address_parse(text, &base) || base.ss_family != a->ss_family)
		return false;
	if (a->ss_family == AF_INET) {
		x = (const uint8_t *)&((const struct sockaddr_in *)(const void *)a)
			    ->sin_addr;
		y = (const uint8_t *)&((const struct sockaddr_in *)(const void *)&base)
			    ->sin_addr;
		size = 32;
	} else {
		x = ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr.s6_addr;
		y = ((const struct sockaddr_in6 *)(const void *)&base)->sin6_addr.s6_addr;
		size = 128;
	}
	if (bits > size)
		return false;
	for (i = 0; i < bits / 8; i++)
		if (x[i] != y[i])
			return false;
	return bits % 8 == 0 || (x[i] ^ y[i]) >> (8 - bits % 8) == 0;
}

/* Does a word of NO_PROXY match? It is a name (which includes all names below it), an
 * address, or a network. */
static bool word_has(const char *word, const char *host, const struct sockaddr_storage *a)
{
	const char *slash = strchr(word, '/');
	size_t n, h = strlen(host);

	if (strcmp(word, "*") == 0)
		return true;
	if (slash)
		return a && net_has(word, slash, a);
	word += *word == '.';
	n = strlen(word);
	if (n > 0 && same_host(word, n, host))
		return true;
	return !a && n > 0 && h > n && strcasecmp(host + h - n, word) == 0 &&
	       host[h - n - 1] == '.';
}

/* Return the proxy in the environment for @url; NULL: none. */
static const char *proxy_for(const char *url, const char *host,
			     const struct sockaddr_storage *a)
{
	/* HTTP_PROXY is not used, because in a CGI script, the client can set it. */
	static const char *const plain[] = { "http_proxy", "all_proxy", "ALL_PROXY",
					     NULL };
	static const char *const tls[] = { "https_proxy", "HTTPS_PROXY", "all_proxy",
					   "ALL_PROXY", NULL };
	static const char *const none[] = { "no_proxy", "NO_PROXY", NULL };
	const char *proxy =
		registry_guard_first_of(strncmp(url, "https:", 6) == 0 ? tls : plain);
	const char *except = registry_guard_first_of(none);
	AUTO_FREE char *words = except ? strdup(except) : NULL;
	char *rest = words, *word;

	while (proxy && (word = strsep(&rest, ", ")))
		if (*word && word_has(word, host, a))
			return NULL;
	return proxy;
}

/* -------------------------------------------------------------- checks of each server */

static curl_socket_t registry_guard_on_socket(void *ctx, curlsocktype purpose,
					      struct curl_sockaddr *a)
{
	const struct http *h = ctx;

	if (purpose != CURLSOCKTYPE_IPCXN ||
	    (!h->any_address &&
	     (!address_is_public(&a->addr) || address_is_own(&a->addr))))
		return CURL_SOCKET_BAD;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* Is it a name that refers to the machine itself (or, with a proxy, to the proxy)? */
static bool is_localhost(const char *host)
{
	static const char name[] = "localhost";
	size_t n = strlen(host), k = sizeof(name) - 1;

	if (n > 0 && host[n - 1] == '.')
		n--;
	return n >= k && strncasecmp(host + n - k, name, k) == 0 &&
	       (n == k || host[n - k - 1] == '.');
}

int guard_hop(struct http *h, const char *url, struct warren_error *err)
{
	const struct registry *reg = h->reg;
	AUTO_FREE char *host = http_url_part(url, CURLUPART_HOST);
	struct sockaddr_storage a;
	const char *proxy;
	bool number, listed;

	if (!reg->public_only)
		return 0;
	if (!host || !guard_url_ok(reg, url))
		return error_set(err, EHOSTUNREACH,
				 "%.200s: it is not listed as insecure", url);
	listed = url_listed(reg->trusted, url) || url_listed(reg->insecure_list, url);
	number = address_parse(host, &a);
	if (!listed && ((number && !address_is_public((const struct sockaddr *)&a)) ||
			is_localhost(host)))
		return error_set(
			err, EHOSTUNREACH,
			"%.200s: its address is not public, and it is not listed "
			"among the trusted registries",
			host);
	proxy = proxy_for(url, host, number ? &a : NULL);
	h->any_address = listed || proxy;
	/* Set the proxy explicitly: "" means no proxy, whatever the environment contains.
	 */
	(void)curl_easy_setopt(h->easy, CURLOPT_PROXY, proxy ? proxy : "");
	(void)curl_easy_setopt(h->easy, CURLOPT_NOPROXY, "");
	(void)curl_easy_setopt(h->easy, CURLOPT_OPENSOCKETFUNCTION,
			       registry_guard_on_socket);
	(void)curl_easy_setopt(h->easy, CURLOPT_OPENSOCKETDATA, h);
	return 0;
}

/* ------------------------------------------------------------------- errors */

/*
 * Errors about the image or this machine may be reported; others would reveal the
 * network.
 */
static bool may_tell(int code)
{
	static const int codes[] = { ENOENT, EACCES, EBUSY,  EBADMSG,    EFBIG,
				     ENOSPC, EDQUOT, ENOMEM, EMFILE,     ENFILE,
				     EINVAL, E2BIG,  EROFS,  EOPNOTSUPP, ECANCELED };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (code == codes[i])
			return true;
	return false;
}

int guard_failed(struct registry *reg, struct warren_error *err)
{
	if (!reg->public_only || may_tell(err->code))
		return -err->code;
	if (reg->advice) {
		const struct warren_error why = *err;

		return error_set(err, why.code, "%s (%s)", why.msg, reg->advice);
	}
	if (reg->hidden)
		*reg->hidden = *err;
	return error_set(err, EHOSTUNREACH,
			 "the registry %.200s cannot be reached (a registry in a private "
			 "network must be listed in the service's configuration: "
			 "trusted_registries; its log has the reason)",
			 reg->ref.registry);
}
