/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - one exchange with the daemon: a request, its answer, and errors
 *
 * The daemon is on this machine and answers with JSON, but much of the content comes from
 * an image or a container. So answers are limited in size, parsed strictly, and quoted on
 * one line.
 */
#include "shim/docker/docker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_MAX  (4U << 20)
#define PATIENCE_MS (SHIM_PATIENCE - DOCKER_SLACK * 1000L)
#define SECONDS_MAX 86400
#define CONNECT_MS  10000L
#define URL_MAX     2048
#define SAID_MAX    360

/* ---------------------------------------------------------------- the daemon's socket */

static bool try_socket(struct docker *d, const char *dir, const char *file)
{
	int n;

	if (!dir)
		return false;
	n = snprintf(d->socket, sizeof(d->socket), "%s%s", dir, file);
	return n > 0 && (size_t)n < sizeof(d->socket) && access(d->socket, F_OK) == 0;
}

/* Search for the socket as docker's own client does, then at podman's paths. */
static int find_socket(struct docker *d, const char *configured, struct warren_error *err)
{
	const char *host = getenv("DOCKER_HOST"), *xdg = getenv("XDG_RUNTIME_DIR");
	const char *from = configured ? "socket" : "DOCKER_HOST";
	const char *path = configured ? configured : host;

	if (path && strncmp(path, "unix://", 7) == 0)
		path += 7;
	if (path && path[0] && path[0] != '/')
		return error_set(
			err, EINVAL,
			"%s: %s '%.80s' is not a unix socket: only a daemon on this "
			"machine can be used (example: /var/run/docker.sock)",
			d->name, from, path);
	if (path && strlen(path) >= sizeof(d->socket))
		return error_set(err, ENAMETOOLONG, "%s: %s '%.80s...' is too long",
				 d->name, from, path);
	if (path && path[0]) {
		(void)strcpy(d->socket, path);
		return 0;
	}
	if (!try_socket(d, "/var/run/docker.sock", "") &&
	    !try_socket(d, xdg, "/docker.sock") &&
	    !try_socket(d, "/run/podman/podman.sock", "") &&
	    !try_socket(d, xdg, "/podman/podman.sock"))
		(void)strcpy(d->socket, "/var/run/docker.sock");
	return 0;
}

/* --------------------------------------------------------------- configuration */

static int read_patience(struct docker *d, const json_t *value, struct warren_error *err)
{
	json_int_t secs = json_integer_value(value);

	if (secs < 1 || secs > SECONDS_MAX)
		return error_set(err, EINVAL,
				 "%s: configuration: 'timeout' must be 1 to %d seconds",
				 d->name, SECONDS_MAX);
	d->patience_ms = (long)secs * 1000;
	return 0;
}

static int http_read_config(struct docker *d, const json_t *config,
			    const char **ret_socket, struct warren_error *err)
{
	const struct {
		const char *key;
		const char **to;
	} keys[] = {
		{ "kind", NULL },         { "name", NULL },
		{ "socket", ret_socket }, { "image", &d->image },
		{ "pull", &d->pull },     { "archives", &d->archives },
	};
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)config, key, value)
	{
		size_t i = 0;

		if (strcmp(key, "timeout") == 0) {
			if (read_patience(d, value, err) < 0)
				return -EINVAL;
			continue;
		}
		while (i < ARRAY_SIZE(keys) && strcmp(keys[i].key, key) != 0)
			i++;
		if (i == ARRAY_SIZE(keys) || !json_is_string(value))
			return error_set(
				err, EINVAL, "%s: configuration: '%.40s' %s", d->name,
				key,
				i < ARRAY_SIZE(keys)
					? "is not a string"
					: "is not known (known: socket, image, pull, archives, timeout)");
		if (keys[i].to)
			*keys[i].to = json_string_value(value);
	}
	if (strcmp(d->pull, "missing") != 0 && strcmp(d->pull, "never") != 0 &&
	    strcmp(d->pull, "always") != 0)
		return error_set(
			err, EINVAL,
			"%s: configuration: pull '%.40s' is not missing, never or always",
			d->name, d->pull);
	return 0;
}

int docker_open(struct docker *d, const char *name, const json_t *config,
		struct warren_error *err)
{
	const char *socket = NULL;
	int r;

	*d = (struct docker){ .name = name,
			      .pull = "missing",
			      .patience_ms = PATIENCE_MS };
	d->body = (struct buf)BUF_INIT(ANSWER_MAX);
	r = http_read_config(d, config, &socket, err);
	if (r == 0)
		r = find_socket(d, socket, err);
	if (r < 0)
		return r;
	d->easy = curl_easy_init();
	return d->easy ? 0 : error_errno(err, ENOMEM, "%s: start a request", name);
}

