/* SPDX-License-Identifier: Apache-2.0 */
/* test-cow.c - mounts and roots whose changes go to directories of the host */
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "lib/native-sandbox.h"

#define OWNER 54321 /* no user of this machine, and not of a sandbox */

/* A source with files of its owner and of root, and an empty .writes. */
struct project {
	char *source, *writes;
	struct warren_mount mount;
};

static void make_file(const char *dir, const char *name, mode_t mode, uid_t owner)
{
	AUTO_FREE char *path = NULL;

	OK(asprintf(&path, "%s/%s", dir, name) > 0);
	sandbox_put(path, "old\n", mode);
	EQ(chown(path, owner, owner), 0);
	EQ(chmod(path, mode), 0);
}

static struct project make_project(const char *name, uid_t owner)
{
	struct project p = { .source = sandbox_path("%s", name),
			     .writes = sandbox_path("%s.writes", name) };

	EQ(mkdir(p.source, 0755), 0);
	EQ(mkdir(p.writes, 0700), 0);
	EQ(chown(p.source, owner, owner), 0);
	make_file(p.source, "file", 0644, owner);
	make_file(p.source, "run", 0755, owner);
	make_file(p.source, "secret", 0600, OWNER + 1);
	p.mount = (struct warren_mount){ .source = p.source,
					 .target = "/p",
					 .writes = p.writes };
	return p;
}

/* Get the attributes of a file in .writes/upper. */
static struct stat upper(const struct project *p, const char *name)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	OK(asprintf(&path, "%s/upper/%s", p->writes, name) > 0);
	if (lstat(path, &st) < 0)
		TAP_FAIL("%s: %s", path, strerrordesc_np(errno));
	return st;
}

static bool in_source(const struct project *p, const char *name)
{
	AUTO_FREE char *path = NULL;

	OK(asprintf(&path, "%s/%s", p->source, name) > 0);
	return access(path, F_OK) == 0;
}

static void expect_old(const struct project *p)
{
	char text[16] = "";
	AUTO_FREE char *path = NULL;

	OK(asprintf(&path, "%s/file", p->source) > 0);
	EQ(fd_read_file_at(AT_FDCWD, path, text, sizeof(text)), 4);
	STREQ(text, "old\n");
}

/* Create a sandbox with the project @p at /p, which belongs to @owner. */
#define PROJECT(name, owner)                                \
	struct warren_error err UNUSED = WARREN_ERROR_INIT; \
	struct warren *w = native_engine();                 \
	struct project p = make_project(name, owner);       \
	struct warren_sandbox *sb = with_mounts(w, &p.mount, 1)

static struct warren_sandbox *with_mounts(struct warren *w,
					  const struct warren_mount *mounts, size_t n)
{
	return sandbox_make(w, &(struct warren_spec){ .mounts = mounts, .n_mounts = n });
}

TEST(changes_go_to_another_directory)
{
	PROJECT("changes", OWNER);

	STREQ(sandbox_says(sb, "stat -c '%u:%g %a' /p /p/file /p/run; cat /p/file"),
	      "0:0 755\n0:0 644\n0:0 755\nold");
	STREQ(sandbox_says(sb, "cd /p && echo new >file && echo more >more && rm run && "
			       "mkdir -p a/empty && cat file && ls"),
	      "new\na\nfile\nmore\nsecret");
	expect_old(&p);
	OK(in_source(&p, "run") && !in_source(&p, "more") && !in_source(&p, "a"));
	EQ(upper(&p, "file").st_size, 4);
	EQ(upper(&p, "file").st_uid, OWNER);
	EQ(upper(&p, "more").st_gid, OWNER);
	EQ(upper(&p, "more").st_mode, S_IFREG | 0644);
	OK(S_ISDIR(upper(&p, "a/empty").st_mode));
	OK(S_ISCHR(upper(&p, "run").st_mode) && upper(&p, "run").st_rdev == 0);
	END();
}

