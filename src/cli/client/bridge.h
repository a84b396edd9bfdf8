/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.h - warren mcp: carry MCP messages between stdio and the service's /mcp
 *
 * Theory of operation
 *
 * Each line of stdin is a message. It becomes a call: a POST to /mcp with the same body,
 * and with the headers that the transport over HTTP needs. What comes back, one JSON
 * object or a stream of events, becomes lines of stdout. Many calls are under way at a
 * time, and answers come in any order. One thread does everything; it waits for stdin,
 * stdout, signals and all connections at once.
 *
 * A message belongs to one of two eras. A modern request names its version in its
 * metadata and needs no session of the protocol. All other messages are legacy: they
 * belong to the session that `initialize` opens, so they wait while it is opened. When
 *the service does not know the session any more (it was restarted), the bridge opens
 * another one with the client's own `initialize` and repeats the message.
 *
 * The service keeps one sandbox for the name that the bridge sends as Warren-Session. A
 * stream (GET) with this name stays open as long as the bridge lives; it carries the
 * messages of the service to legacy clients, and its end tells the service that the
 * bridge is gone, even if the bridge was killed.
 *
 *	bridge.c	eras, the session, cancellation, the end
 *	bridge_call.c	calls: headers, answers, events
 *	bridge_stdio.c	lines of stdin, lines to stdout
 *	cmd_mcp.c	options and the loop
 */
#ifndef CLI_CLIENT_BRIDGE_H
#define CLI_CLIENT_BRIDGE_H

#include "base/list.h"
#include "cli/client/client.h"
#include "cli/client/private_service.h"

#define BRIDGE_LINE_MAX  (8U << 20)  /* of stdin */
#define BRIDGE_REPLY_MAX (64U << 20) /* of an answer */
#define BRIDGE_CALLS_MAX 1024        /* under way */
#define BRIDGE_BODY_MAX  (64U << 20) /* of all messages under way */

/* Error codes of JSON-RPC. */
enum {
	BRIDGE_PARSE_ERROR = -32700,
	BRIDGE_BAD_REQUEST = -32600,
	BRIDGE_INTERNAL = -32603,
};

/* --------------------------------------------------------------- bridge_stdio.c */

/* Lines of stdin. */
struct bridge_input {
	struct buf line;
	bool skipping; /* the line is too long: up to its end */
	bool ended;
};

/* Read what is there. Calls bridge_message() for each line. */
struct bridge;
void bridge_read(struct bridge *b);

/* Write @n bytes of JSON as a line; it may have line breaks, which are removed. */
void bridge_put(struct bridge *b, const char *json, size_t n);
/* An error in answer to the request @id; NULL: its id is not known. */
void bridge_put_error(struct bridge *b, const json_t *id, int code, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Write to stdout what it takes without waiting. */
void bridge_flush(struct bridge *b);

/* ---------------------------------------------------------------- bridge_call.c */

enum bridge_kind {
	BRIDGE_MODERN,
	BRIDGE_LEGACY,     /* with the session, if there is one */
	BRIDGE_INITIALIZE, /* opens the session */
	BRIDGE_REOPEN,     /* the same without the client's knowledge */
	BRIDGE_STREAM,     /* the GET stream */
};

struct bridge_call {
	struct bridge *bridge;
	struct bridge_call *next;
	enum bridge_kind kind;
	struct request *request; /* NULL: it waits for the session */
	char *body;
	size_t size;
	json_t *message; /* @body, parsed; not for a stream or a batch */
	json_t *id;      /* in @message; NULL: there is nothing to answer */
	char *version;   /* of a modern request */
	bool answered;
	bool cancelled; /* the client does not want the answer */
	bool again;     /* it was repeated in a new session */
	unsigned epoch; /* bridge.epoch when it was sent */
	/* The answer. */
	bool has_type, is_stream;
	struct buf reply;   /* a JSON object, or an incomplete line of a stream */
	struct buf event;   /* data of an incomplete event */
	uint64_t cancel_at; /* when its cancellation is sent again; ms */
	unsigned cancels;
};

/* Takes @body and @message. NULL: out of memory. */
struct bridge_call *bridge_call_new(struct bridge *b, enum bridge_kind kind, char *body,
				    size_t size, json_t *message);
struct bridge_call *bridge_call_free(struct bridge_call *c);
int bridge_call_start(struct bridge_call *c, struct warren_error *err) MUST_CHECK;
/* It has ended: write its answer, or an error in place of one. */
void bridge_call_finish(struct bridge_call *c);
/* The value of a header of the answer, or NULL. */
const char *bridge_call_header(const struct bridge_call *c, const char *name);

/* --------------------------------------------------------------------- bridge.c */

struct bridge_options {
	const char *sandbox, *network;
	char *image, *project;
	bool keep;
};

struct bridge {
	const struct bridge_options *o;
	struct private_service *own; /* NULL: a service was running */
	struct client *client;       /* NULL: not needed yet */
	struct bridge_input in;
	struct buf out;
	size_t written; /* of @out */
	bool broken;    /* stdout is closed */
	struct bridge_call *calls;
	size_t n_calls, bytes;
	char name[36]; /* Warren-Session */
	/* The session of legacy messages. */
	char *session;    /* NULL: none */
	char *version;    /* which it has */
	unsigned epoch;   /* how often a session was opened */
	bool opening;     /* messages wait for it */
	char *initialize; /* the client's, to open it again */
	size_t n_initialize;
	struct bridge_call *stream; /* one of the calls; NULL: none */
	bool no_stream;             /* the service has none */
	uint64_t stream_at;         /* ms, when it is opened again */
};

/* A line of stdin. */
void bridge_message(struct bridge *b, const char *line, size_t n);
/* Write answers of calls that have ended, and start what waited for them. */
void bridge_settle(struct bridge *b);
/* ms until bridge_settle() has something to do; -1: when something happens. */
int bridge_pause(const struct bridge *b);
/* Whether a request of the client is not answered yet. */
bool bridge_is_busy(const struct bridge *b);
/* End all calls and the session, and free everything. */
void bridge_end(struct bridge *b);

#endif /* CLI_CLIENT_BRIDGE_H */
