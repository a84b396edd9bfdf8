/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-journal.c - output of an exec, stored by init and read by cursor
 *
 * First the reader is tested alone, with files that a hostile writer could create, and
 * then with real execs.
 */
#include "proto/journal.h"

#include <sys/mman.h>

#include "backend/native/native.h"
#include "lib/sandbox.h"

#define CAPACITY 65536U

static char buf[JOURNAL_CHUNK];

/* ---------------------------------------------------------- journals without a writer */

/* Create an empty journal of @capacity; the file is as large as a full one. */
static int new_journal(uint64_t capacity, struct journal_header *h)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);

	OK(fd >= 0);
	*h = (struct journal_header){ .magic = JOURNAL_MAGIC,
				      .version = JOURNAL_VERSION,
				      .capacity = capacity };
	EQ(ftruncate(fd, (off_t)(JOURNAL_RING + capacity)), 0);
	EQ(pwrite(fd, h, sizeof(*h), 0), sizeof(*h));
	(void)alarm(SANDBOX_PATIENCE);
	return fd;
}

static void put(int fd, struct journal_header *h, uint32_t stream, const char *text,
		uint32_t size)
{
	struct journal_record rec = { .size = size, .stream = stream };
	off_t at = (off_t)(JOURNAL_RING + h->tail % h->capacity);

	EQ(pwrite(fd, &rec, sizeof(rec), at), sizeof(rec));
	if (text)
		EQ(pwrite(fd, text, size, at + (off_t)sizeof(rec)), size);
	h->tail += journal_span(size);
	EQ(pwrite(fd, h, sizeof(*h), 0), sizeof(*h));
}

TEST(an_empty_journal_can_be_read)
{
	struct journal_header h;
	struct warren_output o = { 0 };
	int fd = new_journal(CAPACITY, &h);

	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), 0);
	EQ(o.size, 0);
	EQ(o.end, false);
	EQ(o.lost, 0);
	h.ended = 1;
	EQ(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	EQ(journal_read(fd, o.cursor, NULL, buf, sizeof(buf), &o), 0);
	EQ(o.size, 0);
	EQ(o.end, true);
}

TEST(records_are_read_in_order)
{
	struct journal_header h;
	struct warren_output o = { 0 };
	int fd = new_journal(CAPACITY, &h);

	put(fd, &h, 1, "one", 3);
	put(fd, &h, 2, "twotwotwo", 9);
	put(fd, &h, 0, NULL, 24); /* a pad is not returned */
	put(fd, &h, 1, "3", 1);
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), 0);
	OK(o.stream == 1 && o.size == 3 && memcmp(buf, "one", 3) == 0 && !o.end);
	EQ(journal_read(fd, o.cursor, NULL, buf, sizeof(buf), &o), 0);
	OK(o.stream == 2 && o.size == 9 && memcmp(buf, "twotwotwo", 9) == 0);
	EQ(journal_read(fd, o.cursor, NULL, buf, sizeof(buf), &o), 0);
	OK(o.stream == 1 && o.size == 1 && buf[0] == '3');
	EQ(journal_read(fd, o.cursor, NULL, buf, sizeof(buf), &o), 0);
	OK(o.size == 0 && !o.end);
}

TEST(an_inconsistent_header_is_refused)
{
	struct journal_header good, h;
	struct warren_output o;
	int fd = new_journal(CAPACITY, &good);
	const struct journal_header bad[] = {
		{ .magic = 1 },
		{ .version = 99 },
		{ .capacity = 1 },
		{ .capacity = 64 },
		{ .capacity = CAPACITY + 1 },
		{ .capacity = 1ULL << 41 },
		{ .capacity = UINT64_MAX },
		{ .head = 8 }, /* the head is after the tail */
		{ .head = 1, .tail = 9 },
		{ .tail = 4 },
		{ .tail = CAPACITY + 8 },
		{ .tail = UINT64_MAX - 7 },
		{ .head = UINT64_MAX - 7, .tail = 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		h = good;
		h.magic = bad[i].magic ? bad[i].magic : good.magic;
		h.version = bad[i].version ? bad[i].version : good.version;
		h.capacity = bad[i].capacity ? bad[i].capacity : good.capacity;
		h.head = bad[i].head;
		h.tail = bad[i].tail;
		EQ(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
		if (journal_read(fd, 0, NULL, buf, sizeof(buf), &o) != -EPROTO)
			TAP_FAIL("header %zu is believed", i);
	}
	EQ(pwrite(fd, &good, sizeof(good), 0), sizeof(good));
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), 0);
}