TEST(files_of_others_stay_protected)
{
	struct said s;

	PROJECT("others", OWNER);
	s = sandbox_sh(sb, "cat /p/secret");
	OK(s.res.exit_code != 0 && strstr(s.err, "denied"));
	STREQ(sandbox_says(sb, "stat -c %u /p/secret"), "65534");
	STREQ(sandbox_says(sb, "(echo x >/p/secret) 2>/dev/null || echo no"), "no");
	STREQ(sandbox_says(sb, "rm -f /p/secret 2>/dev/null || echo no"), "no");
	OK(in_source(&p, "secret"));
	END();
}

TEST(other_users_inside_keep_their_ids)
{
	PROJECT("users", OWNER);
	STREQ(sandbox_says(sb,
			   "cd /p; touch mine web && chown 33:44 web && chmod 4755 web; "
			   "stat -c '%u:%g' mine web"),
	      "0:0\n33:44");
	EQ(upper(&p, "mine").st_uid, OWNER);
	EQ(upper(&p, "web").st_uid, 33);
	EQ(upper(&p, "web").st_gid, 44);
	sandbox_destroy(sb);
	/* The next sandbox has another range of ids, and continues. */
	sb = with_mounts(w, &p.mount, 1);
	STREQ(sandbox_says(sb, "stat -c '%u:%g' /p/mine /p/web"), "0:0\n33:44");
	END();
}

TEST(the_owner_may_be_any_user)
{
	static const uid_t owners[] = { 0, 33, 65533, 70000, 4000000000U };

	for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "own%zu", i);
		PROJECT(name, owners[i]);
		STREQ(sandbox_says(
			      sb,
			      "cd /p; touch new 5 && chown 5 5; stat -c %u file new 5"),
		      "0\n0\n5");
		EQ(upper(&p, "new").st_uid, owners[i]);
		EQ(upper(&p, "5").st_uid, 5);
		END();
	}
}

TEST(links_are_kept)
{
	PROJECT("links", OWNER);
	STREQ(sandbox_says(sb,
			   "cd /p; ln -s /etc/passwd out; ln -s loop loop; ln -s file "
			   "rel; echo 1 >one; ln one two; readlink out loop rel; "
			   "stat -c %h one two"),
	      "/etc/passwd\nloop\nfile\n2\n2");
	OK(S_ISLNK(upper(&p, "out").st_mode) && S_ISLNK(upper(&p, "loop").st_mode));
	EQ(upper(&p, "one").st_ino, upper(&p, "two").st_ino);
	END();
}

TEST(a_new_directory_can_be_renamed_and_an_old_one_copied)
{
	AUTO_FREE char *old = NULL;
	char value[4];

	PROJECT("renames", OWNER);
	OK(asprintf(&old, "%s/old", p.source) > 0);
	EQ(mkdir(old, 0755), 0);
	EQ(chown(old, OWNER, OWNER), 0);
	make_file(p.source, "old/file", 0644, OWNER);
	STREQ(sandbox_says(sb,
			   "cd /p; mkdir new && touch new/x && mv new newer && mv old "
			   "older && ls -d *er older/file"),
	      "newer\nolder\nolder/file");
	OK(in_source(&p, "old/file"));
	OK(S_ISCHR(upper(&p, "old").st_mode));
	/* Removed and created again: nothing of the old one is visible. */
	STREQ(sandbox_says(sb, "cd /p; rm -r older; mkdir old; ls -A old; echo end"),
	      "end");
	free(old);
	OK(asprintf(&old, "%s/upper/old", p.writes) > 0);
	EQ(lgetxattr(old, "user.overlay.opaque", value, sizeof(value)), 1);
	END();
}

