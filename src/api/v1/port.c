/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c - handlers: forward requests to a server in a sandbox, by path and by host name;
 * tunnels
 *
 *	/v1/sandboxes/<id>/ports/<port>/<rest>	requests /<rest>
 *	http://<port>-<id>.<domain>/<rest>	requests /<rest>, whatever it is
 *	/v1/sandboxes/<id>/tunnels/<port>	becomes a connection to it
 *
 * The server is not trusted, and never sees a token of Warren. If it is reached by path,
 * its pages would have the same origin as the API. The header `Content-Security-Policy:
 * sandbox` gives them no origin, so that a page cannot act in the name of the user who
 * views it. If it is reached by host name, each server has its own origin.
 *
 * No cookie and no token in a URL gives access to a port. To use a browser, a local
 * program must add the token (`warren port`).
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/v1.h"
#include "config/config.h"
#include "net/http_proxy.h"

/* ------------------------------------------------------------- by host name */

/* Parse "8080-k3f9x2m7qd1w"; it must be followed by "." and the domain. */
static const char *read_label(const char *host, int64_t *ret_port, char id[ID_LEN + 1])
{
	unsigned port = 0;
	size_t n = 0;

	for (; isdigit((unsigned char)host[n]) && n < 5; n++)
		port = port * 10 + (unsigned)(host[n] - '0');
	if (n == 0 || host[0] == '0' || host[n] != '-' || port > 65535 ||
	    strnlen(host + n + 1, ID_LEN) < ID_LEN)
		return NULL;
	for (size_t i = 0; i < ID_LEN; i++)
		id[i] = (char)tolower((unsigned char)host[n + 1 + i]);
	id[ID_LEN] = '\0';
	*ret_port = port;
	return id_valid(id) ? host + n + 1 + ID_LEN : NULL;
}

static bool read_host(const char *domain, const struct http_request *req,
		      int64_t *ret_port, char id[ID_LEN + 1])
{
	const char *host = http_header(req, "Host");
	size_t n = strlen(domain);
	const char *rest = n > 0 && host ? read_label(host, ret_port, id) : NULL;

	return rest && *rest == '.' && strncasecmp(rest + 1, domain, n) == 0 &&
	       (rest[1 + n] == '\0' || rest[1 + n] == ':') && req->target[0] == '/';
}

bool v1_by_host(const struct v1 *v1, const struct http_request *req)
{
	char id[ID_LEN + 1];
	int64_t port = 0;

	return read_host(v1->config->domain, req, &port, id);
}

bool port_route(struct call *c)
{
	char id[ID_LEN + 1];
	int64_t port = 0;

	if (!read_host(c->v1->config->domain, c->req, &port, id))
		return false;
	c->by_host = true;
	c->route = (struct route){ .op = &v1_face.ops[V1_PROXY_PORT], .n_params = 2 };
	c->route.head = strcmp(c->req->method, "HEAD") == 0;
	(void)memcpy(c->route.text, id, sizeof(id));
	c->route.param[0] = c->route.text;
	c->route.param[1] = c->route.text + ID_LEN; /* "" */
	c->route.number[1] = port;
	return true;
}

/* ---------------------------------------------------------- connections to the server */

struct engaged {
	char id[ID_LEN + 1];
	void (*go_on)(struct call *c,
		      int fd); /* called when the connection is established; takes @fd */
};

static void on_proxied(void *ctx, int why UNUSED)
{
	call_closed(ctx);
}

/*
 * It is unknown when a proxied answer or a tunnel will end, so it gets a limited time.
 * Requests that have not started are refused (net/http.h).
 */
static void port_stop(struct call *c, bool last)
{
	if (last && http_status(c->req) != 0)
		http_cut(c->req, 503, "the service is stopping");
}

/* Record that the sandbox was in use until now. */
static void port_gone(struct call *c)
{
	struct engaged *e = c->state;

	c->state = NULL;
	if (!e)
		return;
	sandbox_disengage(c->v1->service, e->id);
	free(e);
}

/*
 * Does the request contain a token of this service? A client of the unix socket need not
 * send a token, so its header belongs to the server in the sandbox. Clients of SWE-ReX
 * send the token in X-API-Key.
 */
static bool shows_token(const struct http_request *req, const char *name)
{
	for (size_t i = 0; i < req->n_headers; i++)
		if (strcasecmp(req->headers[i].name, name) == 0 &&
		    access_is_token(req->headers[i].value))
			return true;
	return false;
}

