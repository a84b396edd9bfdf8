/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of the SWE-ReX API share */
#ifndef API_SWEREX_INTERNAL_H
#define API_SWEREX_INTERNAL_H

#include <jansson.h>

#include "api/access.h"
#include "api/live.h"
#include "api/swerex/codec.h"
#include "api/swerex/swerex.h"
#include "base/buf.h"
#include "base/json.h"
#include "net/loop.h"
#include "service/core/fair_quota.h"
#include "service/session/session.h"

#define ANSWER_MAX (256U << 20) /* bytes of an answer's JSON */

/* --------------------------------------------------------------------- reply.c */

struct ask;
struct reply;

#define REPLY_SMALL   (32U << 10) /* bytes: made at once, and not counted */
#define REPLY_RAW_MAX ((64U << 20) + 65536)
#define REPLY_PARTS   9
#define REPLIES_MAX   (512U << 20) /* bytes, of all: half of that for a tenant alone */

enum reply_form {
	REPLY_JSON, /* as it is */
	REPLY_TEXT, /* inside a string: what python_decode() makes of it */
	REPLY_REPR, /* the same, and Python's quotes around it */
	REPLY_FILE, /* inside a string: what the reply's codec makes of it */
};

struct reply_part {
	enum reply_form form;
	int raw; /* which bytes; those of REPLY_JSON are the reply's json */
	size_t from, size;
	char quote;
};

/*
 * An answer that is encoded as its clients read it. It belongs to the loop, except while
 * another thread fills it.
 */
struct reply {
	struct swerex *sx;
	unsigned refs, readers;
	int status;
	struct buf json;   /* what is around the bytes, one piece behind the other */
	struct buf raw[2]; /* bytes of programs and files */
	struct codec codec;
	size_t n, json_done;
	struct reply_part part[REPLY_PARTS];
	struct fair_quota *account; /* that the lease is of */
	struct fair_quota_lease lease;
};

/* How far a client has got. */
struct reply_reader {
	struct reply *reply; /* NULL: it has another kind of answer */
	struct http_request *req;
	size_t part, at;
	struct codec codec;
	bool blocked;
	struct loop_task turn;
};

/* NULL: no memory. */
struct reply *reply_new(struct swerex *sx);
void reply_unref(struct reply *r);
/* Reserve @n bytes for @tenant; false: there is no room left in its share. */
bool reply_charge(struct reply *r, const char *tenant, size_t n);
/* Insert bytes of raw[@raw] after what was written to json so far. */
void reply_put(struct reply *r, enum reply_form form, int raw, size_t from, size_t size);
/* The number of bytes that it holds. */
size_t reply_size(const struct reply *r);
/*
 * Nothing more is added to it. Returns whether something is missing because memory ran
 * out.
 */
bool reply_failed(struct reply *r);
/* All of it at once, for what is small. */
void reply_write(struct reply *r, struct buf *out);
void reply_send(struct ask *ask, struct reply *r);
/* The request is over. */
void reply_left(struct ask *ask);

/* ----------------------------------------------------------------------- idempotency.c
 */

struct call;
struct session_terminal;
struct field;

/*
 * The work for a request. It continues when the client disconnects, and its answer is
 * kept for a repeated request with the same X-Request-ID. But a job that waits for its
 * turn in a session, and whose request cannot be repeated, ends with its client. The
 * handler holds a reference, from its call to the answer.
 */
struct job {
	struct swerex *sx;
	struct job *newer, *older; /* of all that are kept */
	struct job *chain;         /* of the same bucket */
	bool kept;
	unsigned refs;
	char sandbox[ID_LEN + 1];
	char tenant[DB_NAME_MAX + 1]; /* of the sandbox */
	char id[80];                  /* "": it cannot be asked for again */
	const struct call *call;
	struct ask *asks; /* who waits */
	json_t *body;
	struct fair_quota_lease body_lease; /* of sx->bodies, until it ends */
	struct session_terminal
		*session_terminal; /* its act is there; NULL: it has none */
	bool done;
	int status;
	struct buf answer;   /* a small one, or */
	struct reply *reply; /* a large one */
};

/* What can be asked for. */
struct call {
	const char *method, *path;
	const char *scope; /* that a token must have; NULL: any */
	void (*handler)(struct job *job, struct sandbox *sandbox);
	const struct field *fields;
	size_t n_fields;
	size_t max_body; /* 0: what the service allows for bodies that are no files */
};

