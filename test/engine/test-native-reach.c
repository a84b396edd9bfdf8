/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-native-reach.c - the native backend: files, disks, volumes, users, ports and
 * networks
 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "lib/native-sandbox.h"

/* -------------------------------------------------------------------- files */

static int open_file(struct warren_sandbox *sb, const char *path, int flags, mode_t mode,
		     const char *user)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int fd = -1, r = warren_file_open(sb, path, flags, mode, user, &fd, &err);

	EQ(r == 0, fd >= 0);
	EQ(-r, err.code);
	return r < 0 ? r : fd;
}

static char *read_file(struct warren_sandbox *sb, const char *path)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char *text = NULL;
	size_t n = 0;

	GOOD(warren_file_read(sb, path, MIB, &text, &n, &err));
	return text;
}

TEST(a_descriptor_is_passed_to_the_client)
{
	int fd;

	BEGIN(0);
	fd = open_file(sb, "/tmp/new", O_RDWR | O_CREAT | O_EXCL, 0604, NULL);
	OK(fd >= 0);
	EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	EQ(write(fd, "from outside", 12), 12);
	STREQ(sandbox_says(sb, "cat /tmp/new; stat -c ' %a %u:%g' /tmp/new"),
	      "from outside 604 0:0");
	EQ(open_file(sb, "/tmp/new", O_WRONLY | O_CREAT | O_EXCL, 0600, NULL), -EEXIST);
	EQ(open_file(sb, "/tmp/none", O_RDONLY, 0, NULL), -ENOENT);
	EQ(open_file(sb, "/tmp/new/x", O_RDONLY, 0, NULL), -ENOTDIR);
	fd = open_file(sb, "/tmp", O_RDONLY | O_DIRECTORY, 0, NULL);
	OK(fd >= 0);
	END();
}

/* The umask has no effect; files get the requested mode. */
TEST(a_file_is_opened_with_the_requested_mode)
{
	static const mode_t modes[] = { 0600, 0640, 0666, 0755, 0777, 0444, 0 };

	BEGIN(0);
	(void)umask(077);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		char path[32], script[64], want[8];

		(void)snprintf(path, sizeof(path), "/tmp/f%zu", i);
		(void)snprintf(script, sizeof(script), "stat -c %%a %s", path);
		(void)snprintf(want, sizeof(want), "%o", modes[i]);
		OK(open_file(sb, path, O_WRONLY | O_CREAT, modes[i], NULL) >= 0);
		STREQ(sandbox_says(sb, script), want);
	}
	END();
}

/* Links of every kind that lead out of a root are resolved inside. */
TEST(links_are_resolved_inside_the_sandbox)
{
	char *host = sandbox_path("outside");

	BEGIN(0);
	sandbox_put(host, "the host's", 0644);
	OK(sandbox_run(sb, ARGV("sh", "-c",
				"cd /tmp; ln -s \"$1\" abs;"
				" ln -s ../../../../../../../..\"$1\" rel;"
				" ln -s / root; ln -s /proc/1/root proc; ln -s loop loop;"
				" ln -s /etc/passwd good; echo mine > /etc/marker;"
				" ln -s ../../../../etc/marker dots",
				"sh", host))
		   .res.exit_code == 0);
	EQ(open_file(sb, "/tmp/abs", O_RDONLY, 0, NULL), -ENOENT);
	EQ(open_file(sb, "/tmp/rel", O_RDONLY, 0, NULL), -ENOENT);
	EQ(open_file(sb, "/tmp/loop", O_RDONLY, 0, NULL), -ELOOP);
	EQ(open_file(sb, "/tmp/good", O_RDONLY | O_NOFOLLOW, 0, NULL), -ELOOP);
	STREQ(read_file(sb, "/tmp/dots"), "mine\n");
	STREQ(read_file(sb, "/tmp/root/tmp/root/etc/marker"), "mine\n");
	STREQ(read_file(sb, "/tmp/good"), read_file(sb, "/etc/passwd"));
	OK(open_file(sb, "/tmp/proc/etc/marker", O_RDONLY, 0, NULL) < 0);
	/*
	 * Writing through a link creates a file inside, at the target of the link, and
	 * none outside.
	 */
	OK(sandbox_sh(sb, "mkdir -p /tmp/d; ln -s /made-by-link /tmp/d/l")
		   .res.exit_code == 0);
	OK(open_file(sb, "/tmp/d/l", O_WRONLY | O_CREAT, 0600, NULL) >= 0);
	OK(sandbox_sh(sb, "test -f /made-by-link").res.exit_code == 0);
	EQ(access("/made-by-link", F_OK), -1);
	END();
}

