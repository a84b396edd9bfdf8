/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-work-record.c - the record of a work, and the journal of an accept */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "work/journal.h"
#include "work/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT(1 << 24), again = BUF_INIT(1 << 24);
	char *text = malloc(size + 1);
	struct work_record record;
	struct warren_error err;
	struct ops ops;

	if (!text)
		return 0;
	(void)memcpy(text, data, size);
	if (work_record_parse(text, size, &record, &err) == 0) {
		work_record_write(&out, &record);
		work_record_done(&record);
		/* What was written can be read, and is written in the same way. */
		if (work_record_parse(out.data, out.len, &record, &err) < 0)
			abort();
		work_record_done(&record);
		buf_done(&out);
	}
	(void)memcpy(text, data, size);
	if (journal_parse(text, size, &ops, &err) == 0) {
		journal_write(&out, &ops);
		ops_done(&ops);
		if (journal_parse(out.data, out.len, &ops, &err) < 0)
			abort();
		journal_write(&again, &ops);
		ops_sort(&ops);
		ops_done(&ops);
	}
	buf_done(&out);
	buf_done(&again);
	free(text);
	return 0;
}