TEST(a_truncated_journal_is_refused)
{
	struct journal_header h;
	struct warren_output o;
	int fd = new_journal(CAPACITY, &h);

	put(fd, &h, 1, "hello", 5);
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), 0);
	/* The file ends in the middle of the record. */
	EQ(ftruncate(fd, JOURNAL_RING + 10), 0);
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), -EPROTO);
	EQ(ftruncate(fd, JOURNAL_RING), 0);
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), -EPROTO);
	EQ(ftruncate(fd, 0), 0);
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), -EPROTO);
	EQ(journal_read(-1, 0, NULL, buf, sizeof(buf), &o), -EBADF);
}

TEST(an_inconsistent_record_is_refused)
{
	static const struct journal_record bad[] = {
		{ 6, 4 },                       /* there is no such stream */
		{ 6, UINT32_MAX }, { 1000, 1 }, /* the record ends beyond the tail */
		{ UINT32_MAX, 1 }, { UINT32_MAX - 7, 1 },
		{ UINT32_MAX, 0 }, /* the same for a pad */
		{ CAPACITY, 0 },
	};
	struct journal_header h;
	struct warren_output o;
	int fd = new_journal(CAPACITY, &h);

	put(fd, &h, 1, "hello!", 6);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EQ(pwrite(fd, &bad[i], sizeof(bad[i]), JOURNAL_RING), sizeof(bad[i]));
		if (journal_read(fd, 0, NULL, buf, sizeof(buf), &o) != -EPROTO)
			TAP_FAIL("record %zu is believed", i);
	}
}

/* A record larger than any of init's must not overflow the caller's buffer. */
TEST(a_record_never_overflows_the_buffer_of_the_caller)
{
	struct journal_header h;
	struct warren_output o = { 0 };
	static char small[128];
	int fd = new_journal(4 * CAPACITY, &h), r;

	put(fd, &h, 1, NULL, 2 * JOURNAL_CHUNK);
	r = journal_read(fd, 0, NULL, buf, sizeof(buf), &o);
	OK(r == -EPROTO || r == -EMSGSIZE || (r == 0 && o.size <= sizeof(buf)));
	fd = new_journal(CAPACITY, &h);
	put(fd, &h, 1, buf, 1000);
	(void)memset(small, 'Z', sizeof(small));
	r = journal_read(fd, 0, NULL, small, 64, &o);
	OK(r == -EMSGSIZE || (r == 0 && o.size <= 64));
	EQ(small[64], 'Z');
}

TEST(an_invalid_cursor_is_refused)
{
	struct journal_header h;
	struct warren_output o;
	int fd = new_journal(CAPACITY, &h), r;

	put(fd, &h, 1, "hello", 5);
	EQ(journal_read(fd, h.tail + 8, NULL, buf, sizeof(buf), &o), -EINVAL);
	EQ(journal_read(fd, UINT64_MAX, NULL, buf, sizeof(buf), &o), -EINVAL);
	for (uint64_t c = 1; c < h.tail; c++) { /* no crash, and never too much data */
		r = journal_read(fd, c, NULL, buf, sizeof(buf), &o);
		OK(r < 0 || o.size <= sizeof(buf));
	}
}

