/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_marker.c - markers that end the output of a session's commands, if one stream
 * carries output and results
 *
 * A command must not be able to predict any marker, and the next process of the service
 * must know them. So a marker is derived from a key that only the database has, from the
 * session, and from the number of the command.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/hex.h"
#include "service/session/internal.h"
#include "shellproto/shellproto.h"

#define META_KEY "session_key"

_Static_assert(sizeof(((struct service_sessions *)NULL)->marker_key) == 2 * 32 + 1,
	       "the key is 256 bits in hexadecimal");

/* Read the key from the database, or create it. */
int session_marker_key_open(struct service *s, struct warren_error *err)
{
	struct service_sessions *x = service_sessions(s);
	AUTO_FREE char *kept = NULL;
	uint8_t bits[32];
	int r = db_get_meta(s->db, META_KEY, &kept, err);

	if (r == 0 && strlen(kept) == sizeof(x->marker_key) - 1) {
		(void)strcpy(x->marker_key, kept);
		return 0;
	}
	if (r < 0 && r != -ENOENT)
		return r;
	if (getrandom(bits, sizeof(bits), 0) != sizeof(bits))
		return error_errno(err, EIO, "create a key for sessions");
	(void)hex_encode(bits, sizeof(bits), x->marker_key);
	*err = (struct warren_error)WARREN_ERROR_INIT;
	return db_set_meta(s->db, META_KEY, x->marker_key, err);
}

void session_marker_make(const struct service *s, const char *session, uint64_t serial,
			 uint8_t ret[SHELLPROTO_MARKER_SIZE])
{
	const struct service_sessions *x = service_sessions(s);
	unsigned char sum[EVP_MAX_MD_SIZE];
	char text[ID_LEN + 32];
	unsigned size = 0;
	int n = snprintf(text, sizeof(text), "%s %ju", session, (uintmax_t)serial);

	/*
	 * If this fails, use a random marker: then the session does not outlive this
	 * process.
	 */
	if (!HMAC(EVP_sha256(), x->marker_key, (int)sizeof(x->marker_key) - 1,
		  (const unsigned char *)text, (size_t)n, sum, &size) ||
	    size < SHELLPROTO_MARKER_SIZE) {
		if (getrandom(ret, SHELLPROTO_MARKER_SIZE, 0) != SHELLPROTO_MARKER_SIZE)
			abort();
		return;
	}
	(void)memcpy(ret, sum, SHELLPROTO_MARKER_SIZE);
}
