/* SPDX-License-Identifier: Apache-2.0 */
/* hide_contents.c - does a file have a private key or a credential? Pure functions */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#include "work/hide_internal.h"

/* What a file may have; names without any of these are always hidden. */
enum {
	HIDE_KEY = 1,   /* a private key, in any encoding */
	HIDE_WORDS = 2, /* a word that goes with a secret */
	HIDE_NPM = 4,
	HIDE_YARN = 8,
	HIDE_PYPI = 16,
};

/* Files with these names are hidden by default only if they contain such things. */
static const struct {
	const char *name; /* with wildcards */
	unsigned what;
} hide_contents[] = {
	{ ".npmrc", HIDE_NPM },
	{ ".yarnrc.yml", HIDE_YARN },
	{ ".pypirc", HIDE_PYPI },
	{ "*.pem", HIDE_KEY },
	{ "*.key", HIDE_KEY },
	{ "*.p8", HIDE_KEY },
	{ "*.pk8", HIDE_KEY },
	{ "*.der", HIDE_KEY },
	{ "*.crt", HIDE_KEY },
	{ "*.cer", HIDE_KEY },
	{ "*.cert", HIDE_KEY },
	{ "deploy_key", HIDE_KEY },
	{ "id_*", HIDE_KEY },
	{ "*_rsa", HIDE_KEY },
	{ "*_dsa", HIDE_KEY },
	{ "*_ecdsa", HIDE_KEY },
	{ "*_ed25519", HIDE_KEY },
	{ ".flaskenv", HIDE_KEY | HIDE_WORDS },
	{ "credentials.json", HIDE_KEY | HIDE_WORDS },
	{ "application_default_credentials.json", HIDE_KEY | HIDE_WORDS },
	{ "*key*.json", HIDE_KEY },
	{ "*credential*.json", HIDE_KEY },
	{ "*account*.json", HIDE_KEY },
	{ "*.tfvars", HIDE_KEY | HIDE_WORDS },
	{ "*.tfstate", HIDE_KEY | HIDE_WORDS },
	{ "*.tfstate.*", HIDE_KEY | HIDE_WORDS },
	{ "*.env", HIDE_KEY | HIDE_WORDS },
	{ "*secret*.json", HIDE_KEY | HIDE_WORDS },
	{ "auth.json", HIDE_KEY | HIDE_WORDS },
	{ "*-????????????.json", HIDE_KEY },
	{ "kubeconfig*", HIDE_KEY | HIDE_WORDS },
	{ "*.kubeconfig", HIDE_KEY | HIDE_WORDS },
};

/*
 * Hidden regardless of case and contents: the key of Rails, which lacks the usual lines
 * around a key, '.env', and the names that ssh gives to keys.
 */
static const char *const hide_in_any_case[] = {
	"master.key", ".env",       "id_rsa",      "id_dsa",
	"id_ecdsa",   "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk",
};

static const struct {
	unsigned what;
	const char *word;
} hide_words[] = {
	{ HIDE_KEY, "private key" },     { HIDE_WORDS, "private_key" },
	{ HIDE_WORDS, "privatekey" },    { HIDE_WORDS, "secret" },
	{ HIDE_WORDS, "passw" },         { HIDE_WORDS, "token" },
	{ HIDE_WORDS, "access_key" },    { HIDE_WORDS, "accesskey" },
	{ HIDE_WORDS, "api_key" },       { HIDE_WORDS, "apikey" },
	{ HIDE_WORDS, "authorization" }, { HIDE_WORDS, "client-key" },
	{ HIDE_NPM, "_auth" },           { HIDE_NPM, "_password" },
	{ HIDE_YARN, "npmauth" },        { HIDE_PYPI, "password" },
};

unsigned hide_contents_of(const char *name)
{
	unsigned what = 0;

	for (size_t i = 0; i < ARRAY_SIZE(hide_in_any_case); i++)
		if (strcasecmp(name, hide_in_any_case[i]) == 0)
			return 0;
	for (size_t i = 0; i < ARRAY_SIZE(hide_contents); i++)
		if (fnmatch(hide_contents[i].name, name, FNM_CASEFOLD) == 0)
			what |= hide_contents[i].what;
	return what;
}

/* ------------------------------------------------------------------- binary keys */

/* An element of DER: its contents, and where the next one begins. */
struct der {
	unsigned tag;
	const unsigned char *at, *next;
};

static bool der_read(const unsigned char *at, const unsigned char *end, struct der *ret)
{
	size_t n, more;

	if (end - at < 2)
		return false;
	ret->tag = at[0];
	n = at[1];
	at += 2;
	if (n & 0x80) {
		more = n & 0x7f;
		if (more == 0 || more > 4 || (size_t)(end - at) < more)
			return false;
		for (n = 0; more > 0; more--)
			n = n << 8 | *at++;
	}
	if (n > (size_t)(end - at))
		return false;
	ret->at = at;
	ret->next = at + n;
	return true;
}

/*
 * A sequence that begins with a version is a private key (PKCS #1 and #8, SEC 1) or a
 * store of keys (PKCS #12); one with an algorithm and bytes, an encrypted key. A
 * certificate has a sequence and another one first, a public key a bit string second.
 */
static bool der_is_private_key(const char *text, size_t n)
{
	const unsigned char *data = (const unsigned char *)text;
	enum {
		INTEGER = 0x02,
		BYTES = 0x04,
		SEQUENCE = 0x30
	};
	struct der all, first, second;

	if (!der_read(data, data + n, &all) || all.tag != SEQUENCE ||
	    !der_read(all.at, all.next, &first) ||
	    !der_read(first.next, all.next, &second))
		return false;
	if (first.tag == INTEGER)
		return first.next - first.at == 1;
	return first.tag == SEQUENCE && second.tag == BYTES;
}

/* ------------------------------------------------------------------------ words */

bool hide_has_secret(const char *text, size_t n, unsigned what)
{
	struct buf plain AUTO_BUF = BUF_INIT(SIZE_MAX);

	if ((what & HIDE_KEY) && der_is_private_key(text, n))
		return true;
	/* In lower case, and without the zeros that UTF-16 has between letters. */
	for (size_t i = 0; i < n; i++) {
		char c = (char)tolower((unsigned char)text[i]);

		if (c)
			buf_add(&plain, &c, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(hide_words); i++)
		if ((what & hide_words[i].what) &&
		    memmem(plain.data ? plain.data : "", plain.len, hide_words[i].word,
			   strlen(hide_words[i].word)))
			return true;
	return plain.failed;
}
