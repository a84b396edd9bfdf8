/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.c - save the processes of a sandbox to a file, and restore them
 *
 * The sentry writes its state to a given file, and ends. Another sentry, which is created
 * like the first one but without its program, reads the file. The files of the sandbox
 * stay in the mount namespace that create() made, which the shim keeps open. The cgroup
 * and its limits stay too.
 *
 * gVisor (at least of 2022) saves descriptors from outside without an error, but cannot
 * restore them; and it crashes on a removed file that is still in use. So the guest agent
 * looks for both first, inside (agent/guest/main.c). If it misses something, such as a
 * removed directory that a process uses, the sandbox ends, and the error says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "shim/gvisor/gvisor.h"
#include "shim/gvisor/sentry_rpc.h"

#define LOOK_SECS  20
#define GARBAGE    (80U << 20)
#define ROOM       (128U << 20)
#define SLACK      (8U << 20)
#define END_LOOKS  1000                    /* number of checks, 10 ms apart */
#define IMAGE_NAME "bundle/checkpoint.img" /* the name that runsc expects */

/* ---------------------------------------------- search for state that cannot be saved */

/*
 * Runs in a separate process: the output goes to @out, and the exit status is that of the
 * program inside.
 */
__attribute__((noreturn)) static void run_errand(struct shim_sandbox *p, int of, int out)
{
	char number[16];
	const char *argv[] = { GVISOR_FIRST, of ? "name" : "held", of ? number : NULL,
			       NULL };
	const struct shim_exec e = {
		.argv = argv, .user = "0:0", .cwd = "/", .outcome_fd = -1
	};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	(void)snprintf(number, sizeof(number), "%d", of);
	if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(127);
	gvisor_exec(p, &e);
}

/* Explain a line such as "S 16 sleep". The process chooses its name, so the name is only
 * quoted. */
static int explain_held(const struct shim_sandbox *p, char *said,
			struct warren_error *err)
{
	char *comm = said;
	long pid = said[0] ? strtol(said + 1, &comm, 10) : 0;

	while (*comm == ' ')
		comm++;
	for (char *c = comm; *c; c++)
		if (*c == '\n')
			*c = '\0';
		else if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
			*c = '?';
	/*
	 * This also applies to a command that no longer uses these streams, because the
	 * shim waits for its end.
	 */
	if (said[0] == 'C')
		return error_set(
			err, EBUSY,
			"%s: a command is running in the sandbox, process %ld inside "
			"(%.64s), which cannot be saved: wait until it ends, or stop "
			"it",
			p->name, pid, comm);
	if (said[0] == 'R')
		return error_set(err, EBUSY,
				 "%s: process %ld inside (%.64s) uses a file that was "
				 "removed, which cannot be saved: end it first",
				 p->name, pid, comm);
	return error_set(err, EBUSY,
			 "%s: process %ld inside (%.64s) uses a stream of a command "
			 "or a connection, which cannot be saved: end it, or start it "
			 "with '</dev/null >log 2>&1'",
			 p->name, pid, comm);
}

int gvisor_savable(struct shim_sandbox *p, int of, struct warren_error *err)
{
	AUTO_BUF struct buf said = BUF_INIT(256);
	AUTO_CLOSE int hear = -1;
	int ends[2], status;
	pid_t pid;

	if (gvisor_has_network(p))
		return error_set(err, EOPNOTSUPP,
				 "%s: a sandbox that was created with a network policy "
				 "cannot be saved",
				 p->name);
	if (of < 0)
		return error_set(
			err, EBUSY,
			"%s: a command is about to start in the sandbox: wait until "
			"it ends, or stop it",
			p->name);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "%s: create a pipe", p->name);
	hear = ends[0];
	pid = fork();
	if (pid == 0)
		run_errand(p, of, ends[1]);
	(void)close(ends[1]);
	if (pid < 0)
		return error_errno(err, errno, "%s: start a process", p->name);
	status = shim_sandbox_await(pid, LOOK_SECS, hear, &said, -1, -1);
	buf_add(&said, "", 1);
	if (status == 0 && of == 0)
		return 0;
	return status > 0 && !said.failed && said.data[0]
		       ? explain_held(p, said.data, err)
		       : error_set(
				 err, status < 0 ? -status : EIO,
				 "%s: inspect the processes of the sandbox: Warren's program inside failed",
				 p->name);
}

/* --------------------------------------------------------------------------- saving */

/*
 * The sentry needs memory to save and to restore itself: with the sandbox's limit, it
 * would not survive this if the sandbox uses much memory, so raise the limit. The
 * processes inside are stopped in the meantime.
 */
