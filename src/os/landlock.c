/* SPDX-License-Identifier: Apache-2.0 */
/* landlock.c - landlock(7) with its three system calls; the C library has no wrappers */
#include "os/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"

/* struct landlock_ruleset_attr of version 6, because headers may be older. */
struct ruleset {
	uint64_t fs, net, scoped;
};

#define FS_REFER    0x2000U
#define FS_TRUNCATE 0x4000U
#define NET_ALL     0x3U /* TCP: bind(2) and connect(2) */
/* Connections to abstract unix sockets of processes outside. */
#define SCOPE_ABSTRACT 0x1U
#define SCOPE_SIGNAL   0x2U /* signals to processes outside */

/*
 * The rights that each version of the interface can restrict, and the size of its struct.
 */
static const struct {
	struct ruleset can;
	size_t size;
} versions[] = {
	[1] = { { .fs = 0x1fff }, 8 },
	[2] = { { .fs = 0x3fff }, 8 },
	[3] = { { .fs = 0x7fff }, 8 },
	[4] = { { .fs = 0x7fff, .net = NET_ALL }, 16 },
	[5] = { { .fs = 0xffff, .net = NET_ALL }, 16 },
	[6] = { { 0xffff, NET_ALL, SCOPE_ABSTRACT | SCOPE_SIGNAL }, 24 },
};

#define NEWEST (ARRAY_SIZE(versions) - 1)

/* Creating devices is not included, because no process needs it. */
#define ALLOWED                                                                   \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |           \
	 LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |           \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |             \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR | FS_REFER | \
	 FS_TRUNCATE)

#define ALLOWED_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* Creates no links, devices, pipes and sockets. */
#define ALLOWED_WRITE                                                     \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |    \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | FS_REFER | FS_TRUNCATE)

/* Rights that change nothing: a process that may read everything is not limited. */
#define HARMLESS (ALLOWED_READ | LANDLOCK_ACCESS_FS_EXECUTE)

/* The rights that a rule for a file, and not a directory, can have. */
#define OF_FILES \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

static int landlock_allow_fd(int rules, int fd, uint64_t allowed)
{
	struct landlock_path_beneath_attr beneath = { .allowed_access = allowed,
						      .parent_fd = fd };
	struct stat st;

	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		beneath.allowed_access &= OF_FILES;
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath,
		       0) < 0
		       ? -errno
		       : 0;
}

static int landlock_allow(int rules, const char *path, uint64_t allowed,
			  struct warren_error *err)
{
	AUTO_CLOSE int fd = open(path, O_PATH | O_CLOEXEC);
	int r;

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	r = landlock_allow_fd(rules, fd, allowed);
	return r < 0 ? error_errno(err, -r, "allow '%s'", path) : 0;
}

unsigned landlock_version(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
			   LANDLOCK_CREATE_RULESET_VERSION);

	return abi < 1 ? 0 : (unsigned)abi;
}

static int landlock_create(const struct ruleset *can, size_t size,
			   struct warren_error *err)
{
	int rules = (int)syscall(SYS_landlock_create_ruleset, can, size, 0);

	return rules < 0 ? error_errno(err, errno, "create a landlock ruleset") : rules;
}

int landlock_enter(int rules, struct warren_error *err)
{
	if (syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return error_errno(err, errno, "enter the landlock ruleset");
	return 0;
}

int landlock_restrict(const char *const *dirs, struct warren_error *err)
{
	unsigned abi = landlock_version(), v = abi < NEWEST ? abi : NEWEST;
	AUTO_CLOSE int rules = -1;

	if (abi == 0)
		return 1;
	rules = landlock_create(&versions[v].can, versions[v].size, err);
	if (rules < 0)
		return rules;
	for (; *dirs; dirs++) {
		int r = landlock_allow(rules, *dirs, ALLOWED & versions[v].can.fs, err);

		if (r < 0)
			return r;
	}
	return landlock_enter(rules, err);
}

int landlock_restrict_files(const char *const *paths, struct warren_error *err)
{
	unsigned abi = landlock_version(), v = abi < NEWEST ? abi : NEWEST;
	struct ruleset can = versions[v].can;
	AUTO_CLOSE int rules = -1;

	if (abi == 0)
		return 1;
	can.net = 0;
	rules = landlock_create(&can, versions[v].size, err);
	if (rules < 0)
		return rules;
	for (; *paths; paths++) {
		struct warren_error why = WARREN_ERROR_INIT;
		int r = landlock_allow(rules, *paths, ALLOWED_READ, &why);

		if (r < 0 && r != -ENOENT && r != -EACCES) {
			*err = why;
			return r;
		}
	}
	return landlock_enter(rules, err);
}

int landlock_rules_to_write(int dir, struct warren_error *err)
{
	unsigned abi = landlock_version(), v = abi < NEWEST ? abi : NEWEST;
	struct ruleset can = versions[v].can;
	AUTO_CLOSE int rules = -1;
	int r = 0;

	if (abi == 0)
		return -ENOSYS;
	can.fs &= ~(uint64_t)HARMLESS;
	rules = landlock_create(&can, versions[v].size, err);
	if (rules < 0)
		return rules;
	if (dir >= 0)
		r = landlock_allow_fd(rules, dir, ALLOWED_WRITE & can.fs);
	if (r < 0)
		return error_errno(err, -r, "allow a directory");
	r = landlock_allow(rules, "/dev/null", ALLOWED_WRITE & can.fs, err);
	return r < 0 ? r : TAKE_FD(rules);
}
