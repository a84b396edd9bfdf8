/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - what the first bytes of a client are
 *
 * A wrong guess is safe. What is neither TLS nor HTTP needs a rule that allows every form
 * of a connection, and what is taken for HTTP or TLS must then be parsed as such.
 *
 * Servers read more than they should: some skip blank bytes before a request, accept
 * other separators, or older forms of TLS. A request after blank bytes is FIRST_ODD, or
 * FIRST_HTTP after the one empty line that HTTP permits, so that its Host is compared in
 * any case. Where a rule denies a name, such bytes would hide the name. The caller is
 * then wary: it waits for a whole line, and bytes that any server could take for HTTP or
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
