/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-journal.c - a journal with any contents is read within bounds, and reading ends */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "initclient/initclient.h"
#include "proto/journal.h"

/* Enough for a file of 64 KiB whose smallest record has 8 bytes. */
#define READS_MAX 100000
#define PLAUSIBLE (1U << 0)
/* The file has the size that its header states, mostly as a hole. */
#define SPARSE (1U << 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is a byte of flags, the header, and the contents of the ring. */
static void write_journal(int fd, const uint8_t *data, size_t size)
{
	struct journal_header h = { 0 };
	size_t n = size - 1 < sizeof(h) ? size - 1 : sizeof(h);

	(void)memcpy(&h, data + 1, n);
	if (data[0] & PLAUSIBLE) {
		h.magic = JOURNAL_MAGIC;
		h.version = JOURNAL_VERSION;
		h.capacity = h.capacity % 2 ? JOURNAL_CAPACITY_MIN : h.capacity & ~7ULL;
	}
	if (pwrite(fd, &h, sizeof(h), 0) != sizeof(h) ||
	    pwrite(fd, data + 1 + n, size - 1 - n, JOURNAL_RING) < 0)
		abort();
	if (data[0] & SPARSE && h.capacity <= JOURNAL_CAPACITY_MAX)
		(void)!ftruncate(fd, (off_t)(JOURNAL_RING + h.capacity));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char buf[JOURNAL_CHUNK + 8];
	int fd = size > 0 ? memfd_create("journal", MFD_CLOEXEC) : -1;
	size_t room = size % 3 ? JOURNAL_CHUNK : 100;
	enum journal_state state = JOURNAL_RUNNING;
	struct proto_exited result = { 0 };
	uint64_t cursor = 0;
	int r;

	if (fd < 0)
		return 0;
	write_journal(fd, data, size);
	r = journal_result(fd, &state, &result);
	if (r == 1 && state != JOURNAL_EXITED && state != JOURNAL_FAILED)
		abort();
	if (r == 1)
		result_fill(&result, &(struct warren_result){ 0 });
	(void)memset(buf + room, 0x5a, 8);
	for (int i = 0; i < READS_MAX; i++) {
		struct warren_output o;

		r = journal_read(fd, cursor, NULL, buf, room, &o);

		if (buf[room] != 0x5a ||
		    (r == 0 && (o.size > room || o.stream < 0 || o.stream > 3)))
			abort();
		if (r < 0 || o.size == 0)
			break;
		if (o.cursor <= cursor || o.end || o.stream == 0)
			abort(); /* otherwise, a reader would read forever */
		cursor = o.cursor;
	}
	(void)close(fd);
	return 0;
}
