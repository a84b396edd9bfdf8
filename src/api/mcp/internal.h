/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of the MCP API */
#ifndef API_MCP_INTERNAL_H
#define API_MCP_INTERNAL_H

#include <jansson.h>

#include "api/access.h"
#include "api/live.h"
#include "api/mcp/mcp.h"
#include "api/mcp/rpc.h"
#include "api/mcp/subscribe.h"
#include "api/mcp/tools.h"
#include "base/buf.h"
#include "base/json.h"
#include "net/loop.h"
#include "service/core/service.h"

#define MCP_PATH     "/mcp"
#define MCP_SSE_PATH "/sse" /* path of the transport of revision 2024-11-05 */

#define MCP_BODY_MAX   (8U << 20)  /* maximum bytes in a request */
#define MCP_RESULT_MAX (64U << 20) /* maximum bytes in a response */
#define MCP_EVENT_MAX  (1U << 20)  /* maximum bytes in an event, as clients allow */
#define MCP_AT_ONCE    (64U << 10) /* maximum bytes to encode on the event loop thread */
#define MCP_CALLS_MAX  64          /* maximum number of concurrent calls in a session */
#define MCP_SESSIONS   2048   /* maximum number of sessions of all tenants together */
#define MCP_NAME_MAX   128    /* maximum bytes in the header Warren-Session */
#define MCP_QUIET_MS   15000  /* time between two keep-alives on a stream */
#define MCP_CREATE_MS  600000 /* time limit to create a sandbox and pull its image */

/* ------------------------------------------------ transport.c and exchange.c */

/* A piece of a response that is sent as the client reads it. */
struct mcp_part {
	struct mcp_part *next;
	struct buf data;
};

/* An HTTP request. It exists until it is closed and its calls are done. */
struct mcp_exchange {
	struct mcp *mcp;
	struct http_request *req; /* NULL: the client is gone */
	unsigned refs;
	struct caller caller;
	struct live_request live;
	enum rpc_era era;
	struct mcp_session *session; /* NULL: none */
	struct mcp_call *calls;      /* calls that are not yet answered */
	bool batch;                  /* the responses form an array */
	bool reading;                /* more messages in the array follow */
	bool large;                  /* the request is large: free it with mcp_drop() */
	bool takes_events;           /* the client accepts a stream of events */
	bool stream; /* the response is a stream of events that has begun */
	bool is_get; /* this is the GET stream of a session */
	bool at_sse; /* sent to MCP_SSE_PATH, whose stream carries all responses */
	/* For a stream: sessions with this holder end when the stream ends; "": none. */
	char holds[MCP_NAME_MAX + 1];
	/*
	 * The new sandbox that the response names; "": none. If the response cannot be
	 * sent, the sandbox is deleted.
	 */
	char created[ID_LEN + 1];
	bool answered;
	bool blocked;   /* the stream's client does not read */
	bool opened;    /* the response contains the id of a new session */
	size_t n;       /* number of responses in `out` */
	struct buf out; /* responses of an array, or the events of a blocked stream */
	struct mcp_part *parts; /* parts of a large response, sent before `out` */
	size_t sent;            /* bytes sent of the first part */
	struct loop_timer *quiet;
	struct mcp_exchange *next, **prev; /* links in mcp.exchanges */
	uint64_t begun;
	char cause[256];
};

void mcp_exchange_ref(struct mcp_exchange *x);
void mcp_exchange_unref(struct mcp_exchange *x);
/* Answer with an empty body. */
void mcp_exchange_empty(struct mcp_exchange *x, int status);
/* Answer the whole exchange with an error that belongs to no request. */
void mcp_exchange_refuse(struct mcp_exchange *x, int status, const struct rpc_error *err);
/* Send a message as the response (with @status), or as the last event. */
void mcp_exchange_answer(struct mcp_exchange *x, int status, const struct buf *message);
/*
 * Like mcp_exchange_answer(), for a large result. The result is moved out of its buffer
 * and sent as the client reads it. Must not be used once the response is a stream of
 * events.
 */
void mcp_exchange_answer_large(struct mcp_exchange *x, const json_t *id,
			       struct buf *result);
/* All messages of an array were read: respond, unless calls are still in progress. */
void mcp_exchange_collected(struct mcp_exchange *x);
/*
 * Send a notification before the response. Returns false if the notification was not
 * sent.
 */
