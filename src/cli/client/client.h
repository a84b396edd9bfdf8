/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a connection to `warren serve`, and requests over it
 *
 *	struct client *c = NULL;
 *	json_t *answer = NULL;
 *
 *	r = client_open(&c, err);
 *	r = client_call(c, "GET", "/v1/sandboxes", NULL, &answer, err);
 *
 * Everything is one thread and one curl multi handle: client_call() is a request
 * that is waited for; several at once (the output of a command while its input
 * is sent) are requests that are started, and client_turn() until they ended.
 */
#ifndef CLI_CLIENT_CLIENT_H
#define CLI_CLIENT_CLIENT_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define PATH_LIMIT (64U << 10) /* of a path with its query */

struct client {
	char *base;   /* "http://localhost" */
	char *socket; /* of a unix socket; NULL: TCP */
	bool own; /* the default address: the service must belong to the user or root */
	bool stranger;   /* it is not */
	char *host;      /* "unix:/run/warren/warren.sock", as errors call it */
	const char *ca;  /* NULL: the system's */
	char *authority; /* the header with the token, or NULL; a secret */
	CURLM *multi;
	char code[48]; /* of the last error of the service: "sandbox_not_found" */
};

/* As WARREN_HOST, WARREN_TOKEN and WARREN_CA say. Nothing is sent yet. */
int client_open(struct client **ret, struct warren_error *err) MUST_CHECK;
/*
 * Is it the service's, or some other user's who was there first? Asked of every
 * connection before anything is sent.
 */
bool client_trusts(struct client *c, int fd);
/* The error where it is not; returns its code. */
int client_refuse(const struct client *c, struct warren_error *err);
/* NULL is fine; returns NULL. */
struct client *client_close(struct client *c);

static inline void client_close_p(struct client **c)
{
	(void)client_close(*c);
}

#define AUTO_CLIENT CLEANUP(client_close_p)

static inline void json_decref_p(json_t **j)
{
	json_decref(*j);
}

#define AUTO_JSON CLEANUP(json_decref_p)

/* ------------------------------------------------------------------- requests */

struct request {
	struct client *client;
	CURL *easy;
	int fd; /* of the connection that was made for it; -1: it has one that was there
		 */
	struct curl_slist *headers;
	char *body;        /* owned */
	struct buf answer; /* all of it; of a stream: of an error, or half a line */
	bool running;
	bool ended;
	long status; /* 0: no answer came */
	struct warren_error err;
	char code[48]; /* of an error of the service */
	/* Of a stream; < 0 breaks it off. With on_line, whole lines without their end. */
	int (*on_data)(void *arg, const char *data, size_t n);
	int (*on_line)(void *arg, const char *line, size_t n);
	void *arg;
	/* Where the body comes from: the count, 0 at its end, < 0 breaks it off. */
	ssize_t (*from)(void *arg, char *data, size_t n);
};

/* @path with its query. */
int request_new(struct client *c, const char *method, const char *path,
		struct request **ret, struct warren_error *err) MUST_CHECK;
struct request *request_free(struct request *r);
int request_json(struct request *r, const json_t *body,
		 struct warren_error *err) MUST_CHECK;
/* A copy of @data, sent as @type. */
int request_bytes(struct request *r, const char *type, const void *data, size_t n,
		  struct warren_error *err) MUST_CHECK;
/* As @r->from gives it, of @size bytes; -1: until its end. */
int request_upload(struct request *r, const char *type, int64_t size,
		   struct warren_error *err) MUST_CHECK;
int request_start(struct request *r, struct warren_error *err) MUST_CHECK;
/* Until it ended; 0, or -errno for what is not an answer below 400. */
int request_wait(struct request *r, struct warren_error *err) MUST_CHECK;

static inline void request_free_p(struct request **r)
{
	(void)request_free(*r);
}

#define AUTO_REQUEST CLEANUP(request_free_p)

/*
 * Moves what can be moved, and waits for more, or for one of @fds, for
 * @timeout_ms at most.
 */
int client_turn(struct client *c, struct curl_waitfd *fds, unsigned n, int timeout_ms,
		struct warren_error *err) MUST_CHECK;

/* One request with a JSON body (NULL: none); *@ret (NULL: not wanted) is the answer. */
int client_call(struct client *c, const char *method, const char *path,
		const json_t *body, json_t **ret, struct warren_error *err) MUST_CHECK;
/* Whether the last failure of a call was this one of the service's. */
bool client_said(const struct client *c, const char *code);

/* "?name=value" or "&name=value" behind @path, the value encoded. */
void put_query(struct buf *path, const char *name, const char *value);

/*
 * Each page of a list: @key is the name of its array. Calls @each for its elements;
 * a result other than 0 ends it and is returned.
 */
int client_list(struct client *c, const char *path, const char *key,
		int (*each)(void *arg, json_t *item), void *arg,
		struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_CLIENT_H */
