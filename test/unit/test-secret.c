/* SPDX-License-Identifier: Apache-2.0 */
/* test-secret.c - values are sealed for one tenant and one name, with a key in a file */
#include "secret/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "lib/state.h"

#define VALUE "a value that stays here"

static char key_path[128];
static unsigned char sealed[SECRET_SEALED_MAX];
static size_t sealed_n;
static char value[SECRET_VALUE_MAX + 1];
static size_t value_n;

static struct secret_key make_key(void)
{
	struct secret_key key;

	state_make();
	(void)snprintf(key_path, sizeof(key_path), "%s/secrets.key", state_dir);
	GOOD(secret_key_create(key_path, &err));
	GOOD(secret_key_load(key_path, &key, &err));
	return key;
}

static int unseal(const struct secret_key *key, const char *tenant, const char *name)
{
	return secret_unseal(key, tenant, name, sealed, sealed_n, value, &value_n, &err);
}

TEST(a_sealed_value_is_read_again)
{
	struct secret_key key = make_key();
	static char longest[SECRET_VALUE_MAX];

	GOOD(secret_seal(&key, "alice", "TOKEN", VALUE, strlen(VALUE), sealed, &sealed_n,
			 &err));
	EQ(sealed_n, strlen(VALUE) + SECRET_OVERHEAD);
	OK(!memmem(sealed, sealed_n, "value", 5));
	GOOD(unseal(&key, "alice", "TOKEN"));
	STREQ(value, VALUE);
	EQ(value_n, strlen(VALUE));

	(void)memset(longest, 'x', sizeof(longest));
	GOOD(secret_seal(&key, "alice", "TOKEN", longest, sizeof(longest), sealed,
			 &sealed_n, &err));
	GOOD(unseal(&key, "alice", "TOKEN"));
	EQ(value_n, sizeof(longest));
}

TEST(the_same_value_is_never_sealed_twice_in_the_same_way)
{
	struct secret_key key = make_key();
	unsigned char other[SECRET_SEALED_MAX];
	size_t n;

	GOOD(secret_seal(&key, "a", "B", VALUE, strlen(VALUE), sealed, &sealed_n, &err));
	GOOD(secret_seal(&key, "a", "B", VALUE, strlen(VALUE), other, &n, &err));
	EQ(n, sealed_n);
	OK(memcmp(sealed, other, n) != 0);
}

TEST(a_value_belongs_to_its_tenant_and_name)
{
	struct secret_key key = make_key();

	GOOD(secret_seal(&key, "alice", "TOKEN", VALUE, strlen(VALUE), sealed, &sealed_n,
			 &err));
	EQ(unseal(&key, "bob", "TOKEN"), -EBADMSG);
	EQ(unseal(&key, "alice", "OTHER"), -EBADMSG);
	/* Characters cannot be moved from the tenant to the name either. */
	EQ(unseal(&key, "alic", "eTOKEN"), -EBADMSG);
	GOOD(unseal(&key, "alice", "TOKEN"));
}

TEST(a_damaged_value_is_refused)
{
	struct secret_key key = make_key();

	GOOD(secret_seal(&key, "a", "B", VALUE, strlen(VALUE), sealed, &sealed_n, &err));
	for (size_t i = 0; i < sealed_n; i++) {
		sealed[i] ^= 1;
		OK(unseal(&key, "a", "B") < 0);
		OK(!strstr(err.msg, "stays"));
		sealed[i] ^= 1;
	}
	for (size_t n = 0; n < sealed_n; n++)
		OK(secret_unseal(&key, "a", "B", sealed, n, value, &value_n, &err) < 0);
	GOOD(unseal(&key, "a", "B"));
}

TEST(a_key_is_created_once_and_private)
{
	struct secret_key key = make_key(), again;
	struct stat st;

	OK(stat(key_path, &st) == 0);
	EQ(st.st_mode & 07777, 0600);
	GOOD(secret_key_create(key_path, &err));
	GOOD(secret_key_load(key_path, &again, &err));
	OK(memcmp(&key, &again, sizeof(key)) == 0);
	/* The key exists only in its file. */
	EQ(unlink(key_path), 0);
	EQ(rmdir(state_dir), 0);
}

TEST(a_key_that_cannot_be_used_is_an_error_that_says_so)
{
	struct secret_key key = make_key(), other;
	int fd;

	GOOD(secret_seal(&key, "a", "B", VALUE, strlen(VALUE), sealed, &sealed_n, &err));
	OK(chmod(key_path, 0640) == 0);
	EQ(secret_key_load(key_path, &other, &err), -ENOKEY);
	OK(strstr(err.msg, "0600"));
	OK(chmod(key_path, 0600) == 0);
	GOOD(secret_key_load(key_path, &other, &err));

	fd = open(key_path, O_WRONLY | O_CLOEXEC);
	OK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
	EQ(secret_key_load(key_path, &other, &err), -ENOKEY);
	OK(strstr(err.msg, "damaged"));

	OK(unlink(key_path) == 0);
	EQ(secret_key_load(key_path, &other, &err), -ENOKEY);
	OK(strstr(err.msg, "missing"));
	GOOD(secret_key_create(key_path, &err));
	GOOD(secret_key_load(key_path, &other, &err));
	EQ(unseal(&other, "a", "B"), -ENOKEY);
	OK(strstr(err.msg, "another key"));
	GOOD(unseal(&key, "a", "B"));
}

