/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_confine.c - run git on objects of a sandbox without the rights of root
 *
 * A pack of a sandbox may exploit a fault of git. If root runs Warren, git gets it as the
 * user `nobody`, without capabilities, in namespaces without a network and without other
 * processes. All mounts are read-only, except for the one directory that the command has
 * to write to, and /run, where sockets of services are, is empty. The directories that
 * git needs are mounted there with id maps, in which their owner is `nobody`: so git can
 * read them although their parents are closed, and its new files belong to their owner.
 *
 * An ordinary user has no need for this: git can do there what the user's sandbox could
 * make git do in any other repository.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "os/caps.h"
#include "os/mount.h"
#include "os/ns.h"
#include "work/files_internal.h"
#include "work/git_confine.h"

#define CONFINE_ID    65534
#define CONFINE_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* Copy the mount of the directory @path of @root, whose owner becomes CONFINE_ID. */
static int confine_mount(int root, const char *path, bool writable, int *ret,
			 struct warren_error *err)
{
	AUTO_CLOSE int dir = beneath_dir(root, path, O_RDONLY), userns = -1;
	struct ns_maps maps = { .n_uid = 1, .n_gid = 1 };
	struct stat st;
	int r;

	if (dir < 0 || fstat(dir, &st) < 0)
		return error_errno(err, dir < 0 ? -dir : errno, "open '%s' for git",
				   path);
	maps.uid[0] = (struct ns_map){ st.st_uid, CONFINE_ID, 1 };
	maps.gid[0] = (struct ns_map){ st.st_gid, CONFINE_ID, 1 };
	r = ns_make_userns(&maps, &userns, err);
	if (r == 0)
		r = mount_copy(dir, "", false,
			       CONFINE_ATTRS | (writable ? 0 : MOUNT_ATTR_RDONLY), userns,
			       ret, err);
	if (r == -EINVAL || r == -EOPNOTSUPP)
		return error_set(
			err, EOPNOTSUPP,
			"the filesystem of '%s' does not support id maps, without which "
			"git would read the sandbox's objects as root: run the "
			"command as the owner of the project",
			path);
	return r < 0 ? error_wrap(err, "give '%s' to git", path) : 0;
}

int git_confine_open(const struct work *w, bool own, struct git_confine *ret,
		     struct warren_error *err)
{
	struct git_confine c CLEANUP(git_confine_close) = { -1, -1, own };
	int r;

	if (own) {
		r = confine_mount(w->dir_fd, "git", true, &c.git, err);
		r = r < 0 ? r
			  : confine_mount(w->project_fd, ".git/objects", false,
					  &c.objects, err);
	} else {
		r = confine_mount(w->project_fd, ".git", false, &c.git, err);
		r = r < 0 ? r
			  : confine_mount(w->project_fd, ".git/objects", true, &c.objects,
					  err);
	}
	if (r < 0)
		return r;
	*ret = c;
	c.git = c.objects = -1;
	return 0;
}

void git_confine_close(struct git_confine *c)
{
	close_p(&c->git);
	close_p(&c->objects);
}

pid_t git_confine_fork(void)
{
	AUTO_CLOSE int pidfd = -1;

	return ns_clone(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC,
			NS_CGROUP_SAME, &pidfd);
}

static bool confine_mounts(const struct git_confine *c)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };
	struct warren_error ignored;

	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) == 0 &&
	       mount("none", "/run", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		     "size=64k,mode=755") == 0 &&
	       mkdir(GIT_CONFINE_DIR, 0755) == 0 &&
	       mount_attach(c->git, AT_FDCWD, GIT_CONFINE_DIR, &ignored) == 0 &&
	       mount_attach(c->objects, AT_FDCWD,
			    c->own ? GIT_CONFINE_DIR "/" GIT_CONFINE_PROJECT
				   : GIT_CONFINE_DIR "/objects",
			    &ignored) == 0 &&
	       chdir(GIT_CONFINE_DIR) == 0 && umount2("/proc", MNT_DETACH) == 0;
}

bool git_confine_enter(const struct git_confine *c)
{
	struct warren_error ignored;

	return confine_mounts(c) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       caps_bound(0, &ignored) == 0 && setgroups(0, NULL) == 0 &&
	       setresgid(CONFINE_ID, CONFINE_ID, CONFINE_ID) == 0 &&
	       setresuid(CONFINE_ID, CONFINE_ID, CONFINE_ID) == 0 &&
	       caps_drop_all(&ignored) == 0;
}
