/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - requests as curl easy handles, and the loop that drives them
 *
 * The body of an answer with a status below 400 is passed to the caller as a stream, or
 * kept as a whole. If the status is 400 or more, the error is the message of the service.
 * If there is no answer at all, the error says why, and what to do.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/client/client.h"
#include "cli/client/progress.h"

#define ANSWER_MAX     (256U << 20)
#define LINE_MAX_BYTES (4U << 20) /* maximum size of one event */
#define CONNECT_MS     10000L
#define RECEIVE_BUFFER (256L << 10)
#define TURN_MS        1000
#define FIRST_ERROR    400

/* ------------------------------------------------------------------ streams */

static int each_line(struct request *r)
{
	char *at = r->answer.data, *end;
	size_t left;
	int bad = 0;

	while (bad == 0 && at &&
	       (end = memchr(at, '\n', r->answer.len - (size_t)(at - r->answer.data)))) {
		if (end > at)
			bad = r->on_line(r->arg, at, (size_t)(end - at));
		at = end + 1;
	}
	left = at ? r->answer.len - (size_t)(at - r->answer.data) : 0;
	if (left)
		(void)memmove(r->answer.data, at, left);
	r->answer.len = left;
	return bad;
}

static size_t on_write(char *data, size_t size, size_t n, void *arg)
{
	struct request *r = arg;
	long status = 0;

	(void)size;
	(void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < FIRST_ERROR && r->on_data)
		return r->on_data(r->arg, data, n) < 0 ? 0 : n;
	buf_add(&r->answer, data, n);
	if (r->answer.failed)
		return 0;
	if (status < FIRST_ERROR && r->on_line &&
	    (each_line(r) < 0 || r->answer.len > LINE_MAX_BYTES))
		return 0;
	return n;
}

static size_t on_read(char *data, size_t size, size_t n, void *arg)
{
	struct request *r = arg;
	ssize_t got = r->from(r->arg, data, size * n);

	return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

/* ----------------------------------------------------------------- requests */

int request_add_header(struct request *r, const char *line, struct warren_error *err)
{
	struct curl_slist *longer = curl_slist_append(r->headers, line);

	if (!longer)
		return error_errno(err, ENOMEM, "build a request");
	r->headers = longer;
	return 0;
}

int client_refuse(const struct client *c, struct warren_error *err)
{
	return error_set(
		err, EPERM,
		"the service at %s belongs to another user, and nothing was sent to "
		"it: to use it, set WARREN_HOST",
		c->host);
}

bool client_trusts(struct client *c, int fd)
{
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (!c->own)
		return true;
	c->stranger = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
		      (peer.uid != geteuid() && peer.uid != 0);
	return !c->stranger;
}

/* The connection is open, and nothing was sent yet. */
static int request_on_connected(void *arg, char *peer UNUSED, char *own UNUSED,
				int peer_port UNUSED, int own_port UNUSED)
{
	struct request *r = arg;

	/* A reused connection was already checked when it was opened. */
	return r->fd < 0 || client_trusts(r->client, r->fd) ? CURL_PREREQFUNC_OK
							    : CURL_PREREQFUNC_ABORT;
}

static curl_socket_t request_on_socket(void *arg, curlsocktype purpose UNUSED,
				       struct curl_sockaddr *a)
{
	struct request *r = arg;

	r->fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
	return r->fd < 0 ? CURL_SOCKET_BAD : r->fd;
}

/* Set the options of every request. */
static int request_set_up(struct request *r, const char *method, const char *url,
			  struct warren_error *err)
{
	const struct client *c = r->client;
	CURL *e = r->easy;
	bool bad = curl_easy_setopt(e, CURLOPT_URL, url) != CURLE_OK;

	bad |= curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, method) != CURLE_OK;
	bad |= curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK;
	(void)curl_easy_setopt(e, CURLOPT_PRIVATE, r);
	(void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	/* Send the path as the user gave it; do not shorten it. */
	(void)curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
	(void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	(void)curl_easy_setopt(e, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
	(void)curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, RECEIVE_BUFFER);
	(void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_write);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
	if (c->socket) {
		bad |= curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->socket) !=
		       CURLE_OK;
		/* Proxies in the environment are only for the network. */
		(void)curl_easy_setopt(e, CURLOPT_PROXY, "");
	}
	if (c->own) {
		bad |= curl_easy_setopt(e, CURLOPT_PREREQFUNCTION,
					request_on_connected) != CURLE_OK;
		bad |= curl_easy_setopt(e, CURLOPT_PREREQDATA, r) != CURLE_OK;
		bad |= curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION,
					request_on_socket) != CURLE_OK;
		bad |= curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, r) != CURLE_OK;
	}
	if (c->ca)
		bad |= curl_easy_setopt(e, CURLOPT_CAINFO, c->ca) != CURLE_OK;
	if (bad)
		return error_set(err, EINVAL, "build a request to %s", c->host);
	if (c->authority && request_add_header(r, c->authority, err) < 0)
		return -err->code;
	/* Do not wait for permission to send, because an error arrives just as soon
	 * without it. */
	return request_add_header(r, "Expect:", err);
}