bool mcp_exchange_notify(struct mcp_exchange *x, const struct buf *message);
/* Begin a stream of events. */
void mcp_exchange_begin(struct mcp_exchange *x);
/* Send keep-alives until the response is complete. */
void mcp_exchange_keep_alive(struct mcp_exchange *x);
/* Drop a reference. Freeing a large value takes long, so another thread frees it. */
void mcp_drop(struct mcp *mcp, const char *tenant, json_t *json, bool large);
/* Handle a notification. Only a cancellation has an effect. */
void mcp_notified(struct mcp_exchange *x, const struct rpc_message *m);
/* http_sse.c: open a session and its stream, or take a message for it. */
void mcp_sse_open(struct mcp_exchange *x);
void mcp_sse_message(struct mcp_exchange *x, json_t *json);
/* Get the value of a header that may be sent only once. -1: it was sent several times. */
int mcp_header(const struct http_request *req, const char *name, const char **ret);

/* ---------------------------------------------------------------- session.c */

/* What a client requests for the sandbox of its session, with headers. */
struct mcp_wishes {
	char sandbox[DB_NAME_MAX + 1]; /* Warren-Sandbox: an existing sandbox; "": none */
	bool keep;                     /* Warren-Keep */
	char image[256];               /* Warren-Image; "": the default */
	char network[32];              /* Warren-Network; "": the default */
	char project[1025]; /* Warren-Project: a directory to mount; "": none */
};

struct mcp_session {
	struct mcp *mcp;
	struct mcp_session *next, **prev;
	char id[2 * ID_LEN + 1]; /* "": the client chose its name */
	char *name;              /* Warren-Session; NULL: none */
	struct caller caller;
	struct live_request live;
	/*
	 * Warren-Session of the request that opened this session; "": none. The session
	 * also ends when a stream with this name ends.
	 */
	char holder[MCP_NAME_MAX + 1];
	bool is_local; /* opened through the unix socket */
	struct mcp_wishes wishes;
	const char *version;      /* protocol version of a legacy client */
	char sandbox[ID_LEN + 1]; /* id of the session's own sandbox; "": none yet */
	bool unmarked;            /* the sandbox outlives the session */
	int log_level;            /* -1: no messages */
	uint64_t used;            /* time of the last use, in ms */
	struct mcp_call *calls;   /* calls in progress */
	size_t n_calls;
	struct mcp_exchange *stream; /* stream opened with GET; NULL: none */
	struct mcp_subs subs;
	struct fair_quota_lease lease;
};

/* Read the headers. Returns -1 with an error in @err. */
int mcp_wishes_read(const struct http_request *req, struct mcp_wishes *ret,
		    struct rpc_error *err);
/* Open a session for the caller of @x. NULL: an error in @err. */
struct mcp_session *mcp_session_new(struct mcp_exchange *x, const char *name,
				    struct rpc_error *err);
/* Find the session of a legacy request. Returns 0, or the HTTP status of an error. */
int mcp_session_find(struct mcp_exchange *x, struct rpc_error *err);
/*
 * Find the session that Warren-Session of a modern request names, or open it if it is
 * new. Without that header, there is no session. Returns -1 with an error in @err.
 */
int mcp_session_join(struct mcp_exchange *x, struct rpc_error *err);
/*
 * Cancel the session's calls, end its stream, delete its sandbox unless it is kept, and
 * free the session.
 */
void mcp_session_end(struct mcp_session *s);
/* End all sessions of the caller with this holder. */
void mcp_session_let_go(struct mcp *mcp, const struct caller *caller, const char *holder);
/* Free the session but keep its sandbox, because the service stops. */
void mcp_session_free(struct mcp_session *s);

/* ------------------------------------------------------------------- call.c */

/*
 * A request from a client. It exists until it is answered or cancelled and its work has
 * ended.
 */
