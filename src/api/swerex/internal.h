/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of the SWE-ReX API */
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

#define ANSWER_MAX (256U << 20) /* maximum bytes of the JSON of one response */

/* --------------------------------------------------------------------- reply.c */

struct ask;
struct reply;

/* A response with fewer bytes is built at once and not counted. */
#define REPLY_SMALL   (32U << 10)
#define REPLY_RAW_MAX ((64U << 20) + 65536)
#define REPLY_PARTS   9
/* Maximum bytes of all responses together; one tenant gets at most half. */
#define REPLIES_MAX (512U << 20)

enum reply_form {
	REPLY_JSON, /* unchanged */
	REPLY_TEXT, /* decoded with python_decode(), inside a string */
	REPLY_REPR, /* the same, with Python's quotes around it */
	REPLY_FILE, /* decoded with the reply's codec, inside a string */
};

struct reply_part {
	enum reply_form form;
	int raw; /* index of the bytes; REPLY_JSON uses the reply's json */
	size_t from, size;
	char quote;
};

/*
 * A response that is encoded while its clients read it. It belongs to the loop, except
 * while another thread fills it.
 */
struct reply {
	struct swerex *sx;
	unsigned refs, readers;
	int status;
	struct buf json;   /* the JSON between the raw parts, concatenated */
	struct buf raw[2]; /* output of programs, or contents of files */
	struct codec codec;
	size_t n, json_done;
	struct reply_part part[REPLY_PARTS];
	struct fair_quota *account; /* the account of the lease */
	struct fair_quota_lease lease;
};

/* The progress of a client that reads a response. */
struct reply_reader {
	struct reply *reply; /* NULL: another kind of response */
	struct http_request *req;
	size_t part, at;
	struct codec codec;
	bool blocked;
	struct loop_task turn;
};

/* NULL: out of memory. */
struct reply *reply_new(struct swerex *sx);
void reply_unref(struct reply *r);
/* Reserve @n bytes for @tenant; false: this exceeds its share. */
bool reply_charge(struct reply *r, const char *tenant, size_t n);
/* Insert bytes of raw[@raw] after the current end of json. */
void reply_put(struct reply *r, enum reply_form form, int raw, size_t from, size_t size);
/* Get the number of bytes that the reply holds. */
size_t reply_size(const struct reply *r);
/*
 * Call this when the reply is complete. Returns whether a part is missing because memory
 * ran out.
 */
bool reply_failed(struct reply *r);
/* Write the whole reply at once; for small responses. */
void reply_write(struct reply *r, struct buf *out);
void reply_send(struct ask *ask, struct reply *r);
/* Detach the request, which has ended, from its reply. */
void reply_left(struct ask *ask);

/* ----------------------------------------------------------------------- idempotency.c
 */

struct call;
struct session_terminal;
struct field;

/*
 * The work that a request has started. It continues when the client disconnects, and its
 * answer is kept for a repeated request with the same X-Request-ID. Exception: a job that
 * waits for its turn in a session ends with its client if its request cannot be repeated.
 * The handler holds a reference, from its call to the response.
 */
struct job {
	struct swerex *sx;
	struct job *newer, *older; /* list of all kept jobs */
	struct job *chain;         /* jobs in the same bucket */
	bool kept;
	unsigned refs;
	char sandbox[ID_LEN + 1];
	char tenant[DB_NAME_MAX + 1]; /* owner of the sandbox */
	char id[80];                  /* "": the request cannot be repeated */
	const struct call *call;
	struct ask *asks; /* requests that wait for the response */
	json_t *body;
	struct fair_quota_lease
		body_lease; /* a lease from sx->bodies until the job ends */
	/* The session in which its act runs; NULL: none. */
	struct session_terminal *session_terminal;
	bool done;
	int status;
	struct buf answer;   /* the response, if it is small */
	struct reply *reply; /* the response, if it is large */
};

/* An operation of the API. */
struct call {
	const char *method, *path;
	const char *scope; /* scope that a token must have; NULL: any */
	void (*handler)(struct job *job, struct sandbox *sandbox);
	const struct field *fields;
	size_t n_fields;
	size_t max_body; /* 0: the limit of the service for bodies other than files */
};

/* A request. It exists until it is closed. */
struct ask {
	struct swerex *sx;
	struct http_request *req; /* NULL: the client has disconnected */
	struct ask *next;
	struct job *job;
	const struct call *call;
	struct caller caller;
	struct live_request live;
	struct reply_reader reader;
	struct parse *parse; /* parses its body on another thread; NULL: not running */
	size_t body_size;
	char sandbox[ID_LEN + 1];
	uint64_t begun;
	char cause[256];
	void *state;                   /* for upload.c */
	void (*gone)(struct ask *ask); /* called when the client disconnects */
};