/* A sparse file reads as 2^37 pads of eight bytes: a reader must not read all of them. */
TEST(a_sparse_journal_does_not_block_clients)
{
	struct journal_header h;
	struct warren_output o;
	int fd = new_journal(CAPACITY, &h), r;

	h.capacity = h.tail = JOURNAL_CAPACITY_MAX;
	if (ftruncate(fd, (off_t)(JOURNAL_RING + JOURNAL_CAPACITY_MAX)) < 0)
		SKIP("no file of that size: %s", strerror(errno));
	EQ(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	(void)alarm(20);
	r = journal_read(fd, 0, NULL, buf, sizeof(buf), &o);
	OK(r == -EPROTO || (r == 0 && o.size == 0));
}

TEST(the_extent_is_read_from_the_last_position)
{
	struct journal_header h;
	struct journal_hint hint = { 0 }, none = { 0 };
	uint64_t from = 1, to = 1;
	int fd = new_journal(CAPACITY, &h);

	EQ(journal_extent(fd, &hint, &from, &to), 0);
	OK(from == 0 && to == 0);
	put(fd, &h, 1, "one", 3);
	put(fd, &h, 2, "two", 3);
	EQ(journal_extent(fd, &hint, &from, &to), 0);
	OK(from == 0 && to == 6);
	/*
	 * The part that was searched is not searched again; a new reader starts from the
	 * beginning.
	 */
	h.tail = 0;
	put(fd, &h, 7, NULL, 3);
	h.tail += journal_span(3);
	put(fd, &h, 1, "3", 1);
	EQ(journal_extent(fd, &hint, &from, &to), 0);
	OK(from == 0 && to == 7);
	EQ(journal_extent(fd, &none, &from, &to), -EPROTO);
	/* The position of the reader has been dropped. */
	h.head = h.tail;
	h.lost = 100;
	put(fd, &h, 1, "four", 4);
	hint.at = 0;
	EQ(journal_extent(fd, &hint, &from, &to), 0);
	OK(from == 100 && to == 104);
	EQ(journal_extent(fd, &hint, &from, &to), 0);
	OK(from == 100 && to == 104);
}

/* ---------------------------------------------------------- journals that init writes */

struct reading {
	char *out[3]; /* indexed by stream */
	size_t size[3];
	uint64_t cursor, lost;
	size_t pieces;
	int last;
};

/* Read everything that is available now. Return true at the end. */
static bool take(struct warren_exec *ex, struct reading *r)
{
	struct warren_error err = WARREN_ERROR_INIT;

	for (;;) {
		struct warren_output o;

		(void)memset(&o, 0x5a, sizeof(o));
		GOOD(warren_exec_output(ex, r->cursor, buf, sizeof(buf), &o, &err));
		OK(o.size <= sizeof(buf));
		r->cursor = o.cursor;
		r->lost += o.lost;
		if (o.size == 0)
			return o.end;
		OK(!o.end);
		OK(o.stream == 1 || o.stream == 2);
		r->out[o.stream] =
			realloc(r->out[o.stream], r->size[o.stream] + o.size + 1);
		(void)memcpy(r->out[o.stream] + r->size[o.stream], buf, o.size);
		r->size[o.stream] += o.size;
		r->out[o.stream][r->size[o.stream]] = '\0';
		r->last = o.stream;
		r->pieces++;
	}
}

/* Read to the end; only the eventfd wakes the reader. */
static struct reading take_all(struct warren_exec *ex)
{
	struct reading r = { .out = { NULL, calloc(1, 1), calloc(1, 1) } };
	int fd = warren_exec_output_fd(ex);

	OK(fd >= 0);
	while (!take(ex, &r)) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t n;

		OK(poll(&p, 1, SANDBOX_PATIENCE * 1000) > 0);
		EQ(read(fd, &n, sizeof(n)), sizeof(n));
	}
	return r;
}

static struct warren_exec *start(struct warren_sandbox *sb, const char *script,
				 uint64_t limit)
{
	return sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH(script),
							     .in = WARREN_STDIO_PIPE,
							     .out = WARREN_STDIO_JOURNAL,
							     .err = WARREN_STDIO_JOURNAL,
							     .journal_limit = limit });
}

TEST(stdout_and_stderr_are_kept_apart)
{
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex =
		start(sandbox_make(w, NULL),
		      "printf out; printf err >&2; printf put; exit 3", 0);
	struct reading r = take_all(ex);

	STREQ(r.out[1], "output");
	STREQ(r.out[2], "err");
	EQ(r.lost, 0);
	EQ(sandbox_wait(ex).exit_code, 3);
	ex = warren_exec_free(ex);
	w = warren_close(w);
}