struct mcp_call {
	struct mcp *mcp;
	unsigned refs;
	struct mcp_exchange *exchange; /* NULL: no client waits for the response */
	struct mcp_session *session;   /* NULL: no session, or it has ended */
	struct caller caller;
	enum rpc_era era;
	json_t *message; /* the message that the following fields point into */
	json_t *id;
	const char *method;
	json_t *params, *meta;
	json_t *args;      /* arguments of a tool or a resource; NULL: none */
	json_t *made_args; /* the arguments, if they are not part of the message */
	const struct mcp_tool *tool; /* NULL: not tools/call */
	json_t *progress_token;      /* NULL: none */
	uint64_t progress;           /* the last progress value that was sent */
	int log_level;               /* -1: no messages */
	char wish[DB_NAME_MAX +
		  1];             /* Warren-Sandbox of a modern client without session */
	char sandbox[ID_LEN + 1]; /* sandbox that a tool uses, once it is known */
	/* For port_url: the name by which the client reaches the service; "": none. */
	char host[256];
	bool tls;
	bool large;     /* the message is large: free it with mcp_drop() */
	bool done;      /* answered or cancelled */
	bool cancelled; /* the work must end */
	bool listens;   /* this is a call of subscriptions/listen */
	/*
	 * Set by the handler, and called once when the call is done. It ends the work in
	 * progress and frees the state.
	 */
	void *state;
	void (*stop)(struct mcp_call *c);
	struct mcp_call *next, **prev;   /* list of the exchange */
	struct mcp_call *snext, **sprev; /* list of the session */
};

struct mcp_call *mcp_call_new(struct mcp_exchange *x, json_t *message,
			      const struct rpc_message *m);
struct mcp_call *mcp_call_ref(struct mcp_call *c);
void mcp_call_unref(struct mcp_call *c);
/* End the call without a result; a legacy client that waits gets an error. */
void mcp_call_cancel(struct mcp_call *c);
/* Find the call that a notification refers to; NULL: none. */
struct mcp_call *mcp_call_find(struct mcp_session *s, const json_t *id);
/* Detach the call from its exchange, because the client has disconnected. */
void mcp_call_detach(struct mcp_call *c);

/* Write the beginning of a result; @cached: the result of a list or a read. */
void mcp_result_open(struct json *j, enum rpc_era era, bool cached);
/* Like mcp_result_open(), for a list that has one page. False: the call was answered. */
bool mcp_list_open(struct mcp_call *c, struct json *j, const char *name);
/*
 * Answer with a result, a complete JSON object. A large result is moved out of its
 * buffer.
 */
