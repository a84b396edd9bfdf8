/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signature.c - URLs with a signature, which need no access token
 *
 * A signature covers the path, the operation, the user and the access token of the
 * sandbox. On a host that all sandboxes share, such a URL does not name the sandbox; then
 * it is the one whose token gives this signature. All tokens have to be tried, on another
 * thread. Since anyone can request that, each network has a budget of such tries, which a
 * search that finds its sandbox does not use up. So have all networks together, because
 * an attacker may have many.
 */
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "base/base64.h"
#include "base/parse.h"
#include "net/loop.h"

#define SIGNATURE_MAX 64
#define SIGNATURE_LEN 46 /* "v1_" and a hash in base64 without padding */

/* The work of a search, in tries of a token with a short path. */
#define SEARCH_COST     1000  /* of any search */
#define SEARCH_TRY_SIZE 512   /* bytes of the path for which a try counts once more */
#define SEARCH_BUDGET   40000 /* of a network that has used none */
#define SEARCH_REFILL   20    /* per millisecond */
#define SEARCH_TOTAL    8     /* budgets of one network that all have together */
#define SEARCH_WAITING  64    /* maximum number of searches that have not ended */

/* The parameters of the URL. */
struct signature {
	const char *operation;
	char path[E2B_PATH_MAX + 1], user[E2B_USER_MAX + 1];
	char given[E2B_SIGNATURE_MAX + 1], expires[E2B_NUMBER_MAX + 1];
};

static void signature_read(const struct call *c, struct signature *ret)
{
	ret->operation = strcmp(c->req->method, "POST") == 0 ? "write" : "read";
	(void)e2b_query(c, "path", ret->path, sizeof(ret->path));
	(void)e2b_query(c, "username", ret->user, sizeof(ret->user));
	(void)e2b_query(c, "signature", ret->given, sizeof(ret->given));
	(void)e2b_query(c, "signature_expiration", ret->expires, sizeof(ret->expires));
}

static void signature_make(const struct signature *s, const char *token,
			   char ret[SIGNATURE_MAX])
{
	char raw[5120];
	unsigned char hash[SHA256_DIGEST_LENGTH];
	int len = snprintf(raw, sizeof(raw), "%s:%s:%s:%s%s%s", s->path, s->operation,
			   s->user, token, s->expires[0] ? ":" : "", s->expires);
	size_t n = base64_size(sizeof(hash));

	(void)SHA256((const unsigned char *)raw, (size_t)len, hash);
	(void)memcpy(ret, "v1_", 3);
	base64_encode(hash, sizeof(hash), ret + 3);
	while (ret[3 + n - 1] == '=')
		n--;
	ret[3 + n] = '\0';
}

static bool signature_matches(const struct signature *s, const char *token)
{
	char wanted[SIGNATURE_MAX];

	signature_make(s, token, wanted);
	return strlen(wanted) == strlen(s->given) &&
	       CRYPTO_memcmp(wanted, s->given, strlen(wanted)) == 0;
}

bool e2b_may_use_file(struct call *c)
{
	const char *given = http_header(c->req, "X-Access-Token");
	char token[E2B_TOKEN_LEN + 1];
	struct warren_error why = WARREN_ERROR_INIT;
	struct signature s;
	uint64_t when = 0;

	e2b_token(call_e2b(c), c->route.sandbox, "envd", token);
	if (given) {
		if (strlen(given) == E2B_TOKEN_LEN &&
		    CRYPTO_memcmp(given, token, E2B_TOKEN_LEN) == 0)
			return true;
		e2b_refuse(c, 401, "access token present in header but does not match");
		return false;
	}
	signature_read(c, &s);
	if (!s.given[0])
		e2b_refuse(c, 401, "missing signature query parameter");
	else if (!signature_matches(&s, token))
		e2b_refuse(c, 401, "invalid signature");
	else if (s.expires[0] &&
		 (parse_u64(s.expires, INT64_MAX / 1000, &when, &why) < 0 ||
		  (int64_t)when * 1000 < service_wall(service_time())))
		e2b_refuse(c, 401, "signature is already expired");
	else
		return true;
	return false;
}

/* ------------------------------------------------------------------------- search */

struct search {
	struct call *call;
	struct e2b *e2b;
	struct e2b_search_budget *budget;
	int64_t cost;
	struct signature signature;
	void (*found)(struct call *c, const char *id);
	char (*ids)[ID_LEN + 1];
	size_t n, room;
	char key[sizeof(((struct e2b *)NULL)->key)];
	const char *match; /* NULL: none */
};

/*
 * An address of IPv6 is the choice of its owner, who has at least a network of 64 bits.
 * Some networks share a budget; which ones, no client can find out.
 */
