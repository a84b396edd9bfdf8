/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_port.c - warren port: forward a port of a sandbox to this machine
 *
 * Without --listen the address below the API is printed. With it each
 * connection that comes in gets its own process and a tunnel (tunnel.h),
 * so that whatever is spoken at that port is spoken here. A connection that cannot be
 * made or breaks there is reset here, not ended: nobody takes half for all.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/parse.h"
#include "cli/client/commands.h"
#include "cli/client/tunnel.h"
#include "cli/common_options.h"
#include "cli/values.h"

#define PORT_LAST 65535

struct port_options {
	const char *listen;
	bool json;
	bool quiet;
};

#define FIELD(name) offsetof(struct port_options, name)

/* clang-format off */
static const struct opt port_table[] = {
	{ NULL, "listen", 0, "[ADDRESS:]PORT", "127.0.0.1:8080",
	  "listen here and forward connections to the port; port 0: any free one",
	  opt_text, FIELD(listen) },
	{ NULL, OPT_JSON("print the address as one JSON object", FIELD(json)) },
	{ NULL, OPT_QUIET("do not print the address", FIELD(quiet)) },
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
	char id[ID_LEN + 1];
	unsigned port;
	int listener;
};

/* ----------------------------------------------------------- one connection */

static void port_serve(const struct forward *f, int fd)
{
	static const struct linger reset = { .l_onoff = 1 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct tunnel *t = NULL;
	int one = 1, r;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r = tunnel_open(f->client, f->id, f->port, &t, &err);
	if (r < 0)
		message_say(client_port.name, "%s", err.msg);
	else
		r = tunnel_run(t, fd);
	if (r < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	(void)tunnel_close(t);
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
	    listen(f->listener, SOMAXCONN) < 0)
		return error_errno(err, errno, "listen on '%s'", text);
	return 0;
}

static int port_tell(const struct forward *f, const struct port_options *o)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
	} addr = { .six = { 0 } };
	socklen_t n = sizeof(addr);
	char host[INET6_ADDRSTRLEN] = "?";
	AUTO_JSON json_t *address = NULL;
	unsigned port;
	bool six;

	(void)getsockname(f->listener, &addr.any, &n);
	six = addr.any.sa_family == AF_INET6;
	port = ntohs(addr.four.sin_port); /* of both at one place */
	(void)inet_ntop(addr.any.sa_family,
			six ? (void *)&addr.six.sin6_addr : (void *)&addr.four.sin_addr,
			host, sizeof(host));
	if (o->json) {
		address = json_pack("{s:s, s:i, s:s, s:i}", "address", host, "port",
				    (int)port, "sandbox_id", f->id, "sandbox_port",
				    (int)f->port);
		return print_json(&client_port, address);
	}
	buf_printf(&out, six ? "[%s]:%u\n" : "%s:%u\n", host, port);
	return message_print(client_port.name, &out);
}

/* Until a signal ends it; its children end with it. */
static int listen_on(struct forward *f, const struct port_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;
	pid_t self = getpid();

	if (open_listener(f, o->listen, &err) < 0)
		return client_fail(&client_port, &err);
	if (!o->quiet && port_tell(f, o) != 0)
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
				port_serve(f, fd);
			_exit(0);
		}
	}
}

/* Below the API, for those who speak HTTP to the service themselves. */
static int print_address(const struct forward *f, const struct port_options *o)
{
	AUTO_BUF struct buf out = BUF_INIT(1024);
	const struct client *c = f->client;
	AUTO_JSON json_t *address = NULL;
	char path[96];

	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/ports/%u", f->id, f->port);
	if (o->json) {
		address = json_pack("{s:s, s:s, s:s+}", "host", c->host, "path", path,
				    "url", c->base, path);
		return print_json(&client_port, address);
	}
	buf_printf(&out, c->socket ? "%s %s/\n" : "%s%s/\n",
		   c->socket ? c->host : c->base, path);
	return message_print(client_port.name, &out);
}

static int run_port(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct forward f = { .listener = -1 };
	struct port_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	uint64_t port = 0;
	int status = 0;

	if (!command_operands(&client_port, argc, argv, &o, 2, 2, &words, &status))
		return status;
	if (parse_u64(words[1], PORT_LAST, &port, &err) < 0 || port == 0) {
		message_say(client_port.name, "'%.100s' is not a port (example: %s)",
			    words[1], port_opts.example);
		return STATUS_FAILED;
	}
	if (client_open(&c, &err) < 0 ||
	    resolve_id_find_sandbox(c, words[0], f.id, &err) < 0)
		return client_fail(&client_port, &err);
	f.client = c;
	f.port = (unsigned)port;
	return o.listen ? listen_on(&f, &o) : print_address(&f, &o);
}

const struct command client_port = {
	.name = "port",
	.summary = "Forward a port of a sandbox.",
	.opts = &port_opts,
	.run = run_port,
	.complete = complete_sandbox,
};
