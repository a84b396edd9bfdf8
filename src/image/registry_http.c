/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_http.c - one HTTP exchange with curl: its URL, headers and body
 *
 * curl does not follow redirects; registry_retry.c does, because a login may only be sent
 * to the origin that it is for, and because this client decides which servers may be used
 * without TLS.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "image/registry_internal.h"

#define CONNECT_TIMEOUT_MS     30000L
#define CONNECT_TIMEOUT_TRY_MS 5000L /* for TLS, if the server may not support it */
#define SMALL_TIMEOUT_MS       120000L
#define STALL_BYTES_PER_S      1024L
#define RECEIVE_BUFFER         (512L << 10)
#define PROGRESS_EVERY_NS      20000000ULL
#define NS_PER_MS              1000000ULL

char *http_url_part(const char *url, CURLUPart part)
{
	CURLU *u = curl_url();
	char *value = NULL, *copy = NULL;

	if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(u, part, &value, CURLU_DEFAULT_PORT) == CURLUE_OK)
		copy = strdup(value);
	curl_free(value);
	curl_url_cleanup(u);
	return copy;
}

void http_peer(const char *url, char peer[300])
{
	AUTO_FREE char *scheme = http_url_part(url, CURLUPART_SCHEME);
	AUTO_FREE char *host = http_url_part(url, CURLUPART_HOST);
	AUTO_FREE char *port = http_url_part(url, CURLUPART_PORT);
	bool usual = scheme && port &&
		     strcmp(port, strcmp(scheme, "https") == 0 ? "443" : "80") == 0;

	(void)snprintf(peer, 300, "%.260s%s%s", host ? host : "?",
		       port && !usual ? ":" : "", port && !usual ? port : "");
}

bool http_same_origin(const char *a, const char *b)
{
	static const CURLUPart parts[] = { CURLUPART_SCHEME, CURLUPART_HOST,
					   CURLUPART_PORT };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		AUTO_FREE char *of_a = http_url_part(a, parts[i]);
		AUTO_FREE char *of_b = http_url_part(b, parts[i]);

		if (!of_a || !of_b || strcasecmp(of_a, of_b) != 0)
			return false;
	}
	return true;
}

bool http_url_ok(const char *url, bool plain_ok)
{
	AUTO_FREE char *scheme = http_url_part(url, CURLUPART_SCHEME);
	AUTO_FREE char *host = http_url_part(url, CURLUPART_HOST);
	AUTO_FREE char *user = http_url_part(url, CURLUPART_USER);

	if (!scheme || !host || !host[0] || user)
		return false;
	return strcmp(scheme, "https") == 0 || (plain_ok && strcmp(scheme, "http") == 0);
}

static char *registry_url(const struct registry *reg, const char *path)
{
	char *url = NULL;

	if (asprintf(&url, "%s://%s%s", reg->plain ? "http" : "https", reg->host, path) <
	    0)
		return NULL;
	return url;
}

/* Return the URL at which the request starts, before redirects. */
static char *first_url(const struct http *h)
{
	return h->absolute ? strdup(h->absolute) : registry_url(h->reg, h->path);
}

char *http_url(const struct http *h)
{
	return h->location ? strdup(h->location) : first_url(h);
}

int http_init(struct http *h, struct registry *reg, const char *noun,
	      struct warren_error *err)
{
	*h = (struct http){
		.reg = reg,
		.noun = noun,
		.challenge = BUF_INIT(REGISTRY_CHALLENGE_MAX),
		.body = BUF_INIT(REGISTRY_ERROR_BODY_MAX),
		.easy = curl_easy_init(),
	};
	if (!h->easy)
		return error_errno(err, ENOMEM, "start a request");
	return 0;
}

static void registry_http_free_secret(char *s)
{
	if (s)
		OPENSSL_cleanse(s, strlen(s));
	free(s);
}

static void http_stop(struct http *h)
{
	if (h->running)
		(void)curl_multi_remove_handle(h->reg->multi, h->easy);
	h->running = false;
}

void http_done(struct http *h)
{
	if (!h->reg)
		return;
	http_stop(h);
	curl_easy_cleanup(h->easy);
	curl_slist_free_all(h->headers);
	free(h->path);
	free(h->absolute);
	free(h->location);
	registry_http_free_secret(h->login);
	registry_http_free_secret(h->form);
	buf_done(&h->challenge);
	buf_done(&h->body);
	*h = (struct http){ 0 };
}

