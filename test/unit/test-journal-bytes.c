/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-journal-bytes.c - journals of millions of records, from an exec that writes single
 * bytes
 *
 * Instead of the time, the test counts how many reads a reader makes before others have
 * their turn. /proc/thread-self/io contains the number of reads of this thread.
 */
#include "proto/journal.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "lib/sandbox.h"
#include "proto/journal_read.h"

#define CAPACITY (16ULL << 20)
#define RECORDS  (CAPACITY / 16) /* each record has one byte */
/* About 128 reads of 16 KiB to find the position, and as many to return the data. */
#define SLICE_READS 400U

static char buf[JOURNAL_CHUNK];

static uint64_t reads(void)
{
	unsigned long long n = 0;
	FILE *f = fopen("/proc/thread-self/io", "re");
	char line[128];

	OK(f);
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "syscr: %llu", &n);
	(void)fclose(f);
	return n;
}

/*
 * Create a journal of single bytes of stream 1, except for every 100,000th. If @index is
 * set, it has an index like that of init.
 */
static int make(struct journal_header *h, bool index)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct {
		struct journal_record rec;
		char data[8];
	} * ring;

	(void)alarm(SANDBOX_PATIENCE);
	OK(fd >= 0);
	EQ(ftruncate(fd, (off_t)(JOURNAL_RING + CAPACITY)), 0);
	ring = calloc(RECORDS, sizeof(*ring));
	OK(ring);
	*h = (struct journal_header){ .magic = JOURNAL_MAGIC,
				      .version = JOURNAL_VERSION,
				      .capacity = CAPACITY,
				      .tail = CAPACITY,
				      .ended = 1,
				      .written = index ? RECORDS : 0 };
	for (uint64_t i = 0, slot = 0; i < RECORDS; i++) {
		uint64_t s = journal_slot(i * 16, CAPACITY);
		struct journal_slot entry = { .at = i * 16, .cursor = i };

		ring[i].rec = (struct journal_record){ 1, i % 100000 == 99999 ? 2 : 1 };
		ring[i].data[0] = (char)('a' + i % 26);
		if (index && slot != s + 1)
			EQ(pwrite(fd, &entry, sizeof(entry),
				  (off_t)(JOURNAL_INDEX + s * sizeof(entry))),
			   sizeof(entry));
		slot = s + 1;
	}
	EQ(pwrite(fd, ring, CAPACITY, JOURNAL_RING), CAPACITY);
	EQ(pwrite(fd, h, sizeof(*h), 0), sizeof(*h));
	free(ring);
	return fd;
}

/* Many small records are returned as one piece of one stream. */
TEST(small_records_are_read_together)
{
	struct journal_header h;
	struct journal_hint hint = { 0 };
	struct warren_output o;
	int fd = make(&h, true);
	uint64_t cursor = 0, pieces = 0, before = reads();

	while (journal_read(fd, cursor, &hint, buf, sizeof(buf), &o) == 0 && o.size > 0) {
		for (size_t i = 0; i < o.size; i++)
			if (buf[i] != (char)('a' + (cursor + i) % 26))
				TAP_FAIL("byte %ju is wrong", (uintmax_t)(cursor + i));
		EQ(o.cursor, cursor + o.size);
		EQ(o.stream, cursor % 100000 == 99999 ? 2 : 1);
		cursor = o.cursor;
		pieces++;
	}
	EQ(cursor, RECORDS);
	OK(o.end);
	OK(pieces < RECORDS / 1000);
	OK(reads() - before < RECORDS / 100);
	(void)close(fd);
}

/* With an index, any position is found at once, and the end without a search. */
TEST(a_position_is_found_by_the_index)
{
	struct journal_header h;
	int fd = make(&h, true);
	uint64_t from, to, before = reads();
	struct journal_hint none = { 0 };

	EQ(journal_extent(fd, &none, &from, &to), 0);
	OK(from == 0 && to == RECORDS);
	OK(reads() - before < 20);
	for (uint64_t cursor = 12345; cursor < RECORDS; cursor += 98765) {
		struct journal_hint hint = { 0 };
		struct warren_output o;

		EQ(journal_read_some(fd, cursor, &hint, buf, 1, &o), 0);
		EQ(buf[0], (char)('a' + cursor % 26));
		EQ(o.cursor, cursor + 1);
		EQ(o.lost, 0);
	}
	(void)close(fd);
}

/* Without an index, the journal is searched, and the search pauses to let other work
 * continue. */