/* While a link is exchanged repeatedly, every opened file is inside. */
TEST(a_link_swapped_during_a_check_does_not_lead_outside)
{
	char *host = sandbox_path("swapped");
	struct warren_exec *ex;
	size_t good = 0;

	BEGIN(0);
	sandbox_put(host, "the host's", 0644);
	OK(sandbox_run(sb,
		       ARGV("sh", "-c",
			    "mkdir -p \"$1\" /tmp/a; rmdir \"$1\"; echo inside > \"$1\";"
			    " echo inside > /tmp/a/f; ln -s / /tmp/b",
			    "sh", host))
		   .res.exit_code == 0);
	ex = sandbox_start(
		sb,
		&(struct warren_exec_spec){
			.argv = SH(
				"cd /tmp; i=0; while [ $i -lt 3000 ]; do ln -sfn a x;"
				" ln -sfn b x; ln -sfn ../../.. x; i=$((i + 1)); done"),
			.timeout_ms = 20000 });
	for (int i = 0; i < 2000; i++) {
		int fd = open_file(sb, i % 2 ? "/tmp/x/f" : "/tmp/x/etc/passwd", O_RDONLY,
				   0, NULL);
		struct statfs fs;

		if (fd < 0)
			continue;
		good++;
		EQ(fstatfs(fd, &fs), 0);
		EQ(fs.f_type, 0x794c7630); /* an overlay: the sandbox's root */
		(void)close(fd);
	}
	OK(good > 0);
	ex = warren_exec_free(ex);
	END();
}

TEST(files_below_proc_are_refused)
{
	static const char *const paths[] = {
		"/proc/1/mem",           "/proc/self/mem",          "/proc/self/environ",
		"/proc/1/fd/3",          "/proc/self/exe",          "/proc/self/cwd",
		"/proc/self/root",       "/proc/1/root/etc/passwd", "/proc/self/fd/0",
		"/proc/thread-self/mem", "/proc/version",
	};

	BEGIN(0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		int r = open_file(sb, paths[i], O_RDONLY, 0, NULL);

		if (r != -EACCES && r != -ELOOP && r != -EPERM)
			TAP_FAIL("%s gives %d", paths[i], r);
	}
	/* The same is true through a link, but a command of the sandbox may read it. */
	OK(sandbox_sh(sb, "ln -s /proc/self/environ /tmp/e; cat /proc/version")
		   .res.exit_code == 0);
	EQ(open_file(sb, "/tmp/e", O_RDONLY, 0, NULL), -EACCES);
	END();
}

TEST(opening_special_files_does_not_block)
{
	struct stat st;
	char *text = NULL, c;
	size_t n = 0;
	int fd;

	BEGIN(0);
	EQ(sandbox_sh(sb, "mkfifo /tmp/fifo").res.exit_code, 0);
	fd = open_file(sb, "/tmp/fifo", O_RDONLY, 0, NULL);
	OK(fd >= 0);
	EQ(fstat(fd, &st), 0);
	OK(S_ISFIFO(st.st_mode));
	EQ(read(fd, &c, 1), 0);
	(void)close(fd);
	EQ(open_file(sb, "/tmp/fifo", O_WRONLY, 0, NULL), -ENXIO);
	FAILS(EINVAL, warren_file_read(sb, "/tmp/fifo", 100, &text, &n, &err));
	OK(warren_file_write(sb, "/tmp/fifo", "x", 1, 0600, &err) < 0);
	FAILS(EISDIR, warren_file_read(sb, "/tmp", 100, &text, &n, &err));
	FAILS(EINVAL, warren_file_read(sb, "/dev/zero", 100, &text, &n, &err));
	fd = open_file(sb, "/dev/tty", O_RDWR, 0, NULL);
	OK(fd < 0); /* neither init nor the engine gets a controlling terminal */
	END();
}