int request_new(struct client *c, const char *method, const char *path,
		struct request **ret, struct warren_error *err)
{
	AUTO_REQUEST struct request *r = calloc(1, sizeof(*r));
	AUTO_FREE char *url = NULL;

	if (!r)
		return error_errno(err, ENOMEM, "start a request");
	r->client = c;
	r->fd = -1;
	r->answer = (struct buf)BUF_INIT(ANSWER_MAX);
	r->easy = curl_easy_init();
	if (!path || !r->easy || asprintf(&url, "%s%s", c->base, path) < 0)
		return error_errno(err, ENOMEM, "start a request");
	if (request_set_up(r, method, url, err) < 0)
		return -err->code;
	/* Otherwise, curl misreads the answer to a HEAD; a body changes the method. */
	(void)curl_easy_setopt(r->easy, CURLOPT_HTTPGET, 1L);
	(void)curl_easy_setopt(r->easy, CURLOPT_CUSTOMREQUEST, method);
	*ret = TAKE_PTR(r);
	return 0;
}

struct request *request_free(struct request *r)
{
	if (!r)
		return NULL;
	if (r->running)
		(void)curl_multi_remove_handle(r->client->multi, r->easy);
	curl_easy_cleanup(r->easy);
	curl_slist_free_all(r->headers);
	free(r->body);
	buf_done(&r->answer);
	free(r);
	return NULL;
}

static int add_type(struct request *r, const char *type, struct warren_error *err)
{
	char line[128];

	(void)snprintf(line, sizeof(line), "Content-Type: %s", type);
	return request_add_header(r, line, err);
}

static int set_body(struct request *r, const char *type, size_t n,
		    struct warren_error *err)
{
	(void)curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
	if (curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS, r->body) != CURLE_OK)
		return error_errno(err, ENOMEM, "build a request");
	return add_type(r, type, err);
}

int request_json(struct request *r, const json_t *body, struct warren_error *err)
{
	r->body = json_dumps(body, JSON_COMPACT);
	if (!r->body)
		return error_set(err, EILSEQ, "an argument is not UTF-8");
	return set_body(r, "application/json", strlen(r->body), err);
}

int request_bytes(struct request *r, const char *type, const void *data, size_t n,
		  struct warren_error *err)
{
	r->body = malloc(n + 1);
	if (!r->body)
		return error_errno(err, ENOMEM, "keep %zu bytes", n);
	if (n)
		(void)memcpy(r->body, data, n);
	return set_body(r, type, n, err);
}

