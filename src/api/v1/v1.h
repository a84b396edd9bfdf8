/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1.h - Warren's own API: requests of openapi.yaml, translated for the service
 *
 * A request becomes a struct call: it is routed, its sender identified, its parameters
 * and its body checked; then the handler of the operation is called. Handlers only
 * translate: the service decides what may be done to a sandbox in which state.
 *
 *	v1.c		the path of a request to its handler
 *	request.c	answers
 *	access.c	whether the caller may do it
 *	port.c		requests for a server in a sandbox, by path and by host name
 *	output_json.c	answers that are too long to keep in memory
 *	sandbox.c, to_json.c, exec.c, output.c, ...	handlers, by subject
 */
#ifndef API_V1_V1_H
#define API_V1_V1_H

#include "api/access.h"
#include "api/body.h"
#include "api/live.h"
#include "api/query.h"
#include "api/record.h"
#include "api/route.h"
#include "api/v1/ops.h"
#include "net/http.h"
#include "service/session/session.h"

struct config;
struct warden_policy;

struct v1 {
	struct service *service;
	struct live *live; /* NULL: requests do not end with their tokens */
	const struct config *config;
	const struct warden_policy *policy;
	uint64_t quota[DB_QUOTA_MAX]; /* of a tenant that is new */
	uid_t owner; /* who started it: needs no token on the unix socket */
	uint64_t started_at;
	bool stopping;
	struct call *calls;                              /* under way */
	void (*record)(const struct api_record *record); /* NULL: no log */
};

struct call {
	struct v1 *v1;
	struct http_request *req; /* NULL: the client is gone */
	unsigned refs;
	bool answered;
	bool head;
	bool by_host; /* to a port, which the host name says */
	struct caller caller;
	struct live_request live;
	struct route route;
	struct api_query query;
	struct body body;
	bool body_is_large; /* to be freed on another thread */
	/* The handler's own, with its release. */
	void *state;
	void (*gone)(struct call *c); /* the client went, or the answer is complete */
	/*
	 * The service is about to stop: end the stream, with what a client needs to go
	 * on, or answer what is known. Called first without @last, and once more with it
	 * for what is left. NULL: it is waited for.
	 */
	void (*stop)(struct call *c, bool last);
	struct call *next, **prev; /* of v1.calls; NULL: the client is gone */
	uint64_t begun;            /* ns, monotonic */
	char cause[256];           /* of an error of ours */
};

/* Takes every request of the server. @ctx is a struct v1. */
void v1_request(struct http_request *req, void *ctx);
/*
 * Is it for a server in a sandbox, by its host name? Then its path is that server's, and
 * no face's.
 */
bool v1_by_host(const struct v1 *v1, const struct http_request *req);
/*
 * The service is about to stop: streams end. And once more, with @last: what still waits
 * is answered with what is known.
 */
void v1_stop(struct v1 *v1, bool last);
void v1_refused(const struct http_refusal *refusal, struct buf *body, void *ctx);

/* request.c: an answer ends a call for its handler; references keep the memory. */
struct call *call_ref(struct call *c);
void call_unref(struct call *c);
/* For `gone`, of a handler that needs the body only for its answer. */
void call_drop_body(struct call *c);
void call_json(struct call *c, int status, const struct buf *body);
void call_empty(struct call *c, int status);
void call_text(struct call *c, const char *type, const void *data, size_t size);
void call_error(struct call *c, const struct api_error *err);
void call_refuse(struct call *c, enum api_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/* What an engine said. */
void call_fail(struct call *c, const struct warren_error *engine);
/*
 * The same of an exec: what could not be executed is the request's mistake, and no
 * missing file.
 */
void call_fail_start(struct call *c, const struct warren_error *why);
/*
 * The request is over. For handlers that pass the request on (net/ws.h,
 * net/http_proxy.h): called from the last callback of those.
 */
void call_closed(struct call *c);
/*
 * Where a page begins, of a list whose cursors are numbers; without one *@ret stays.
 * False: refused.
 */
bool call_page(struct call *c, const struct api_value *cursor, uint64_t *ret);
/* The same of what a stream is continued from: Last-Event-ID. */
bool call_last_event(struct call *c, uint64_t *ret);
/* A stream of events, as NDJSON or SSE. */
void call_begin_stream(struct call *c, bool sse);
/* Does the request ask for a WebSocket? */
bool call_wants_socket(const struct call *c);
/* As it must: else it is refused, and false. */
bool call_check_socket(struct call *c);
/* JSON of a length that is not known yet. */
void call_begin_json(struct call *c, int status);
/* A stream of bytes, of whatever length. */
void call_begin_bytes(struct call *c, const char *type);

/* port.c: is it for a port by its host name? Then it is routed there. */
bool port_route(struct call *c);

/* access.c: 0, or the refusal. */
int access_check(struct v1 *v1, struct http_request *req, struct route *route,
		 struct caller *ret, struct api_error *err);
/* Which sandbox @word means to @caller: 0 with its id, or the refusal. */
int access_sandbox(struct v1 *v1, const struct caller *caller, const char *word,
		   char ret_id[ID_LEN + 1], struct api_error *err);

/*
 * The sandbox that the path names, if it is the caller's; else it is refused, and NULL.
 */
struct sandbox *call_sandbox(struct call *c);
/* The exec that the path names; the reference is the caller's. */
struct exec *call_exec(struct call *c);

/* to_json.c: how things look in answers. */
void sandbox_row_to_json(struct buf *out, const struct sandbox_row *row, bool checkpoint);
void sandbox_to_json(struct buf *out, struct sandbox *sandbox);
void exec_to_json(struct buf *out, struct exec *exec);
void result_to_json(struct buf *out, const struct warren_result *r);
/* A string of bytes as JSON, in text or base64. */
void bytes_to_json(struct buf *out, const char *data, size_t n, bool base64);

typedef void (*v1_handler)(struct call *c);
extern const v1_handler v1_handlers[V1_OP_COUNT];

/* Are the templates of the configuration what a request may have? In template.c. */
int v1_check_templates(const struct config *cfg, struct warren_error *err) MUST_CHECK;

/* Handlers: for each operation of openapi.yaml a function of its name. */
#define V1_HANDLER(op, name) void v1_##name(struct call *c);
V1_OPS(V1_HANDLER)
#undef V1_HANDLER

#endif /* API_V1_V1_H */
