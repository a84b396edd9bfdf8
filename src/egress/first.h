/* SPDX-License-Identifier: Apache-2.0 */
/*
 * first.h - what the first bytes of a client are
 *
 * A wrong guess is safe. What is neither TLS nor HTTP needs a rule that allows every form
 * of a connection, and what is taken for HTTP or TLS must then be parsed as such.
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
};

enum first_kind first_classify(const char *data, size_t n);

#endif /* EGRESS_FIRST_H */