TEST(layers_are_over_the_source)
{
	PROJECT("layers", OWNER);
	AUTO_FREE char *top = sandbox_path("layers.top"),
		       *low = sandbox_path("layers.low");
	AUTO_FREE char *gone = sandbox_path("layers.top/run");
	const char *layers[] = { top, low, NULL };

	sandbox_destroy(sb);
	OK(mkdir(top, 0755) == 0 && mkdir(low, 0755) == 0);
	EQ(chown(low, OWNER, OWNER), 0);
	sandbox_put(sandbox_path("layers.top/a"), "top\n", 0644);
	sandbox_put(sandbox_path("layers.low/a"), "low\n", 0644);
	make_file(low, "b", 0644, OWNER);
	EQ(mknod(gone, S_IFCHR | 0600, makedev(0, 0)), 0);
	p.mount.layers = layers;
	sb = with_mounts(w, &p.mount, 1);
	STREQ(sandbox_says(sb, "cd /p; cat a b; stat -c %u a b; ls; echo 1 >>a; rm b"),
	      "top\nold\n0\n0\na\nb\nfile\nsecret");
	EQ(upper(&p, "a").st_size, 6);
	OK(access(sandbox_path("layers.low/b"), F_OK) == 0);
	END();
}

TEST(layers_below_the_source_hide_nothing_of_it)
{
	PROJECT("under", OWNER);
	AUTO_FREE char *low = sandbox_path("under.low"),
		       *high = sandbox_path("under.high"),
		       *dir = sandbox_path("under.low/d");
	const char *above[] = { high, NULL }, *below[] = { low, NULL };

	sandbox_destroy(sb);
	OK(mkdir(low, 0755) == 0 && mkdir(high, 0755) == 0 && mkdir(dir, 0755) == 0);
	EQ(chown(low, OWNER, OWNER), 0);
	EQ(chown(dir, OWNER, OWNER), 0);
	sandbox_put(sandbox_path("under.high/c"), "high\n", 0644);
	make_file(low, "file", 0644, OWNER);
	make_file(low, "only", 0644, OWNER);
	make_file(low, "c", 0644, OWNER);
	make_file(dir, "in", 0644, OWNER);
	sandbox_put(sandbox_path("under/file"), "source\n", 0644);
	p.mount.layers = above;
	p.mount.below = below;
	sb = with_mounts(w, &p.mount, 1);
	STREQ(sandbox_says(sb, "cd /p; cat file only c d/in; stat -c %u only d"),
	      "source\nold\nhigh\nold\n0\n0");
	STREQ(sandbox_says(sb, "cd /p; echo 1 >>only; rm d/in; ls d; cat only"),
	      "old\n1");
	OK(access(sandbox_path("under.low/d/in"), F_OK) == 0);
	END();
}

TEST(many_layers_are_accepted_and_too_many_refused)
{
	const char *layers[201] = { NULL };
	struct warren_sandbox *none = NULL;
	struct warren_spec spec = { .n_mounts = 1 };

	PROJECT("many", OWNER);
	sandbox_destroy(sb);
	for (size_t i = 0; i < 100; i++) {
		layers[i] = sandbox_path("many.%zu", i);
		EQ(mkdir(layers[i], 0755), 0);
		make_file(layers[i],
			  i == 0    ? "first"
			  : i == 99 ? "last"
				    : "any",
			  0644, 0);
	}
	p.mount.layers = layers;
	sb = with_mounts(w, &p.mount, 1);
	STREQ(sandbox_says(sb, "ls /p"), "any\nfile\nfirst\nlast\nrun\nsecret");
	sandbox_destroy(sb);
	for (size_t i = 100; i < 200; i++)
		layers[i] = layers[0];
	spec.mounts = &p.mount;
	FAILS(E2BIG, warren_create(w, &spec, &none, &err));
	w = warren_close(w);
}

TEST(the_root_has_layers_and_a_directory_for_changes)
{
	struct warren_error err UNUSED = WARREN_ERROR_INIT;
	struct warren *w = native_engine();
	AUTO_FREE char *writes = sandbox_path("root.writes"), *made = NULL;
	char *layers[] = { NULL, NULL };
	struct warren_spec spec = { .writes = writes };
	struct warren_sandbox *sb;

	EQ(mkdir(writes, 0700), 0);
	sb = sandbox_make(w, &spec);
	STREQ(sandbox_says(sb, "echo 1 >/root/tool; touch /root/web; chown 33 /root/web; "
			       "grep -c localhost /etc/hosts"),
	      "2");
	sandbox_destroy(sb);
	/* It becomes a layer, which no longer changes. */
	made = sandbox_path("root.writes/upper");
	layers[0] = made;
	spec = (struct warren_spec){ .layers = (const char *const *)layers };
	sb = sandbox_make(w, &spec);
	STREQ(sandbox_says(sb, "cat /root/tool; stat -c %u /root/tool /root/web; "
			       "echo 2 >/root/tool; cat /root/tool"),
	      "1\n0\n33\n2");
	END();
	sb = sandbox_make(w = native_engine(), &spec);
	STREQ(sandbox_says(sb, "cat /root/tool"), "1");
	END();
}