static int set_room(const struct shim_sandbox *p, const struct cgroup_root *cgroups,
		    bool more, struct warren_error *err)
{
	struct cgroup_limits own, wide;
	int r = gvisor_read_limits(p, &own, err);

	if (r < 0)
		return r;
	wide = own;
	wide.memory += own.memory / 4 + ROOM;
	return more ? cgroup_update(cgroups, p->id, &own, &wide, err)
		    : cgroup_update(cgroups, p->id, &wide, &own, err);
}

/*
 * Will the sandbox fit into its limit after a restore? For minutes, a restored sentry
 * holds as much garbage as it has read, up to GARBAGE (measured: 70 MB, both for 85 MB
 * and for 450 MB).
 */
static int checkpoint_check_fits(const struct shim_sandbox *p, uint64_t used,
				 struct warren_error *err)
{
	uint64_t more = used < GARBAGE ? used : GARBAGE;
	struct cgroup_limits own;
	int r = gvisor_read_limits(p, &own, err);

	if (r == 0 && used + more > own.memory)
		r = error_set(err, EBUSY,
			      "the sandbox uses %ju bytes of memory, and a restore needs "
			      "%ju more: first raise its limit, which is %ju",
			      (uintmax_t)used, (uintmax_t)more, (uintmax_t)own.memory);
	return r;
}

/* Reserve disk space for all memory of the sandbox before anything else is done. */
static int checkpoint_reserve(const struct shim_sandbox *p,
			      const struct cgroup_root *cgroups, int image,
			      struct warren_error *err)
{
	struct cgroup_usage u = { 0 };
	int r = cgroup_read_usage(cgroups, p->id, &u, err);

	if (r == 0)
		r = checkpoint_check_fits(p, u.memory, err);
	if (r < 0)
		return r;
	if (fallocate(image, FALLOC_FL_KEEP_SIZE, 0, (off_t)(u.memory + SLACK)) == 0 ||
	    errno == EOPNOTSUPP)
		return 0;
	return error_errno(err, errno, "reserve %ju bytes in '%s'",
			   (uintmax_t)u.memory + SLACK, p->state_dir);
}

/* Shorten the sentry's message, which may contain pages of its memory. */
static const char *in_words(char *why)
{
	why[strcspn(why, "\n")] = '\0';
	return strstr(why, "dead:true") || strstr(why, "deleted")
		       ? "a file or directory that was removed is still in use"
		       : why;
}

static int ask_sentry(const struct shim_sandbox *p, int image, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	AUTO_CLOSE int sentry = gvisor_connect(p, err);
	int r = sentry;

	if (r >= 0)
		r = control_send(sentry, "containerManager.Checkpoint",
				 json_pack("{s:n, s:n}", "key", "metadata"), &image, 1,
				 err);
	if (r < 0)
		return r;
	r = control_receive(sentry, true, NULL, &why);
	return r < 0 ? error_set(err, EREMOTEIO,
				 "the sandbox could not be saved, and has ended: %.200s",
				 in_words(why.msg))
		     : 0;
}

/* End all processes. If this returns 0, no process of the sandbox is left, and its memory
 * is free. */