static size_t registry_http_on_body(char *data, size_t size, size_t count, void *ctx)
{
	struct http *h = ctx;
	size_t n = size * count;
	bool good;

	if (h->status == 0)
		(void)curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &h->status);
	good = h->status >= 200 && h->status < 300;
	if (good && h->sink) {
		if (h->sink(h, data, n) < 0) {
			h->cut = true;
			return CURL_WRITEFUNC_ERROR;
		}
		return n;
	}
	buf_add(&h->body, data, n);
	if (h->body.failed) {
		h->cut = true;
		h->too_big = good;
		return CURL_WRITEFUNC_ERROR;
	}
	return n;
}

/*
 * Return the value of the header @name in @line, without whitespace around it; NULL: it
 * is another header.
 */
static const char *header_value(const char *line, size_t n, const char *name,
				size_t *ret_n)
{
	size_t len = strlen(name);

	if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
		return NULL;
	line += len + 1;
	n -= len + 1;
	while (n > 0 && (*line == ' ' || *line == '\t'))
		line++, n--;
	while (n > 0 && strchr(" \t\r\n", line[n - 1]))
		n--;
	*ret_n = n;
	return line;
}

static void keep_header(const char *line, size_t n, const char *name, char *to,
			size_t size)
{
	size_t len;
	const char *value = header_value(line, n, name, &len);

	if (value)
		(void)snprintf(to, size, "%.*s", (int)(len < size ? len : size - 1),
			       value);
}

static size_t registry_http_on_header(char *line, size_t size, size_t count, void *ctx)
{
	struct http *h = ctx;
	size_t n = size * count, len;
	const char *value;

	/* This may follow a status 100, or the answer of a proxy. */
	if (n > 5 && strncmp(line, "HTTP/", 5) == 0) {
		h->type[0] = h->range[0] = h->where[0] = h->digest[0] = '\0';
		buf_done(&h->challenge);
	}
	keep_header(line, n, "content-type", h->type, sizeof(h->type));
	keep_header(line, n, "content-range", h->range, sizeof(h->range));
	keep_header(line, n, "location", h->where, sizeof(h->where));
	keep_header(line, n, "docker-content-digest", h->digest, sizeof(h->digest));
	value = header_value(line, n, "www-authenticate", &len);
	if (value && !memchr(value, '\0', len)) {
		if (h->challenge.len > 0)
			buf_puts(&h->challenge, ", ");
		buf_add(&h->challenge, value, len);
	}
	return n;
}

static CURLcode on_tls(CURL *easy UNUSED, void *ssl_ctx, void *file)
{
	return SSL_CTX_load_verify_locations(ssl_ctx, file, NULL) == 1
		       ? CURLE_OK
		       : CURLE_SSL_CACERT_BADFILE;
}

static bool registry_http_add_header(struct http *h, const char *name, const char *value)
{
	AUTO_FREE char *line = NULL;
	struct curl_slist *more;

	if (asprintf(&line, "%s: %s", name, value) < 0)
		return false;
	more = curl_slist_append(h->headers, line);
	OPENSSL_cleanse(line, strlen(line));
	if (more)
		h->headers = more;
	return more;
}

/* A login is for one origin: the registry, or the token server that it named. */
static int set_headers(struct http *h, const char *url, struct warren_error *err)
{
	AUTO_FREE char *home = first_url(h);
	const char *login = h->absolute ? h->login : h->reg->authorization;
	bool fine = home != NULL;

	curl_slist_free_all(h->headers);
	h->headers = NULL;
	for (size_t i = 0; fine && h->accept && h->accept[i]; i++)
		fine = registry_http_add_header(h, "Accept", h->accept[i]);
	/* Request no compression, because the digest is that of the stored bytes. */
	fine = fine && registry_http_add_header(h, "Accept-Encoding", "identity");
	if (h->send_type)
		fine = fine &&
		       registry_http_add_header(h, "Content-Type", h->send_type) &&
		       /* Do not wait for a response 100. */
		       registry_http_add_header(h, "Expect", "");
	h->login_sent = fine && login && http_same_origin(url, home);
	h->logins = h->reg->logins;
	if (h->login_sent)
		fine = registry_http_add_header(h, "Authorization", login);
	if (!fine)
		return error_errno(err, ENOMEM, "start a request");
	(void)curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, h->headers);
	return 0;
}

