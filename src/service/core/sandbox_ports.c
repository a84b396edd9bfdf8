/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_ports.c - ports of a sandbox, and its users
 *
 * init connects to ports, and its file worker opens files, both inside the sandbox; the
 * service gets a descriptor. The name of a user is looked up in the sandbox's own passwd
 * and group files.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "service/core/internal.h"

/* -------------------------------------------------------------------- opening files */

struct opening {
	const char *path;
	sandbox_fd_fn done;
	void *ctx;
};

static void sandbox_ports_on_opened(void *ctx, struct init_reply *a,
				    const struct warren_error *failure)
{
	struct opening *o = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int code = failure ? failure->code : reply_code(&a->m.reply);
	int fd = code == 0 ? init_reply_take_only(a) : -1;

	if (failure) {
		o->done(o->ctx, -1, failure);
	} else if (fd < 0) {
		(void)error_errno(&err, code ? code : EPROTO, "open '%s'", o->path);
		o->done(o->ctx, -1, &err);
	} else {
		o->done(o->ctx, fd, NULL);
	}
	free(o);
}

/* Open a file as root for reading; @path belongs to the caller. */
static void open_system(struct sandbox *sandbox, const char *path, sandbox_fd_fn done,
			void *ctx)
{
	struct proto_open msg = { .h = { .type = PROTO_OPEN }, .flags = O_RDONLY };
	struct opening *o = malloc(sizeof(*o));
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	struct warren_error err = WARREN_ERROR_INIT;
	int r = o ? 0 : error_errno(&err, ENOMEM, "open '%s'", path);

	(void)snprintf(msg.path, sizeof(msg.path), "%s", path);
	if (r == 0)
		r = init_request_put(&q, &msg, sizeof(msg), -1, &err);
	if (r < 0) {
		free(o);
		done(ctx, -1, &err);
		return;
	}
	*o = (struct opening){ path, done, ctx };
	file_queue_ask(sandbox, NULL, &q, sandbox_ports_on_opened, o);
}

/* ---------------------------------------------------------------------- users */

struct finding {
	struct sandbox *sandbox;
	char text[300];
	int passwd;
	void (*fn)(void *ctx, const struct initclient_user *user,
		   const struct warren_error *err);
	void *ctx;
};

static void sandbox_ports_found(struct finding *f, int group)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct initclient_user user;
	int r = user_resolve_files(f->text, f->passwd, group, &user, &err);

	if (r == 0)
		r = init_request_check_user(&f->sandbox->is.base, f->text, &user, &err);
	f->fn(f->ctx, r < 0 ? NULL : &user, r < 0 ? &err : NULL);
	if (f->passwd >= 0)
		(void)close(f->passwd);
	free(f);
}

static void on_group(void *ctx, int fd, const struct warren_error *err)
{
	struct finding *f = ctx;

	if (fd < 0 && err->code != ENOENT && err->code != EACCES) {
		f->fn(f->ctx, NULL, err);
		if (f->passwd >= 0)
			(void)close(f->passwd);
		free(f);
		return;
	}
	sandbox_ports_found(f, fd);
	if (fd >= 0)
		(void)close(fd);
}

static void on_passwd(void *ctx, int fd, const struct warren_error *err)
{
	struct finding *f = ctx;

	if (fd < 0 && err->code != ENOENT && err->code != EACCES) {
		f->fn(f->ctx, NULL, err);
		free(f);
		return;
	}
	f->passwd = fd;
	open_system(f->sandbox, "/etc/group", on_group, f);
}

void sandbox_find_user(struct sandbox *sandbox, const char *text,
		       void (*fn)(void *ctx, const struct initclient_user *user,
				  const struct warren_error *err),
		       void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct finding *f;

	if (!text) {
		fn(ctx, &sandbox->is.base.user, NULL);
		return;
	}
	f = strlen(text) < sizeof(f->text) ? calloc(1, sizeof(*f)) : NULL;
	if (!f) {
		(void)error_set(&err, EINVAL, "user '%.64s...' is too long", text);
		fn(ctx, NULL, &err);
		return;
	}
	*f = (struct finding){ .sandbox = sandbox, .passwd = -1, .fn = fn, .ctx = ctx };
	(void)strcpy(f->text, text);
	if (user_needs_files(text))
		open_system(sandbox, "/etc/passwd", on_passwd, f);
	else
		sandbox_ports_found(f, -1);
}

