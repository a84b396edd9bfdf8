/* SPDX-License-Identifier: Apache-2.0 */
/* registry_retry.c - after an exchange: accept the answer, redirect, retry, or fail */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "image/registry_internal.h"

#define NS_PER_MS 1000000ULL

/* Temporary failures, and their messages. */
struct failure {
	CURLcode result;
	int code;
	bool passes;
	bool no_tls; /* can also mean that TLS is missing at the server, or here without a
			CA */
	const char *before, *after; /* text before and after the name of the peer */
};

static const struct failure failures[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, EHOSTUNREACH, true, false, "cannot find the host ",
	  "" },
	{ CURLE_COULDNT_RESOLVE_PROXY, EHOSTUNREACH, true, false,
	  "cannot find the proxy for ", "" },
	{ CURLE_COULDNT_CONNECT, ECONNREFUSED, true, true, "cannot connect to ", "" },
	{ CURLE_OPERATION_TIMEDOUT, ETIMEDOUT, true, true, "",
	  " is too slow, or does not answer" },
	{ CURLE_PARTIAL_FILE, EPIPE, true, false, "", " aborted its answer" },
	{ CURLE_GOT_NOTHING, EPIPE, true, true, "", " closed the connection" },
	{ CURLE_SEND_ERROR, EPIPE, true, true, "broken connection to ", "" },
	{ CURLE_RECV_ERROR, EPIPE, true, true, "broken connection to ", "" },
	{ CURLE_SSL_CONNECT_ERROR, EPROTO, false, true, "cannot use TLS with ", "" },
	{ CURLE_PEER_FAILED_VERIFICATION, EPROTO, false, false, "the certificate of ",
	  " is not trusted" },
	{ CURLE_SSL_CACERT_BADFILE, EPROTO, false, true, "no certificates to trust ",
	  " by" },
	{ CURLE_OUT_OF_MEMORY, ENOMEM, false, false, "cannot communicate with ", "" },
};

static const struct failure other_failure = { .code = EPROTO,
					      .before = "",
					      .after = " does not use the protocol" };

static const struct failure *failure_of(CURLcode result)
{
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
		if (failures[i].result == result)
			return &failures[i];
	return &other_failure;
}

/* Keep printable ASCII only, because text of a server must not control the terminal. */
static void add_plain(char *to, size_t size, const char *s)
{
	size_t n = strlen(to);

	for (; *s && n + 1 < size; s++)
		if (*s >= ' ' && *s <= '~')
			to[n++] = *s;
	to[n] = '\0';
}

void http_message(const struct http *h, char text[128])
{
	json_t *root = json_loadb(h->body.data ? h->body.data : "", h->body.len,
				  JSON_REJECT_DUPLICATES, NULL);
	const json_t *first = json_array_get(json_object_get(root, "errors"), 0);
	const char *message = json_string_value(json_object_get(first, "message"));
	const char *code = json_string_value(json_object_get(first, "code"));

	if (!message) /* this is the format of token servers */
		message = json_string_value(json_object_get(root, "details"));
	if (!message)
		message = json_string_value(json_object_get(root, "message"));
	text[0] = '\0';
	/*
	 * The text may come from any server: do not pass it to a client of the service.
	 */
	if (h->reg->public_only)
		message = code = NULL;
	add_plain(text, 128, message && *message ? message : (code ? code : ""));
	json_decref(root);
}

static uint64_t registry_retry_jitter(uint64_t n)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = (uint32_t)clock_now();
	return n / 2 + n * random / UINT32_MAX;
}

/* Start again from the beginning, because the target of a redirect may have expired. */
static void rewind_request(struct http *h)
{
	free(TAKE_PTR(h->location));
	h->redirects = 0;
	h->login_renewed = false;
}

enum http_verdict http_retry(struct http *h, struct warren_error *err)
{
	const struct registry *reg = h->reg;
	unsigned max = reg->answered ? REGISTRY_RETRIES_MAX : REGISTRY_FIRST_RETRIES_MAX;
	uint64_t pause = registry_retry_jitter((uint64_t)reg->backoff_ms << h->retries);
	curl_off_t asked = 0;

	if (h->retries >= max) {
		if (h->retries > 1) {
			char why[sizeof(err->msg)];

			(void)snprintf(why, sizeof(why), "%s", err->msg);
			(void)error_set(err, err->code, "%.400s (tried %u times)", why,
					h->retries + 1);
		}
		return HTTP_FAILED;
	}
	if (h->status > 0)
		(void)curl_easy_getinfo(h->easy, CURLINFO_RETRY_AFTER, &asked);
	if (asked > REGISTRY_RETRY_AFTER_MAX_MS / 1000)
		asked = REGISTRY_RETRY_AFTER_MAX_MS / 1000;
	if (asked > 0 && (uint64_t)asked * 1000 > pause)
		pause = (uint64_t)asked * 1000;
	h->retries++;
	h->not_before = clock_now() + pause * NS_PER_MS;
	rewind_request(h);
	return HTTP_LATER;
}

static bool registry_retry_begins_with(const char *s, const char *start)
{
	return strncmp(s, start, strlen(start)) == 0;
}

/*
 * Should the request be tried without TLS? This is so if TLS failed, and the registry may
 * be used without TLS and has not answered yet, or another request has already switched.
 */