/*
 * Find the job for @ask: a job with the same id, or a new job (*@ret_new). NULL: out of
 * memory.
 */
struct job *job_join(struct ask *ask, const char *id, bool *ret_new);
void job_leave(struct ask *ask);
/*
 * Get the sandbox of the job. NULL: it no longer exists, and the job was answered with an
 * error.
 */
struct sandbox *job_sandbox(struct job *job);
/* Answer the job. Its handler must not use the job any more. */
void job_answer(struct job *job, int status, const struct buf *body);
/* Answer the job with a reply of any size; takes @r. */
void job_reply(struct job *job, struct reply *r);
/*
 * No client waits for the job any more: if its act has not begun, cancel it (session.c).
 */
void job_withdraw(struct job *job);
/* Send {"detail": @why} to all clients that wait. */
void job_refuse(struct job *job, int status, const char *why);
/*
 * Refuse the job because too many large responses are in memory. @what tells the client
 * what this means for it.
 */
void job_crowded(struct job *job, const char *what);
/* Send {"detail": ...} to one request. */
void ask_refuse(struct ask *ask, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
void ask_answer(struct ask *ask, int status, const struct buf *body);

/* --------------------------------------------------------------------- exceptions.c */

/* Answer with an exception: its class ("builtins.ValueError") and its message. */
void job_raise(struct job *job, const char *class, const char *message, size_t n);
void job_raisef(struct job *job, const char *class, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/*
 * Write an exception to a reply, on any thread: raise_open(), the message with
 * raise_put() and reply_put(), raise_class(), extra_info as JSON, raise_close().
 */
void raise_open(struct reply *r);
void raise_put(struct reply *r, const struct buf *message);
void raise_class(struct reply *r, const char *class);
void raise_close(struct reply *r);
/*
 * Append the last output of a command that timed out, for users; the client gets all of
 * it separately.
 */
void raise_put_so_far(struct buf *message, const char *shown, size_t n);
/* Answer with an engine's error; @path is the file, or NULL. */
void job_fail(struct job *job, const struct warren_error *err, const char *path);

#define SWEREX "swerex.exceptions."

/* -------------------------------------------------------------------- body_fields.c */

enum field_type {
	FIELD_TEXT,
	FIELD_TEXTS,        /* an array of texts */
	FIELD_COMMAND,      /* a text, or an array of texts */
	FIELD_NUMBER,       /* for example, seconds */
	FIELD_MAYBE_NUMBER, /* a number or null */
	FIELD_COUNT,        /* 0 to 1,000 */
	FIELD_BOOL,
	FIELD_MAYBE_MAP, /* an object with texts, or null */
	FIELD_MAYBE_TEXT,
	FIELD_TYPE_MAX,
};

struct field {
	const char *name;
	enum field_type type;
	bool required;
	const char *words; /* the allowed texts, each with spaces around it; NULL: any */
	bool nul;          /* the text may contain U+0000; its reader uses the size */
};

/*
 * Return whether @body is an object with only these fields and valid values; otherwise
 * @detail is the text for a 422.
 */
bool fields_check(const json_t *body, const struct field *fields, size_t n,
		  struct buf *detail);
/* Return whether @text is one of @words, each of which has a space on either side. */
bool field_is_word(const char *words, const char *text, size_t n);
/* Get the text of a field, or @otherwise if the body omits it. */
const char *field_text(const json_t *body, const char *name, const char *otherwise);
size_t field_size(const json_t *body, const char *name);
bool field_bool(const json_t *body, const char *name);
/* Get a number of seconds as milliseconds; -1: null or omitted. */
int64_t field_ms(const json_t *body, const char *name);
/*
 * Get the texts of an array, NULL-terminated, which the caller frees; NULL: out of
 * memory.
 */
const char **field_texts(const json_t *array, size_t *ret_n);

/* ------------------------------------------------------------------- handlers */

void swerex_create_session(struct job *job, struct sandbox *sandbox);
void swerex_run_in_session(struct job *job, struct sandbox *sandbox);
void swerex_close_session(struct job *job, struct sandbox *sandbox);
void swerex_close(struct job *job, struct sandbox *sandbox);
void swerex_execute(struct job *job, struct sandbox *sandbox);
void swerex_read_file(struct job *job, struct sandbox *sandbox);
void swerex_write_file(struct job *job, struct sandbox *sandbox);
/* The handler reads the body itself. */
void swerex_upload(struct ask *ask);

/*
 * Convert a path to the form that files.h requires: absolute and without redundant
 * slashes. False: it is too long.
 */
bool swerex_path(const struct sandbox *sandbox, const char *path, char out[4096]);

#endif /* API_SWEREX_INTERNAL_H */
