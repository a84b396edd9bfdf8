/* SPDX-License-Identifier: Apache-2.0 */
/* test-warden-work.c - a compromised api asks a real warden about works */
#include "lib/warden-api.h"

static const struct warden_proto_work good = { .h = { .type = WIRE_WORK },
					       .verb = WIRE_WORK_SHOW,
					       .work = "none" };

static int ask_work(struct warden_proto_work m)
{
	return api_ask(&m, sizeof(m));
}

TEST(malformed_requests_about_works_are_refused)
{
	static const char *const names[] = { "",    "--ignored", "-x",   "../x", "a b",
					     "a/b", "a\nb",      "\xff", ".x",   "_x" };
	const struct warden_proto_work wrong[] = {
		{ .verb = WIRE_WORK_MAX, .work = "none" },
		{ .verb = WIRE_WORK_LIST, .limit = 0 },
		{ .verb = WIRE_WORK_LIST, .limit = WIRE_WORK_LIST_MAX + 1 },
		{ .verb = WIRE_WORK_LIST, .limit = 1, .work = "none" },
		{ .verb = WIRE_WORK_LIST, .limit = 1, .after = "--limit" },
		{ .verb = WIRE_WORK_SHOW, .work = "none", .flags = 1U << 3 },
		{ .verb = WIRE_WORK_SHOW, .work = "none", .input = 1 },
		{ .verb = WIRE_WORK_DIFF, .work = "none", .flags = WIRE_WORK_PATHS },
		{ .verb = WIRE_WORK_DIFF,
		  .work = "none",
		  .flags = WIRE_WORK_PATCH,
		  .input = 1 },
		{ .verb = WIRE_WORK_ACCEPT,
		  .work = "none",
		  .flags = WIRE_WORK_PATCH | WIRE_WORK_PATHS,
		  .input = 1 },
		{ .verb = WIRE_WORK_ACCEPT,
		  .work = "none",
		  .flags = WIRE_WORK_PATCH,
		  .input = WIRE_WORK_INPUT_MAX + 1 },
		{ .verb = WIRE_WORK_ACCEPT,
		  .work = "none",
		  .allow = 1U << WIRE_WORK_ALLOW_N },
		{ .verb = WIRE_WORK_ACCEPT,
		  .work = "none",
		  .conflicts = WIRE_WORK_CONFLICTS_N },
	};
	struct warden_proto_work m;

	warden_begin();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		m = good;
		(void)strcpy(m.work, names[i]);
		REFUSED(EPROTO, ask_work(m));
	}
	m = good;
	(void)memset(m.work, 'a', sizeof(m.work));
	REFUSED(EPROTO, ask_work(m));
	m = good;
	m.verb = WIRE_WORK_LIST;
	m.limit = 1;
	m.work[0] = '\0';
	(void)memset(m.after, 'c', sizeof(m.after));
	REFUSED(EPROTO, ask_work(m));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		m = wrong[i];
		m.h = good.h;
		REFUSED(EPROTO, ask_work(m));
	}
	GRANTED(ask_work(good)); /* the program itself says that there is no such work */
	OK(api.fd >= 0);
	(void)close(TAKE_FD(api.fd));
	warden_end();
}

TEST(the_number_of_programs_is_limited)
{
	struct warden_proto_work m = good;
	int held[WARDEN_WORKS_MAX + 4];
	size_t n = 0;

	/* The program ends when its output is no longer read. */
	write_script("warren-work", "#!/bin/sh\nwhile echo x; do sleep 0.05; done\n");
	(void)setenv("WARREN_LIBEXEC", sandbox_path("."), 1);
	warden_begin();
	while (n < WARDEN_WORKS_MAX + 4 && ask_work(m) == 0)
		held[n++] = TAKE_FD(api.fd);
	EQ(api.err.code, EAGAIN);
	EQ(n, WARDEN_READERS_MAX);
	m.verb = WIRE_WORK_ACCEPT;
	while (n < WARDEN_WORKS_MAX + 4 && ask_work(m) == 0)
		held[n++] = TAKE_FD(api.fd);
	EQ(n, WARDEN_WORKS_MAX);
	while (n > 0)
		(void)close(held[--n]);
	for (int tries = 0; ask_work(good) != 0; tries++) {
		OK(tries < SANDBOX_TRIES);
		sandbox_nap();
	}
	(void)close(TAKE_FD(api.fd)); /* programs that have ended free their places */
	warden_end();
}

TEST_MAIN()