void docker_close(struct docker *d)
{
	curl_easy_cleanup(d->easy);
	json_decref(d->answer);
	json_decref(d->volumes);
	buf_done(&d->body);
	*d = (struct docker){ 0 };
}

/* ---------------------------------------------------------------------- errors */

void docker_clean(char *text, size_t size, const char *said)
{
	size_t n = 0;

	for (; *said && n + 1 < size; said++) {
		bool dull = (unsigned char)*said < ' ' || *said == 0x7f;

		if (dull && (n == 0 || text[n - 1] == ' '))
			continue;
		text[n++] = (char)(dull ? ' ' : *said);
	}
	while (n > 0 && text[n - 1] == ' ')
		n--;
	text[n] = '\0';
}

int docker_odd(const struct docker *d, const char *step, struct warren_error *err)
{
	return error_set(err, EBADMSG,
			 "%s: %s: the answer of the daemon at '%s' is not from the "
			 "Engine API: is it Docker or podman?",
			 d->name, step, d->socket);
}

int docker_said(const char *said, int otherwise)
{
	return strcasestr(said, "no space left on device") ? ENOSPC : otherwise;
}

int docker_failed(const struct docker *d, const char *step, int status,
		  struct warren_error *err)
{
	static const struct {
		int status, code;
	} codes[] = {
		{ 400, EINVAL }, { 401, EACCES },     { 403, EACCES }, { 404, ENOENT },
		{ 409, EBUSY },  { 501, EOPNOTSUPP }, { 503, EAGAIN },
	};
	const json_t *message = json_object_get(d->answer, "message");
	char said[SAID_MAX];
	int code = EIO;

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].status == status)
			code = codes[i].code;
	docker_clean(said, sizeof(said),
		     json_is_string(message) ? json_string_value(message) : "");
	if (!said[0])
		(void)snprintf(said, sizeof(said), "the daemon answered %d", status);
	return error_set(err, docker_said(said, code), "%s: %s: %s", d->name, step, said);
}

/* Explain a failure of curl, and what the user can do. */
static int http_no_answer(const struct docker *d, const char *step, CURLcode code,
			  CURL *easy, struct warren_error *err)
{
	long os = 0;

	(void)curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os);
	if (code == CURLE_COULDNT_CONNECT && os == 0)
		os = access(d->socket, W_OK) < 0 ? errno : ECONNREFUSED;
	if (code == CURLE_COULDNT_CONNECT && (os == EACCES || os == EPERM))
		return error_set(
			err, EACCES,
			"%s: %s: no permission to use '%s': run as root, or as a "
			"member of the group that owns it (usually 'docker')",
			d->name, step, d->socket);
	if (code == CURLE_COULDNT_CONNECT)
		return error_set(err, EHOSTDOWN,
				 "%s: %s: %s '%s': start the daemon (systemctl start "
				 "docker), or set 'socket' or DOCKER_HOST to its socket",
				 d->name, step,
				 os == ENOENT ? "there is no socket"
					      : "nothing listens on",
				 d->socket);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "%s: %s: the daemon at '%s' does not answer", d->name,
				 step, d->socket);
	return error_set(err, EHOSTDOWN,
			 "%s: %s: the daemon at '%s' closed the connection: %s", d->name,
			 step, d->socket, d->why[0] ? d->why : curl_easy_strerror(code));
}

/* --------------------------------------------------------------------- exchange */

static size_t http_on_body(char *data, size_t size, size_t count, void *ctx)
{
	struct docker *d = ctx;
	size_t n = size * count;
	long status = 0;

	(void)curl_easy_getinfo(d->easy, CURLINFO_RESPONSE_CODE, &status);
	if (d->sink && status < 300)
		return d->sink(d->ctx, data, n) < 0 ? 0 : n;
	buf_add(&d->body, data, n);
	return d->body.failed ? 0 : n;
}

/* Recognise podman by its header, because it differs from docker in some respects. */
static size_t http_on_header(char *line, size_t size, size_t count, void *ctx)
{
	static const char podman[] = "Server: Libpod/";
	struct docker *d = ctx;

	if (size * count > sizeof(podman) &&
	    strncasecmp(line, podman, sizeof(podman) - 1) == 0)
		d->podman = true;
	return size * count;
}

static size_t http_on_send(char *data, size_t size, size_t count, void *ctx)
{
	struct docker *d = ctx;

	return d->source(d->ctx, data, size * count);
}

