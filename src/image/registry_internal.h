/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_internal.h - types and functions that the files of the registry client share
 *
 *	registry.c		the handle, manifests
 *	registry_fetch.c	blobs: several at once, hashed, resumed
 *	registry_push.c		upload blobs and manifests
 *	registry_http.c		one exchange: its URL, headers, body
 *	registry_retry.c	after an exchange: redirects, retries, messages
 *	registry_guard.c	restricts addresses and error texts of a client's pull
 *	registry_auth.c		challenges and tokens
 *	registry_challenge.c	parses the header that requests a login
 *	registry_creds.c	the docker configuration
 *	registry_login.c	check, store and erase logins
 *	registry_helper.c	credential helpers
 *
 * All exchanges of a handle run in one curl multi handle, driven by http_pump() in the
 * caller's thread. An exchange that needs another one first (a token) runs that one to
 * its end with http_run(), while the others continue.
 */
#ifndef IMAGE_REGISTRY_INTERNAL_H
#define IMAGE_REGISTRY_INTERNAL_H

#include <curl/curl.h>
#include <stdint.h>

#include "image/registry.h"
#include "image/registry_auth.h"

enum registry_limits {
	REGISTRY_REDIRECTS_MAX = 5,
	REGISTRY_RETRIES_MAX = 5,
	REGISTRY_FIRST_RETRIES_MAX =
		/*
		 * Retries before the first response of the registry, so that a wrong name
		 * fails soon.
		 */
		1,
	REGISTRY_RETRY_AFTER_MAX_MS = 60000,
	REGISTRY_ERROR_BODY_MAX = 64 << 10,
	REGISTRY_TOKEN_BODY_MAX = 256 << 10,
	REGISTRY_TOKEN_MAX = 64 << 10,
	REGISTRY_CHALLENGE_MAX = 8 << 10,
	REGISTRY_WAKE_MS = 100, /* maximum delay of a cancellation */
};

struct registry {
	struct ref ref;
	char text[REF_TEXT_MAX]; /* the reference, for messages */
	char host[sizeof(((struct ref *)NULL)->registry) +
		  16];       /* the host that serves the registry */
	char *docker_config; /* NULL: the user's file */
	char *ca_file;
	bool insecure; /* the configuration lists the registry as insecure */
	bool plain_ok; /* insecure or on loopback: TLS is optional */
	bool plain;    /* TLS is not used; may change until the first response */
	bool answered;
	bool public_only; /* for an untrusted client: registry_guard.c */
	const char *advice;
	const char *const *trusted, *const *insecure_list;
	struct warren_error *hidden;
	unsigned parallel;
	unsigned backoff_ms;
	unsigned stall_s;

	int (*progress)(void *ctx, const struct registry_blob *blobs, size_t n);
	void *ctx;
	const struct registry_blob *blobs; /* the blobs being fetched */
	size_t n_blobs;
	uint64_t told; /* time of the last progress call */
	bool cancelled;

	CURLM *multi;
	char *authorization; /* header for the registry: "Basic ..." or "Bearer ..." */
	unsigned logins;     /* counts changes of authorization */
	struct creds creds;
	bool creds_read;
};

/* A request, with its redirects, logins and retries. */
struct http {
	struct registry *reg;
	CURL *easy;
	struct curl_slist *headers;

	/* The request. Set before the first http_begin(). */
	char *path;                /* path at the registry: "/v2/..."; or */
	char *absolute;            /* the URL of a token server */
	const char *const *accept; /* headers, NULL-terminated; may be NULL */
	const char *noun;          /* "manifest", "layer": for messages */
	char *login;               /* Authorization for a token server */
	char *form;                /* body of a POST */
	const char *method;        /* "HEAD", "POST" or "PUT"; NULL: GET, or POST @form */
	/* The body of a PUT, and its media type: a text, or the file of a blob. */
	const char *send_type, *send_text;
	struct registry_blob *send_blob; /* `done` is the number of bytes sent */
	uint64_t sent;
	size_t body_max;
	uint64_t offset; /* request the bytes from this offset on */
	int (*sink)(struct http *h, const char *data,
		    size_t n); /* gets 2xx bodies; NULL: `body` does */
	void *sink_ctx;