TEST(a_directory_for_changes_has_one_user)
{
	struct warren_sandbox *second = NULL;
	struct warren_spec spec = { .n_mounts = 1 };

	PROJECT("lock", OWNER);
	spec.mounts = &p.mount;
	FAILS(EBUSY, warren_create(w, &spec, &second, &err));
	STREQ(sandbox_says(sb, "echo still >/p/x; cat /p/x"), "still");
	sandbox_destroy(sb);
	sb = with_mounts(w, &p.mount, 1);
	STREQ(sandbox_says(sb, "cat /p/x"), "still");
	END();
}

static const struct project *swapped;

/* The directory for changes is locked after it was opened. */
int flock(int fd, int operation)
{
	const struct project *p = TAKE_PTR(swapped);
	AUTO_FREE char *aside = NULL, *link = NULL;
	int r = (int)syscall(SYS_flock, fd, operation);

	if (p) {
		OK(asprintf(&aside, "%s.aside", p->writes) > 0);
		OK(asprintf(&link, "%s.other", p->writes) > 0);
		EQ(rename(p->writes, aside), 0);
		EQ(mkdir(link, 0700), 0);
		EQ(symlink(link, p->writes), 0);
	}
	return r;
}

TEST(the_directory_that_was_locked_gets_the_changes)
{
	struct warren_error err UNUSED = WARREN_ERROR_INIT;
	struct warren *w = native_engine();
	struct project p = make_project("swapped", OWNER);
	AUTO_FREE char *aside = NULL;
	struct warren_sandbox *sb;

	OK(asprintf(&aside, "%s.aside", p.writes) > 0);
	swapped = &p;
	sb = with_mounts(w, &p.mount, 1);
	OK(!swapped);
	STREQ(sandbox_says(sb, "echo new >/p/more; cat /p/more"), "new");
	p.writes = aside;
	EQ(upper(&p, "more").st_size, 4);
	aside = NULL;
	END();
}

TEST(concurrent_sandboxes_of_one_project_do_not_affect_each_other)
{
	struct warren_mount other;
	struct warren_sandbox *second;

	PROJECT("twice", OWNER);
	other = p.mount;
	other.writes = sandbox_path("twice.second");
	EQ(mkdir(other.writes, 0700), 0);
	second = with_mounts(w, &other, 1);
	STREQ(sandbox_says(sb, "echo first >/p/file; cat /p/file"), "first");
	STREQ(sandbox_says(second, "cat /p/file; echo second >/p/new"), "old");
	STREQ(sandbox_says(sb, "cat /p/new 2>/dev/null || echo none"), "none");
	expect_old(&p);
	sandbox_destroy(second);
	END();
}

TEST(the_directories_of_the_host_are_not_visible_inside)
{
	PROJECT("hidden", OWNER);
	STREQ(sandbox_says(sb, "grep -c writes /proc/self/mountinfo; ls /tmp; echo end"),
	      "0\nend");
	STREQ(sandbox_says(sb, "umount /p 2>/dev/null || echo no; mknod /p/dev b 8 0 "
			       "2>/dev/null || echo no"),
	      "no\nno");
	END();
}

TEST(mounts_below_the_source_are_not_visible)
{
	AUTO_FREE char *below = NULL;

	PROJECT("below", OWNER);
	sandbox_destroy(sb);
	OK(asprintf(&below, "%s/tmpfs", p.source) > 0);
	EQ(mkdir(below, 0755), 0);
	EQ(mount("none", below, "tmpfs", 0, NULL), 0);
	make_file(p.source, "tmpfs/x", 0644, OWNER);
	sb = with_mounts(w, &p.mount, 1);
	STREQ(sandbox_says(sb, "ls -A /p/tmpfs; echo end"), "end");
	EQ(umount(below), 0);
	END();
}

