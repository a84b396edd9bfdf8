/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - classify the first bytes of a client: TLS, HTTP or something else
 *
 * A wrong result does no harm. A connection that seems to be neither TLS nor HTTP needs a
 * rule that allows every form of a connection, and one that seems to be HTTP or TLS must
 * then be valid HTTP or TLS.
 *
 * Some servers accept more than they should: whitespace before a request, other
 * separators, or older forms of TLS. A request after whitespace is FIRST_ODD, or
 * FIRST_HTTP after the one empty line that HTTP permits, so that its Host is compared in
 * any case. If a rule denies a name, such bytes could hide that name. The caller then
 * sets `wary`: a whole line is needed, and bytes that any server could read as HTTP or
 * TLS are FIRST_ODD.
 */
#ifndef EGRESS_FIRST_H
#define EGRESS_FIRST_H

#include <stdbool.h>
#include <stddef.h>

#define FIRST_LINE_MAX 32768

enum first_kind {
	FIRST_MORE, /* more bytes are needed */
	FIRST_TLS,
	FIRST_HTTP, /* HTTP/1 */
	FIRST_OTHER,
	FIRST_ODD, /* not well-formed, but some servers read it as HTTP or TLS */
};

enum first_kind first_classify(const char *data, size_t n, bool wary);

#endif /* EGRESS_FIRST_H */
