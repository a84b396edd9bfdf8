/* SPDX-License-Identifier: Apache-2.0 */
/* test-image.c - the contents of images, and files of the machine that must not be in
 * them */
#include "image/image.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/boot.h"
#include "base/fd.h"
#include "lib/sandbox.h"

#define SECRET "5ecret-marker-5ecret"

static struct image open_image(const char *ref)
{
	AUTO_FREE char *state = sandbox_path("image-state");
	struct warren_error err = WARREN_ERROR_INIT;
	struct image image;

	GOOD(image_open(ref, state, &image, &err));
	return image;
}

/* Return the content of a file of the image, or NULL. */
static char *text_of(const struct image *image, const char *path)
{
	int fd = image_open_file(image, path);
	char *text = calloc(1, 65536);
	ssize_t n;

	OK(text);
	if (fd < 0)
		return NULL;
	n = fd_read_all(fd, text, 65535);
	OK(n >= 0);
	(void)close(fd);
	return text;
}

static size_t n_entries(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	OK(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	(void)closedir(d);
	return n;
}

static char *in_layer(const struct image *image, const char *name)
{
	char *path = NULL;

	OK(asprintf(&path, "%s/%s", image->mounts[0].path, name) > 0);
	return path;
}

/* ----------------------------------------------------------------- image `host` */

TEST(the_host_image_has_the_programs_of_the_machine)
{
	struct image image = open_image("host");
	bool usr = false;

	STREQ(image.mounts[0].at, "");
	for (size_t i = 1; i < image.n_mounts; i++)
		usr |= strcmp(image.mounts[i].at, "usr") == 0;
	OK(usr);
	OK(text_of(&image, "/etc/passwd"));
	image_close(&image);
	image_close(&image); /* closing it twice is allowed */
}

TEST(the_host_image_has_no_home_directories_and_no_state)
{
	static const char *const empty[] = { "home/user", "root",      "var/lib",
					     "var/log",   "var/cache", "var/tmp",
					     "var/spool", "tmp",       "srv",
					     "mnt",       "media",     "proc",
					     "run/lock" };
	struct image image = open_image("host");

	for (size_t i = 0; i < ARRAY_SIZE(empty); i++)
		if (n_entries(in_layer(&image, empty[i])) > 0)
			TAP_FAIL("/%s is not empty", empty[i]);
	EQ(n_entries(in_layer(&image, "home")), 1);
	for (size_t i = 1; i < image.n_mounts; i++) {
		static const char *const never[] = { "home", "root", "var",  "etc",
						     "run",  "tmp",  "srv",  "boot",
						     "mnt",  "sys",  "proc", "dev" };

		for (size_t k = 0; k < ARRAY_SIZE(never); k++)
			OK(strcmp(image.mounts[i].at, never[k]) != 0);
	}
}

TEST(the_host_image_has_no_secrets)
{
	static const char *const secret[] = {
		"/etc/shadow",      "/etc/gshadow",          "/etc/shadow-",
		"/etc/ssh",         "/etc/sudoers",          "/etc/machine-id",
		"/etc/fstab",       "/etc/hostname",         "/etc/ssl/private",
		"/etc/crontab",     "/etc/security/opasswd", "/etc/environment",
		"/etc/apt",         "/etc/subuid",           "/etc/docker",
		"/etc/kubernetes",  "/etc/krb5.keytab",      "/etc/netplan",
		"/etc/letsencrypt", "/etc/passwd-",
	};
	struct image image = open_image("host");

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		if (access(in_layer(&image, secret[i]), F_OK) == 0)
			TAP_FAIL("%s is there", secret[i]);
	OK(access(in_layer(&image, "/etc/nsswitch.conf"), F_OK) == 0 ||
	   access("/etc/nsswitch.conf", F_OK) < 0);
}

/* The image has one account that the machine does not have, for programs that want one.
 */
static bool is_home_of_user(const char *path)
{
	static const char home[] = "/home/user";
	size_t n = strlen(path);

	return n >= sizeof(home) - 1 && strcmp(path + n - (sizeof(home) - 1), home) == 0;
}

/*
 * The layer has no file that other users may not read on the machine, no set-id file and
 * no device.
 */
static int check_entry(const char *path, const struct stat *st, int type,
		       struct FTW *ftw UNUSED)
{
	if (type == FTW_SL)
		return 0;
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		TAP_FAIL("%s is neither a file nor a folder", path);
	if (S_ISREG(st->st_mode) && (st->st_mode & 06000))
		TAP_FAIL("%s is set-id", path);
	if (st->st_uid != geteuid() && !is_home_of_user(path))
		TAP_FAIL("%s belongs to %u", path, st->st_uid);
	if (S_ISREG(st->st_mode)) {
		static char text[1 << 20];
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd_read_all(fd, text, sizeof(text));

		if (n > 0 && memmem(text, (size_t)n, "PRIVATE KEY-----", 16))
			TAP_FAIL("%s holds a private key", path);
		(void)close(fd);
	}
	return 0;
}

TEST(the_host_image_has_only_regular_files)
{
	struct image image = open_image("host");

	EQ(nftw(image.mounts[0].path, check_entry, 32, FTW_PHYS), 0);
}

/* System accounts are kept, because packages expect them; people are not shown. */
TEST(the_host_image_shows_no_user_accounts)
{
	struct image image = open_image("host");
	char *passwd = text_of(&image, "/etc/passwd"),
	     *group = text_of(&image, "/etc/group");
	char *save = NULL;
	size_t n = 0;

	OK(passwd && group);
	OK(strncmp(passwd, "root:x:0:0:", 11) == 0);
	OK(strstr(group, "root:x:0:"));
	for (char *l = strtok_r(passwd, "\n", &save); l;
	     l = strtok_r(NULL, "\n", &save), n++) {
		unsigned uid = 0;

		EQ(sscanf(l, "%*[^:]:x:%u:", &uid), 1);
		if (strcmp(l, "user:x:1000:1000:user:/home/user:/bin/bash") != 0 &&
		    uid >= 1000 && uid != 65534)
			TAP_FAIL("a person: %s", l);
	}
	OK(n > 0);
	save = NULL;
	for (char *l = strtok_r(group, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		OK(l[strlen(l) - 1] == ':'); /* group members are not shown */
}

TEST(a_layer_is_built_once_and_shared)
{
	struct image a = open_image("host"), b = open_image("host");

	STREQ(a.mounts[0].path, b.mounts[0].path);
	image_close(&a);
	OK(text_of(&b, "/etc/passwd"));
	image_close(&b);
}

/*
 * Creating a layer removes an incomplete one of a dead process, and those that were used
 * only before the machine was started. Sandboxes may still use all others.
 */
TEST(an_outdated_layer_is_removed)
{
	static const char *const kept[] = { "host-0123456789abcdef",
					    "host-1123456789abcdef", "layers" };
	static const char *const removed[] = { "host-new-bcdfghjklmnp",
					       "host-2123456789abcdef",
					       "host-2123456789abcdef.boot" };
	char boot[BOOT_ID_SIZE];
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *state = sandbox_path("old-state");
	struct image image;

	EQ(mkdir(state, 0755), 0);
	EQ(mkdir(sandbox_path("old-state/host-new-bcdfghjklmnp"), 0755), 0);
	sandbox_put(sandbox_path("old-state/host-new-bcdfghjklmnp/file"), "x", 0644);
	EQ(mkdir(sandbox_path("old-state/host-0123456789abcdef"), 0755), 0); /* no mark */
	EQ(mkdir(sandbox_path("old-state/host-1123456789abcdef"), 0755), 0);
	boot_id_read(boot);
	sandbox_put(sandbox_path("old-state/host-1123456789abcdef.boot"), boot, 0644);
	EQ(mkdir(sandbox_path("old-state/host-2123456789abcdef"), 0755), 0);
	boot[0] = boot[0] == '0' ? '1' : '0';
	sandbox_put(sandbox_path("old-state/host-2123456789abcdef.boot"), boot, 0644);
	EQ(mkdir(sandbox_path("old-state/layers"), 0755), 0); /* somebody else's */
	GOOD(image_open("host", state, &image, &err));
	for (size_t i = 0; i < ARRAY_SIZE(removed); i++)
		EQ(access(sandbox_path("old-state/%s", removed[i]), F_OK), -1);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		EQ(access(sandbox_path("old-state/%s", kept[i]), F_OK), 0);
	image_close(&image);
}

/* ------------------------------------------------------------ images from directories */

/* Create a root filesystem with this passwd; "": none. */
static char *make_root(const char *name)
{
	char *root = sandbox_path("%s", name);

	EQ(mkdir(root, 0755), 0);
	EQ(mkdir(sandbox_path("%s/etc", name), 0755), 0);
	return root;
}

static struct image open_root(const char *name)
{
	char ref[128];

	(void)snprintf(ref, sizeof(ref), "dir:%s/%s", sandbox_dir, name);
	return open_image(ref);
}

TEST(a_directory_can_be_an_image)
{
	struct image image;
	char *hosts;

	(void)make_root("plain");
	sandbox_put(sandbox_path("plain/etc/passwd"), "dev:x:7:8::/d:/bin/sh\n", 0644);
	sandbox_put(sandbox_path("plain/etc/hosts"), "the image's own\n", 0644);
	image = open_root("plain");
	EQ(image.n_mounts, 2);
	STREQ(image.lowers, "la:lb"); /* Warren's layer is on top */
	STREQ(text_of(&image, "/etc/passwd"), "dev:x:7:8::/d:/bin/sh\n");
	hosts = text_of(&image, "/etc/hosts");
	OK(hosts && strstr(hosts, "localhost")); /* Warren's layer is on top */
	image_close(&image);
}

TEST(a_directory_without_etc_can_be_an_image)
{
	struct image image;

	EQ(mkdir(sandbox_path("bare"), 0755), 0);
	image = open_root("bare");
	EQ(image_open_file(&image, "/etc/passwd"), -ENOENT);
	EQ(image_open_file(&image, "/no/such"), -ENOENT);
	image_close(&image);
}

/* Links of the image lead only into the image. */
TEST(links_do_not_lead_outside_the_image)
{
	struct image image;
	char *root = make_root("links"), *text;

	sandbox_put(sandbox_path("secret"), SECRET, 0644);
	EQ(symlink(sandbox_path("secret"), sandbox_path("links/etc/passwd")), 0);
	EQ(symlink("../../secret", sandbox_path("links/etc/group")), 0);
	EQ(symlink("/", sandbox_path("links/root")), 0);
	EQ(symlink("/proc/self/root/etc/passwd", sandbox_path("links/magic")), 0);
	EQ(symlink("/target", sandbox_path("links/good")), 0);
	sandbox_put(sandbox_path("links/target"), "inside", 0644);
	image = open_root("links");
	OK(root);
	EQ(image_open_file(&image, "/etc/passwd"), -ENOENT);
	EQ(image_open_file(&image, "/etc/group"), -ENOENT);
	EQ(image_open_file(&image, "/root/../../../secret"), -ENOENT);
	OK(image_open_file(&image, "/magic") < 0);
	text = text_of(&image, "/good"); /* a valid link is followed */
	STREQ(text, "inside");
	text = text_of(&image, "/root/root/good");
	STREQ(text, "inside");
	image_close(&image);
}

TEST(special_files_in_an_image_do_not_block)
{
	struct image image;

	(void)alarm(SANDBOX_PATIENCE);
	(void)make_root("special");
	EQ(mkfifo(sandbox_path("special/etc/passwd"), 0666), 0);
	EQ(mkdir(sandbox_path("special/etc/group"), 0755), 0);
	image = open_root("special");
	EQ(image_open_file(&image, "/etc/passwd"), -EINVAL);
	EQ(image_open_file(&image, "/etc/group"), -EINVAL);
	image_close(&image);
}

TEST(invalid_images_are_refused_and_leave_nothing_open)
{
	AUTO_FREE char *state = sandbox_path("image-state"), *file = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	struct image image = { .n_mounts = 77 };
	size_t before;

	image_close(&(struct image){ 0 });
	sandbox_put(sandbox_path("afile"), "x", 0644);
	OK(asprintf(&file, "dir:%s/afile", sandbox_dir) > 0);
	before = sandbox_count_fds();
	FAILS(ENOENT, image_open("dir:/no/such/root", state, &image, &err));
	FAILS(EINVAL, image_open("dir:", state, &image, &err));
	FAILS(ENOTDIR, image_open(file, state, &image, &err));
	FAILS(ENOENT, image_open("debian:12", state, &image, &err));
	FAILS(EINVAL, image_open("", state, &image, &err));
	FAILS(ENOENT, image_open("hosts", state, &image, &err));
	FAILS(EINVAL, image_open("HOST", state, &image, &err));
	OK(image_open("dir:relative/path", state, &image, &err) < 0);
	EQ(image.n_mounts, 77);
	EQ(sandbox_count_fds(), before);
}

TEST_MAIN()
