/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-egress-proto.c - messages of warren-egress: complete ones are accepted, all others
 * are refused
 */
#include <errno.h>
#include <sys/mman.h>

#include "proto/egress_proto.h"

#include "lib/tap.h"

#define SANDBOX "0123456789bc"

TEST(requests_have_their_size_and_descriptors)
{
	struct egress_add add;
	struct egress_request q;
	struct egress_usage usage = { .bytes_in = 7 };

	egress_proto_add(&add, 5, SANDBOX, &usage);
	EQ(add.usage.bytes_in, 7);
	EQ(egress_proto_check_request(&add, sizeof(add), 3), 0);
	EQ(egress_proto_check_request(&add, sizeof(add), 2), -EPROTO);
	EQ(egress_proto_check_request(&add, sizeof(add) - 1, 3), -EPROTO);
	egress_proto_request(&q, EGRESS_CHANGE, 6, SANDBOX);
	EQ(egress_proto_check_request(&q, sizeof(q), 1), 0);
	EQ(egress_proto_check_request(&q, sizeof(q), 0), -EPROTO);
	EQ(egress_proto_check_request(&q, sizeof(q.h), 1), -EPROTO);
	egress_proto_request(&q, EGRESS_QUERY, 6, SANDBOX);
	EQ(egress_proto_check_request(&q, sizeof(q), 0), 0);
	q.h.version++;
	EQ(egress_proto_check_request(&q, sizeof(q), 0), -EPROTO);
	egress_proto_request(&q, EGRESS_QUERY, 6, "../../etc");
	EQ(egress_proto_check_request(&q, sizeof(q), 0), -EPROTO);
	egress_proto_request(&q, EGRESS_REPLY, 6, SANDBOX);
	EQ(egress_proto_check_request(&q, sizeof(q), 0), -EPROTO);
}

TEST(a_ping_has_no_sandbox)
{
	struct egress_header ping = { .version = EGRESS_VERSION, .type = EGRESS_PING };

	EQ(egress_proto_check_request(&ping, sizeof(ping), 0), 0);
	EQ(egress_proto_check_request(&ping, sizeof(ping), 1), -EPROTO);
	EQ(egress_proto_check_request(&ping, sizeof(ping) - 1, 0), -EPROTO);
	ping.type = EGRESS_COUNT;
	EQ(egress_proto_check_request(&ping, sizeof(ping), 0), -EPROTO);
}

TEST(a_reply_has_its_data_inline_or_in_a_descriptor)
{
	union {
		struct egress_reply r;
		char room[sizeof(struct egress_reply) + 8];
	} m = { .r = { .h = { .version = EGRESS_VERSION, .type = EGRESS_REPLY },
		       .size = 4 } };

	EQ(egress_proto_check_event(&m, sizeof(m.r) + 4, 0), 0);
	EQ(egress_proto_check_event(&m, sizeof(m.r) + 5, 0), -EPROTO);
	EQ(egress_proto_check_event(&m, sizeof(m.r) + 4, 1), -EPROTO);
	m.r.size = EGRESS_INLINE_MAX + 1;
	EQ(egress_proto_check_event(&m, sizeof(m.r), 1), 0);
	EQ(egress_proto_check_event(&m, sizeof(m.r), 0), -EPROTO);
	m.r.size = EGRESS_ANSWER_MAX + 1;
	EQ(egress_proto_check_event(&m, sizeof(m.r), 1), -EPROTO);
}

TEST(a_denial_ends_with_a_nul)
{
	union {
		struct egress_denied d;
		char room[sizeof(struct egress_denied) + 3];
	} m = { .d = { .h = { .version = EGRESS_VERSION, .type = EGRESS_DENIED },
		       .id = SANDBOX,
		       .size = 3 } };
	char *text = m.room + sizeof(m.d);

	(void)memcpy(text, "{}", 3);
	EQ(egress_proto_check_event(&m, sizeof(m.d) + 3, 0), 0);
	text[2] = 'x';
	EQ(egress_proto_check_event(&m, sizeof(m.d) + 3, 0), -EPROTO);
	(void)memcpy(text, "{\0", 3);
	EQ(egress_proto_check_event(&m, sizeof(m.d) + 3, 0), -EPROTO);
}

TEST(a_usage_report_has_as_many_rows_as_it_says)
{
	union {
		struct egress_usage_report u;
		char room[sizeof(struct egress_usage_report) +
			  2 * sizeof(struct egress_usage_row)];
	} m = { .u = { .h = { .version = EGRESS_VERSION, .type = EGRESS_USAGE },
		       .n = 2 } };

	(void)strcpy(m.u.rows[0].id, SANDBOX);
	(void)strcpy(m.u.rows[1].id, SANDBOX);
	EQ(egress_proto_check_event(&m, sizeof(m), 0), 0);
	m.u.n = 1;
	EQ(egress_proto_check_event(&m, sizeof(m), 0), -EPROTO);
	m.u.n = 2;
	m.u.rows[1].id[0] = '/';
	EQ(egress_proto_check_event(&m, sizeof(m), 0), -EPROTO);
}

TEST(a_policy_travels_in_a_sealed_memfd)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *text = NULL;
	AUTO_CLOSE int fd = egress_proto_memfd("{}", 2, &err);
	AUTO_CLOSE int open = memfd_create("open", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	size_t n = 0;

	OK(fd >= 0);
	EQ(egress_proto_read_memfd(fd, 2, &text, &n, &err), 0);
	EQ(n, 2);
	STREQ(text, "{}");
	EQ(write(fd, "x", 1), -1);
	EQ(egress_proto_read_memfd(fd, 1, &text, &n, &err), -EFBIG);
	EQ(egress_proto_read_memfd(open, 100, &text, &n, &err), -EPROTO);
	EQ(egress_proto_read_memfd(STDIN_FILENO, 100, &text, &n, &err), -EPROTO);
}

TEST_MAIN()