TEST(files_are_opened_with_the_rights_of_an_ordinary_user)
{
	int fd;

	BEGIN(.user = "1000:1000");
	EQ(sandbox_run_spec(
		   sb,
		   (struct warren_exec_spec){
			   .argv = SH("echo s > /root/secret; chmod 700 /root;"
				      " echo g > /tmp/group; chgrp 1000 /tmp/group;"
				      " chmod 640 /tmp/group; echo o > /tmp/other;"
				      " chmod 640 /tmp/other"),
			   .user = "root" })
		   .res.exit_code,
	   0);
	EQ(open_file(sb, "/root/secret", O_RDONLY, 0, NULL), -EACCES);
	EQ(open_file(sb, "/tmp/other", O_RDONLY, 0, NULL), -EACCES);
	EQ(open_file(sb, "/tmp/group", O_WRONLY, 0, NULL), -EACCES);
	EQ(open_file(sb, "/etc/new", O_WRONLY | O_CREAT, 0644, NULL), -EACCES);
	OK(open_file(sb, "/tmp/group", O_RDONLY, 0, NULL) >= 0);
	OK(open_file(sb, "/root/secret", O_RDONLY, 0, "root") >= 0);
	OK(open_file(sb, "/root/secret", O_RDONLY, 0, "0:0") >= 0);
	fd = open_file(sb, "/tmp/mine", O_WRONLY | O_CREAT, 0600, NULL);
	OK(fd >= 0);
	STREQ(sandbox_says(sb, "stat -c %u:%g /tmp/mine"), "1000:1000");
	OK(open_file(sb, "/tmp/mine", O_RDONLY, 0, "1001") == -EACCES);
	/* init has the rights of root again after each request. */
	OK(open_file(sb, "/root/secret", O_RDONLY, 0, "root") >= 0);
	END();
}

/* Supplementary groups apply to files as they do to commands. */
TEST(files_of_a_supplementary_group_can_be_opened)
{
	BEGIN(0);
	OK(sandbox_sh(sb, "echo 'ann:x:1500:1500::/:/bin/sh' >> /etc/passwd;"
			  " echo 'team:x:1600:ann' >> /etc/group;"
			  " echo x > /tmp/f; chgrp 1600 /tmp/f; chmod 640 /tmp/f")
		   .res.exit_code == 0);
	EQ(sandbox_run_spec(sb, (struct warren_exec_spec){ .argv = ARGV("cat", "/tmp/f"),
							   .user = "ann" })
		   .res.exit_code,
	   0);
	OK(open_file(sb, "/tmp/f", O_RDONLY, 0, "ann") >= 0);
	EQ(open_file(sb, "/tmp/f", O_RDONLY, 0, "1500:1500"), -EACCES);
	END();
}

/* --------------------------------------------------------------------- disks */

static void check_disk(struct warren_sandbox *sb, unsigned size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	static char data[32 * MIB];
	struct said s;

	s = sandbox_sh(sb, "head -c 100000000 /dev/zero > /tmp/big");
	OK(s.res.exit_code != 0);
	OK(strstr(s.err, "No space left"));
	OK(strtoull(sandbox_says(sb, "stat -c %s /tmp/big"), NULL, 10) <= size);
	FAILS(ENOSPC, warren_file_write(sb, "/tmp/more", data, sizeof(data), 0600, &err));
	/* Freed space can be used again; the limit applies to the sum of all files. */
	STREQ(sandbox_says(sb,
			   "rm /tmp/big /tmp/more; echo x > /etc/new && cat /etc/new"),
	      "x");
	s = sandbox_sh(sb, "head -c 100000000 /dev/zero > /etc/big");
	OK(strstr(s.err, "No space left"));
	STREQ(sandbox_says(sb, "rm /etc/big; echo fine"), "fine");
}

TEST(the_disk_limit_is_enforced)
{
	BEGIN(.disk = 16 * MIB);
	EQ(strtoull(enforced(sb, "disk"), NULL, 10), 16 * MIB);
	check_disk(sb, 16 * MIB);
	END();
}