/* Each word is written after the previous one was read, so the order is certain. */
TEST(output_is_kept_in_the_order_of_arrival)
{
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex =
		start(sandbox_make(w, NULL),
		      "i=0; while read -r word; do i=$((i + 1));"
		      " case $word in 1) echo a;; 2) echo b >&2;; esac; done",
		      0);
	struct reading r = { .out = { NULL, calloc(1, 1), calloc(1, 1) } };
	static const char order[] = "1221112122";

	for (size_t i = 0; order[i]; i++) {
		char word[3] = { order[i], '\n', '\0' };

		EQ(write(warren_exec_fd(ex, 0), word, 2), 2);
		for (int tries = 0; tries < SANDBOX_TRIES && r.pieces <= i; tries++) {
			OK(!take(ex, &r));
			if (r.pieces <= i)
				sandbox_nap();
		}
		EQ(r.pieces, i + 1);
		EQ(r.last, order[i] - '0');
	}
	(void)close(warren_exec_take_fd(ex, 0));
	for (int tries = 0; tries < SANDBOX_TRIES && !take(ex, &r); tries++)
		sandbox_nap();
	OK(take(ex, &r));
	w = warren_close(w);
}

TEST(binary_output_is_kept_unchanged)
{
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex = start(sandbox_make(w, NULL), "cat", 2 << 20);
	static char data[1 << 20];
	struct reading r;
	size_t at = 0;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 >> 2);
	while (at < sizeof(data)) {
		ssize_t n = write(warren_exec_fd(ex, 0), data + at, sizeof(data) - at);

		OK(n > 0);
		at += (size_t)n;
	}
	(void)close(warren_exec_take_fd(ex, 0));
	r = take_all(ex);
	EQ(r.size[1], sizeof(data));
	EQ(memcmp(r.out[1], data, sizeof(data)), 0);
	EQ(r.lost, 0);
	w = warren_close(w);
}

/*
 * The oldest output is dropped, the newest is kept, and dropped bytes are counted
 * exactly.
 */
TEST(a_journal_is_bounded_and_counts_dropped_bytes)
{
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex =
		start(sandbox_make(w, NULL),
		      "i=0; while [ $i -lt 40000 ]; do"
		      " echo \"line $((100000 + i))\"; i=$((i + 1)); done",
		      1 << 16);
	struct reading r;

	EQ(sandbox_wait(ex).exit_code, 0);
	r = take_all(ex);
	OK(r.size[1] > 0 && r.size[1] <= 1 << 16);
	STREQ(r.out[1] + r.size[1] - 12, "line 139999\n");
	EQ(r.size[1] + r.lost, 40000 * 12);
	w = warren_close(w);
}

/*
 * One byte in each write: written bytes are counted, whatever their form in the journal.
 */
TEST(dropped_small_pieces_are_counted_to_the_byte)
{
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex =
		start(sandbox_make(w, NULL),
		      "i=0; while [ $i -lt 20000 ]; do printf x; printf y >&2;"
		      " i=$((i + 1)); done",
		      1 << 16);
	struct reading r;

	EQ(sandbox_wait(ex).exit_code, 0);
	r = take_all(ex);
	EQ(r.size[1] + r.size[2] + r.lost, 40000);
	w = warren_close(w);
}

TEST(a_stream_continues_from_a_cursor)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex =
		start(sandbox_make(w, NULL), "read a; echo one; read b; echo two", 0);
	struct warren_output first, again, o;
	struct reading r = { .out = { NULL, calloc(1, 1), calloc(1, 1) } };

	EQ(write(warren_exec_fd(ex, 0), "\n", 1), 1);
	for (int i = 0; i < SANDBOX_TRIES && r.pieces == 0; i++, sandbox_nap())
		OK(!take(ex, &r));
	GOOD(warren_exec_output(ex, 0, buf, sizeof(buf), &first, &err));
	EQ(first.size, 4);
	EQ(write(warren_exec_fd(ex, 0), "\n", 1), 1);
	(void)take_all(ex);
	/* Read from the start and from the middle, repeatedly, even after the end. */
	for (int i = 0; i < 2; i++) {
		GOOD(warren_exec_output(ex, 0, buf, sizeof(buf), &again, &err));
		EQ(memcmp(buf, "one\ntwo\n", 8), 0); /* both lines are available now */
		EQ(again.cursor, first.cursor + 4);
		GOOD(warren_exec_output(ex, first.cursor, buf, sizeof(buf), &o, &err));
		EQ(memcmp(buf, "two\n", 4), 0);
	}
	FAILS(EINVAL, warren_exec_output(ex, UINT64_MAX, buf, sizeof(buf), &o, &err));
	w = warren_close(w);
}