/* A request, until it is closed. */
struct ask {
	struct swerex *sx;
	struct http_request *req; /* NULL: gone */
	struct ask *next;
	struct job *job;
	const struct call *call;
	struct caller caller;
	struct live_request live;
	struct reply_reader reader;
	struct parse *parse; /* of its body, on another thread; NULL */
	size_t body_size;
	char sandbox[ID_LEN + 1];
	uint64_t begun;
	char cause[256];
	void *state;                   /* upload.c's own */
	void (*gone)(struct ask *ask); /* what it does when the client goes */
};

/* The job of @ask: the one of the same id, or a new one (*@ret_new). NULL: no memory. */
struct job *job_join(struct ask *ask, const char *id, bool *ret_new);
void job_leave(struct ask *ask);
/* The sandbox, or NULL after the job was failed because it is gone. */
struct sandbox *job_sandbox(struct job *job);
/* The answer, which ends the job for its handler. */
void job_answer(struct job *job, int status, const struct buf *body);
/* The same, of any size; takes @r. */
void job_reply(struct job *job, struct reply *r);
/* No client waits for it: if its act has not begun, it never will (session.c). */
void job_withdraw(struct job *job);
/* Send {"detail": @why} to all clients that wait. */
void job_refuse(struct job *job, int status, const char *why);
/* There is no room for it at present; @what was to be answered. */
void job_crowded(struct job *job, const char *what);
/* {"detail": ...} to one request. */
void ask_refuse(struct ask *ask, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
void ask_answer(struct ask *ask, int status, const struct buf *body);

/* --------------------------------------------------------------------- exceptions.c */

/* Answer with an exception: its class ("builtins.ValueError"), its message. */
void job_raise(struct job *job, const char *class, const char *message, size_t n);
void job_raisef(struct job *job, const char *class, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/*
 * An exception as a reply, perhaps made on another thread: its message from here on, by
 * raise_put() and reply_put(); then its class, and extra_info, as JSON, up to
 * raise_close().
 */
void raise_open(struct reply *r);
void raise_put(struct reply *r, const struct buf *message);
void raise_class(struct reply *r, const char *class);
void raise_close(struct reply *r);
/*
 * The last output of a command that timed out, for a person; the client gets all of it
 * separately.
 */
void raise_put_so_far(struct buf *message, const char *shown, size_t n);
/* What an engine said: of a file @path, or NULL. */
void job_fail(struct job *job, const struct warren_error *err, const char *path);

#define SWEREX "swerex.exceptions."

/* -------------------------------------------------------------------- body_fields.c */

enum field_type {
	FIELD_TEXT,
	FIELD_TEXTS,        /* an array of texts */
	FIELD_COMMAND,      /* a text, or an array of them */
	FIELD_NUMBER,       /* of seconds, say */
	FIELD_MAYBE_NUMBER, /* or null */
	FIELD_COUNT,        /* 0 to 1,000 */
	FIELD_BOOL,
	FIELD_MAYBE_MAP, /* of texts, or null */
	FIELD_MAYBE_TEXT,
	FIELD_TYPE_MAX,
};

struct field {
	const char *name;
	enum field_type type;
	bool required;
	const char *words; /* the only ones that a text may be, with blanks around each;
			      NULL */
	bool nul;          /* a text may contain U+0000: its reader uses its size */
};

/*
 * Whether @body is an object with only these fields; otherwise @detail is the text for a
 * 422.
 */
bool fields_check(const json_t *body, const struct field *fields, size_t n,
		  struct buf *detail);
/* Whether it is one of @words, each of which has a blank on either side. */
bool field_is_word(const char *words, const char *text, size_t n);
/* "": left out. */
const char *field_text(const json_t *body, const char *name, const char *otherwise);
size_t field_size(const json_t *body, const char *name);
bool field_bool(const json_t *body, const char *name);
/* Milliseconds of a number of seconds; -1: null, or left out. */
int64_t field_ms(const json_t *body, const char *name);
/* An array's texts, NULL-terminated, to be freed; NULL: no memory. */
const char **field_texts(const json_t *array, size_t *ret_n);

/* ------------------------------------------------------------------- handlers */

void swerex_create_session(struct job *job, struct sandbox *sandbox);
void swerex_run_in_session(struct job *job, struct sandbox *sandbox);
void swerex_close_session(struct job *job, struct sandbox *sandbox);
void swerex_close(struct job *job, struct sandbox *sandbox);
void swerex_execute(struct job *job, struct sandbox *sandbox);
void swerex_read_file(struct job *job, struct sandbox *sandbox);
void swerex_write_file(struct job *job, struct sandbox *sandbox);
/* It reads its body itself. */
void swerex_upload(struct ask *ask);

/*
 * A path as the files of a sandbox are asked for: absolute, tidy. false: it is too long.
 */
bool swerex_path(const struct sandbox *sandbox, const char *path, char out[4096]);

#endif /* API_SWEREX_INTERNAL_H */