TEST(a_position_without_an_index_is_searched_in_slices)
{
	struct journal_header h;
	struct journal_hint hint = { 0 };
	struct warren_output o;
	int fd = make(&h, false), r;
	unsigned slices = 0;

	do {
		uint64_t before = reads();

		r = journal_read_some(fd, RECORDS - 5, &hint, buf, sizeof(buf), &o);
		OK(reads() - before < SLICE_READS);
		slices++;
	} while (r == -EINPROGRESS && slices < 10000);
	EQ(r, 0);
	OK(slices > 3);
	EQ(o.size, 5);
	EQ(o.cursor, RECORDS);
	/* A caller that may wait is not interrupted. */
	EQ(journal_read(fd, RECORDS - 5, NULL, buf, sizeof(buf), &o), 0);
	EQ(o.size, 5);
	(void)close(fd);
}

TEST(a_missing_end_is_searched_in_slices)
{
	struct journal_header h;
	struct journal_hint hint = { 0 };
	int fd = make(&h, false), r;
	uint64_t from = 1, to = 0;
	unsigned slices = 0;

	do {
		uint64_t before = reads();

		r = journal_extent(fd, &hint, &from, &to);
		OK(reads() - before < SLICE_READS);
		slices++;
	} while (r == -EINPROGRESS && slices < 10000);
	EQ(r, 0);
	OK(from == 0 && to == RECORDS);
	OK(slices > 3);
	(void)close(fd);
}

/* A wrong index affects only readers of the same writer's output, and only for a limited
 * time. */
TEST(a_wrong_index_does_no_harm)
{
	static const struct journal_slot bad[] = {
		{ .at = 8, .cursor = 1 }, /* a position in the middle of a record */
		{ .at = 3, .cursor = 1 }, /* not aligned */
		{ .at = CAPACITY + 8, .cursor = 1 }, /* a position after the tail */
		{ .at = 16, .cursor = UINT64_MAX },  /* more bytes than fit */
		{ .at = UINT64_MAX - 7, .cursor = 500000 },
	};
	struct journal_header h;
	int fd = make(&h, false);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct journal_hint hint = { 0 };
		struct warren_output o;
		int r = -EINPROGRESS;
		uint64_t before;

		EQ(pwrite(fd, &bad[i], sizeof(bad[i]), JOURNAL_INDEX), sizeof(bad[i]));
		for (int k = 0; r == -EINPROGRESS && k < 10000; k++) {
			before = reads();
			r = journal_read_some(fd, 600000, &hint, buf, sizeof(buf), &o);
			OK(reads() - before < SLICE_READS);
		}
		OK(r == 0 || r == -EPROTO);
	}
	(void)close(fd);
}

/* An empty record would cause an endless search. */
TEST(an_empty_record_is_refused)
{
	struct journal_header h;
	struct journal_record nothing = { 0, 1 };
	struct warren_output o;
	int fd = make(&h, true);

	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), 0);
	EQ(pwrite(fd, &nothing, sizeof(nothing), JOURNAL_RING), sizeof(nothing));
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), -EPROTO);
	(void)close(fd);
}

/* ---------------------------------------------------------- journals that init writes */

/* init writes the end, and an index with which each cursor is found. */
TEST(init_writes_an_index)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine("native");
	static const char *const argv[] = {
		"/bin/sh", "-c",
		"i=0; while [ $i -lt 40000 ]; do echo $i; i=$((i+1)); done", NULL
	};
	struct warren_exec_spec spec = { .argv = argv,
					 .out = WARREN_STDIO_JOURNAL,
					 .err = WARREN_STDIO_JOURNAL,
					 .journal_limit = 2U << 20 };
	struct warren_exec *ex = NULL;
	struct warren_result result;
	struct warren_output o = { 0 };
	char *all = NULL;
	size_t n = 0;

	GOOD(warren_exec(sandbox_make(w, NULL), &spec, &ex, &err));
	GOOD(warren_exec_wait(ex, -1, &result, &err));
	for (uint64_t cursor = 0; !o.end; cursor = o.cursor) {
		GOOD(warren_exec_output(ex, cursor, buf, sizeof(buf), &o, &err));
		EQ(o.lost, 0);
		all = realloc(all, n + o.size + 1);
		OK(all);
		(void)memcpy(all + n, buf, o.size);
		n += o.size;
	}
	/* 10 numbers of 2 bytes, 90 of 3, 900 of 4, 9000 of 5, 30000 of 6. */
	EQ(n, 228890);
	for (size_t cursor = 0; cursor < n; cursor += 7919) {
		GOOD(warren_exec_output(ex, cursor, buf, sizeof(buf), &o, &err));
		EQ(memcmp(buf, all + cursor, o.size), 0);
	}
	free(all);
	w = warren_close(w);
}

TEST_MAIN()