TEST(a_file_system_that_cannot_be_a_layer_is_named)
{
	struct warren_sandbox *none = NULL;
	struct warren_spec spec = { .n_mounts = 1 };
	AUTO_FREE char *at = sandbox_path("ovl"), *options = NULL;

	PROJECT("base", OWNER);
	sandbox_destroy(sb);
	OK(mkdir(at, 0755) == 0 && mkdir(sandbox_path("ovl.u"), 0755) == 0 &&
	   mkdir(sandbox_path("ovl.w"), 0755) == 0);
	OK(asprintf(&options, "lowerdir=%s,upperdir=%s,workdir=%s", p.source,
		    sandbox_path("ovl.u"), sandbox_path("ovl.w")) > 0);
	EQ(mount("none", at, "overlay", 0, options), 0);
	spec.mounts = &p.mount;
	p.mount.source = at;
	FAILS(EOPNOTSUPP, warren_create(w, &spec, &none, &err));
	p.mount.source = p.source;
	p.mount.writes = sandbox_path("ovl/writes");
	EQ(mkdir(p.mount.writes, 0700), 0);
	FAILS(EOPNOTSUPP, warren_create(w, &spec, &none, &err));
	EQ(umount(at), 0);
	p.mount.writes = p.writes;
	sb = with_mounts(w, &p.mount, 1);
	STREQ(sandbox_says(sb, "cat /p/file"), "old");
	END();
}

TEST(hostile_leftovers_in_the_upper_directory_lead_nowhere)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = native_engine();
	AUTO_FREE char *writes = sandbox_path("evil.writes"),
		       *aim = sandbox_path("evil.aim");
	struct warren_spec spec = { .writes = writes };
	struct warren_sandbox *sb, *none = NULL;

	EQ(mkdir(writes, 0700), 0);
	EQ(mkdir(aim, 0777), 0);
	EQ(chmod(aim, 0777), 0);
	EQ(mkdir(sandbox_path("evil.writes/upper"), 0755), 0);
	EQ(symlink(aim, sandbox_path("evil.writes/upper/etc")), 0);
	if (warren_create(w, &spec, &sb, &err) == 0)
		sandbox_destroy(sb);
	OK(rmdir(aim) == 0); /* nothing was written there */
	/* A link instead of the directory is refused. */
	sandbox_remove_tree(sandbox_path("evil.writes/upper"));
	EQ(symlink("/etc", sandbox_path("evil.writes/upper")), 0);
	FAILS(ENOTDIR, warren_create(w, &spec, &none, &err));
	w = warren_close(w);
}

TEST(wrong_fields_are_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = native_engine();
	struct project p = make_project("wrong", OWNER);
	struct warren_sandbox *none = NULL;
	struct warren_mount m[] = {
		p.mount, p.mount, p.mount, p.mount, p.mount, p.mount
	};
	struct warren_spec spec = { .n_mounts = 1 };

	m[0].source = NULL;
	m[1].read_only = true;
	m[2].writes = "relative";
	m[3].writes = NULL;
	m[3].layers = ARGV("/tmp");
	m[4].writes = NULL;
	m[4].below = ARGV("/tmp");
	m[5].below = ARGV("relative");
	for (size_t i = 0; i < ARRAY_SIZE(m); i++) {
		spec.mounts = &m[i];
		FAILS(EINVAL, warren_create(w, &spec, &none, &err));
	}
	spec = (struct warren_spec){ .writes = p.writes, .durable = true };
	FAILS(EINVAL, warren_create(w, &spec, &none, &err));
	w = warren_close(w);
	w = sandbox_engine("null");
	spec.durable = false;
	FAILS(EOPNOTSUPP, warren_create(w, &spec, &none, &err));
	w = warren_close(w);
}

TEST_MAIN()