TEST(values_that_no_header_can_contain_are_refused)
{
	static char longer[SECRET_VALUE_MAX + 1];
	static const char *const bad[] = { "", "a\nb", "a\rb", "a\x01", "\x7f" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		EQ(secret_check_value(bad[i], strlen(bad[i]), &err), -EINVAL);
	EQ(secret_check_value("a\0b", 3, &err), -EINVAL);
	(void)memset(longer, 'x', sizeof(longer));
	EQ(secret_check_value(longer, sizeof(longer), &err), -EINVAL);
	GOOD(secret_check_value(longer, SECRET_VALUE_MAX, &err));
	GOOD(secret_check_value("tab\tand \xc3\xa9", 10, &err));
}

TEST(names_are_like_those_of_variables)
{
	char name[SECRET_NAME_MAX + 2];

	OK(secret_name_ok("A") && secret_name_ok("_a9") &&
	   secret_name_ok("GITHUB_TOKEN"));
	OK(!secret_name_ok("") && !secret_name_ok("9a") && !secret_name_ok("a-b"));
	OK(!secret_name_ok("a b") && !secret_name_ok("a/../b") &&
	   !secret_name_ok("\xc3\xa9"));
	(void)memset(name, 'a', sizeof(name));
	name[SECRET_NAME_MAX] = '\0';
	OK(secret_name_ok(name));
	name[SECRET_NAME_MAX] = 'a';
	name[SECRET_NAME_MAX + 1] = '\0';
	OK(!secret_name_ok(name));
}

/* ------------------------------------------------------------------ the database */

static int put(struct db *db, const char *tenant, const char *name, const char *text)
{
	const struct secret_row row = { .tenant = tenant,
					.name = name,
					.sealed = text,
					.sealed_n = strlen(text),
					.updated_at = NOW };

	return db_put_secret(db, &row, &err);
}

static int add_name(void *ctx, const struct secret_row *row)
{
	(void)strcat(strcat(ctx, row->name), " ");
	OK(!row->sealed);
	return 0;
}

TEST(each_tenant_has_its_own_secrets)
{
	AUTO_SECRET_ROW struct secret_row row = { 0 };
	char names[256] = "";
	uint64_t n = 0;
	struct db *db;

	state_make();
	db = state_open();
	put_tenant(db, "alice", DB_UNLIMITED, 10, DB_UNLIMITED);
	put_tenant(db, "bob", DB_UNLIMITED, 10, DB_UNLIMITED);
	EQ(put(db, "no-such", "A", "x"), -ENOENT);
	EQ(put(db, "alice", "B", "old"), 1);
	EQ(put(db, "alice", "B", "new"), 0);
	EQ(put(db, "alice", "A", "x"), 1);
	EQ(put(db, "bob", "B", "bob's"), 1);
	GOOD(db_get_secret(db, "alice", "B", &row, &err));
	EQ(row.sealed_n, 3);
	OK(memcmp(row.sealed, "new", 3) == 0);
	secret_row_done(&row);
	EQ(db_get_secret(db, "bob", "A", &row, &err), -ENOENT);
	GOOD(db_each_secret(db, "alice", "", 0, add_name, names, &err));
	STREQ(names, "A B ");
	names[0] = '\0';
	GOOD(db_each_secret(db, "alice", "A", 10, add_name, names, &err));
	STREQ(names, "B ");
	EQ(db_delete_secret(db, "bob", "A", &err), -ENOENT);
	GOOD(db_delete_secret(db, "alice", "A", &err));
	GOOD(db_count_secrets(db, NULL, &n, &err));
	EQ(n, 2);
	GOOD(db_delete_tenant(db, "bob", &err));
	GOOD(db_count_secrets(db, NULL, &n, &err));
	EQ(n, 1);
	db_close(db);
}

TEST(a_tenant_has_a_limited_number_of_secrets)
{
	struct db *db;
	char name[32];

	state_make();
	db = state_open();
	put_tenant(db, "alice", DB_UNLIMITED, 10, DB_UNLIMITED);
	db_sync_later(db);
	for (int i = 0; i < DB_SECRETS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "S%d", i);
		EQ(put(db, "alice", name, "x"), 1);
	}
	EQ(put(db, "alice", "ONE_MORE", "x"), -EUSERS);
	EQ(put(db, "alice", "S1", "y"), 0);
	GOOD(db_delete_secret(db, "alice", "S2", &err));
	EQ(put(db, "alice", "ONE_MORE", "x"), 1);
	db_close(db);
}

TEST_MAIN()