/*
 * Headers that change what a browser stores or does for the whole host. With a path, the
 * host is that of the API and of all other sandboxes, so a server inside must not set
 * them.
 */
static const char *const of_the_host[] = {
	"Accept-CH",
	"Alt-Svc",
	"Clear-Site-Data",
	"Expect-CT",
	"NEL",
	"Origin-Agent-Cluster",
	"Public-Key-Pins",
	"Public-Key-Pins-Report-Only",
	"Report-To",
	"Reporting-Endpoints",
	"Service-Worker-Allowed",
	"Set-Cookie",
	"Set-Cookie2",
	"Strict-Transport-Security",
	NULL,
};

static void port_pass_on(struct call *c, int fd)
{
	const struct http_request *req = c->req;
	const char *without[5] = { NULL };
	size_t n = 0;
	AUTO_BUF struct buf target = BUF_INIT(65536);
	char host[32];
	struct http_proxy_options options = { .closed = on_proxied, .ctx = c };

	if (c->caller.token[0] || shows_token(req, "Authorization"))
		without[n++] = "Authorization";
	if (shows_token(req, "X-API-Key"))
		without[n++] = "X-API-Key";
	if (c->face) {
		without[n++] = "X-Access-Token";
		without[n++] = "E2b-Traffic-Access-Token";
	}
	options.without = without;
	if (!c->by_host) {
		buf_puts(&target, "/");
		buf_add(&target, c->route.rest, c->route.rest_len);
		if (req->query) {
			buf_puts(&target, "?");
			buf_puts(&target, req->query);
		}
		(void)snprintf(host, sizeof(host), "localhost:%d",
			       (int)c->route.number[1]);
		options.target = target.data;
		options.host = host;
		options.answer_without = of_the_host;
		options.with = (struct http_header){
			"Content-Security-Policy",
			"sandbox allow-scripts allow-forms allow-popups allow-downloads"
		};
	}
	if (target.failed) {
		(void)close(fd);
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	c->answered = true;
	c->req->closed = NULL; /* the proxy always reports the end itself */
	http_proxy(c->req, fd, &options);
}

static void port_hand_over(struct call *c, int fd)
{
	static const struct http_header tcp = { "Upgrade", "tcp" };

	c->answered = true;
	c->req->closed = NULL;
	http_tunnel(c->req, fd, &tcp, 1, on_proxied, c);
}

static void port_on_connected(void *ctx, int fd, const struct warren_error *err)
{
	struct call *c = ctx;
	int code = fd < 0 ? err->code : 0;

	if (!c->req || c->answered) {
		if (fd >= 0)
			(void)close(fd);
	} else if (code == ECONNREFUSED || code == ENETUNREACH || code == EADDRNOTAVAIL) {
		call_refuse(c, API_ERR_PORT_CLOSED,
			    "nothing listens on port %d of sandbox '%s'",
			    (int)c->route.number[1], c->route.param[0]);
	} else if (fd < 0) {
		call_fail(c, err);
	} else {
		((struct engaged *)c->state)->go_on(c, fd);
	}
	call_unref(c);
}

static void port_reach(struct call *c, void (*go_on)(struct call *c, int fd))
{
	struct sandbox *sandbox = call_sandbox(c);
	struct engaged *e = sandbox ? malloc(sizeof(*e)) : NULL;

	if (!sandbox)
		return;
	if (!e) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	e->go_on = go_on;
	(void)memcpy(e->id, sandbox_row(sandbox)->id, sizeof(e->id));
	sandbox_engage(sandbox);
	c->state = e;
	c->gone = port_gone;
	c->stop = port_stop;
	sandbox_connect_port(sandbox, (uint16_t)c->route.number[1], port_on_connected,
			     call_ref(c));
}

void v1_proxy_port(struct call *c)
{
	port_reach(c, port_pass_on);
}

void v1_open_tunnel(struct call *c)
{
	const struct http_request *req = c->req;

	if (!http_header_has(req, "Upgrade", "tcp") ||
	    !http_header_has(req, "Connection", "upgrade"))
		call_refuse(c, API_ERR_UPGRADE_REQUIRED,
			    "a tunnel needs 'Upgrade: tcp' and 'Connection: Upgrade'");
	else
		port_reach(c, port_hand_over);
}