	/* Progress. */
	char *location; /* target of the last redirect */
	unsigned redirects;
	unsigned retries;
	unsigned logins; /* value of reg->logins when the request was sent */
	bool login_sent;
	/* This request renewed the login, which is not accepted yet. */
	bool login_renewed;
	uint64_t not_before; /* time of a retry, on the monotonic clock */

	bool tls; /* the request was sent with TLS */
	/* Guarded, but any address is allowed: a listed host or a proxy. */
	bool any_address;

	/* The response. */
	bool running;
	bool finished;
	CURLcode result;
	long status;
	bool cut; /* the rest of the body was not accepted */
	bool too_big;
	char type[128];
	char range[128];                 /* Content-Range */
	char where[4096];                /* Location */
	char digest[REF_DIGEST_LEN + 8]; /* Docker-Content-Digest */
	struct buf challenge;            /* WWW-Authenticate, several joined by commas */
	struct buf body;
	char why[CURL_ERROR_SIZE];
};

enum http_verdict {
	HTTP_OK,     /* complete 2xx response */
	HTTP_AGAIN,  /* repeat now */
	HTTP_LATER,  /* repeat after not_before */
	HTTP_FAILED, /* err says why */
};

/* registry.c: write the checksum @sum as "sha256:...". */
void digest_text(const unsigned char sum[32], char digest[REF_DIGEST_LEN + 1]);

/* registry_http.c */
int http_init(struct http *h, struct registry *reg, const char *noun,
	      struct warren_error *err);
void http_done(struct http *h);
int http_begin(struct http *h, struct warren_error *err);
/*
 * Process all exchanges of @reg for at most @wait_ms, or until one changes. -ECANCELED:
 * the caller cancelled the pull.
 */
int http_pump(struct registry *reg, unsigned wait_ms, struct warren_error *err);
/* Run an exchange from its first http_begin() until it has succeeded or failed. */
int http_run(struct http *h, struct warren_error *err);
/* Wait until @when on the monotonic clock, while other exchanges continue. */
int http_wait_until(struct registry *reg, uint64_t when, struct warren_error *err);
/* Whether @reg may be sent to another server at @url, as the server at @from wants. */
bool http_may_go(const struct registry *reg, const char *from, const char *url);
/* The current URL of the exchange; the caller frees it. */
char *http_url(const struct http *h);
/* Get a part of a URL, which the caller frees; NULL: the URL has no such part. */
char *http_url_part(const char *url, CURLUPart part);
/* "host:port" of a URL, for messages. */
void http_peer(const char *url, char peer[300]);
/* Return whether both URLs have the same scheme, host and port. */
bool http_same_origin(const char *a, const char *b);
/* Return whether @url is allowed: https, or http if @plain_ok. */
bool http_url_ok(const char *url, bool plain_ok);

/* registry_retry.c */
enum http_verdict http_judge(struct http *h, struct warren_error *err);
/*
 * Schedule a retry if one is left; otherwise fail with @err, which says why a retry was
 * needed.
 */
enum http_verdict http_retry(struct http *h, struct warren_error *err);
/*
 * Get the registry's message from an error body: short and printable; "" if there is
 * none.
 */
void http_message(const struct http *h, char text[128]);

/* registry_guard.c */
/*
 * Check that the next exchange of @h may go to @url, and restrict its handle to that
 * address.
 */
int guard_hop(struct http *h, const char *url, struct warren_error *err);
/* Return whether a guarded pull may use @url: https, or a host that is listed as
 * insecure. */
bool guard_url_ok(const struct registry *reg, const char *url);
/* Remove details from @err that the client must not see; return its code. */
int guard_failed(struct registry *reg, struct warren_error *err);

/* registry_auth.c: handle a 401. 0: repeat the exchange. */
int auth_answer(struct http *h, struct warren_error *err);

#endif /* IMAGE_REGISTRY_INTERNAL_H */
