/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_port.c - warren port: forward a port of a sandbox to this machine
 *
 * Without --listen, the command prints the URL of the port below the API. With --listen,
 * it forwards connections (forward.h).
 */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/parse.h"
#include "cli/client/commands.h"
#include "cli/client/forward.h"
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
	  "listen here and forward connections (port 0: any free port)",
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
	/* The port has the same offset in both families. */
	port = ntohs(addr.four.sin_port);
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

static int listen_on(struct forward *f, const struct port_options *o)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (forward_listen(f, o->listen, &err) < 0) {
		(void)error_wrap(&err, "--listen");
		return client_fail(&client_port, &err);
	}
	if (!o->quiet && port_tell(f, o) != 0)
		return STATUS_FAILED;
	(void)!forward_run(f, &err);
	return client_fail(&client_port, &err);
}

/* Print the path below the API, for clients that use HTTP themselves. */
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
	struct forward f = { .command = client_port.name, .listener = -1 };
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
