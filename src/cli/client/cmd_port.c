/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_port.c - warren port: a server in a sandbox, as a port of this machine
 *
 * Without --listen the address below the API is printed. With it each
 * connection that comes in gets a process of its own, which reads the head of
 * the request, puts the sandbox's place in front of its path and the token
 * beside it, and then only moves bytes (WebSockets included). One request for
 * each connection: "Connection: close" goes with it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/parse.h"
#include "cli/client/commands.h"
#include "cli/values.h"

#define HEAD_MAX  (64U << 10)
#define PIECE     (64U << 10)
#define PORT_LAST 65535
#define BACKLOG   64

struct port_options {
	const char *listen;
	bool json;
	bool quiet;
};

#define FIELD(name) offsetof(struct port_options, name)

/* clang-format off */
static const struct opt port_table[] = {
	{ NULL, "listen", 0, "[ADDRESS:]PORT", "127.0.0.1:8080",
	  "forward connections to it from here; port 0: any",
	  value_text, FIELD(listen) },
	{ NULL, "json", 0, NULL, NULL,
	  "the address as one JSON object",
	  opt_flag, FIELD(json) },
	{ NULL, "quiet", 'q', NULL, NULL,
	  "do not print where it listens",
	  opt_flag, FIELD(quiet) },
};
/* clang-format on */

static const struct opts port_opts = {
	.table = port_table,
	.n = ARRAY_SIZE(port_table),
	.operands = "SANDBOX PORT",
	.example = "warren port k3f9x2m7qd1w 8080 --listen 127.0.0.1:8080",
	.mixed = true,
};

struct forward {
	struct client *client;
	char prefix[96]; /* "/v1/sandboxes/ID/ports/8080" */
	int listener;
};

/* ----------------------------------------------------------- one connection */

/* The head of the request, whole, and what came behind it; its length, or -errno. */
static ssize_t read_head(int fd, char *head, size_t size)
{
	size_t n = 0;

	while (n < size - 1) {
		ssize_t got = read(fd, head + n, size - 1 - n);
		const char *end;

		if (got <= 0)
			return got < 0 ? -errno : -ECONNRESET;
		n += (size_t)got;
		head[n] = '\0';
		end = strstr(head, "\r\n\r\n");
		if (end)
			return (ssize_t)n;
	}
	return -EMSGSIZE;
}

static bool is_header(const char *line, const char *name)
{
	return strncasecmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':';
}

/*
 * What is about this connection and not about the server in the sandbox is
 * ours to say: the way, who asks, and whether it goes on.
 */
static int rewrite(const struct forward *f, const char *head, size_t n, struct buf *out)
{
	const char *space = strchr(head, ' '), *line = strstr(head, "\r\n");
	const char *end = strstr(head, "\r\n\r\n"),
		   *host = strstr(f->client->base, "://");
	bool upgrade = strcasestr(head, "\r\nUpgrade:") &&
		       strcasestr(head, "\r\nUpgrade:") < end;

	if (!space || space > line || space[1] != '/')
		return -EINVAL;
	buf_add(out, head, (size_t)(space + 1 - head));
	buf_puts(out, f->prefix);
	buf_add(out, space + 1, (size_t)(line - space - 1));
	buf_printf(out, "\r\nHost: %s\r\n", host + 3);
	if (f->client->authority) {
		buf_puts(out, f->client->authority);
		buf_puts(out, "\r\n");
	}
	if (!upgrade)
		buf_puts(out, "Connection: close\r\n");
	while (line < end) {
		const char *next = strstr(line + 2, "\r\n");

		line += 2;
		if (!is_header(line, "Host") && !is_header(line, "Authorization") &&
		    !is_header(line, "Origin") &&
		    (upgrade || !is_header(line, "Connection")))
			buf_add(out, line, (size_t)(next + 2 - line));
		line = next;
	}
	buf_puts(out, "\r\n");
	buf_add(out, end + 4, n - (size_t)(end + 4 - head));
	return out->failed ? -ENOMEM : 0;
}

static int send_all(CURL *e, int fd, const char *data, size_t n)
{
	while (n > 0) {
		size_t sent = 0;
		CURLcode r = curl_easy_send(e, data, n, &sent);
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		if (r == CURLE_AGAIN)
			(void)poll(&p, 1, -1);
		else if (r != CURLE_OK)
			return -EPIPE;
		data += sent;
		n -= sent;
	}
	return 0;
}

/* Both ways until the service is done; what the client has to say may end before. */
static void move_bytes(CURL *e, int there, int here)
{
	AUTO_FREE char *piece = malloc(PIECE);
	struct pollfd fds[] = { { .fd = there, .events = POLLIN },
				{ .fd = here, .events = POLLIN } };

	while (piece) {
		size_t got = 0;
		CURLcode r = curl_easy_recv(e, piece, PIECE, &got);

		if (r == CURLE_OK && got > 0) {
			if (fd_write_all(here, piece, got) < 0)
				return;
			continue;
		}
		if (r != CURLE_AGAIN)
			return;
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return;
		if (fds[1].revents) {
			ssize_t n = read(here, piece, PIECE);

			if (n <= 0)
				fds[1].fd = -1;
			else if (send_all(e, there, piece, (size_t)n) < 0)
				return;
		}
	}
}

static void refuse(int fd, const char *why)
{
	char text[1024];
	int n = snprintf(text, sizeof(text),
			 "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\n"
			 "Content-Length: %zu\r\nConnection: close\r\n\r\n%.600s\n",
			 strnlen(why, 600) + 1, why);

	(void)fd_write_all(fd, text, (size_t)n);
}

