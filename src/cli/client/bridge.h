/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge.h - warren mcp: forward MCP messages between stdio and the service's /mcp
 *
 * Theory of operation
 *
 * Each line of stdin is a message. It becomes a call: a POST to /mcp with the same body,
 * and with the headers that the HTTP transport needs. The response, one JSON object or a
 * stream of events, becomes lines on stdout. Many calls can be in progress at a time, and
 * responses arrive in any order. One thread does everything; it waits for stdin, stdout,
 * signals and all connections at once.
 *
 * A message belongs to one of two eras. A modern request names its version in its
 * metadata and needs no protocol session. All other messages are legacy: they belong to
 * the session that `initialize` opens, so they wait until that session is open. If the
 * service no longer knows the session (because it was restarted), the bridge opens a new
 * session with the client's own `initialize` and repeats the message.
 *
 * The service keeps one sandbox for the name that the bridge sends as Warren-Session. A
 * stream (GET) with this name stays open as long as the bridge lives; it carries messages
 * from the service to legacy clients. When it closes, the service knows that the bridge
 * has ended, even if the bridge was killed.
 *
 *	bridge.c	eras, the session, cancellation, the end
 *	bridge_call.c	calls: headers, responses, events
 *	bridge_stdio.c	lines of stdin, lines to stdout
 *	cmd_mcp.c	options and the loop
 */
#ifndef CLI_CLIENT_BRIDGE_H
#define CLI_CLIENT_BRIDGE_H

#include "base/list.h"
#include "cli/client/client.h"
#include "cli/client/private_service.h"

#define BRIDGE_LINE_MAX  (8U << 20)  /* maximum bytes in a line of stdin */
#define BRIDGE_REPLY_MAX (64U << 20) /* maximum bytes in a response */
#define BRIDGE_CALLS_MAX 1024        /* maximum calls in progress */
#define BRIDGE_BODY_MAX  (64U << 20) /* maximum bytes in all messages in progress */

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
	bool skipping; /* skip the rest of a line that is too long */
	bool ended;
};

/* Read the available data, and call bridge_message() for each line. */
struct bridge;
void bridge_read(struct bridge *b);

/* Write @n bytes of JSON as one line, without the line breaks that the JSON may have. */
void bridge_put(struct bridge *b, const char *json, size_t n);
/* Write an error response to the request @id; NULL: the id is not known. */
void bridge_put_error(struct bridge *b, const json_t *id, int code, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Write as much to stdout as is possible without waiting. */
void bridge_flush(struct bridge *b);

/* ---------------------------------------------------------------- bridge_call.c */

enum bridge_kind {
	BRIDGE_MODERN,
	BRIDGE_LEGACY,     /* a legacy message, sent with the session if there is one */
	BRIDGE_INITIALIZE, /* opens the session */
	BRIDGE_REOPEN,     /* opens the session again, without the client's knowledge */
	BRIDGE_STREAM,     /* the GET stream */
};

struct bridge_call {
	struct bridge *bridge;
	struct bridge_call *next;
	enum bridge_kind kind;
	struct request *request; /* NULL: the call waits for the session */
	char *body;
	size_t size;
	json_t *message; /* the parsed @body; NULL for a stream or a batch */
	json_t *id;      /* the id in @message; NULL: no response is expected */
	char *version;   /* version of a modern request */
	bool answered;
	bool cancelled; /* the client has cancelled the call */
	bool again;     /* the call was repeated in a new session */
	unsigned epoch; /* value of bridge.epoch when the call was sent */
	/* The response. */
	bool has_type, is_stream;
	struct buf reply;   /* a JSON object, or an incomplete line of a stream */
	struct buf event;   /* data of an incomplete event */
	uint64_t cancel_at; /* time in ms when to send the cancellation again */
	unsigned cancels;
};

/* Takes @body and @message. NULL: out of memory. */
struct bridge_call *bridge_call_new(struct bridge *b, enum bridge_kind kind, char *body,
				    size_t size, json_t *message);
struct bridge_call *bridge_call_free(struct bridge_call *c);
int bridge_call_start(struct bridge_call *c, struct warren_error *err) MUST_CHECK;
/* Write the response of a call that has ended, or an error if there is none. */
void bridge_call_finish(struct bridge_call *c);
/* Get the value of a response header, or NULL. */
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
	size_t written; /* bytes of @out that are written */
	bool broken;    /* stdout is closed */
	struct bridge_call *calls;
	size_t n_calls, bytes;
	char name[36]; /* Warren-Session */
	/* The session of legacy messages. */
	char *session;    /* NULL: none */
	char *version;    /* protocol version of the session */
	unsigned epoch;   /* how often a session was opened */
	bool opening;     /* the session is being opened, and messages wait for it */
	char *initialize; /* the client's `initialize` message, to open the session again
			   */
	size_t n_initialize;
	struct bridge_call *stream; /* one of the calls; NULL: none */
	bool no_stream;             /* the service offers no stream */
	uint64_t stream_at;         /* time in ms when to open the stream again */
};

/* Handle a line of stdin. */
void bridge_message(struct bridge *b, const char *line, size_t n);
/*
 * Write the responses of calls that have ended, and start the calls that waited for them.
 */
void bridge_settle(struct bridge *b);
/* Milliseconds until bridge_settle() must be called; -1: not before an event arrives. */
int bridge_pause(const struct bridge *b);
/* Return whether a request from the client is not answered yet. */
bool bridge_is_busy(const struct bridge *b);
/* End all calls and the session, and free everything. */
void bridge_end(struct bridge *b);

#endif /* CLI_CLIENT_BRIDGE_H */
