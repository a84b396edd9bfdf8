/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-network-policy.c - any text is refused with a reason, or it is a policy that can
 * be written and read again and is within itself; any host has one form
 *
 * The input is two policies in JSON and a host, with a NUL after each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "network/decide.h"
#include "network/header.h"
#include "network/policy_json.h"
#include "network/within.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool fuzz_read(const char *text, size_t n, struct policy *p)
{
	struct warren_error err = WARREN_ERROR_INIT;
	json_t *in = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	int r = in ? policy_read(in, "", p, &err) : -1;

	if (in && r < 0 && (err.code != -r || !err.msg[0]))
		abort();
	json_decref(in);
	return r == 0;
}

static void fuzz_write(const struct policy *p, struct buf *out)
{
	struct json j = { .out = out };

	policy_write(p, &j, NULL);
	if (out->failed)
		abort();
}

/* Check that a policy which is written is read as the same policy. */
static void fuzz_round(const struct policy *p)
{
	AUTO_BUF struct buf once = BUF_INIT(64U << 20), twice = BUF_INIT(64U << 20);
	AUTO_POLICY struct policy again = { 0 };

	fuzz_write(p, &once);
	if (!fuzz_read(once.data, once.len, &again))
		abort();
	fuzz_write(&again, &twice);
	if (strcmp(once.data, twice.data) != 0)
		abort();
}

static bool fuzz_allows(const struct policy *p, const struct host *h)
{
	AUTO_POLICY_INDEX struct policy_index *x = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	struct request q = { .host = *h,
			     .port = 443,
			     .protocol = RULE_HTTPS,
			     .method = "GET",
			     .path = "/" };
	struct decision d;

	if (policy_index_new(p, &x, &err) < 0)
		abort();
	policy_decide(x, &q, &d);
	return d.allowed;
}

static bool fuzz_has_headers(const struct policy *p)
{
	for (size_t i = 0; i < p->allow.n; i++)
		if (p->allow.list[i].n_headers > 0)
			return true;
	return false;
}

/* Return a value for every secret; some values cannot be sent. */
static int fuzz_look_up(void *ctx, const char *name, char *value,
			struct warren_error *err)
{
	(void)ctx;
	(void)err;
	(void)strcpy(value, name);
	return 0;
}

static void fuzz_headers(struct policy *p)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (policy_resolve_secrets(p, fuzz_look_up, NULL, &err) < 0) {
		if (err.code != E2BIG)
			abort();
		return;
	}
	for (size_t i = 0; i < p->allow.n; i++)
		for (size_t k = 0; k < p->allow.list[i].n_headers; k++) {
			AUTO_BUF struct buf out = BUF_INIT(1U << 20);

			if (rule_expand_header(p, &p->allow.list[i].headers[k], &out) <
				    0 ||
			    (out.data && strpbrk(out.data, "\r\n")))
				abort();
		}
}

static void fuzz_two(const struct policy *a, const struct policy *b, const struct host *h)
{
	AUTO_POLICY struct policy both = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	bool in_a = fuzz_allows(a, h), in_b = fuzz_allows(b, h), in_both;

	if (policy_within(a, a, &err) != 1)
		abort();
	if (policy_within(a, b, &err) == 1 && in_b && !in_a)
		abort();
	if (policy_intersect(a, b, &both, &err) < 0)
		return;
	in_both = fuzz_allows(&both, h);
	if (in_both && !(in_a && in_b))
		abort();
	/* If headers differ, the intersection allows less than both policies. */
	if (!fuzz_has_headers(a) && !fuzz_has_headers(b) &&
	    (in_both != (in_a && in_b) || policy_within(b, &both, &err) != 1))
		abort();
	fuzz_round(&both);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_POLICY struct policy a = { 0 }, b = { 0 };
	const char *text = (const char *)data, *end = text + size;
	const char *first = memchr(text, '\0', size);
	const char *second =
		first ? memchr(first + 1, '\0', (size_t)(end - first - 1)) : NULL;
	char name[HOST_TEXT_SIZE], shown[HOST_TEXT_SIZE], again[HOST_TEXT_SIZE];
	struct warren_error err = WARREN_ERROR_INIT;
	struct host h, same;
	uint16_t port;

	if (!second || size > 4096)
		return 0;
	text = second + 1;
	if (host_parse_port(text, (size_t)(end - text), name, &h, &port, &err) < 0 &&
	    !err.msg[0])
		abort();
	if (host_parse_single(text, (size_t)(end - text), name, &h, &err) < 0)
		return err.code && err.msg[0] ? 0 : (abort(), 0);
	host_text(&h, shown);
	if (host_parse(shown, strlen(shown), again, &same, &err) < 0 ||
	    host_compare(&h, &same) != 0)
		abort();
	text = (const char *)data;
	if (!fuzz_read(text, (size_t)(first - text), &a) ||
	    !fuzz_read(first + 1, (size_t)(second - first - 1), &b))
		return 0;
	fuzz_round(&a);
	fuzz_headers(&a);
	fuzz_two(&a, &b, &h);
	return 0;
}
