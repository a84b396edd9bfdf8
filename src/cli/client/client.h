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
 * There is one thread and one curl multi handle. client_call() sends a request and waits
 * for it. For concurrent requests (a command's output while its input is sent), start
 * each request, then call client_turn() until all have ended.
 */
#ifndef CLI_CLIENT_CLIENT_H
#define CLI_CLIENT_CLIENT_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define PATH_LIMIT (64U << 10) /* maximum length of a path with its query */

struct client {
	char *base;   /* "http://localhost" */
	char *socket; /* path of a unix socket; NULL: TCP */
	/* The address is the default: this user or root must own the service. */
	bool own;
	bool stranger;   /* another user owns the service */
	char *host;      /* address for errors: "unix:/run/warren/warren.sock" */
	const char *ca;  /* NULL: the certificates of the system */
	char *authority; /* header with the token (a secret), or NULL */
	CURLM *multi;
	char code[48]; /* code of the service's last error: "sandbox_not_found" */
};

/* Create a client from WARREN_HOST, WARREN_TOKEN and WARREN_CA, without connecting. */
int client_open(struct client **ret, struct warren_error *err) MUST_CHECK;
/*
 * Like client_open(), for the service at @host, which has the form of WARREN_HOST, and
 * without a token.
 */
int client_open_at(const char *host, struct client **ret,
		   struct warren_error *err) MUST_CHECK;
/*
 * Return whether the peer of @fd is the service, not another user who took the address
 * first. Called for every connection before anything is sent.
 */
bool client_trusts(struct client *c, int fd);
/* Set the error for an untrusted peer; return its code. */
int client_refuse(const struct client *c, struct warren_error *err);
/* @c may be NULL. Always returns NULL. */
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
	int fd; /* the new connection of this request; -1: a reused one */
	struct curl_slist *headers;
	char *body; /* owned */
	struct buf
		/* The whole body; for a stream: an error body or a partial line. */
		answer;
	bool running;
	bool ended;
	long status; /* 0: no response */
	struct warren_error err;
	char code[48]; /* code of an error from the service */
	/*
	 * Called for the data of a stream; a result < 0 aborts the request. on_line gets
	 * whole lines without the newline.
	 */
	int (*on_data)(void *arg, const char *data, size_t n);
	int (*on_line)(void *arg, const char *line, size_t n);
	void *arg;
	/* Reads the request body: returns the count, 0 at the end, < 0 to abort. */
	ssize_t (*from)(void *arg, char *data, size_t n);
};

/* @path includes the query. */
int request_new(struct client *c, const char *method, const char *path,
		struct request **ret, struct warren_error *err) MUST_CHECK;
struct request *request_free(struct request *r);
/* Add a header, "Name: value". */
int request_add_header(struct request *r, const char *line,
		       struct warren_error *err) MUST_CHECK;
int request_json(struct request *r, const json_t *body,
		 struct warren_error *err) MUST_CHECK;
/* Send a copy of @data with content type @type. */
int request_bytes(struct request *r, const char *type, const void *data, size_t n,
		  struct warren_error *err) MUST_CHECK;
/* Send the @size bytes that @r->from provides; -1: until its end. */
int request_upload(struct request *r, const char *type, int64_t size,
		   struct warren_error *err) MUST_CHECK;
int request_start(struct request *r, struct warren_error *err) MUST_CHECK;
/*
 * Wait until the request has ended; -errno if there is no response or its status is 400
 * or above.
 */
int request_wait(struct request *r, struct warren_error *err) MUST_CHECK;

static inline void request_free_p(struct request **r)
{
	(void)request_free(*r);
}

#define AUTO_REQUEST CLEANUP(request_free_p)

/*
 * Transfer all data that is ready, then wait for more data or for one of @fds, for at
 * most @timeout_ms.
 */
int client_turn(struct client *c, struct curl_waitfd *fds, unsigned n, int timeout_ms,
		struct warren_error *err) MUST_CHECK;

/*
 * Send one request with a JSON body (NULL: none) and wait; *@ret (@ret may be NULL) gets
 * the response.
 */
int client_call(struct client *c, const char *method, const char *path,
		const json_t *body, json_t **ret, struct warren_error *err) MUST_CHECK;
/* Return whether the last call failed with this error code of the service. */
bool client_said(const struct client *c, const char *code);

/* Append "?name=value" or "&name=value" to @path, with the value encoded. */
void put_query(struct buf *path, const char *name, const char *value);

/*
 * Read all pages of a list and call @each for every element of the array @key. If @each
 * does not return 0, stop and return its result.
 */
int client_list(struct client *c, const char *path, const char *key,
		int (*each)(void *arg, json_t *item), void *arg,
		struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_CLIENT_H */
