/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-git-config.c - git's configuration, and the commands in it */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "work/git_config.h"
#include "work/git_keys.h"
#include "work/git_words.h"
#include "work/hide_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_path(void *arg, const char *word, bool dir)
{
	size_t *n = arg;

	*n += strlen(word) + dir;
}

static void on_entry(void *arg, struct git_config_entry *e)
{
	struct git_words w = {
		.top = "/a b", .home = "/home", .path = on_path, .arg = arg
	};

	if (strlen(e->section) + strlen(e->subsection) > SIZE_MAX / 2)
		abort();
	(void)git_key_of(e->section, e->key);
	if (git_words_read(&w, e->value) < 0 || git_words_read_plain(&w, e->value) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct buf clean = BUF_INIT(1 << 20);
	size_t n = 0;

	if (git_config_parse(text, size, on_entry, &n) < 0)
		abort();
	/* What git does not read as configuration does not become it. */
	git_config_clean(text, size, &clean);
	if (!clean.failed && clean.len > 0 && git_config_is(clean.data, clean.len) &&
	    !memchr(text, '[', size))
		abort();
	buf_done(&clean);
	return 0;
}
