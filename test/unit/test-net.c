/* SPDX-License-Identifier: Apache-2.0 */
/* test-net.c - the loop, and the pure functions of the HTTP server */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "base/percent.h"
#include "lib/tap.h"
#include "net/http.h"
#include "net/http_body.h"
#include "net/http_head.h"
#include "net/loop.h"

static char order[16];
static struct net_loop *loop;

static void note(void *ctx)
{
	size_t n = strlen(order);

	order[n] = *(const char *)ctx;
	order[n + 1] = '\0';
}

static void note_and_stop(void *ctx)
{
	note(ctx);
	loop_stop(loop);
}

TEST(tasks_run_in_order_and_can_be_cancelled)
{
	struct loop_task a = { .fn = note, .ctx = (void *)(uintptr_t) "a" };
	struct loop_task b = { .fn = note, .ctx = (void *)(uintptr_t) "b" };
	struct loop_task c = { .fn = note, .ctx = (void *)(uintptr_t) "c" };
	struct warren_error err;

	EQ(loop_new(&loop, &err), 0);
	loop_defer(loop, &a);
	loop_defer(loop, &b);
	loop_defer(loop, &c);
	loop_defer(loop, &a);
	loop_task_cancel(&b);
	loop_task_cancel(&b);
	loop_run(loop);
	STREQ(order, "ac");
	loop = loop_free(loop);
}

static struct loop_task again;
static int runs;

static void defer_again(void *ctx)
{
	(void)ctx;
	if (++runs < 1000)
		loop_defer(loop, &again);
}

TEST(tasks_that_add_tasks_do_not_starve_timers)
{
	struct loop_timer *t = NULL;
	struct warren_error err;

	again.fn = defer_again;
	EQ(loop_new(&loop, &err), 0);
	EQ(loop_timer_new(loop, note_and_stop, (void *)(uintptr_t) "t", &t), 0);
	loop_timer_set(t, 200);
	loop_defer(loop, &again);
	loop_run(loop);
	STREQ(order, "t");
	EQ(runs, 1000);
	t = loop_timer_free(t);
	loop = loop_free(loop);
}

TEST(timers_are_reset_and_stopped)
{
	struct loop_timer *a = NULL, *b = NULL, *c = NULL;
	struct warren_error err;

	EQ(loop_new(&loop, &err), 0);
	EQ(loop_timer_new(loop, note, (void *)(uintptr_t) "a", &a), 0);
	EQ(loop_timer_new(loop, note, (void *)(uintptr_t) "b", &b), 0);
	EQ(loop_timer_new(loop, note_and_stop, (void *)(uintptr_t) "c", &c), 0);
	loop_timer_set(a, 1);
	loop_timer_set(a, 30);
	loop_timer_set(b, 1);
	loop_timer_stop(b);
	loop_timer_set(c, 60);
	loop_run(loop);
	STREQ(order, "ac");
	a = loop_timer_free(a);
	b = loop_timer_free(b);
	c = loop_timer_free(c);
	loop = loop_free(loop);
}

static struct loop_watch *watched;
static int event_fd;

static void on_event(void *ctx, unsigned events)
{
	uint64_t n = 0;

	(void)ctx;
	EQ(events, LOOP_READ);
	EQ(read(event_fd, &n, sizeof(n)), sizeof(n));
	note((void *)(uintptr_t) "e");
	watched = loop_watch_free(watched);
}

static void on_child(void *ctx, unsigned events)
{
	(void)ctx;
	EQ(events, LOOP_READ);
	note_and_stop((void *)(uintptr_t) "p");
}

TEST(eventfds_and_pidfds_are_watched)
{
	struct loop_watch *child = NULL;
	struct warren_error err;
	uint64_t one = 1;
	pid_t pid = fork();
	int pidfd;

	if (pid == 0)
		(void)pause();
	event_fd = eventfd(0, EFD_CLOEXEC);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	OK(event_fd >= 0 && pidfd >= 0);
	EQ(loop_new(&loop, &err), 0);
	EQ(loop_watch(loop, event_fd, LOOP_READ, on_event, NULL, &watched), 0);
	EQ(loop_watch(loop, pidfd, LOOP_READ, on_child, NULL, &child), 0);
	EQ(write(event_fd, &one, sizeof(one)), sizeof(one));
	EQ(kill(pid, SIGKILL), 0);
	loop_run(loop);
	OK(strchr(order, 'e') && strchr(order, 'p'));
	child = loop_watch_free(child);
	loop = loop_free(loop);
	EQ(waitpid(pid, NULL, 0), pid);
}