static void set_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	(void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	(void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

static void registry_http_set_options(struct http *h, const char *url)
{
	const struct registry *reg = h->reg;
	bool trying = reg->plain_ok && !reg->answered && !reg->plain;
	CURL *e = h->easy;

	curl_easy_reset(e);
	set_protocols(e);
	(void)curl_easy_setopt(e, CURLOPT_URL, url);
	(void)curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	(void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	/*
	 * Use one connection for each download: in a shared connection, a slow download
	 * would delay the others.
	 */
	(void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A cancelled request must not wait for a name server that does not answer. */
	(void)curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
	(void)curl_easy_setopt(e, CURLOPT_USERAGENT, "warren/" WARREN_VERSION);
	(void)curl_easy_setopt(e, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
	(void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
			       trying ? CONNECT_TIMEOUT_TRY_MS : CONNECT_TIMEOUT_MS);
	(void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, STALL_BYTES_PER_S);
	/* After the last byte of a large upload, a registry may need long to answer. */
	(void)curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME,
			       (long)reg->stall_s * (h->send_blob ? 10 : 1));
	if (!h->sink && !h->send_blob)
		(void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, SMALL_TIMEOUT_MS);
	(void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, registry_http_on_body);
	(void)curl_easy_setopt(e, CURLOPT_WRITEDATA, h);
	(void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, registry_http_on_header);
	(void)curl_easy_setopt(e, CURLOPT_HEADERDATA, h);
	(void)curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	(void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->why);
	(void)curl_easy_setopt(e, CURLOPT_PRIVATE, h);
	if (reg->ca_file) {
		const char *system = curl_version_info(CURLVERSION_NOW)->cainfo;

		/* If the machine has no certificates, use those of Warren. */
		if (system && access(system, R_OK) < 0)
			(void)curl_easy_setopt(e, CURLOPT_CAINFO, NULL);
		(void)curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_tls);
		(void)curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, reg->ca_file);
	}
}

static size_t registry_http_on_send(char *to, size_t size, size_t count, void *ctx)
{
	struct http *h = ctx;
	uint64_t total = h->send_blob ? h->send_blob->size : strlen(h->send_text);
	size_t n = size * count;
	ssize_t got;

	if (n > total - h->sent)
		n = (size_t)(total - h->sent);
	if (!h->send_blob) {
		(void)memcpy(to, h->send_text + h->sent, n);
		h->sent += n;
		return n;
	}
	do
		got = pread(h->send_blob->fd, to, n, (off_t)h->sent);
	while (got < 0 && errno == EINTR);
	if (got < 0 || (got == 0 && n > 0))
		return CURL_READFUNC_ABORT;
	h->sent += (uint64_t)got;
	h->send_blob->done = h->sent;
	return (size_t)got;
}

/* curl starts again, for example because the connection that it used was closed. */
static int registry_http_on_seek(void *ctx, curl_off_t offset, int origin)
{
	struct http *h = ctx;

	if (origin != SEEK_SET || offset < 0)
		return CURL_SEEKFUNC_CANTSEEK;
	h->sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

static void registry_http_set_method(struct http *h)
{
	CURL *e = h->easy;

	if (strcmp(h->method, "HEAD") == 0) {
		(void)curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
	} else if (strcmp(h->method, "POST") == 0) {
		(void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, "");
		(void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, 0L);
	} else {
		(void)curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
		(void)curl_easy_setopt(e, CURLOPT_READFUNCTION, registry_http_on_send);
		(void)curl_easy_setopt(e, CURLOPT_READDATA, h);
		(void)curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, registry_http_on_seek);
		(void)curl_easy_setopt(e, CURLOPT_SEEKDATA, h);
		(void)curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE,
				       (curl_off_t)(h->send_blob ? h->send_blob->size
								 : strlen(h->send_text)));
	}
}

static void forget_answer(struct http *h)
{
	h->finished = false;
	h->result = CURLE_OK;
	h->status = 0;
	h->cut = h->too_big = false;
	h->type[0] = h->range[0] = h->where[0] = h->digest[0] = h->why[0] = '\0';
	h->sent = 0;
	buf_done(&h->challenge);
	buf_done(&h->body);
	h->body.max = h->body_max > REGISTRY_ERROR_BODY_MAX ? h->body_max
							    : REGISTRY_ERROR_BODY_MAX;
}

int http_begin(struct http *h, struct warren_error *err)
{
	AUTO_FREE char *url = http_url(h);
	char range[32];
	int code;

	if (!url)
		return error_errno(err, ENOMEM, "start a request");
	http_stop(h);
	forget_answer(h);
	h->tls = strncmp(url, "https:", 6) == 0;
	registry_http_set_options(h, url);
	code = guard_hop(h, url, err);
	if (code == 0)
		code = set_headers(h, url, err);
	if (code < 0)
		return code;
	if (h->form)
		(void)curl_easy_setopt(h->easy, CURLOPT_COPYPOSTFIELDS, h->form);
	if (h->method)
		registry_http_set_method(h);
	if (h->offset > 0) {
		(void)snprintf(range, sizeof(range), "%ju-", (uintmax_t)h->offset);
		(void)curl_easy_setopt(h->easy, CURLOPT_RANGE, range);
	}
	if (curl_multi_add_handle(h->reg->multi, h->easy) != CURLM_OK)
		return error_errno(err, ENOMEM, "start a request");
	h->running = true;
	return 0;
}

static void http_finish(struct http *h, CURLcode result)
{
	(void)curl_multi_remove_handle(h->reg->multi, h->easy);
	(void)curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &h->status);
	h->running = false;
	h->finished = true;
	h->result = result;
	/* Ignore the rest of a long error message. */
	if (h->cut && !h->too_big && h->status >= 300)
		h->result = CURLE_OK;
	if (h->status > 0 && !h->absolute && !h->location)
		h->reg->answered = true;
}

