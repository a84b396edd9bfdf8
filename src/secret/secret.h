/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h - values of secrets, encrypted with a key that is kept outside the database
 *
 * A secret belongs to a tenant and has a name. Its value is encrypted with AES-256-GCM.
 * The tenant and the name are authenticated with it, so a value that was copied to
 * another row of the database cannot be decrypted there.
 *
 * The key is a file of 64 hexadecimal digits with mode 0600. The service creates it
 * before it stores the first secret, and never replaces it: a copy of the database is
 * useless without the key, and so is the database itself if the key is lost. A sealed
 * value contains the id of its key, so that a wrong key is recognised as such.
 *
 *	format (1)  id of the key (8)  nonce (12)  encrypted value  tag (16)
 *
 * The functions do not keep keys or values. The caller wipes what it gets:
 * secret_key_done(), secret_wipe().
 */
#ifndef SECRET_SECRET_H
#define SECRET_SECRET_H

#include <stddef.h>

#include "base/error.h"
#include "base/macro.h"
#include "base/secret_name.h"

#define SECRET_VALUE_MAX  16384
#define SECRET_KEY_SIZE   32
#define SECRET_KEY_ID     8
#define SECRET_OVERHEAD   (1 + SECRET_KEY_ID + 12 + 16)
#define SECRET_SEALED_MAX (SECRET_VALUE_MAX + SECRET_OVERHEAD)

struct secret_key {
	unsigned char bytes[SECRET_KEY_SIZE];
	unsigned char id[SECRET_KEY_ID]; /* beginning of the key's SHA-256 */
};

/*
 * Read the key file @path. -ENOKEY: it is missing, damaged, or others may read it; the
 * error says which.
 */
int secret_key_load(const char *path, struct secret_key *ret,
		    struct warren_error *err) MUST_CHECK;
/*
 * Create the key file @path, which is complete and on the disk once it exists. If the
 * file exists, it stays as it is, and the call succeeds. Blocks until the disk has
 * written.
 */
int secret_key_create(const char *path, struct warren_error *err) MUST_CHECK;
void secret_key_done(struct secret_key *key);

#define AUTO_SECRET_KEY CLEANUP(secret_key_done)

/*
 * Check a value: 1 to SECRET_VALUE_MAX bytes that a header can contain, so no control
 * characters other than tab. The error does not contain the value.
 */
int secret_check_value(const char *value, size_t n, struct warren_error *err) MUST_CHECK;

/* Encrypt @value; *@ret_n is the number of bytes in @ret. */
int secret_seal(const struct secret_key *key, const char *tenant, const char *name,
		const char *value, size_t n, unsigned char ret[SECRET_SEALED_MAX],
		size_t *ret_n, struct warren_error *err) MUST_CHECK;
/*
 * Decrypt to @ret, which is NUL-terminated. -ENOKEY: the value was encrypted with another
 * key; -EBADMSG: it is damaged, or belongs to another tenant or name.
 */
int secret_unseal(const struct secret_key *key, const char *tenant, const char *name,
		  const unsigned char *sealed, size_t sealed_n,
		  char ret[SECRET_VALUE_MAX + 1], size_t *ret_n,
		  struct warren_error *err) MUST_CHECK;

#endif /* SECRET_SECRET_H */
