/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-snapshot.c - the files of a sandbox become an image, from which sandboxes start
 */
#include "image/build_store.h"
#include "image/oci_export.h"
#include "image/snapshot.h"
#include "image/store_collect.h"
#include "lib/durable-sandbox.h"

static void snapshot_run(struct warren_sandbox *sb, const char *script)
{
	struct said said = sandbox_run(sb, SH(script));

	if (said.res.exit_code != 0)
		TAP_FAIL("'%s' ended with %d: %s", script, said.res.exit_code, said.err);
	free(said.out);
	free(said.err);
}

static struct store open_store(void)
{
	AUTO_FREE char *state = sandbox_path("state");
	struct warren_error err = WARREN_ERROR_INIT;
	struct store s;

	GOOD(store_open(state, true, &s, &err));
	return s;
}

/* Save the files of @sb, and create an image from them. */
static int take(struct warren_sandbox *sb, const char *parent, const char *config,
		char id[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	const struct snapshot_options options = { .parent = parent,
						  .config = config,
						  .created_by = "test" };
	struct snapshot_layer layer = { .dir = { .fd = -1 } };
	struct store s = open_store();
	struct warren_saved saved;
	int r;

	EQ(store_lock(&s, false, true), 0);
	r = store_new_work(&s, &layer.dir, err);
	if (r == 0)
		r = warren_save_files(sb, layer.dir.fd, 0, &saved, err);
	if (r == 0)
		r = build_store_finish(&layer.dir, NULL, layer.diff_id, &layer.size, err);
	if (r == 0)
		r = snapshot_record(&s, &layer, &options, NULL, id, err);
	store_drop_layer(&s, &layer.dir);
	store_unlock(&s);
	store_close(&s);
	return r;
}

static struct warren_sandbox *make_from(struct warren *w, const char *image)
{
	return sandbox_make(w, &(struct warren_spec){ .durable = true, .image = image });
}

/* Mount the machine's programs for an image that has none. */
static struct warren_sandbox *make_with_programs(struct warren *w, const char *image)
{
	static const struct warren_mount usr = { .source = "/usr",
						 .target = "/usr",
						 .read_only = true };

	return sandbox_make(w, &(struct warren_spec){ .durable = true,
						      .image = image,
						      .mounts = &usr,
						      .n_mounts = 1 });
}

TEST(a_snapshot_is_an_image)
{
	char first[REF_DIGEST_LEN + 1], second[REF_DIGEST_LEN + 1];
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb, *copy;
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	sb = make_durable(w);
	snapshot_run(sb, "echo one > /srv/file; rm /etc/login.defs; chown 7:8 /srv/file");
	GOOD(take(sb, "host", NULL, first, &err));
	/* The sandbox continues, and what it writes later is not part of the image. */
	snapshot_run(sb, "echo later > /srv/later");
	copy = make_from(w, first);
	snapshot_run(
		copy,
		"test \"$(cat /srv/file)\" = one && test \"$(stat -c %u:%g /srv/file)\" = 7:8 && "
		"test ! -e /etc/login.defs && test ! -e /srv/later && ls /usr/bin/env && "
		"grep -q $(hostname) /etc/hosts && test -c /dev/null");
	/* Take a snapshot of a sandbox that started from a snapshot. */
	snapshot_run(copy, "echo two >> /srv/file; echo defs > /etc/login.defs");
	GOOD(take(copy, first, "{\"Env\":[\"A=b\"],\"WorkingDir\":\"/srv\"}", second,
		  &err));
	OK(strcmp(first, second) != 0);
	sandbox_destroy(copy);
	copy = make_from(w, second);
	snapshot_run(copy,
		     "test \"$(cat file)\" = \"$(printf 'one\\ntwo')\" && test $A = b && "
		     "grep -q defs /etc/login.defs");
	sandbox_destroy(copy);
	/* The first one is unchanged. */
	copy = make_from(w, first);
	snapshot_run(copy, "test \"$(cat /srv/file)\" = one && test -z \"$A\"");
	sandbox_destroy(copy);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(a_snapshot_of_a_directory_shows_the_directory)
{
	AUTO_FREE char *root = NULL, *usr = NULL, *image = NULL;
	char id[REF_DIGEST_LEN + 1];
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	root = sandbox_path("root");
	usr = sandbox_path("root/usr");
	OK(mkdir(root, 0755) == 0 && mkdir(usr, 0755) == 0);
	OK(asprintf(&image, "dir:%s", root) > 0);
	/* Programs of the host, so that a shell runs there. */
	for (const char *const *d = ARGV("bin", "lib", "lib64", "sbin"); *d; d++) {
		AUTO_FREE char *at = sandbox_path("root/%s", *d), *to = NULL;

		OK(asprintf(&to, "usr/%s", *d) > 0);
		OK(symlink(to, at) == 0);
	}
	sb = make_with_programs(w, image);
	snapshot_run(sb, "echo inside > /made");
	GOOD(take(sb, image, NULL, id, &err));
	sandbox_destroy(sb);
	sb = make_with_programs(w, id);
	snapshot_run(sb, "test \"$(cat /made)\" = inside && test -L /bin");
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(a_snapshot_on_top_of_host_cannot_be_exported)
{
	char id[REF_DIGEST_LEN + 1];
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	struct oci_export x;
	struct store s;
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	sb = make_durable(w);
	snapshot_run(sb, "echo x > /srv/x");
	GOOD(take(sb, "host", NULL, id, &err));
	sandbox_destroy(sb);
	s = open_store();
	EQ(oci_export_open(&s, id, &x, &err), -EOPNOTSUPP);
	OK(strstr(err.msg, "only on this machine"));
	store_close(&s);
	w = warren_close(w);
}

TEST(a_failed_snapshot_leaves_nothing)
{
	char id[REF_DIGEST_LEN + 1];
	struct warren_error err = WARREN_ERROR_INIT;
	struct store_collected found;
	struct warren_sandbox *sb;
	struct store s;
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	sb = make_durable(w);
	snapshot_run(sb, "echo x > /srv/x");
	EQ(take(sb, "no-such-image:1", NULL, id, &err), -ENOENT);
	EQ(take(sb, "host", "[]", id, &err), -EINVAL);
	/* A name that images reserve for whiteouts. */
	snapshot_run(sb, "echo x > /srv/.wh.y");
	EQ(take(sb, "host", NULL, id, &err), -EINVAL);
	OK(strstr(err.msg, ".wh.y"));
	s = open_store();
	EQ(store_lock(&s, true, true), 0);
	EQ(store_collect(&s, &found), 0);
	/* The second snapshot had already added its layer, which no image uses. */
	EQ(found.layers, 1);
	EQ(found.leftovers, 0);
	store_unlock(&s);
	store_sweep(&s);
	store_close(&s);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST_MAIN()