/* Set the timeouts: curl counts in seconds, and treats 0 as no limit. */
static void set_pace(const struct docker *d, CURL *e)
{
	if (d->pace == DOCKER_SOON)
		(void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, d->patience_ms);
	if (d->pace == DOCKER_MOVING) {
		(void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
		(void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME,
				       d->patience_ms * DOCKER_SILENCE / 1000);
	}
}

static void set_common(struct docker *d, CURL *e)
{
	long connecting = d->patience_ms < CONNECT_MS ? d->patience_ms : CONNECT_MS;

	(void)curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, d->socket);
	(void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
	(void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, connecting);
	(void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, d->why);
	(void)curl_easy_setopt(e, CURLOPT_USERAGENT, "warren/" WARREN_VERSION);
	d->why[0] = '\0';
}

static void set_request(struct docker *d, const char *url, const char *method,
			const char *body, const struct curl_slist *headers)
{
	CURL *e = d->easy;

	curl_easy_reset(e);
	set_common(d, e);
	(void)curl_easy_setopt(e, CURLOPT_URL, url);
	(void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
	(void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, http_on_body);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, d);
	(void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, http_on_header);
	(void)curl_easy_setopt(e, CURLOPT_HEADERDATA, d);
	set_pace(d, e);
	if (d->source) {
		(void)curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
		(void)curl_easy_setopt(e, CURLOPT_READFUNCTION, http_on_send);
		(void)curl_easy_setopt(e, CURLOPT_READDATA, d);
		(void)curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)d->sent);
	} else if (strcmp(method, "GET") != 0) {
		(void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
		(void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
	}
	(void)curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, method);
}

static int http_exchange(struct docker *d, const char *step, const char *method,
			 const char *url, const json_t *body, struct warren_error *err)
{
	struct curl_slist *headers = NULL;
	AUTO_FREE char *text = body ? json_dumps(body, JSON_COMPACT) : strdup("");
	long status = 0;
	CURLcode code;

	if (text)
		headers = curl_slist_append(NULL, "Expect:");
	if (headers)
		(void)curl_slist_append(headers,
					d->source ? "Content-Type: application/x-tar"
						  : "Content-Type: application/json");
	if (!headers)
		return error_errno(err, ENOMEM, "%s: %s", d->name, step);
	set_request(d, url, method, text, headers);
	code = curl_easy_perform(d->easy);
	curl_slist_free_all(headers);
	(void)curl_easy_getinfo(d->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_WRITE_ERROR && d->sink && status < 300)
		return (int)status;
	if (code == CURLE_WRITE_ERROR)
		return docker_odd(d, step, err);
	if (code != CURLE_OK)
		return http_no_answer(d, step, code, d->easy, err);
	return (int)status;
}

int docker_ask(struct docker *d, const char *step, const char *method, const json_t *body,
	       struct warren_error *err, const char *path, ...)
{
	char url[URL_MAX] = "http://docker";
	size_t at = strlen(url);
	va_list ap;
	int n, r;

	va_start(ap, path);
	n = vsnprintf(url + at, sizeof(url) - at, path, ap);
	va_end(ap);
	d->status = 0;
	json_decref(d->answer);
	d->answer = NULL;
	buf_done(&d->body);
	d->body = (struct buf)BUF_INIT(ANSWER_MAX);
	if (n < 0 || (size_t)n >= sizeof(url) - at)
		return error_errno(err, ENAMETOOLONG, "%s: %s", d->name, step);
	r = http_exchange(d, step, method, url, body, err);
	if (d->body.len > 0)
		d->answer = json_loadb(d->body.data, d->body.len, JSON_REJECT_DUPLICATES,
				       NULL);
	d->pace = DOCKER_SOON;
	d->sink = NULL;
	d->source = NULL;
	if (r >= 0)
		d->status = r;
	return r >= 400 ? docker_failed(d, step, r, err) : r;
}

int docker_connect(struct docker *d, const char *step, CURL **ret_easy, int *ret_fd,
		   struct warren_error *err)
{
	CURL *e = curl_easy_init();
	curl_socket_t fd = CURL_SOCKET_BAD;
	CURLcode code;
	int r;

	if (!e)
		return error_errno(err, ENOMEM, "%s: %s", d->name, step);
	set_common(d, e);
	(void)curl_easy_setopt(e, CURLOPT_URL, "http://docker/");
	(void)curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
	code = curl_easy_perform(e);
	if (code == CURLE_OK)
		code = curl_easy_getinfo(e, CURLINFO_ACTIVESOCKET, &fd);
	if (code == CURLE_OK && fd != CURL_SOCKET_BAD) {
		*ret_easy = e;
		*ret_fd = (int)fd;
		return 0;
	}
	r = http_no_answer(d, step, code, e, err);
	curl_easy_cleanup(e);
	return r;
}
