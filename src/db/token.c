/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.c - secrets that identify a tenant
 *
 * A secret has 256 random bits (160 in the form of E2B), and the database contains its
 * SHA-256. Such a secret cannot be guessed, so one round of a fast hash is enough. A
 * lookup compares hashes, in a table in memory or in the index. Its run time can only
 * reveal something about the hash of the given secret, which a client cannot choose.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/hex.h"
#include "db/db_internal.h"

#define SECRET_PREFIX "wrn_"
#define SECRET_BYTES  32
#define E2B_PREFIX    "e2b_"
#define E2B_BYTES     20  /* SDKs of E2B refuse keys of another length */
#define TOKENS_SHOWN  256 /* a power of two, at most 256 */

_Static_assert(DB_SECRET_LEN == sizeof(SECRET_PREFIX) - 1 + 2 * (size_t)SECRET_BYTES,
	       "the length of a secret");
_Static_assert(DB_HASH_SIZE == 256 / 8, "the size of a hash");

static int make_secret(bool e2b, char ret[DB_SECRET_LEN + 1], struct warren_error *err)
{
	unsigned char bits[SECRET_BYTES];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return error_errno(err, errno, "create a secret");
	(void)hex_encode(bits, e2b ? E2B_BYTES : sizeof(bits),
			 stpcpy(ret, e2b ? E2B_PREFIX : SECRET_PREFIX));
	OPENSSL_cleanse(bits, sizeof(bits));
	return 0;
}

static int hash_secret(struct db *db, const char *secret, unsigned char ret[DB_HASH_SIZE],
		       struct warren_error *err)
{
	if (EVP_DigestInit_ex(db->digest, db->sha256, NULL) != 1 ||
	    EVP_DigestUpdate(db->digest, secret, strlen(secret)) != 1 ||
	    EVP_DigestFinal_ex(db->digest, ret, NULL) != 1)
		return error_errno(err, ENOMEM, "hash a secret");
	return 0;
}

/* ------------------------------------------------------ cache of recently used tokens */

struct db_shown {
	struct token_row row; /* the entry is empty if this has no block */
	unsigned char hash[DB_HASH_SIZE];
};

void tokens_forget(struct db *db)
{
	for (size_t i = 0; db->shown && i < TOKENS_SHOWN; i++)
		token_row_done(&db->shown[i].row);
}

/* Called for every changed row of any table: forget tokens that may have changed. */
static void on_change(void *ctx, int what, const char *file UNUSED, const char *table,
		      sqlite3_int64 row)
{
	struct db *db = ctx;

	if (strcmp(table, "tokens") != 0)
		return;
	tokens_forget(db);
	if (what != SQLITE_INSERT && !db->touching && db->token_changed)
		db->token_changed(db->token_ctx, (uint64_t)row);
}

void db_on_token(struct db *db, void (*fn)(void *ctx, uint64_t seq), void *ctx)
{
	db->token_changed = fn;
	db->token_ctx = ctx;
}

int tokens_open(struct db *db, struct warren_error *err)
{
	db->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	db->digest = EVP_MD_CTX_new();
	db->shown = calloc(TOKENS_SHOWN, sizeof(*db->shown));
	if (!db->sha256 || !db->digest || !db->shown)
		return error_errno(err, ENOMEM, "prepare for tokens");
	(void)sqlite3_update_hook(db->sql, on_change, db);
	return 0;
}

void tokens_close(struct db *db)
{
	tokens_forget(db);
	free(db->shown);
	EVP_MD_CTX_free(db->digest);
	EVP_MD_free(db->sha256);
}

/* ---------------------------------------------------------------- creation and lookup */

static int token_insert(struct db *db, const struct token_row *row, const char *id,
			const unsigned char hash[DB_HASH_SIZE], struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_INSERT_TOKEN);
	int r;

	query_text(&q, id);
	query_blob(&q, hash, DB_HASH_SIZE);
	query_text(&q, row->tenant);
	query_text(&q, row->name ? row->name : "");
	query_text(&q, row->scopes ? row->scopes : "");
	query_int(&q, row->created_at ? row->created_at : (int64_t)time(NULL) * 1000);
	query_int(&q, row->expires_at);
	query_text(&q, row->sandbox);
	r = query_run(&q, err);
	if (r < 0 && sqlite3_extended_errcode(db->sql) == SQLITE_CONSTRAINT_FOREIGNKEY)
		return error_set(err, ENOENT, "no sandbox '%s'", row->sandbox);
	return r < 0 ? r : 0;
}

int db_make_token(struct db *db, const struct token_row *row, char ret_id[ID_LEN + 1],
		  char ret_secret[DB_SECRET_LEN + 1], struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	unsigned char hash[DB_HASH_SIZE];
	char secret[DB_SECRET_LEN + 1];
	char id[ID_LEN + 1];
	struct tenant_row tenant;
	int r = make_secret(row->e2b, secret, err);

	if (r == 0)
		r = hash_secret(db, secret, hash, err);
	if (r == 0)
		r = db_begin(db, DB_POWER_SAFE, &tx, err);
	if (r == 0)
		r = db_get_tenant(db, row->tenant, &tenant, err);
	if (r < 0)
		return r;
	id_make(id);
	r = token_insert(db, row, id, hash, err);
	if (r == 0)
		r = db_commit(&tx, err);
	if (r < 0)
		return r;
	(void)strcpy(ret_id, id);
	(void)strcpy(ret_secret, secret);
	OPENSSL_cleanse(secret, sizeof(secret));
	return 0;
}

