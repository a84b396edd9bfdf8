/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-challenge.c - values from any WWW-Authenticate header contain only valid
 * characters
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "image/registry_auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_clean(const char *s, size_t size)
{
	assert(memchr(s, '\0', size));
	for (; *s; s++)
		assert(*s >= ' ' && *s <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *input = strndup((const char *)data, size);
	struct challenge c;

	if (!input || challenge_parse(input, &c) < 0)
		return 0;
	check_clean(c.realm, sizeof(c.realm));
	check_clean(c.service, sizeof(c.service));
	check_clean(c.scope, sizeof(c.scope));
	assert(c.scheme != CHALLENGE_BEARER || c.realm[0]);
	return 0;
}