static bool registry_http_collect(struct registry *reg)
{
	bool any = false;
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(reg->multi, &left))) {
		CURLcode result = msg->data.result;
		char *h = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &h);
		http_finish((struct http *)(void *)h, result);
		any = true;
	}
	return any;
}

static int registry_http_tell(struct registry *reg, bool now, struct warren_error *err)
{
	uint64_t t = clock_now();

	if (reg->progress && (now || t - reg->told >= PROGRESS_EVERY_NS)) {
		reg->told = t;
		if (reg->progress(reg->ctx, reg->blobs, reg->n_blobs) != 0)
			reg->cancelled = true;
	}
	return reg->cancelled ? error_set(err, ECANCELED, "cancelled") : 0;
}

int http_pump(struct registry *reg, unsigned wait_ms, struct warren_error *err)
{
	int running = 0;
	CURLMcode m;
	bool news;

	m = curl_multi_perform(reg->multi, &running);
	if (m != CURLM_OK)
		return error_set(err, EIO, "%s", curl_multi_strerror(m));
	news = registry_http_collect(reg);
	if (registry_http_tell(reg, news, err) < 0)
		return -ECANCELED;
	if (news || wait_ms == 0)
		return 0;
	if (wait_ms > REGISTRY_WAKE_MS)
		wait_ms = REGISTRY_WAKE_MS;
	m = curl_multi_poll(reg->multi, NULL, 0, (int)wait_ms, NULL);
	return m == CURLM_OK ? 0 : error_set(err, EIO, "%s", curl_multi_strerror(m));
}

int http_wait_until(struct registry *reg, uint64_t when, struct warren_error *err)
{
	for (uint64_t now = clock_now(); now < when; now = clock_now()) {
		uint64_t ms = (when - now) / NS_PER_MS + 1;
		int code = http_pump(
			reg, ms > REGISTRY_WAKE_MS ? REGISTRY_WAKE_MS : (unsigned)ms,
			err);

		if (code < 0)
			return code;
	}
	return 0;
}

int http_run(struct http *h, struct warren_error *err)
{
	for (;;) {
		int code = http_begin(h, err);

		while (code == 0 && !h->finished)
			code = http_pump(h->reg, REGISTRY_WAKE_MS, err);
		if (code < 0)
			return code;
		switch (http_judge(h, err)) {
		case HTTP_OK:
			return 0;
		case HTTP_FAILED:
			return -err->code;
		case HTTP_LATER:
			code = http_wait_until(h->reg, h->not_before, err);
			if (code < 0)
				return code;
			break;
		case HTTP_AGAIN:
			break;
		}
	}
}