/* A disk that is larger than the memory limit is in a file. */
TEST(a_disk_larger_than_memory_is_kept_in_a_file)
{
	struct warren_sandbox *sb = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = native_engine();

	if (warren_create(w,
			  &(struct warren_spec){ .memory = 24 * MIB, .disk = 64 * MIB },
			  &sb, &err) < 0)
		SKIP("no disk in a file here: %.200s", err.msg);
	/* All of the disk can be used, although the memory is only a third of its size.
	 */
	STREQ(sandbox_says(sb, "head -c 45000000 /dev/zero > /tmp/f && stat -c %s /tmp/f;"
			       " rm /tmp/f"),
	      "45000000");
	check_disk(sb, 64 * MIB);
	END();
}

TEST(the_number_of_inodes_is_limited)
{
	struct said s;

	BEGIN(.disk = 2 * MIB);
	s = sandbox_sh(sb, "mkdir /tmp/d; cd /tmp/d; i=0; while [ $i -lt 20000 ]; do"
			   " : > $i || exit 9;"
			   " i=$((i + 1)); done");
	OK(s.res.exit_code != 0);
	OK(strstr(s.err, "No space left") || strstr(s.err, "cannot create"));
	STREQ(sandbox_says(sb, "rm -r /tmp/d; echo x > /tmp/f; cat /tmp/f"), "x");
	END();
}

TEST(a_read_only_root_cannot_be_written_to)
{
	BEGIN(.read_only = true,
	      .mounts = (struct warren_mount[]){ { .target = "/job" } }, .n_mounts = 1);
	EQ(sandbox_sh(sb, "echo x > /tmp/x").res.exit_code != 0, true);
	EQ(open_file(sb, "/etc/x", O_WRONLY | O_CREAT, 0600, NULL), -EROFS);
	EQ(open_file(sb, "/usr/x", O_WRONLY | O_CREAT, 0600, NULL), -EROFS);
	STREQ(sandbox_says(sb, "echo x > /job/x; cat /job/x; echo y > /dev/null;"
			       " echo z > /dev/shm/z"),
	      "x");
	OK(enforced(sb, "read_only"));
	END();
}

TEST(a_tmpfs_has_its_size_and_mode)
{
	struct warren_mount mounts[] = { { .target = "/t", .size = 4 * MIB },
					 { .target = "/a/b/c d" },
					 { .target = "/ro", .read_only = true } };
	struct said s;

	BEGIN(.mounts = mounts, .n_mounts = 3);
	STREQ(sandbox_says(sb, "stat -c '%a %u %g' /t; stat -f -c %T /t '/a/b/c d'"),
	      "1777 0 0\ntmpfs\ntmpfs");
	s = sandbox_sh(sb, "head -c 10000000 /dev/zero > /t/x");
	OK(strstr(s.err, "No space left"));
	OK(strtoull(sandbox_says(sb, "stat -c %s /t/x"), NULL, 10) <= 4 * MIB);
	EQ(sandbox_sh(sb, "echo x > /ro/x").res.exit_code != 0, true);
	s = sandbox_run_spec(
		sb, (struct warren_exec_spec){ .argv = SH("echo x > '/a/b/c d/x'"),
					       .user = "1000" });
	EQ(s.res.exit_code, 0);
	END();
}

/* ------------------------------------------------------------------- volumes */

static char *make_volume(const char *name, uid_t owner)
{
	char *path = sandbox_path("%s", name), *file = sandbox_path("%s/file", name);

	EQ(mkdir(path, 0755), 0);
	sandbox_put(file, "before", 0644);
	EQ(chown(file, owner, owner), 0);
	EQ(chown(path, owner, owner), 0);
	return path;
}

/*
 * Files of @owner outside belong to @user inside, and files that @user creates belong to
 * @owner outside.
 */