/* ---------------------------------------------------------------------- ports */

/* Look the sandbox up by its id in each step, because it may be deleted between two
 * steps. */
struct connecting {
	struct service *service;
	char id[ID_LEN + 1];
	uint16_t port;
	uint16_t ipv6;
	int fd;
	int code; /* the error of the first address */
	struct loop_watch *watch;
	struct loop_timer *timer;
	bool brief; /* counted in sandbox->n_brief */
	sandbox_fd_fn done;
	void *ctx;
};

static void connecting_end(struct connecting *c, int fd, const struct warren_error *err)
{
	struct sandbox *sandbox = sandbox_find(c->service, NULL, c->id);

	c->done(c->ctx, fd, err);
	if (sandbox && c->brief)
		sandbox_end_brief(sandbox);
	free(c);
}

static void connect_next(struct connecting *c);

static void sandbox_ports_connected(struct connecting *c, int code)
{
	struct warren_error err = WARREN_ERROR_INIT;

	c->watch = loop_watch_free(c->watch);
	c->timer = loop_timer_free(c->timer);
	if (code == 0) {
		connecting_end(c, TAKE_FD(c->fd), NULL);
		return;
	}
	if (c->fd >= 0)
		(void)close(TAKE_FD(c->fd));
	if (c->ipv6 == 0) {
		c->code = code;
		c->ipv6 = 1;
		connect_next(c);
		return;
	}
	(void)error_errno(&err, c->code, "connect to port %u of the sandbox", c->port);
	connecting_end(c, -1, &err);
}

static void sandbox_ports_on_connected(void *ctx, unsigned events UNUSED)
{
	struct connecting *c = ctx;
	socklen_t len = sizeof(int);
	int code = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	sandbox_ports_connected(c, code);
}

static void on_connect_timer(void *ctx)
{
	sandbox_ports_connected(ctx, ETIMEDOUT);
}

static void sandbox_ports_on_connection(void *ctx, struct init_reply *a,
					const struct warren_error *failure)
{
	struct connecting *c = ctx;
	int code = failure ? failure->code : reply_code(&a->m.reply);

	c->fd = code == 0 ? init_reply_take_only(a) : -1;
	if (c->fd < 0) {
		sandbox_ports_connected(c, code ? code : EPROTO);
		return;
	}
	/* The connection may still be in progress. */
	if (loop_watch(c->service->loop, c->fd, LOOP_WRITE, sandbox_ports_on_connected, c,
		       &c->watch) < 0 ||
	    loop_timer_new(c->service->loop, on_connect_timer, c, &c->timer) < 0) {
		sandbox_ports_connected(c, ENOMEM);
		return;
	}
	loop_timer_set(c->timer, 5000);
}

static void connect_next(struct connecting *c)
{
	struct proto_connect msg = { .h = { .type = PROTO_CONNECT },
				     .port = c->port,
				     .ipv6 = c->ipv6 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct sandbox *sandbox = sandbox_find(c->service, NULL, c->id);
	int r = sandbox ? init_conn_ask_struct(sandbox, &msg, sizeof(msg), -1,
					       sandbox_ports_on_connection, c, &err)
			: error_set(&err, ESTALE, "the sandbox is gone");

	if (r < 0)
		connecting_end(c, -1, &err);
}

static void on_awake_port(void *ctx, int r, const struct warren_error *err)
{
	struct connecting *c = ctx;
	struct sandbox *sandbox = r < 0 ? NULL : sandbox_find(c->service, NULL, c->id);

	if (r < 0) {
		connecting_end(c, -1, err);
		return;
	}
	if (sandbox)
		sandbox_begin_brief(sandbox);
	c->brief = sandbox != NULL;
	connect_next(c);
}

void sandbox_connect_port(struct sandbox *sandbox, uint16_t port, sandbox_fd_fn done,
			  void *ctx)
{
	struct connecting *c = calloc(1, sizeof(*c));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!c) {
		(void)error_errno(&err, ENOMEM, "connect to port %u", port);
		done(ctx, -1, &err);
		return;
	}
	*c = (struct connecting){ .service = sandbox->service,
				  .port = port,
				  .fd = -1,
				  .done = done,
				  .ctx = ctx };
	(void)memcpy(c->id, sandbox->row.id, sizeof(c->id));
	sandbox_use(sandbox, on_awake_port, c);
}
