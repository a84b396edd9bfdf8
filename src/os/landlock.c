/* SPDX-License-Identifier: Apache-2.0 */
/* landlock.c - landlock(7) by its three system calls; the C library has no wrappers */
#include "os/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/fd.h"

/* What each version of the interface can forbid, from the first on. */
static const uint64_t known[] = { 0, 0x1fff, 0x3fff, 0x7fff };

/* Without devices: there is nothing to make them for. */
#define ALLOWED                                                         \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | \
	 LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |   \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR | 0x2000 | 0x4000)

static int allow(int rules, const char *dir, uint64_t handled, struct warren_error *err)
{
	AUTO_CLOSE int fd = open(dir, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr beneath = { .allowed_access = ALLOWED & handled,
						      .parent_fd = fd };

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", dir);
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath,
		    0) < 0)
		return error_errno(err, errno, "allow '%s'", dir);
	return 0;
}

int landlock_restrict(const char *const *dirs, struct warren_error *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
			   LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr attr;
	AUTO_CLOSE int rules = -1;

	if (abi < 1)
		return 1;
	attr = (struct landlock_ruleset_attr){
		.handled_access_fs = known[abi < 3 ? abi : 3],
	};
	/* The size of the first version: what later ones added to the struct is not used. */
	rules = (int)syscall(SYS_landlock_create_ruleset, &attr,
			     sizeof(attr.handled_access_fs), 0);
	if (rules < 0)
		return error_errno(err, errno, "make a landlock ruleset");
	for (; *dirs; dirs++) {
		int r = allow(rules, *dirs, attr.handled_access_fs, err);

		if (r < 0)
			return r;
	}
	if (syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return error_errno(err, errno, "enter the landlock ruleset");
	return 0;
}
