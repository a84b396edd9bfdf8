/* SPDX-License-Identifier: Apache-2.0 */
/* secret_key.c - the key file: created once, never overwritten */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hex.h"
#include "secret/secret.h"

#define KEY_DIGITS ((size_t)2 * SECRET_KEY_SIZE)

void secret_key_done(struct secret_key *key)
{
	OPENSSL_cleanse(key, sizeof(*key));
}

static int secret_key_decode(const char *text, size_t n, struct secret_key *key)
{
	unsigned char hash[EVP_MAX_MD_SIZE];

	if (n != KEY_DIGITS + 1 || text[KEY_DIGITS] != '\n')
		return -EINVAL;
	for (size_t i = 0; i < SECRET_KEY_SIZE; i++) {
		int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		key->bytes[i] = (unsigned char)(high * 16 + low);
	}
	if (EVP_Digest(key->bytes, sizeof(key->bytes), hash, NULL, EVP_sha256(), NULL) !=
	    1)
		return -ENOMEM;
	(void)memcpy(key->id, hash, SECRET_KEY_ID);
	return 0;
}

int secret_key_load(const char *path, struct secret_key *ret, struct warren_error *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char text[KEY_DIGITS + 2];
	struct secret_key key;
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0 && errno == ENOENT)
		return error_set(
			err, ENOKEY,
			"the key of the secrets, '%s', is missing: restore it "
			"from a backup, or delete all secrets and set them again",
			path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, ENOKEY, "open the key of the secrets, '%s': %s",
				 path, strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
		return error_set(err, ENOKEY,
				 "the key of the secrets, '%s', must be a file with "
				 "mode 0600, because no other user may read it",
				 path);
	n = fd_read_all(fd, text, sizeof(text));
	r = n < 0 ? (int)n : secret_key_decode(text, (size_t)n, &key);
	OPENSSL_cleanse(text, sizeof(text));
	if (r < 0) {
		secret_key_done(&key);
		return error_set(err, ENOKEY,
				 "the key of the secrets, '%s', is damaged: restore it "
				 "from a backup",
				 path);
	}
	*ret = key;
	secret_key_done(&key);
	return 0;
}

int secret_key_create(const char *path, struct warren_error *err)
{
	unsigned char bytes[SECRET_KEY_SIZE];
	char text[KEY_DIGITS + 1];
	int r;

	if (access(path, F_OK) == 0)
		return 0;
	if (RAND_priv_bytes(bytes, sizeof(bytes)) != 1)
		return error_errno(err, EIO, "create '%s'", path);
	*hex_encode(bytes, sizeof(bytes), text) = '\n';
	r = fd_create_file(path, text, sizeof(text));
	OPENSSL_cleanse(bytes, sizeof(bytes));
	OPENSSL_cleanse(text, sizeof(text));
	/* If another thread created the file first, its key is used. */
	return r < 0 && r != -EEXIST ? error_errno(err, -r, "create '%s'", path) : 0;
}