void mcp_call_result(struct mcp_call *c, struct buf *result);
void mcp_call_empty(struct mcp_call *c);
void mcp_call_error(struct mcp_call *c, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
void mcp_call_fail(struct mcp_call *c, const struct rpc_error *err);
/*
 * Report progress with @n bytes of output. Does nothing if the client did not request
 * progress.
 */
void mcp_call_progress(struct mcp_call *c, uint64_t progress, const char *text, size_t n);
bool mcp_call_wants_progress(const struct mcp_call *c);
/* Send a log message, if the client asked for this level. */
void mcp_call_log(struct mcp_call *c, int level, const char *fmt, ...) PRINTF_LIKE(3, 4);

enum mcp_level {
	MCP_DEBUG,
	MCP_INFO,
	MCP_NOTICE,
	MCP_WARNING,
	MCP_ERROR,
	MCP_LEVEL_MAX = 8,
};

/* Get the level with this name; -1: none. */
int mcp_level_parse(const char *name);

/* ---------------------------------------------------------------- methods.c */

void mcp_call_run(struct mcp_call *c);
/* Members of `initialize` and `server/discover`. */
void mcp_write_capabilities(struct json *j, enum rpc_era era);
void mcp_write_server(struct json *j, const char *key);

/* ------------------------------------------------------------------ place.c */

typedef void (*mcp_place_fn)(struct mcp_call *c, struct sandbox *sandbox);

/*
 * Find the sandbox of a tool call, or create the sandbox of its session, and call @fn
 * when the sandbox is usable. On failure, the call is answered with an error.
 */
void mcp_place(struct mcp_call *c, mcp_place_fn fn);
/* Find the sandbox of a tool call without creating or waking it. */
struct sandbox *mcp_place_named(struct mcp_call *c);
/*
 * Find the sandbox that @word names for the caller. NULL: none; @why then has the reason.
 * Sandboxes of other tenants look as if they did not exist.
 */
struct sandbox *mcp_place_find(struct mcp_call *c, const char *word, struct buf *why);
/*
 * Look up the sandbox of the call again. NULL: it no longer exists, and the call was
 * answered.
 */
struct sandbox *mcp_place_again(struct mcp_call *c);

/* ------------------------------------------------------------------ tools.c */

/*
 * Answer with @structured, a complete JSON object, and with the same content as text. The
 * content is moved out of the buffer. @failed: the result is a tool error.
 */
void mcp_tool_result(struct mcp_call *c, struct buf *structured, bool failed);
/*
 * Like mcp_tool_result(), with a text that is shorter than the object: its first @shown
 * bytes, and then @rest.
 */
void mcp_tool_result_short(struct mcp_call *c, struct buf *structured, size_t shown,
			   const struct buf *rest, bool failed);
/*
 * Write the whole result that mcp_tool_result() sends. A pure function, for other
 * threads.
 */
void mcp_tool_wrap(enum rpc_era era, const struct buf *structured, bool failed,
		   struct buf *out);
/* Answer with an error that an agent can act on. */
void mcp_tool_error(struct mcp_call *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Like mcp_tool_error(), with an error from an engine. */
void mcp_tool_fail(struct mcp_call *c, const struct warren_error *err);
/* Get an argument of a tool. A missing argument has its default, 0, false or NULL. */
const char *mcp_arg_text(const struct mcp_call *c, const char *name);
size_t mcp_arg_size(const struct mcp_call *c, const char *name);
int64_t mcp_arg_int(const struct mcp_call *c, const char *name);
bool mcp_arg_bool(const struct mcp_call *c, const char *name);
json_t *mcp_arg_json(const struct mcp_call *c, const char *name);
/* Get the absolute path from an argument. False: the call was answered with an error. */
bool mcp_arg_path(struct mcp_call *c, const struct sandbox *sandbox, const char *name,
		  char out[4096]);
/*
 * tool_exec.c: list the variables as "NAME=value". The caller frees the list. NULL: out
 * of memory.
 */
char **mcp_env_list(const json_t *env);
/* A callback for service functions whose outcome does not matter. */
void mcp_ignore(void *ctx, int r, const struct warren_error *err);

/* ----------------------------------------------------------------- clip.c */

/* The beginning and the end of a stream of output that may be long. */
struct mcp_clip {
	struct buf head;
	char *tail; /* a ring buffer */
	size_t half, at, n_tail;
	uint64_t total, lost;
	bool failed;
};

void mcp_clip_init(struct mcp_clip *c, size_t max);
void mcp_clip_done(struct mcp_clip *c);
void mcp_clip_add(struct mcp_clip *c, const void *data, size_t n);
/* Write the output as a JSON string, with a mark where some is missing. */
void mcp_clip_write(struct json *j, const char *key, const struct mcp_clip *c);
/* Write the output as plain bytes, with the same mark. */
void mcp_clip_text(const struct mcp_clip *c, struct buf *out);
bool mcp_clip_is_cut(const struct mcp_clip *c);

/* ---------------------------------------------------------------- handlers */

#define MCP_HANDLER(id, name) void mcp_tool_##name(struct mcp_call *c);
MCP_TOOLS(MCP_HANDLER)
#undef MCP_HANDLER

void mcp_tools_list(struct mcp_call *c);
void mcp_tools_call(struct mcp_call *c);
void mcp_resources_list(struct mcp_call *c);
void mcp_resources_templates(struct mcp_call *c);
void mcp_resources_read(struct mcp_call *c);
void mcp_prompts_list(struct mcp_call *c);
void mcp_prompts_get(struct mcp_call *c);
void mcp_complete(struct mcp_call *c);

/* resources.c: answer with an error about the requested resource. */
void mcp_resource_error(struct mcp_call *c, const char *text);
bool mcp_resource_is_template(const char *uri);
/*
 * Split the URI of a file or of an exec's output into the arguments of the matching tool:
 * sandbox and path.
 */
bool mcp_resource_split(const char *uri, json_t **ret, bool *ret_is_log);
/* tool_sandbox.c: write the caller's sandboxes as a JSON object. */
int mcp_sandboxes_write(struct mcp_call *c, struct json *j, size_t limit, uint64_t before,
			struct warren_error *err);

#endif /* API_MCP_INTERNAL_H */
