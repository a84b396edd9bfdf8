/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-ref.c - a valid reference is valid again after it was written, in its long and its
 * short form */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "image/ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char text[REF_TEXT_MAX], again[REF_TEXT_MAX];
	AUTO_FREE char *input = strndup((const char *)data, size);
	struct ref a, b;

	if (!input || ref_parse(input, &a, &err) < 0)
		return 0;
	(void)ref_is_loopback(&a);
	assert(a.registry[0] && a.name[0] && (a.tag[0] || a.digest[0]));
	assert(!a.digest[0] || ref_digest_valid(a.digest));
	ref_text(&a, text);
	assert(ref_parse(text, &b, &err) == 0);
	ref_text(&b, again);
	assert(strcmp(text, again) == 0);
	ref_familiar(&a, text);
	assert(ref_parse(text, &b, &err) == 0);
	ref_text(&b, text);
	assert(strcmp(text, again) == 0);
	return 0;
}
