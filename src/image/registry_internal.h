/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_internal.h - what the files of the registry client share
 *
 *	registry.c		the handle, manifests
 *	registry_fetch.c	blobs: several at once, hashed, resumed
 *	registry_http.c		one exchange: its URL, headers, body
 *	registry_retry.c	after an exchange: redirects, retries, messages
 *	registry_guard.c	where a client's pull may connect, and what errors say
 *	registry_auth.c		challenges and tokens
 *	registry_challenge.c	the header that requests a login
 *	registry_creds.c	the docker configuration
 *	registry_login.c	check, store and erase logins
 *	registry_helper.c	credential helpers
 *
 * All exchanges of a handle run in one curl multi handle, driven by http_pump() in
 * the caller's thread. An exchange that needs another one first (a token) runs that
 * to its end with http_run(), while the rest goes on.
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
		1, /* while it has not answered once: a wrong name fails soon */
	REGISTRY_RETRY_AFTER_MAX_MS = 60000,
	REGISTRY_ERROR_BODY_MAX = 64 << 10,
	REGISTRY_TOKEN_BODY_MAX = 256 << 10,
	REGISTRY_TOKEN_MAX = 64 << 10,
	REGISTRY_CHALLENGE_MAX = 8 << 10,
	REGISTRY_WAKE_MS = 100, /* how long a cancelled caller waits at most */
};

struct registry {
	struct ref ref;
	char text[REF_TEXT_MAX]; /* of the reference, for sentences */
	char host[sizeof(((struct ref *)NULL)->registry) + 16]; /* that serves it */
	char *docker_config;                                    /* NULL: the user's */
	char *ca_file;
	bool insecure; /* configured to be */
	bool plain_ok; /* that, or on loopback: may be spoken to without TLS */
	bool plain;    /* that is how it is spoken to; may change until it answered */
	bool answered;
	bool public_only; /* for a stranger: registry_guard.c */
	const char *const *trusted, *const *insecure_list;
	struct warren_error *hidden;
	unsigned parallel;
	unsigned backoff_ms;
	unsigned stall_s;

	int (*progress)(void *ctx, const struct registry_blob *blobs, size_t n);
	void *ctx;
	const struct registry_blob *blobs; /* being fetched */
	size_t n_blobs;
	uint64_t told; /* when progress was called last */
	bool cancelled;

	CURLM *multi;
	char *authorization; /* what is sent to the registry: "Basic ...", "Bearer ...",
				NULL */
	unsigned logins;     /* counts changes of authorization */
	struct creds creds;
	bool creds_read;
};

/* A request, with its redirects, logins and retries. */
struct http {
	struct registry *reg;
	CURL *easy;
	struct curl_slist *headers;

	/* What is asked. Set before the first http_begin(). */
	char *path;                /* at the registry: "/v2/..."; or */
	char *absolute;            /* the URL of a token server */
	const char *const *accept; /* headers, NULL-terminated; may be NULL */
	const char *noun;          /* "manifest", "layer": for sentences */
	char *login;               /* Authorization for a token server */
	char *form;                /* POST this */
	size_t body_max;
	uint64_t offset; /* ask for the bytes from here */
	int (*sink)(struct http *h, const char *data,
		    size_t n); /* 2xx bodies; NULL: to body */
	void *sink_ctx;

	/* On the way. */
	char *location; /* where the last redirect led */
	unsigned redirects;
	unsigned retries;
	unsigned logins; /* reg->logins when it was sent */
	bool login_sent;
	bool login_renewed;  /* by this request, and not accepted yet */
	uint64_t not_before; /* for a retry, on the monotonic clock */

	bool tls;         /* that is how it was sent */
	bool any_address; /* guarded, and yet to whatever address the name has */

	/* The answer. */
	bool running;
	bool finished;
	CURLcode result;
	long status;
	bool cut; /* the sink or we refused the rest of the body */
	bool too_big;
	char type[128];
	char range[128];      /* Content-Range */
	struct buf challenge; /* WWW-Authenticate, several joined by commas */
	struct buf body;
	char why[CURL_ERROR_SIZE];
};

enum http_verdict {
	HTTP_OK,     /* 2xx, and all of it */
	HTTP_AGAIN,  /* begin again, now */
	HTTP_LATER,  /* begin again after not_before */
	HTTP_FAILED, /* err says why */
};

/* registry.c: "sha256:..." of a sum. */
void digest_text(const unsigned char sum[32], char digest[REF_DIGEST_LEN + 1]);

/* registry_http.c */
int http_init(struct http *h, struct registry *reg, const char *noun,
	      struct warren_error *err);
void http_done(struct http *h);
int http_begin(struct http *h, struct warren_error *err);
/*
 * Let all exchanges of @reg go on for at most @wait_ms or until one has news; -ECANCELED.
 */
int http_pump(struct registry *reg, unsigned wait_ms, struct warren_error *err);
/* From the first http_begin() to a verdict that is final. */
int http_run(struct http *h, struct warren_error *err);
/* The URL of the exchange as it stands; to be freed. */
char *http_url(const struct http *h);
/* A part of a URL, to be freed; NULL: it has none. */
char *http_url_part(const char *url, CURLUPart part);
/* "host:port" of a URL as people know it, for sentences. */
void http_peer(const char *url, char peer[300]);
/* Do both URLs have the same scheme, host and port? */
bool http_same_origin(const char *a, const char *b);
/* Is it an URL that may be asked: https, or http where @plain_ok? */
bool http_url_ok(const char *url, bool plain_ok);

/* registry_retry.c */
enum http_verdict http_judge(struct http *h, struct warren_error *err);
/*
 * Another try, later, if there is one left; else @err, which says why there was a need
 * for it.
 */
enum http_verdict http_retry(struct http *h, struct warren_error *err);
/* What the registry says in an error body: short, printable; "" if nothing. */
void http_message(const struct http *h, char text[128]);

/* registry_guard.c */
/*
 * May the next exchange of @h go to @url? Then its handle is set up to go nowhere else.
 */
int guard_hop(struct http *h, const char *url, struct warren_error *err);
/*
 * Is it an URL that a guarded pull may ask: https, or of a host that is listed as
 * insecure?
 */
bool guard_url_ok(const struct registry *reg, const char *url);
/* The error as its reader may have it; returns its code. */
int guard_failed(struct registry *reg, struct warren_error *err);

/* registry_auth.c: after a 401. 0: begin again. */
int auth_answer(struct http *h, struct warren_error *err);

#endif /* IMAGE_REGISTRY_INTERNAL_H */