static void token_read_row(const struct query *q, struct token_row *row)
{
	*row = (struct token_row){
		.seq = column_u64(q, 9),
		.tenant = column_text(q, 1),
		.name = column_text(q, 2),
		.scopes = column_text(q, 3),
		.sandbox = column_text(q, 10),
		.created_at = column_int(q, 4),
		.expires_at = column_int(q, 5),
		.last_used = column_int(q, 6),
		.revoked_at = column_int(q, 7),
	};
	column_id(q, 0, row->id);
}

/* Copy the strings, which belong to the statement. */
static int token_own(struct token_row *row, struct warren_error *err)
{
	return strings_own((const char **const[]){ &row->tenant, &row->name, &row->scopes,
						   &row->sandbox },
			   4, &row->block, err);
}

/* Read the row of a hash into its slot of the cache. */
static int read_shown(struct db *db, const unsigned char hash[DB_HASH_SIZE],
		      struct db_shown *at, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_FIND_TOKEN);
	struct token_row row;
	int r;

	query_blob(&q, hash, DB_HASH_SIZE);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0 || sqlite3_column_bytes(q.stmt, 8) != DB_HASH_SIZE ||
	    CRYPTO_memcmp(sqlite3_column_blob(q.stmt, 8), hash, DB_HASH_SIZE) != 0)
		return error_set(err, ENOENT, "the token is not known");
	token_read_row(&q, &row);
	r = token_own(&row, err);
	if (r < 0)
		return r;
	token_row_done(&at->row);
	at->row = row;
	(void)memcpy(at->hash, hash, DB_HASH_SIZE);
	return 0;
}

/* Return a copy of @from, unless it is no longer valid. */
static int token_give(const struct token_row *from, int64_t now, struct token_row *ret,
		      struct warren_error *err)
{
	struct token_row row = *from;
	int r;

	if (row.revoked_at != 0)
		return error_set(err, EKEYREVOKED, "the token %s was revoked", row.id);
	if (row.expires_at != 0 && row.expires_at <= now)
		return error_set(err, EKEYEXPIRED, "the token %s has expired", row.id);
	r = token_own(&row, err);
	if (r < 0)
		return r;
	*ret = row;
	return 0;
}

int db_find_token(struct db *db, const char *secret, int64_t now, struct token_row *ret,
		  struct warren_error *err)
{
	unsigned char hash[DB_HASH_SIZE];
	struct db_shown *at;
	int r = hash_secret(db, secret, hash, err);

	if (r < 0)
		return r;
	at = &db->shown[hash[0] % TOKENS_SHOWN];
	if (!at->row.block || CRYPTO_memcmp(at->hash, hash, DB_HASH_SIZE) != 0)
		r = read_shown(db, hash, at, err);
	if (r < 0)
		return r;
	return token_give(&at->row, now, ret, err);
}

int db_get_token(struct db *db, const char *id, int64_t now, struct token_row *ret,
		 struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_GET_TOKEN);
	struct token_row row;
	int r;

	query_text(&q, id);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "no token '%s'", id);
	token_read_row(&q, &row);
	return token_give(&row, now, ret, err);
}

int db_touch_token(struct db *db, const struct token_row *row, int64_t now,
		   struct warren_error *err)
{
	AUTO_QUERY struct query q = { 0 };
	int r;

	if (now - row->last_used < DB_LAZY_MS)
		return 0;
	q = query_start(db, STMT_TOUCH_TOKEN);
	query_int(&q, now);
	query_text(&q, row->id);
	db->touching = true;
	r = query_run(&q, err);
	db->touching = false;
	return r < 0 ? r : 0;
}

int db_check_token(struct db *db, const char *id, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_CHECK_TOKEN);
	int r;

	query_text(&q, id);
	r = query_step(&q, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "no token '%s'", id);
	return column_int(&q, 0) != 0
		       ? error_set(err, EKEYREVOKED, "the token %s was revoked", id)
		       : 0;
}

int db_each_token(struct db *db, const char *tenant, uint64_t after, size_t max,
		  int (*fn)(void *ctx, const struct token_row *row), void *ctx,
		  struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_EACH_TOKEN);
	struct token_row row;

	query_u64(&q, after);
	query_limit(&q, max);
	query_text(&q, tenant);
	return QUERY_EACH(&q, token_read_row, &row, fn, ctx, err);
}

int db_revoke_token(struct db *db, const char *tenant, const char *id, int64_t now,
		    struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	AUTO_QUERY struct query q = { 0 };
	int r = db_begin(db, DB_POWER_SAFE, &tx, err);

	if (r < 0)
		return r;
	q = query_start(db, STMT_REVOKE_TOKEN);
	query_int(&q, now);
	query_text(&q, id);
	query_text(&q, tenant);
	r = query_run(&q, err);
	if (r == 0)
		return error_set(err, ENOENT, "no token '%s'", id);
	return r < 0 ? r : db_commit(&tx, err);
}

int db_prune_tokens(struct db *db, int64_t before, size_t max, struct warren_error *err)
{
	static const enum db_stmt over[] = { STMT_PRUNE_REVOKED, STMT_PRUNE_EXPIRED };
	int r = 0, n = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(over); i++) {
		AUTO_QUERY struct query q = query_start(db, over[i]);

		query_int(&q, before);
		query_limit(&q, max);
		r = query_run(&q, err);
		n += r;
	}
	return r < 0 ? r : n;
}

int db_count_tokens(struct db *db, int64_t now, uint64_t *ret, struct warren_error *err)
{
	AUTO_QUERY struct query q = query_start(db, STMT_COUNT_TOKENS);

	query_int(&q, now);
	return query_number(&q, ret, err);
}

void token_row_done(struct token_row *row)
{
	free(row->block);
	*row = (struct token_row){ 0 };
}