static void serve(const struct forward *f, int fd)
{
	AUTO_BUF struct buf out = BUF_INIT(HEAD_MAX * 2);
	AUTO_FREE char *head = malloc(HEAD_MAX);
	AUTO_REQUEST struct request *r = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	ssize_t n = head ? read_head(fd, head, HEAD_MAX) : -ENOMEM;
	curl_socket_t there = CURL_SOCKET_BAD;

	if (n < 0)
		return;
	if (rewrite(f, head, (size_t)n, &out) < 0) {
		refuse(fd, "this is not a request of HTTP/1.1");
		return;
	}
	if (request_new(f->client, "GET", "/", &r, &err) < 0)
		return;
	(void)curl_easy_setopt(r->easy, CURLOPT_CONNECT_ONLY, 1L);
	if (curl_easy_perform(r->easy) != CURLE_OK ||
	    curl_easy_getinfo(r->easy, CURLINFO_ACTIVESOCKET, &there) != CURLE_OK ||
	    send_all(r->easy, there, out.data, out.len) < 0)
		refuse(fd, "the service of Warren does not answer");
	else
		move_bytes(r->easy, there, fd);
}

/* ---------------------------------------------------------------- the listener */

/* "8080", "127.0.0.1:8080" or "[::1]:8080". */
static int parse_listen(const char *text, struct sockaddr_storage *ret, socklen_t *ret_n,
			struct warren_error *err)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	const char *colon = strrchr(text, ':');
	char host[64] = "127.0.0.1";
	uint64_t port;
	size_t n = colon ? (size_t)(colon - text) : 0;

	*ret = (struct sockaddr_storage){ 0 };
	if (parse_u64(colon ? colon + 1 : text, PORT_LAST, &port, err) < 0 ||
	    n >= sizeof(host))
		return error_set(err, EINVAL,
				 "--listen: '%.100s' is not [ADDRESS:]PORT (example: "
				 "--listen 127.0.0.1:8080)",
				 text);
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
				 "--listen: '%s' is not an address (example: --listen "
				 "127.0.0.1:8080)",
				 host);
	}
	return 0;
}

static int open_listener(struct forward *f, const char *text, struct warren_error *err)
{
	struct sockaddr_storage addr;
	socklen_t n = 0;
	int one = 1, r = parse_listen(text, &addr, &n, err);

	if (r < 0)
		return r;
	f->listener = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (f->listener < 0 ||
	    setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(f->listener, (struct sockaddr *)&addr, n) < 0 ||
	    listen(f->listener, BACKLOG) < 0)
		return error_errno(err, errno, "listen on '%s'", text);
	return 0;
}

static int tell(const struct forward *f)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct sockaddr_storage addr = { 0 };
	socklen_t n = sizeof(addr);
	char host[INET6_ADDRSTRLEN] = "?";
	bool six;

	(void)getsockname(f->listener, (struct sockaddr *)&addr, &n);
	six = addr.ss_family == AF_INET6;
	(void)inet_ntop(addr.ss_family,
			six ? (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr
			    : (void *)&((struct sockaddr_in *)&addr)->sin_addr,
			host, sizeof(host));
	buf_printf(&out, "http://%s%s%s:%u/\n", six ? "[" : "", host, six ? "]" : "",
		   ntohs(((struct sockaddr_in *)&addr)->sin_port));
	return print(client_port.name, &out);
}

/* Until a signal ends it; its children end with it. */
static int listen_on(struct forward *f, const struct port_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	pid_t self = getpid();

	if (open_listener(f, o->listen, &err) < 0)
		return client_fail(&client_port, &err);
	if (!o->quiet && tell(f) != 0)
		return STATUS_FAILED;
	(void)signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
	for (;;) {
		AUTO_CLOSE int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno != EINTR && errno != ECONNABORTED &&
		    errno != EMFILE) {
			(void)error_errno(&err, errno, "wait for connections");
			return client_fail(&client_port, &err);
		}
		if (fd < 0)
			continue;
		if (fork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
			if (getppid() == self)
				serve(f, fd);
			_exit(0);
		}
	}
}

static int print_address(const struct forward *f, const struct port_options *o)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	const struct client *c = f->client;
	AUTO_JSON json_t *address = NULL;

	if (o->json) {
		address = json_pack("{s:s, s:s, s:s+}", "host", c->host, "path",
				    f->prefix, "url", c->base, f->prefix);
		return print_json(&client_port, address);
	}
	if (c->socket)
		buf_printf(&out, "%s %s/\n", c->host, f->prefix);
	else
		buf_printf(&out, "%s%s/\n", c->base, f->prefix);
	return print(client_port.name, &out);
}

static int run_port(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct forward f = { .listener = -1 };
	struct port_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char id[ID_LEN + 1];
	char **words = NULL;
	uint64_t port = 0;
	int status = 0;

	if (!client_options(&client_port, argc, argv, &o, 2, 2, &words, &status))
		return status;
	if (parse_u64(words[1], PORT_LAST, &port, &err) < 0 || port == 0) {
		say(client_port.name, "'%.100s' is not a port (example: %s)", words[1],
		    port_opts.example);
		return STATUS_FAILED;
	}
	if (client_open(&c, &err) < 0 || find_sandbox(c, words[0], id, &err) < 0)
		return client_fail(&client_port, &err);
	f.client = c;
	(void)snprintf(f.prefix, sizeof(f.prefix), "/v1/sandboxes/%s/ports/%u", id,
		       (unsigned)port);
	return o.listen ? listen_on(&f, &o) : print_address(&f, &o);
}

const struct command client_port = {
	.name = "port",
	.summary = "Reach a server in a sandbox from here.",
	.opts = &port_opts,
	.run = run_port,
	.complete = complete_sandbox,
};