/*
 * The result arrives when the command ends; the journal ends when no process can write
 * any longer.
 */
TEST(the_end_waits_for_writers)
{
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex =
		start(sandbox_make(w, NULL),
		      "exec 3<&0; (read x <&3; echo late) & echo early", 0);
	struct reading r = { .out = { NULL, calloc(1, 1), calloc(1, 1) } };

	EQ(sandbox_wait(ex).exit_code, 0);
	for (int i = 0; i < SANDBOX_TRIES && r.pieces == 0; i++, sandbox_nap())
		OK(!take(ex, &r));
	OK(!take(ex, &r));
	STREQ(r.out[1], "early\n");
	EQ(write(warren_exec_fd(ex, 0), "\n", 1), 1);
	r = take_all(ex);
	STREQ(r.out[1], "early\nlate\n");
	w = warren_close(w);
}

/* When the end of a command is reported, all its output is in the journal. */
TEST(all_output_is_written_when_the_end_is_reported)
{
	struct warren *w = sandbox_engine("native");
	struct warren_sandbox *sb = sandbox_make(w, NULL);

	for (int i = 0; i < 50; i++) {
		struct warren_exec *ex =
			start(sb, "head -c 60000 /dev/zero; echo x >&2", 0);
		struct reading r = { .out = { NULL, calloc(1, 1), calloc(1, 1) } };

		EQ(sandbox_wait(ex).exit_code, 0);
		(void)take(ex, &r);
		EQ(r.size[1], 60000);
		EQ(r.size[2], 2);
		ex = warren_exec_free(ex);
	}
	w = warren_close(w);
}

TEST(one_stream_can_use_a_journal_and_the_other_a_pipe)
{
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex = sandbox_start(
		sandbox_make(w, NULL),
		&(struct warren_exec_spec){ .argv = SH("echo out; echo err >&2"),
					    .out = WARREN_STDIO_JOURNAL,
					    .err = WARREN_STDIO_PIPE });
	struct reading r;

	EQ(warren_exec_fd(ex, 1), -1);
	sandbox_expect(warren_exec_fd(ex, 2), "err\n");
	r = take_all(ex);
	STREQ(r.out[1], "out\n");
	EQ(r.size[2], 0);
	w = warren_close(w);
}

TEST(reading_output_without_a_journal_fails)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine("native");
	struct warren_exec *ex =
		sandbox_start(sandbox_make(w, NULL),
			      &(struct warren_exec_spec){ .argv = ARGV("true") });
	struct warren_output o;

	EQ(warren_exec_output_fd(ex), -1);
	FAILS(EINVAL, warren_exec_output(ex, 0, buf, sizeof(buf), &o, &err));
	w = warren_close(w);
}

TEST(a_limit_above_every_maximum_is_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine("native");
	struct warren_sandbox *sb = sandbox_make(w, NULL);
	struct warren_exec *ex = NULL;
	size_t before = sandbox_count_fds();

	FAILS(EINVAL,
	      warren_exec(sb,
			  &(struct warren_exec_spec){ .argv = ARGV("true"),
						      .out = WARREN_STDIO_JOURNAL,
						      .journal_limit = UINT64_MAX },
			  &ex, &err));
	OK(!ex);
	EQ(sandbox_count_fds(), before);
	STREQ(sandbox_says(sb, "echo fine"), "fine");
	w = warren_close(w);
}

/* The output of a deleted sandbox can still be read. */
TEST(output_outlives_the_sandbox)
{
	struct warren *w = sandbox_engine("native");
	struct warren_sandbox *sb = sandbox_make(w, NULL);
	struct warren_exec *ex = start(sb, "echo kept", 0);
	struct reading r = { .out = { NULL, calloc(1, 1), calloc(1, 1) } };

	EQ(sandbox_wait(ex).exit_code, 0);
	sandbox_destroy(sb);
	(void)take(ex, &r);
	STREQ(r.out[1], "kept\n");
	ex = warren_exec_free(ex);
	w = warren_close(w);
}

TEST_MAIN()
