/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1.h - Warren's own API: translates the requests in openapi.yaml for the service
 *
 * Each request becomes a struct call. v1.c routes it, identifies the caller, checks
 * parameters and body, and calls the handler of the operation. Handlers only translate:
 * the service decides which operations the state of a sandbox allows.
 *
 *	v1.c		the path of a request to its handler
 *	request.c	responses
 *	access.c	whether the caller may do it
 *	port.c		forwards requests to servers in sandboxes, by path or host name
 *	output_json.c	responses that are too long to keep in memory
 *	create_for.c	creates sandboxes for another API
 *	sandbox.c, to_json.c, exec.c, output.c, ...	handlers, by subject
 */
#ifndef API_V1_V1_H
#define API_V1_V1_H

#include "api/access.h"
#include "api/body.h"
#include "api/create.h"
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
	uint64_t quota[DB_QUOTA_MAX]; /* quota of a new tenant */
	uid_t owner; /* user who started the service; needs no token on the unix socket */
	uint64_t started_at;
	uint64_t e2b_unsupported; /* requests that the API of E2B does not support */
	bool stopping;
	struct call *calls;                              /* calls in progress */
	void (*record)(const struct api_record *record); /* NULL: no log */
};

struct call {
	struct v1 *v1;
	void *face;               /* the API of the request, if it is not v1; NULL: v1 */
	struct http_request *req; /* NULL: the client is gone */
	void (*handler)(struct call *c);
	/* Answers with an error in the form of that API; NULL: in the form of v1. */
	void (*show_error)(struct call *c, const struct api_error *err);
	unsigned refs;
	bool answered;
	bool head;
	bool by_host; /* the host name selects a port of a sandbox */
	struct caller caller;
	struct live_request live;
	struct route route;
	struct api_query query;
	struct body body;
	bool body_is_large; /* free it on another thread */
	/* The state of the handler; gone() releases it. */
	void *state;
	/* The client disconnected, or the response is complete. */
	void (*gone)(struct call *c);
	/*
	 * The service is about to stop: end the stream with the data that a client needs
	 * to continue, or answer with the current state. Called first with @last false,
	 * and then with @last true for the remaining calls. NULL: the service waits for
	 * the call.
	 */
	void (*stop)(struct call *c, bool last);
	struct call *next,
		**prev;  /* links in v1.calls; NULL: the client has disconnected */
	uint64_t begun;  /* ns, monotonic */
	char cause[256]; /* reason for an internal error, for the log */
};

/* Handles every request of the server. @ctx is a struct v1. */
void v1_request(struct http_request *req, void *ctx);
/*
 * For other APIs with the same handlers: begin a call, without a route and a caller.
 * NULL: out of memory, and the request is refused.
 */
struct call *call_new(struct v1 *v1, struct http_request *req);
/* Read the body as the operation describes it, and call c->handler. */
void call_read_body(struct call *c);
/*
 * Return whether the host name selects a server in a sandbox. Then the path belongs to
 * that server, not to an API.
 */
bool v1_by_host(const struct v1 *v1, const struct http_request *req);
/*
 * The service is about to stop: end all streams. Call this again with @last: then calls
 * that still wait are answered with the current state.
 */
void v1_stop(struct v1 *v1, bool last);
void v1_refused(const struct http_refusal *refusal, struct buf *body, void *ctx);

/*
 * request.c: after the response, the handler must not use the call; references keep its
 * memory.
 */
struct call *call_ref(struct call *c);
void call_unref(struct call *c);
/*
 * Frees the body: a `gone` function for handlers that need the body only until the
 * response.
 */
void call_drop_body(struct call *c);
void call_json(struct call *c, int status, const struct buf *body);
void call_empty(struct call *c, int status);
/*
 * synced.c: answer once all changes of the database survive a power cut; @body NULL: an
 * empty answer. The answer is wiped from memory afterwards.
 */
void call_synced(struct call *c, int status, const struct buf *body);
/* The same if @synced, otherwise answer at once. */
void call_json_when(struct call *c, int status, const struct buf *body, bool synced);
/*
 * Answer a request that created @n sandboxes (NULL: gone). If one of them persists, this
 * waits like call_synced(): otherwise, a power cut could take the row, and then the disk
 * without a row. If that fails, all are deleted, unless a repetition of the request finds
 * them (idempotency_key).
 */