static void check_ownership(const char *name, uid_t owner, const char *user,
			    const char *seen)
{
	char *path = make_volume(name, owner), want[64];
	struct warren_mount m = { .source = path, .target = "/v" };
	struct stat st;

	BEGIN(.user = user, .mounts = &m, .n_mounts = 1);
	(void)snprintf(want, sizeof(want), "%s\n%s\nbefore", seen, seen);
	STREQ(sandbox_says(sb, "stat -c %u:%g /v /v/file; cat /v/file"), want);
	STREQ(sandbox_says(sb, "echo made > /v/new; mkdir /v/dir; echo more >> /v/file;"
			       " rm -f /v/none;"
			       " stat -c %u:%g /v/new"),
	      seen);
	EQ(stat(sandbox_path("%s/new", name), &st), 0);
	EQ(st.st_uid, owner);
	EQ(st.st_gid, owner);
	EQ(stat(sandbox_path("%s/dir", name), &st), 0);
	EQ(st.st_uid, owner);
	EQ(warren_file_write(sb, "/v/by-api", "x", 1, 0600, &err), 0);
	EQ(stat(sandbox_path("%s/by-api", name), &st), 0);
	EQ(st.st_uid, owner);
	END();
}

TEST(root_owns_a_volume_of_root)
{
	check_ownership("root-root", 0, NULL, "0:0");
}

TEST(root_owns_a_volume_of_an_ordinary_user)
{
	check_ownership("person-root", 1000, NULL, "0:0");
}

TEST(an_ordinary_user_owns_a_volume_of_root)
{
	check_ownership("root-user", 0, "1000:1000", "1000:1000");
}

TEST(an_ordinary_user_owns_their_own_volume)
{
	check_ownership("person-same", 1000, "1000:1000", "1000:1000");
}

TEST(an_ordinary_user_owns_a_volume_of_another_user)
{
	check_ownership("person-other", 1000, "33:33", "33:33");
}

TEST(root_owns_a_volume_of_a_user_with_a_large_id)
{
	check_ownership("large", 1000000, NULL, "0:0");
}

/* Nothing that root inside does creates a file of root in a user's directory. */
TEST(root_inside_creates_no_file_of_root_in_a_users_volume)
{
	char *path = make_volume("plant", 1000);
	struct warren_mount m = { .source = path, .target = "/v" };
	struct stat st;

	BEGIN(.mounts = &m, .n_mounts = 1);
	(void)sandbox_sh(
		sb, "cp /bin/true /v/suid; chmod 4755 /v/suid; chown 0:0 /v/suid; cd /v;"
		    " i=0; while [ $i -lt 300 ]; do : > f$i; chown $i:$i f$i;"
		    " i=$((i + 1)); done");
	EQ(stat(sandbox_path("plant/suid"), &st), 0);
	EQ(st.st_uid, 1000);
	for (int i = 0; i < 300; i++) {
		char *file = sandbox_path("plant/f%d", i);

		EQ(stat(file, &st), 0);
		OK(st.st_uid != 0 && st.st_gid != 0);
		free(file);
	}
	END();
}

/* Without a writable directory of the machine, it is possible. */
TEST(a_client_creates_set_id_files_next_to_a_read_only_volume)
{
	struct warren_mount m = { .source = make_volume("none", 1000),
				  .target = "/v",
				  .read_only = true };

	BEGIN(.mounts = &m, .n_mounts = 1);
	OK(open_file(sb, "/tmp/uid", O_WRONLY | O_CREAT, 04755, NULL) >= 0);
	STREQ(sandbox_says(sb, "stat -c %a /tmp/uid"), "4755");
	END();
}

/* The file worker opens files with openat2(2), whose mode the filter cannot see. */
TEST(a_client_creates_no_set_id_file_in_a_volume)
{
	struct warren_mount m = { .source = make_volume("bits", 1000), .target = "/v" };
	const int new = O_WRONLY | O_CREAT | O_EXCL;
	struct stat st;

	BEGIN(.mounts = &m, .n_mounts = 1);
	EQ(open_file(sb, "/v/uid", new, 04755, NULL), -EPERM);
	EQ(open_file(sb, "/v/gid", new, 02755, NULL), -EPERM);
	EQ(stat(sandbox_path("bits/uid"), &st), -1);
	OK(open_file(sb, "/v/sticky", new, 01755, NULL) >= 0);
	EQ(stat(sandbox_path("bits/sticky"), &st), 0);
	EQ(st.st_mode & 07777, 01755);
	END();
}

