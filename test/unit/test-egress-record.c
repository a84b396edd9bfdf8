/* SPDX-License-Identifier: Apache-2.0 */
/* test-egress-record.c - denials with the rules that would allow them, and the policy
 * that a sandbox needs */
#include "egress/record.h"

#include "lib/tap.h"

static char name_room[HOST_TEXT_SIZE];

static struct request ask(const char *host, uint16_t port, uint8_t protocol)
{
	struct request q = { .port = port, .protocol = protocol };
	struct warren_error err = WARREN_ERROR_INIT;

	EQ(host_parse_single(host, strlen(host), name_room, &q.host, &err), 0);
	return q;
}

static char *written(const struct record *r)
{
	struct buf out = BUF_INIT(1 << 20);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	record_write(r, &j);
	json_close(&j, '}');
	return out.data;
}

TEST(a_denial_has_a_reason_and_a_rule)
{
	struct record r = { 0 };
	struct request q = ask("pypi.org", 443, RULE_HTTPS);
	struct decision d = { .why = DECISION_NO_RULE };
	const char *text = record_denial(&r, &q, &d, NULL);

	OK(strstr(text, "\"host\":\"pypi.org\""));
	OK(strstr(text, "\"port\":443"));
	OK(strstr(text, "\"reason\":\"no rule allows pypi.org:443 (https)\""));
	OK(strstr(text, "\"rule\":{"));
	text = record_denial(&r, &q, &d, "it does not agree");
	OK(strstr(text, "\"reason\":\"it does not agree\""));
	OK(!strstr(text, "\"rule\""));
	record_done(&r);
}

TEST(only_the_last_denials_are_kept)
{
	struct record r = { 0 };
	struct request q = ask("a.example", 1, RULE_TCP);
	struct decision d = { .why = DECISION_NO_RULE };
	AUTO_FREE char *text = NULL;
	const char *at;
	unsigned n = 0;

	for (uint16_t port = 1; port <= 100; port++) {
		q.port = port;
		OK(record_denial(&r, &q, &d, NULL));
	}
	text = written(&r);
	for (at = text; (at = strstr(at, "\"reason\"")); at++)
		n++;
	EQ(n, RECORD_DENIALS);
	OK(!strstr(text, "\"port\":36,"));
	OK(strstr(text, "\"port\":37,"));
	OK(strstr(text, "\"port\":100,"));
	record_done(&r);
}

TEST(recorded_uses_become_the_smallest_policy)
{
	struct record r = { 0 };
	AUTO_FREE char *text = NULL;

	for (int i = 0; i < 3; i++) {
		struct request q = ask("b.example", 443, RULE_HTTPS);

		record_use(&r, &q);
		q = ask("a.example", 80, RULE_HTTP);
		record_use(&r, &q);
		q = ask("a.example", 8080, RULE_HTTP);
		record_use(&r, &q);
		q = ask("192.0.2.7", 22, RULE_TCP);
		record_use(&r, &q);
	}
	EQ(r.n_uses, 4);
	text = written(&r);
	OK(strstr(
		text,
		"{\"host\":\"a.example\",\"ports\":[80,8080],\"protocols\":[\"http\"]}"));
	OK(strstr(text,
		  "{\"host\":\"b.example\",\"ports\":[443],\"protocols\":[\"https\"]}"));
	OK(strstr(text,
		  "{\"host\":\"192.0.2.7\",\"ports\":[22],\"protocols\":[\"tcp\"]}"));
	OK(strstr(text, "\"used_complete\":true"));
	record_done(&r);
}

TEST(recorded_uses_are_bounded)
{
	struct record r = { 0 };
	AUTO_FREE char *text = NULL;

	for (unsigned i = 1; i <= RECORD_USES_MAX + 10; i++) {
		struct request q = ask("a.example", (uint16_t)i, RULE_TCP);

		record_use(&r, &q);
	}
	EQ(r.n_uses, RECORD_USES_MAX);
	text = written(&r);
	OK(strstr(text, "\"used_complete\":false"));
	record_done(&r);
}

TEST_MAIN()
