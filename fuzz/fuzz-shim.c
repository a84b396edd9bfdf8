/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-shim.c - any output of a shell inside a sandbox: names are valid, and bounds are
 * respected
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/init_proto.h"
#include "shim/core/parse_entries.h"
#include "shim/core/parse_ps.h"

static const char mark[] = "0123456789abcdef0123456789abcdef";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	(void)memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* Read the entries as a client does: all of them, including the last, are complete. */
static void check(const struct buf *entries, bool named)
{
	struct proto_found found;
	size_t at = 0;
	int r;

	while ((r = proto_next(entries->data, entries->len, &at, &found)) == 1)
		if ((found.name[0] != '\0') != named)
			abort();
	if (r < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_BUF struct buf all = BUF_INIT(1U << 24), one = BUF_INIT(1U << 16);
	struct procs p = { 0 };
	char *text;

	if (size == 0)
		return 0;
	text = copy(data, size);
	if (entries_all(text, size, mark, &all))
		check(&all, true);
	free(text);
	text = copy(data, size);
	if (entries_one(text, size, mark, &one))
		check(&one, false);
	free(text);
	text = copy(data, size);
	(void)procs_parse(text, (struct proc[]){ { .pid = 7 }, { .pid = 9, .start = 5 } },
			  2, &p);
	for (size_t i = 0; i < p.n; i++)
		if (p.procs[i].pid <= 1)
			abort();
	free(p.procs);
	free(text);
	return 0;
}