static int checkpoint_end_all(const struct shim_sandbox *p,
			      const struct cgroup_root *cgroups, struct warren_error *err)
{
	struct cgroup_usage u = { .pids = 1 };
	int r = cgroup_kill(cgroups, p->id, err);

	for (int i = 0; r == 0 && u.pids > 0 && i < END_LOOKS; i++) {
		r = cgroup_read_usage(cgroups, p->id, &u, err);
		if (u.pids > 0)
			(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return r == 0 && u.pids > 0
		       ? error_set(err, EREMOTEIO, "processes of the sandbox do not end")
		       : r;
}

int gvisor_save(struct shim_sandbox *p, int image, struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct cgroup_root cgroups;
	struct stat st;
	int r;

	cgroup_root_open(&cgroups);
	r = checkpoint_reserve(p, &cgroups, image, err);
	if (r == 0)
		r = set_room(p, &cgroups, true, err);
	if (r == 0) {
		r = ask_sentry(p, image, err);
		if (r == 0)
			r = checkpoint_end_all(p, &cgroups, err);
		(void)set_room(p, &cgroups, false, &ignored);
	}
	cgroup_root_close(&cgroups);
	/* Free the reserved space that was not needed. */
	if (r == 0 && fstat(image, &st) == 0)
		(void)!ftruncate(image, st.st_size);
	return r < 0 ? error_wrap(err, "%s: save the sandbox", p->name) : 0;
}

/* ------------------------------------------------------------------------ restoring */

static int enter_mounts(struct gvisor_making *m, struct warren_error *err)
{
	return setns(m->held, CLONE_NEWNS) < 0
		       ? error_errno(err, errno, "enter its mount namespace")
		       : 0;
}

static const struct gvisor_step child_steps[] = {
	{ "enter the cgroup", gvisor_join },
	{ "find its files", enter_mounts },
	{ "start runsc", gvisor_become_runsc },
};

static int read_network(const struct shim_sandbox *p, bool *ret_none,
			struct warren_error *err)
{
	char path[GVISOR_PATH_MAX];
	json_error_t why;
	json_t *doc;

	gvisor_path(p, "bundle/config.json", path);
	doc = json_load_file(path, 0, &why);
	if (!doc)
		return error_set(err, EREMOTEIO, "read '%s': %s", path, why.text);
	*ret_none = json_is_true(json_object_get(doc, "warrenNoNetwork"));
	json_decref(doc);
	return 0;
}

/*
 * Remove the state that runsc keeps about the earlier sandbox, and give the unnamed file
 * a name through this process, which keeps it open until runsc has finished.
 */
static int checkpoint_clear_way(const struct shim_sandbox *p, int image,
				struct warren_error *err)
{
	char root[GVISOR_PATH_MAX], name[GVISOR_PATH_MAX], file[64];
	int r;

	gvisor_path(p, "root", root);
	gvisor_path(p, IMAGE_NAME, name);
	(void)snprintf(file, sizeof(file), "/proc/%d/fd/%d", (int)getpid(), image);
	r = gvisor_remove_files(AT_FDCWD, root);
	if (r == 0)
		r = fd_make_dirs(root, 0700);
	if (r < 0)
		return error_errno(err, -r, "make '%s'", root);
	(void)unlink(name);
	return symlink(file, name) < 0 ? error_errno(err, errno, "make '%s'", name) : 0;
}

/* Start runsc, which reads the file m->saved. */
static int checkpoint_start_runsc(struct gvisor_making *m,
				  const struct gvisor_step *in_child, size_t n,
				  struct warren_error *err)
{
	struct shim_sandbox *p = m->sandbox;
	char name[GVISOR_PATH_MAX];
	int r = checkpoint_clear_way(p, m->saved, err);

	if (r < 0)
		return r;
	r = gvisor_start(m, in_child, n, err);
	gvisor_path(p, IMAGE_NAME, name);
	(void)unlink(name);
	if (r == 0)
		return 0;
	/*
	 * If runsc or the sentry reported the error, a retry would fail in the same way.
	 */
	err->msg[strcspn(err->msg, "\n")] = '\0'; /* goroutines follow */
	if (r == -EIO)
		err->code = EREMOTEIO;
	return -err->code;
}

static int start_again(struct gvisor_making *m, struct warren_error *err)
{
	int r = gvisor_find_runsc(m->sandbox->config, m->runsc, err);

	if (r == 0)
		r = read_network(m->sandbox, &m->no_network, err);
	return r < 0 ? r
		     : checkpoint_start_runsc(m, child_steps, ARRAY_SIZE(child_steps),
					      err);
}

int gvisor_start_saved(struct gvisor_making *m, const struct gvisor_step *in_child,
		       size_t n, struct warren_error *err)
{
	int r = set_room(m->sandbox, &m->cgroups, true, err);

	if (r == 0)
		r = checkpoint_start_runsc(m, in_child, n, err);
	return r < 0 ? r : set_room(m->sandbox, &m->cgroups, false, err);
}

int gvisor_restore(struct shim_sandbox *p, int image, int held, struct warren_error *err)
{
	struct gvisor_making *m = calloc(1, sizeof(*m));
	struct warren_error ignored = WARREN_ERROR_INIT;
	char file[32];
	int r;

	if (!m)
		return error_errno(err, ENOMEM, "%s: restore the sandbox", p->name);
	/* Read the file from its beginning, with a separate descriptor. */
	(void)snprintf(file, sizeof(file), "/proc/self/fd/%d", image);
	m->sandbox = p;
	m->held = held;
	m->saved = open(file, O_RDONLY | O_CLOEXEC);
	cgroup_root_open(&m->cgroups);
	r = m->saved < 0 ? error_errno(err, errno, "open the file")
			 : set_room(p, &m->cgroups, true, err);
	if (r == 0)
		r = start_again(m, err);
	if (r == 0)
		r = set_room(p, &m->cgroups, false, err);
	/* The saved state still exists, and can be restored with a higher limit. */
	if (r == -EBUSY)
		r = error_set(err, EBUSY,
			      "it needs more memory than its limit: raise the limit");
	if (r < 0) {
		(void)checkpoint_end_all(p, &m->cgroups, &ignored);
		(void)set_room(p, &m->cgroups, false, &ignored);
	}
	cgroup_root_close(&m->cgroups);
	if (m->saved >= 0)
		(void)close(m->saved);
	free(m);
	return r < 0 ? error_wrap(err, "%s: restore the sandbox", p->name) : 0;
}