static bool try_plain(const struct http *h, const struct failure *f)
{
	struct registry *reg = h->reg;

	if (!f->no_tls || !reg->plain_ok || (reg->answered && !reg->plain) ||
	    h->absolute || h->location || !h->tls)
		return false;
	reg->plain = true;
	return true;
}

static enum http_verdict judge_failure(struct http *h, const char *url,
				       struct warren_error *err)
{
	const struct failure *f = failure_of(h->result);
	char peer[300], what[400], why[160] = "";
	long os_error = 0;

	if (try_plain(h, f))
		return HTTP_AGAIN;
	/* Neither has worked, so the next try starts with TLS again. */
	if (!h->reg->answered && !h->absolute)
		h->reg->plain = false;

	http_peer(url, peer);
	(void)curl_easy_getinfo(h->easy, CURLINFO_OS_ERRNO, &os_error);
	(void)snprintf(what, sizeof(what), "%s%s%s", f->before, peer, f->after);
	/*
	 * In guarded mode, the error must not distinguish a closed port from a filtered
	 * one.
	 */
	if (h->result == CURLE_COULDNT_CONNECT && os_error > 0 && !h->reg->public_only &&
	    strerrordesc_np((int)os_error))
		(void)error_errno(err, (int)os_error, "%s", what);
	else {
		add_plain(why, sizeof(why),
			  h->why[0] ? h->why : curl_easy_strerror(h->result));
		(void)error_set(err, f->code, "%s: %s", what, why);
	}
	return f->passes ? http_retry(h, err) : HTTP_FAILED;
}

/*
 * TLS may be given up only if that is configured, even on loopback.
 */
bool http_may_go(const struct registry *reg, const char *from, const char *url)
{
	if (reg->public_only)
		return guard_url_ok(reg, url);
	return http_url_ok(url,
			   reg->insecure || registry_retry_begins_with(from, "http:"));
}

static enum http_verdict judge_redirect(struct http *h, const char *url,
					struct warren_error *err)
{
	/* Only these two repeat the same request with its body. */
	bool same = h->status == 307 || h->status == 308;
	char from[300], to[300];
	char *next = NULL;

	http_peer(url, from);
	(void)curl_easy_getinfo(h->easy, CURLINFO_REDIRECT_URL, &next);
	if (!next || h->form || (h->method && strcmp(h->method, "HEAD") != 0 && !same)) {
		(void)error_set(err, EPROTO,
				"%s answered %ld, a redirect without a target", from,
				h->status);
		return HTTP_FAILED;
	}
	if (h->redirects >= REGISTRY_REDIRECTS_MAX) {
		(void)error_set(err, ELOOP, "%s redirects more than %d times", from,
				REGISTRY_REDIRECTS_MAX);
		return HTTP_FAILED;
	}
	http_peer(next, to);
	if (!http_may_go(h->reg, url, next)) {
		(void)error_set(err, EPROTO,
				"%s redirects to %s without TLS, which is refused", from,
				to);
		return HTTP_FAILED;
	}
	next = strdup(next);
	if (!next) {
		(void)error_errno(err, ENOMEM, "follow a redirect");
		return HTTP_FAILED;
	}
	free(h->location);
	h->location = next;
	h->redirects++;
	return HTTP_AGAIN;
}

static enum http_verdict judge_status(struct http *h, const char *url,
				      struct warren_error *err)
{
	char peer[300], said[128], answer[160];

	http_peer(url, peer);
	http_message(h, said);
	(void)snprintf(answer, sizeof(answer), "%ld%s%s", h->status, said[0] ? " " : "",
		       said);
	if (h->status == 404) {
		(void)error_set(err, ENOENT, "the registry has no such %s (%s)", h->noun,
				answer);
	} else if (h->status == 403) {
		(void)error_set(err, EACCES, "%s refuses access (%s)", peer, answer);
	} else if (h->status == 429) {
		(void)error_set(err, EBUSY, "%s limits the rate of requests (%s)", peer,
				answer);
		return http_retry(h, err);
	} else if (h->status >= 500 || h->status == 408) {
		(void)error_set(err, EIO, "%s had an internal error (%s)", peer, answer);
		return http_retry(h, err);
	} else {
		(void)error_set(err, EPROTO, "%s refused %sthe %s (%s)", peer,
				h->send_type ? "" : "to send ", h->noun, answer);
	}
	return HTTP_FAILED;
}

enum http_verdict http_judge(struct http *h, struct warren_error *err)
{
	AUTO_FREE char *url = http_url(h);

	if (!url) {
		(void)error_errno(err, ENOMEM, "read an answer");
		return HTTP_FAILED;
	}
	if (h->too_big) {
		(void)error_set(err, EFBIG, "the %s is larger than %zu bytes", h->noun,
				h->body.max);
		return HTTP_FAILED;
	}
	if (h->result != CURLE_OK)
		return judge_failure(h, url, err);
	if (h->status == 401 && !h->absolute)
		return auth_answer(h, err) < 0 ? HTTP_FAILED : HTTP_AGAIN;
	h->login_renewed = false;
	if (h->status >= 200 && h->status < 300)
		return HTTP_OK;
	if (h->status >= 301 && h->status <= 308 && h->status != 304)
		return judge_redirect(h, url, err);
	return judge_status(h, url, err);
}