int request_upload(struct request *r, const char *type, int64_t size,
		   struct warren_error *err)
{
	(void)curl_easy_setopt(r->easy, CURLOPT_UPLOAD, 1L);
	(void)curl_easy_setopt(r->easy, CURLOPT_READFUNCTION, on_read);
	(void)curl_easy_setopt(r->easy, CURLOPT_READDATA, r);
	(void)curl_easy_setopt(r->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
	return add_type(r, type, err);
}

int request_start(struct request *r, struct warren_error *err)
{
	(void)curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
	if (curl_multi_add_handle(r->client->multi, r->easy) != CURLM_OK)
		return error_errno(err, ENOMEM, "start a request");
	r->running = true;
	return 0;
}

/* -------------------------------------------------------------------- results */

/* Use the error message of the service, or a replacement. */
static void take_error(struct request *r)
{
	json_t *body =
		json_loadb(r->answer.data ? r->answer.data : "", r->answer.len, 0, NULL);
	const char *message = json_string_value(json_object_get(body, "message"));
	const char *code = json_string_value(json_object_get(body, "code"));

	(void)snprintf(r->code, sizeof(r->code), "%s", code ? code : "");
	if (!message)
		(void)error_set(&r->err, EPROTO, "%s answered with status %ld",
				r->client->host, r->status);
	else if (r->status == 401)
		(void)error_set(&r->err, EACCES, "%s (set WARREN_TOKEN to a token)",
				message);
	else
		(void)error_set(&r->err, r->status == 404 ? ENOENT : EREMOTEIO, "%s",
				message);
	json_decref(body);
}

/* There is no answer, usually because no service is running. */
static void take_failure(struct request *r, CURLcode why)
{
	const struct client *c = r->client;
	long os = 0;

	(void)curl_easy_getinfo(r->easy, CURLINFO_OS_ERRNO, &os);
	if (c->stranger)
		(void)client_refuse(c, &r->err);
	else if (why != CURLE_COULDNT_CONNECT && why != CURLE_COULDNT_RESOLVE_HOST)
		(void)error_set(&r->err, ECONNRESET, "the connection to %s: %s", c->host,
				curl_easy_strerror(why));
	else if (c->socket && os == EACCES)
		(void)error_set(&r->err, EACCES,
				"no permission to use %s: ask its owner, or set "
				"WARREN_HOST to another service",
				c->host);
	else
		(void)error_set(&r->err, ECONNREFUSED,
				"no service at %s%s%s: start one with 'warren serve', "
				"or set WARREN_HOST",
				c->host, os ? ": " : "",
				os ? strerrordesc_np((int)os) : "");
}

static void request_end(struct request *r, CURLcode why)
{
	(void)curl_multi_remove_handle(r->client->multi, r->easy);
	r->running = false;
	r->ended = true;
	(void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->status);
	if (r->status >= FIRST_ERROR)
		take_error(r); /* reports why the upload is incomplete */
	else if (why != CURLE_OK)
		take_failure(r, why);
}

int client_turn(struct client *c, struct curl_waitfd *fds, unsigned n, int timeout_ms,
		struct warren_error *err)
{
	CURLMsg *m;
	int left = 0;
	bool news = false;

	(void)curl_multi_perform(c->multi, &left);
	while ((m = curl_multi_info_read(c->multi, &left))) {
		struct request *r = NULL;
		CURLcode why = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
		request_end(r, why);
		news = true;
	}
	for (unsigned i = 0; i < n; i++)
		fds[i].revents = 0;
	if (curl_multi_poll(c->multi, fds, n, news ? 0 : timeout_ms, NULL) != CURLM_OK)
		return error_errno(err, ENOMEM, "wait for %s", c->host);
	return 0;
}

int request_wait(struct request *r, struct warren_error *err)
{
	struct progress p;
	int bad = 0;

	progress_begin(&p);
	while (bad == 0 && !r->ended) {
		bad = client_turn(r->client, NULL, 0, TURN_MS, err);
		progress_tick(&p);
	}
	progress_end(&p);
	if (bad < 0)
		return bad;
	(void)snprintf(r->client->code, sizeof(r->client->code), "%s", r->code);
	if (r->err.code == 0)
		return 0;
	*err = r->err;
	return -err->code;
}