void call_created(struct call *c, const struct buf *body, struct sandbox **all, size_t n);
void call_text(struct call *c, const char *type, const void *data, size_t size);
void call_error(struct call *c, const struct api_error *given);
/* Remove the directories of the service from the text, unless its owner is the client. */
void call_hide_dirs(const struct call *c, char *text);
void call_refuse(struct call *c, enum api_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/* Answer with an engine's error. */
void call_fail(struct call *c, const struct warren_error *engine);
/*
 * Answer with the error of a failed start of an exec: a program that cannot be executed
 * is an error in the request, not a missing resource.
 */
void call_fail_start(struct call *c, const struct warren_error *why);
/*
 * Release a request that has ended. Handlers that hand the request to another module
 * (net/ws.h, net/http_proxy.h) call this from the last callback of that module.
 */
void call_closed(struct call *c);
/*
 * Read the cursor of a page as a number; without a cursor, *@ret is unchanged. False:
 * refused.
 */
bool call_page(struct call *c, const struct api_value *cursor, uint64_t *ret);
/*
 * Read the header Last-Event-ID, the position from which to continue a stream, in the
 * same way.
 */
bool call_last_event(struct call *c, uint64_t *ret);
/* Begin a stream of events, as NDJSON or SSE. */
void call_begin_stream(struct call *c, bool sse);
/* Return whether the request asks for a WebSocket. */
bool call_wants_socket(const struct call *c);
/* Return whether the request is a valid WebSocket handshake; otherwise it is refused. */
bool call_check_socket(struct call *c);
/* Begin a JSON answer of unknown length. */
void call_begin_json(struct call *c, int status);
/* Begin a stream of bytes of unknown length. */
void call_begin_bytes(struct call *c, const char *type);

/* port.c: whether the host name selects a port of a sandbox. Then it sets the route. */
bool port_route(struct call *c);

/* access.c: 0, or a refusal in @err. */
int access_check(struct v1 *v1, struct http_request *req, struct route *route,
		 struct caller *ret, struct api_error *err);
/* Find the sandbox that @word names for @caller: 0 and its id, or a refusal in @err. */
int access_sandbox(struct v1 *v1, const struct caller *caller, const char *word,
		   char ret_id[ID_LEN + 1], struct api_error *err);

/*
 * The sandbox in the path, if the caller may use it; otherwise NULL, and the call is
 * refused.
 */
struct sandbox *call_sandbox(struct call *c);
/* Like call_sandbox(), but answers 409 if the sandbox belongs to a code run. */
struct sandbox *call_sandbox_to_use(struct call *c);
/* Get the exec in the path; the caller releases it. NULL: the call is refused. */
struct exec *call_exec(struct call *c);

/* to_json.c: JSON of responses. */
void sandbox_row_to_json(struct buf *out, const struct sandbox_row *row, bool checkpoint);
void sandbox_to_json(struct buf *out, struct sandbox *sandbox);
void exec_to_json(struct buf *out, struct exec *exec);
void result_to_json(struct buf *out, const struct warren_result *r);
/* Write bytes as a JSON string, as text or in base64. */
void bytes_to_json(struct buf *out, const char *data, size_t n, bool base64);

typedef void (*v1_handler)(struct call *c);
extern const v1_handler v1_handlers[V1_OP_COUNT];

/* create_for.c: an api_create_fn; @ctx is a struct v1. */
/* respec.c: for service_on_respec(); @ctx is the struct v1. */
void v1_respec(void *ctx, const struct sandbox *sandbox, sandbox_spec_fn *use,
	       void *use_ctx);
int v1_create_for(void *ctx, const struct caller *caller, json_t *request,
		  const char *mark, struct sandbox **ret, struct api_error *err);

/* template.c: whether the templates of the configuration are valid requests. */
int v1_check_templates(const struct config *cfg, struct warren_error *err) MUST_CHECK;
/* Check the policies of the section `network`. */
int v1_check_network(const struct config *cfg, struct warren_error *err) MUST_CHECK;

/*
 * Declare a handler for each operation of openapi.yaml, with the name of the operation.
 */
#define V1_HANDLER(op, name) void v1_##name(struct call *c);
V1_OPS(V1_HANDLER)
#undef V1_HANDLER

/* snapshot.c */
struct snapshot_quota v1_snapshot_quota(const struct v1 *v1);
/* Can the backend of the sandbox make snapshots? Otherwise the call is refused. */
bool v1_has_snapshots(struct call *c, const struct sandbox *sandbox);

#endif /* API_V1_V1_H */