TEST(watching_an_invalid_descriptor_fails)
{
	struct loop_watch *w = NULL;
	struct warren_error err;

	EQ(loop_new(&loop, &err), 0);
	EQ(loop_watch(loop, 1000, LOOP_READ, on_event, NULL, &w), -EBADF);
	OK(!w);
	loop = loop_free(loop);
}

TEST(percent_encoding_is_decoded)
{
	char out[8];

	EQ(percent_decode("a%41%2f", 7, false, out, sizeof(out)), 3);
	STREQ(out, "aA/");
	EQ(percent_decode("a+b", 3, true, out, sizeof(out)), 3);
	STREQ(out, "a b");
	EQ(percent_decode("a+b", 3, false, out, sizeof(out)), 3);
	STREQ(out, "a+b");
	EQ(percent_decode("%00", 3, false, out, sizeof(out)), -EINVAL);
	EQ(percent_decode("%4", 2, false, out, sizeof(out)), -EINVAL);
	EQ(percent_decode("%", 1, false, out, sizeof(out)), -EINVAL);
	EQ(percent_decode("%g0", 3, false, out, sizeof(out)), -EINVAL);
	EQ(percent_decode("1234567", 7, false, out, sizeof(out)), 7);
	EQ(percent_decode("12345678", 8, false, out, sizeof(out)), -ENOSPC);
	EQ(percent_decode("", 0, false, out, 0), -ENOSPC);
}

TEST(query_strings_are_parsed)
{
	const char *at = "&&a=b&c&d=%20x+y&=z";
	char name[8], value[8];

	EQ(http_query_next(&at, name, sizeof(name), value, sizeof(value)), 1);
	STREQ(name, "a");
	STREQ(value, "b");
	EQ(http_query_next(&at, name, sizeof(name), value, sizeof(value)), 1);
	STREQ(name, "c");
	STREQ(value, "");
	EQ(http_query_next(&at, name, sizeof(name), value, sizeof(value)), 1);
	STREQ(value, " x y");
	EQ(http_query_next(&at, name, sizeof(name), value, sizeof(value)), 1);
	STREQ(name, "");
	EQ(http_query_next(&at, name, sizeof(name), value, sizeof(value)), 0);
	at = "a=%zz";
	EQ(http_query_next(&at, name, sizeof(name), value, sizeof(value)), -EINVAL);
	at = NULL;
	EQ(http_query_next(&at, name, sizeof(name), value, sizeof(value)), 0);
}

TEST(header_lists_and_tokens_are_parsed)
{
	OK(http_list_has("keep-alive, Upgrade", "upgrade"));
	OK(http_list_has(",, a ,b", "A"));
	OK(!http_list_has("keep-alive", "keep"));
	OK(!http_list_has("", "a"));
	OK(http_is_token("X-Name") && !http_is_token("") && !http_is_token("a b"));
	OK(http_is_value("a b\tc") && http_is_value("") && !http_is_value("a\r\nb"));
}

TEST(a_request_head_is_found_in_any_pieces)
{
	static const char head[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody";

	for (size_t cut = 0; cut < sizeof(head) - 1; cut++) {
		size_t scanned = 0;

		if (cut < 27)
			EQ(http_head_find(head, cut, &scanned), 0);
		EQ(http_head_find(head, sizeof(head) - 1, &scanned), 27);
	}
}

TEST(a_chunked_body_is_decoded_in_any_pieces)
{
	static const char body[] =
		"3;a=b\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: u\r\n\r\nnext";

	for (size_t step = 1; step < sizeof(body); step++) {
		struct http_body b;
		char got[32] = "";
		size_t at = 0;

		http_body_init(&b, HTTP_BODY_CHUNKED, 0);
		while (!b.done) {
			size_t left = sizeof(body) - 1 - at, n = 0;
			const char *piece = NULL;
			long used = http_body_take(&b, body + at,
						   left < step ? left : step, &piece, &n);

			OK(used > 0);
			(void)strncat(got, piece ? piece : "", n);
			at += (size_t)used;
		}
		STREQ(got, "abc0123456789");
		STREQ(body + at, "next");
	}
}

TEST_MAIN()
