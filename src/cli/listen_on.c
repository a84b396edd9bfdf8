/* SPDX-License-Identifier: Apache-2.0 */
/* listen_on.c - parse an address, and listen on it */
#include "cli/listen_on.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/parse.h"

/* Parse "8080", "127.0.0.1:8080" or "[::1]:8080". */
static int listen_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_n,
			struct warren_error *err)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	const char *colon = strrchr(text, ':');
	char host[64] = "127.0.0.1";
	uint64_t port;
	size_t n = colon ? (size_t)(colon - text) : 0;

	*ret = (struct sockaddr_storage){ 0 };
	if (parse_u64(colon ? colon + 1 : text, LISTEN_PORT_LAST, &port, err) < 0 ||
	    n >= sizeof(host))
		return error_set(
			err, EINVAL,
			"'%.100s' is not [ADDRESS:]PORT (example: 127.0.0.1:8080)", text);
	if (n > 2 && text[0] == '[' && text[n - 1] == ']')
		(void)snprintf(host, sizeof(host), "%.*s", (int)n - 2, text + 1);
	else if (n > 0)
		(void)snprintf(host, sizeof(host), "%.*s", (int)n, text);
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		*ret_n = sizeof(*in);
	} else if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		*ret_n = sizeof(*in6);
	} else {
		return error_set(err, EINVAL,
				 "'%s' is not an address (example: 127.0.0.1:8080)",
				 host);
	}
	return 0;
}

int cli_listen_on(const char *where, struct warren_error *err)
{
	struct sockaddr_storage addr;
	AUTO_CLOSE int fd = -1;
	socklen_t n = 0;
	int one = 1, r = listen_parse(where, &addr, &n, err);

	if (r < 0)
		return r;
	fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&addr, n) < 0 || listen(fd, SOMAXCONN) < 0)
		return error_errno(err, errno, "listen on '%s'", where);
	return TAKE_FD(fd);
}
