/* SPDX-License-Identifier: Apache-2.0 */
/* patch_internal.h - the state of the parser of patches */
#ifndef TEXTDIFF_PATCH_INTERNAL_H
#define TEXTDIFF_PATCH_INTERNAL_H

#include "textdiff/patch.h"

struct patch_parser {
	struct text_lines lines;
	size_t at; /* the next line */
};

/* Set an error that names the line. */
int patch_parse_fail(const struct patch_parser *p, struct warren_error *err,
		     const char *why);
/* Parse the contents that follow "GIT binary patch". */
int patch_parse_binary(struct patch_parser *p, struct patch *f,
		       struct warren_error *err) MUST_CHECK;

#endif /* TEXTDIFF_PATCH_INTERNAL_H */
