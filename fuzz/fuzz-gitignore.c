/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-gitignore.c - patterns of a .gitignore, an index of git, and its configuration */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/gitignore.h"
#include "work/git_index.h"
#include "work/hide_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The path before the first NUL is matched with the patterns after it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	struct buf clean = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	struct gitignore g = { 0 };
	struct git_index x = { 0 };
	const char *text = (const char *)data;

	if (nul && nul > data && data[0] != '/') {
		if (gitignore_parse(&g, (const char *)nul + 1,
				    size - (size_t)(nul + 1 - data)) == 0)
			(void)gitignore_match(&g, text, size & 1, NULL);
		gitignore_done(&g);
	}
	if (git_index_parse(text, size, size & 1 ? 20 : 32, &x) == 0) {
		for (size_t i = 0; i < x.n; i++)
			if (!git_index_has(&x, x.paths[i]))
				abort();
		git_index_done(&x);
	}
	/* What was cleaned once stays as it is. */
	git_config_clean(text, size, &clean);
	git_config_clean(clean.data ? clean.data : "", clean.len, &again);
	if (!clean.failed && (again.len > clean.len))
		abort();
	buf_done(&clean);
	buf_done(&again);
	return 0;
}