TEST(a_read_only_volume_cannot_be_written)
{
	char *path = make_volume("ro", 0);
	struct warren_mount m[] = { { .source = path, .target = "/v", .read_only = true },
				    { .source = path, .target = "/w" } };
	struct said s;

	BEGIN(.mounts = m, .n_mounts = 2);
	s = sandbox_sh(sb, "echo x > /v/file");
	OK(s.res.exit_code != 0 && strstr(s.err, "Read-only"));
	EQ(open_file(sb, "/v/file", O_WRONLY, 0, NULL), -EROFS);
	OK(sandbox_sh(sb, "mount -o remount,rw /v").res.exit_code != 0);
	STREQ(sandbox_says(sb, "echo x > /w/file; cat /v/file"), "x");
	END();
}

TEST(a_volume_can_be_a_single_file)
{
	char *path = sandbox_path("single"), *text = NULL;
	struct warren_mount m = { .source = path, .target = "/new/dir/name" };
	size_t n = 0;

	sandbox_put(path, "single", 0644);
	{
		BEGIN(.mounts = &m, .n_mounts = 1);
		STREQ(sandbox_says(
			      sb, "cat /new/dir/name; echo ' and more' >> /new/dir/name"),
		      "single");
		GOOD(warren_file_read(sb, "/new/dir/name", 100, &text, &n, &err));
		STREQ(text, "single and more\n");
		END();
	}
}

/* Targets are below another volume, over a link of the image, and have unusual names. */
TEST(volume_targets_may_be_nested_but_not_contain_dots)
{
	char *a = make_volume("target-a", 0), *b = make_volume("target b", 0);
	struct warren_mount m[] = { { .source = a, .target = "/v" },
				    { .source = b, .target = "/v/deep/er" },
				    { .source = b, .target = "//tmp//with space/" },
				    { .source = b, .target = "/bin/../x" } };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct warren *w = native_engine();

	FAILS(EINVAL,
	      warren_create(w, &(struct warren_spec){ .mounts = m, .n_mounts = 4 }, &sb,
			    &err));
	sb = sandbox_make(w, &(struct warren_spec){ .mounts = m, .n_mounts = 3 });
	STREQ(sandbox_says(sb, "cat /v/file /v/deep/er/file '/tmp/with space/file'"),
	      "beforebeforebefore");
	END();
}

TEST(impossible_volumes_are_refused_and_leave_nothing_open)
{
	struct warren_mount m = { .source = "/no/such/place", .target = "/v" };
	struct warren_mount many[65];
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct warren *w = native_engine();
	size_t before;

	sandbox_destroy(sandbox_make(w, NULL)); /* the image stays open from now on */
	before = sandbox_count_fds();
	FAILS(ENOENT,
	      warren_create(w, &(struct warren_spec){ .mounts = &m, .n_mounts = 1 }, &sb,
			    &err));
	for (size_t i = 0; i < 65; i++)
		many[i] = (struct warren_mount){ .target = "/t" };
	FAILS(E2BIG,
	      warren_create(w, &(struct warren_spec){ .mounts = many, .n_mounts = 65 },
			    &sb, &err));
	m = (struct warren_mount){ .source = sandbox_path("fileonly"), .target = "/tmp" };
	sandbox_put(m.source, "x", 0644);
	OK(warren_create(w, &(struct warren_spec){ .mounts = &m, .n_mounts = 1 }, &sb,
			 &err) < 0);
	OK(!sb);
	EQ(sandbox_count_fds(), before);
	w = warren_close(w);
}

/* Mounts stay in the sandbox, and end with it. */
TEST(mounts_of_a_sandbox_are_not_visible_outside)
{
	static char before[1 << 20], after[1 << 20];
	char *path = make_volume("unseen", 0);
	struct warren_mount m = { .source = path, .target = "/v" };

	OK(fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", before, sizeof(before)) > 0);
	{
		BEGIN(.mounts = &m, .n_mounts = 1);
		OK(fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", after,
				   sizeof(after)) > 0);
		STREQ(after, before);
		END();
	}
}

