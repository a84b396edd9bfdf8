/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-journal-overtaken.c - a reader that the writer overtakes loses only output that
 * was dropped
 *
 * The reader is compiled with a pread(2) that lets the writer run in between.
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static ssize_t overtaken_pread(int fd, void *data, size_t size, off_t at);
#define pread overtaken_pread
#include "../../src/proto/journal_read.c" /* NOLINT(bugprone-suspicious-include) */
#undef pread

#include "lib/tap.h"

#define CAPACITY 65536U

static char buf[JOURNAL_CHUNK];
static struct journal_header header;
static unsigned reads, write_at; /* number of the read before which the writer runs */

static void publish(int fd)
{
	EQ(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
}

static void put(int fd, uint32_t stream, char letter, uint32_t size)
{
	struct journal_record rec = { .size = size, .stream = stream };
	off_t at = (off_t)(JOURNAL_RING + header.tail % CAPACITY);

	EQ(pwrite(fd, &rec, sizeof(rec), at), sizeof(rec));
	for (uint32_t i = 0; i < size; i++)
		EQ(pwrite(fd, &letter, 1, at + (off_t)sizeof(rec) + i), 1);
	header.tail += journal_span(size);
	header.written += stream ? size : 0;
	publish(fd);
}

/* Drop the first record, as the writer does when it needs space. */
static void drop(int fd)
{
	struct journal_record rec;

	EQ(pread(fd, &rec, sizeof(rec), (off_t)(JOURNAL_RING + header.head % CAPACITY)),
	   sizeof(rec));
	header.head += journal_span(rec.size);
	header.lost += rec.stream ? rec.size : 0;
	publish(fd);
}

/*
 * Write past the end of the ring: to make space for a pad and the output after it, all
 * earlier records are dropped, including the pad.
 */
static void pass_the_end(int fd)
{
	put(fd, 0, 'p', 16);
	drop(fd);
	drop(fd);
	for (int i = 0; i < 4; i++)
		put(fd, 1, (char)('a' + i), 16);
}

static ssize_t overtaken_pread(int fd, void *data, size_t size, off_t at)
{
	if (++reads == write_at)
		pass_the_end(fd);
	return pread(fd, data, size, at);
}

/* Create a journal with one record. */
static int begin(void)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);

	OK(fd >= 0);
	EQ(ftruncate(fd, JOURNAL_RING + CAPACITY), 0);
	header = (struct journal_header){ .magic = JOURNAL_MAGIC,
					  .version = JOURNAL_VERSION,
					  .capacity = CAPACITY };
	put(fd, 1, '0', 16);
	reads = 0;
	return fd;
}

TEST(a_reader_that_is_up_to_date_loses_nothing)
{
	struct warren_output o = { 0 };

	/* Let the writer run before each of the reads that are needed when nothing is
	 * written. */
	for (write_at = 1; write_at <= 2; write_at++) {
		int fd = begin();

		EQ(journal_read(fd, 16, NULL, buf, sizeof(buf), &o), 0);
		EQ(o.lost, 0);
		EQ(o.size, 64);
		EQ(buf[0], 'a');
		(void)close(fd);
	}
	write_at = 0;
	EQ(journal_read(begin(), 16, NULL, buf, sizeof(buf), &o), 0);
	OK(reads >= 2 && o.size == 0 && o.lost == 0);
}

TEST(a_late_reader_gets_the_number_of_lost_bytes)
{
	struct warren_output o = { 0 };
	int fd = begin();

	write_at = 1;
	EQ(journal_read(fd, 0, NULL, buf, sizeof(buf), &o), 0);
	EQ(o.lost, 16);
	EQ(o.size, 64);
	EQ(buf[0], 'a');
	(void)close(fd);
}

TEST_MAIN()