static struct e2b_search_budget *search_budget(struct e2b *e,
					       const struct http_peer *peer)
{
	const struct in6_addr *a = &peer->address;
	unsigned char raw[sizeof(e->key) + sizeof(a->s6_addr)];
	unsigned char hash[SHA256_DIGEST_LENGTH];
	size_t n = IN6_IS_ADDR_V4MAPPED(a) ? sizeof(a->s6_addr) : 8;

	(void)memcpy(raw, e->key, sizeof(e->key));
	(void)memcpy(raw + sizeof(e->key), a->s6_addr, n);
	(void)SHA256(raw, sizeof(e->key) + n, hash);
	OPENSSL_cleanse(raw, sizeof(raw));
	return &e->search_budgets[hash[0] % E2B_BUCKETS];
}

/* Whether a search may begin now; @share: how many budgets of a network @b is. */
static bool search_is_allowed(struct e2b_search_budget *b, int64_t share)
{
	int64_t now = service_time(), max = SEARCH_BUDGET * share;

	if (now > b->at)
		b->used -= now - b->at > max ? b->used
					     : (now - b->at) * SEARCH_REFILL * share;
	if (b->used < 0)
		b->used = 0;
	b->at = now;
	return b->used < max;
}

static int64_t search_cost(const struct search *s)
{
	size_t size = strlen(s->signature.path) + strlen(s->signature.user);

	return SEARCH_COST + (int64_t)(s->n * (1 + size / SEARCH_TRY_SIZE));
}

/* A search that cannot succeed is not begun. */
static bool search_is_pointless(const struct signature *s)
{
	return strlen(s->given) != SIGNATURE_LEN || strncmp(s->given, "v1_", 3) != 0;
}

static void search_add(void *ctx, struct sandbox *sandbox)
{
	struct search *s = ctx;

	if (!e2b_label(sandbox, E2B_LABEL_TEMPLATE))
		return;
	if (s->n == s->room) {
		size_t room = s->room ? s->room * 2 : 256;
		void *ids = reallocarray(s->ids, room, sizeof(*s->ids));

		if (!ids)
			return;
		s->ids = ids;
		s->room = room;
	}
	(void)memcpy(s->ids[s->n++], sandbox_row(sandbox)->id, sizeof(*s->ids));
}

static void search_work(void *ctx)
{
	struct search *s = ctx;
	char token[E2B_TOKEN_LEN + 1];

	for (size_t i = 0; i < s->n && !s->match; i++) {
		e2b_derive(s->key, s->ids[i], "envd", token);
		if (signature_matches(&s->signature, token))
			s->match = s->ids[i];
	}
}

static void search_done(void *ctx)
{
	struct search *s = ctx;
	struct call *c = s->call;

	s->e2b->searches--;
	if (s->match) {
		s->budget->used -= s->cost;
		s->e2b->search_total.used -= s->cost;
	}
	if (c->req && s->match)
		s->found(c, s->match);
	else if (c->req)
		e2b_refuse(c, 401, "invalid signature");
	call_unref(c);
	OPENSSL_cleanse(s->key, sizeof(s->key));
	free(s->ids);
	free(s);
}

void e2b_find_signed(struct call *c, void (*found)(struct call *c, const char *id))
{
	struct service *service = c->v1->service;
	struct search *s = calloc(1, sizeof(*s));

	if (!s) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	s->e2b = call_e2b(c);
	s->found = found;
	(void)memcpy(s->key, s->e2b->key, sizeof(s->key));
	signature_read(c, &s->signature);
	if (!s->signature.given[0]) {
		free(s);
		e2b_refuse(c, 401, "missing signature query parameter");
		return;
	}
	if (search_is_pointless(&s->signature)) {
		free(s);
		e2b_refuse(c, 401, "invalid signature");
		return;
	}
	s->budget = search_budget(s->e2b, c->req->peer);
	if (s->e2b->searches >= SEARCH_WAITING || !search_is_allowed(s->budget, 1) ||
	    !search_is_allowed(&s->e2b->search_total, SEARCH_TOTAL)) {
		free(s);
		e2b_refuse(
			c, 429,
			"too many signatures are being searched for, or were invalid: try again later, or "
			"name the sandbox in the header E2b-Sandbox-Id");
		return;
	}
	s->call = call_ref(c);
	service_each(service, search_add, s);
	s->cost = search_cost(s);
	s->budget->used += s->cost;
	s->e2b->search_total.used += s->cost;
	s->e2b->searches++;
	/* All clients without a token take turns with each other, not with tenants. */
	if (loop_work(service_loop(service), "", search_work, search_done, s) < 0) {
		s->e2b->searches--;
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		call_unref(c);
		free(s->ids);
		free(s);
	}
}