/* --------------------------------------------------------------------- users */

static char *id_as(struct warren_sandbox *sb, const char *user)
{
	struct said s = sandbox_run_spec(
		sb, (struct warren_exec_spec){
			    .argv = SH("printf '%s ' $(id -u):$(id -g):$(id -G);"
				       " grep CapEff /proc/self/status; echo $HOME"),
			    .user = user });

	EQ(s.res.exit_code, 0);
	return s.out;
}

#define NO_CAPS "CapEff:\t0000000000000000\n"

TEST(an_exec_accepts_a_user_name_or_number)
{
	struct warren_exec *ex = NULL;

	BEGIN(0);
	OK(sandbox_sh(sb, "echo 'ann:x:1500:1501::/home/ann:/bin/sh' >> /etc/passwd;"
			  " echo 'team:x:1600:ann,bob' >> /etc/group")
		   .res.exit_code == 0);
	OK(strncmp(id_as(sb, NULL), "0:0:0 ", 6) == 0);
	OK(strncmp(id_as(sb, "root"), "0:0:0 ", 6) == 0);
	OK(strstr(id_as(sb, "root"), "/root\n"));
	STREQ(id_as(sb, "ann"), "1500:1501:1501 1600 " NO_CAPS "/home/ann\n");
	STREQ(id_as(sb, "1500"), "1500:1501:1501 1600 " NO_CAPS "/home/ann\n");
	STREQ(id_as(sb, "1500:7"), "1500:7:7 " NO_CAPS "/home/ann\n");
	STREQ(id_as(sb, "ann:team"), "1500:1600:1600 " NO_CAPS "/home/ann\n");
	STREQ(id_as(sb, "4242"), "4242:0:0 " NO_CAPS "/\n");
	STREQ(id_as(sb, "4242:4343"), "4242:4343:4343 " NO_CAPS "/\n");
	STREQ(id_as(sb, "65535:65535"), "65535:65535:65535 " NO_CAPS "/\n");
#define REFUSED(code, name)                                                       \
	FAILS(code, warren_exec(sb,                                               \
				&(struct warren_exec_spec){ .argv = ARGV("true"), \
							    .user = name },       \
				&ex, &err))
	REFUSED(EINVAL, "nobody-here");
	REFUSED(EINVAL, "ann:nogroup-here");
	REFUSED(EINVAL, "65536");
	REFUSED(EINVAL, "0:65536");
	REFUSED(ERANGE, "4294967295");
	REFUSED(ERANGE, "99999999999999999999");
	REFUSED(EINVAL, "0x10");
	REFUSED(EINVAL, "-1");
	OK(!ex);
	END();
}

TEST(the_user_of_a_sandbox_is_the_default_of_its_execs)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *none = NULL;
	struct warren *w = native_engine();
	struct warren_sandbox *sb =
		sandbox_make(w, &(struct warren_spec){ .user = "daemon" });

	STREQ(id_as(sb, NULL), "1:1:1 " NO_CAPS "/usr/sbin\n");
	OK(strncmp(id_as(sb, "0"), "0:0:0 ", 6) == 0);
	FAILS(EINVAL, warren_create(w, &(struct warren_spec){ .user = "nobody-here" },
				    &none, &err));
	FAILS(EINVAL,
	      warren_create(w, &(struct warren_spec){ .user = "70000" }, &none, &err));
	OK(!none);
	END();
}

/* The working directory is created if it is missing, whatever the user. */
TEST(a_missing_working_directory_is_created)
{
	struct warren *w = native_engine();
	struct warren_sandbox *sb =
		sandbox_make(w, &(struct warren_spec){ .workdir = "/job/of mine" });

	STREQ(sandbox_says(sb, "pwd"), "/job/of mine");
	sandbox_destroy(sb);
	sb = sandbox_make(
		w, &(struct warren_spec){ .workdir = "/job", .user = "1000:1000" });
	STREQ(sandbox_says(sb, "pwd"), "/job");
	END();
}

/* --------------------------------------------------------- names and networks */

TEST(a_sandbox_has_the_requested_hostname)
{
	struct warren_error err UNUSED = WARREN_ERROR_INIT;
	struct warren *w = native_engine();
	struct warren_sandbox *sb =
		sandbox_make(w, &(struct warren_spec){ .hostname = "burrow.test" });
	char ours[65];

	EQ(gethostname(ours, sizeof(ours)), 0);
	STREQ(sandbox_says(sb, "uname -n; echo $HOSTNAME"), "burrow.test\nburrow.test");
	sandbox_destroy(sb);
	sb = sandbox_make(w, NULL);
	STREQ(sandbox_says(sb, "uname -n"), warren_id(sb));
	EQ(gethostname(ours + 0, sizeof(ours)), 0);
	OK(strcmp(ours, warren_id(sb)) != 0);
	END();
}

#define SERVE                                                               \
	ARGV("perl", "-MIO::Socket::INET", "-e",                            \
	     "$| = 1; $s = IO::Socket::INET->new(LocalAddr => '127.0.0.1'," \
	     " LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die $!;"  \
	     " print \"up\\n\";"                                            \
	     " while ($c = $s->accept) { $l = <$c>; print $c \"got $l\"; close $c }")

TEST(a_client_can_connect_to_a_port)
{
	struct warren_exec *ex;
	int fd = -1;

	BEGIN(0);
	SKIP_UNLESS(sandbox_sh(sb, "perl -MIO::Socket::INET -e 1").res.exit_code == 0,
		    "no perl");
	FAILS(ECONNREFUSED, warren_connect(sb, 8080, &fd, &err));
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SERVE,
							   .out = WARREN_STDIO_PIPE });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	for (int i = 0; i < 20; i++) {
		GOOD(warren_connect(sb, 8080, &fd, &err));
		EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
		EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
		EQ(write(fd, "hello\n", 6), 6);
		sandbox_expect(fd, "got hello\n");
		(void)close(fd);
	}
	FAILS(ECONNREFUSED, warren_connect(sb, 8081, &fd, &err));
	END();
}

/* In another sandbox and on the host, the port with that number is a different one, or
 * does not exist. */
TEST(each_sandbox_has_separate_ports)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct warren_sandbox *other;
	socklen_t len = sizeof(any);
	int host = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
	struct warren_exec *ex;

	BEGIN(0);
	SKIP_UNLESS(sandbox_sh(sb, "perl -MIO::Socket::INET -e 1").res.exit_code == 0,
		    "no perl");
	other = sandbox_make(w, NULL);
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SERVE,
							   .out = WARREN_STDIO_PIPE });
	sandbox_expect(warren_exec_fd(ex, 1), "up\n");
	FAILS(ECONNREFUSED, warren_connect(other, 8080, &fd, &err));
	EQ(bind(host, (struct sockaddr *)&any, sizeof(any)), 0);
	EQ(listen(host, 5), 0);
	EQ(getsockname(host, (struct sockaddr *)&any, &len), 0);
	FAILS(ECONNREFUSED,
	      warren_connect(sb, (uint16_t)__builtin_bswap16(any.sin6_port), &fd, &err));
	END();
}

TEST(a_native_sandbox_has_loopback_or_no_network)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = native_engine();
	struct warren_sandbox *lo = sandbox_make(w, NULL);
	struct warren_sandbox *sb =
		sandbox_make(w, &(struct warren_spec){ .network = WARREN_NETWORK_NONE });
	char ours[64], theirs[64];
	int fd = -1;

	STREQ(sandbox_says(lo, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"),
	      "lo");
	STREQ(sandbox_says(sb, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"),
	      "lo");
	STREQ(enforced(lo, "network"), "loopback only");
	STREQ(enforced(sb, "network"), "none");
	FAILS(ECONNREFUSED, warren_connect(lo, 80, &fd, &err));
	FAILS(ENETUNREACH, warren_connect(sb, 80, &fd, &err));
	ns_name(getpid(), "net", ours, sizeof(ours));
	ns_name(init_of(sb), "net", theirs, sizeof(theirs));
	OK(theirs[0] && strcmp(ours, theirs) != 0);
	sandbox_destroy(lo);
	END();
}

TEST_MAIN()
