/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.c - save a sandbox: write its memory to a file, and end its processes
 *
 * The file has no name. Only the shim has it open, on the disk with the images. It
 * disappears when the sandbox is resumed or when the shim ends for any reason, so that
 * nothing is left to remove. It gets a name only if the sandbox hibernates. The shim also
 * keeps other descriptors open that must outlive the sandbox's processes
 * (shim_sandbox.held).
 *
 *	AWAKE -> SAVING -> SAVED -> WAKING -> AWAKE
 *
 * After a failure, the state returns to the previous one; if the platform has lost the
 * sandbox (-EREMOTEIO), the sandbox ends. A child process of the file worker does all of
 * this, because it may take a long time.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "shim/core/file_copy.h"
#include "shim/core/shell_pool.h"
#include "shim/core/workers.h"

#define RESTORE_STEPS 3 /* number of steps, each of which may take the full timeout */

static enum phase {
	AWAKE,
	SAVING,
	SAVED,
	WAKING
} phase;
static int image = -1; /* valid from SAVING on */

/*
 * A request that arrives during an operation treats the sandbox as saved: resuming a
 * running sandbox is not an error.
 */
static void checkpoint_move(enum phase to)
{
	phase = to;
	init.saved = to != AWAKE;
}

bool save_is_away(void)
{
	return phase != AWAKE;
}

/* ------------------------------------------------------------------- requests */

static void checkpoint_refuse(int c, uint32_t seq, struct warren_error *err)
{
	reply_why = err->msg;
	conn_reply(c, seq, -err->code, PROTO_STAGE_REQUEST, -1);
	reply_why = NULL;
}

/* Find the process inside of the first running exec; 0: none runs, -1: it is not
 * known. */
static int checkpoint_find_exec(void)
{
	for (unsigned i = 0; i < init.n_execs; i++)
		if (init.execs[i].used && init.execs[i].pid > 0)
			return child_target(&init.execs[i])->pid > 0
				       ? child_target(&init.execs[i])->pid
				       : -1;
	return 0;
}

static int begin_save(int c, uint32_t seq, struct warren_error *err)
{
	int r;

	image = open(this_sandbox.state_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (image < 0)
		return error_errno(err, errno, "%s: create a file in '%s'",
				   this_sandbox.name, this_sandbox.state_dir);
	r = work_save(c, seq, WORK_SAVE, checkpoint_find_exec(), &image, 1);
	if (r == 0) {
		checkpoint_move(SAVING);
		return 0;
	}
	(void)close(TAKE_FD(image));
	return r == -EBUSY
		       ? error_set(err, EBUSY,
				   "%s: a file of the sandbox is in use: try again when "
				   "that is done",
				   this_sandbox.name)
		       : error_errno(err, -r, "%s: save the sandbox", this_sandbox.name);
}

static int begin_restore(int c, uint32_t seq, struct warren_error *err)
{
	int fds[] = { image, this_sandbox.held };
	int r = work_save(c, seq, WORK_RESTORE, 0, fds, this_sandbox.held >= 0 ? 2 : 1);

	if (r < 0)
		return error_errno(err, -r, "%s: restore the sandbox", this_sandbox.name);
	checkpoint_move(WAKING);
	return 0;
}

/* A sandbox that already has the requested state is a success. */
void save_request(int c, const struct proto_save *msg)
{
	struct warren_error err = WARREN_ERROR_INIT;
	bool saving = msg->h.type == PROTO_SAVE;
	int r = 0;

	if (!this_sandbox.driver->save)
		r = error_set(&err, EOPNOTSUPP,
			      "a checkpoint is not supported by backend '%s'",
			      this_sandbox.name);
	else if (phase == SAVING || phase == WAKING)
		r = error_set(&err, EBUSY, "%s: the sandbox is being %s",
			      this_sandbox.name, phase == SAVING ? "saved" : "restored");
	else if (phase == (saving ? SAVED : AWAKE))
		conn_reply(c, msg->h.seq, 0, PROTO_STAGE_NONE, -1);
	else
		r = saving ? begin_save(c, msg->h.seq, &err)
			   : begin_restore(c, msg->h.seq, &err);
	if (r < 0)
		checkpoint_refuse(c, msg->h.seq, &err);
}

/* Only a process of the same mount namespace can do this. */
int save_name_memory(void)
{
	char name[PATH_MAX], file[32];

	if (phase != SAVED)
		return -ESRCH;
	if (!this_sandbox.saved_dir ||
	    snprintf(name, sizeof(name), "%s/" PROTO_MEMORY_PREFIX "%s",
		     this_sandbox.saved_dir, this_sandbox.id) >= (int)sizeof(name))
		return -EOPNOTSUPP;
	(void)snprintf(file, sizeof(file), "/proc/self/fd/%d", image);
	(void)unlink(name);
	return linkat(AT_FDCWD, file, AT_FDCWD, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static void checkpoint_settle(enum proto_type done, bool worked,
			      const struct warren_error *why)
{
	bool saved = (done == PROTO_SAVE) == worked;

	checkpoint_move(saved ? SAVED : AWAKE);
	if (!saved)
		(void)close(TAKE_FD(image));
	if (why->code == EREMOTEIO)
		sandbox_died(why);
	else if (!saved && done == PROTO_RESTORE)
		watch_start();
	else if (!saved && watch_has_ended())
		sandbox_died(NULL); /* the sandbox ended by itself in the meantime */
}

void save_over(bool saving, const struct proto_reply *r, size_t size)
{
	struct warren_error why = WARREN_ERROR_INIT;

	if (size < sizeof(*r))
		(void)error_errno(&why, EPROTO, "%s: save the sandbox",
				  this_sandbox.name);
	else if (r->status < 0)
		(void)error_set(&why, -r->status, "%.*s", (int)(size - sizeof(*r)),
				(const char *)(r + 1));
	checkpoint_settle(saving ? PROTO_SAVE : PROTO_RESTORE, why.code == 0, &why);
}

void save_died(bool saving, struct warren_error *ret_why)
{
	(void)error_set(
		ret_why, EREMOTEIO,
		"%s: the process that was to %s the sandbox died; the sandbox is lost",
		this_sandbox.name, saving ? "save" : "restore");
	checkpoint_settle(saving ? PROTO_SAVE : PROTO_RESTORE, false, ret_why);
}

/* ---------------------------------------------------------- work of the child process */

static int checkpoint_save(const struct work *w, int file, struct warren_error *err)
{
	int r = this_sandbox.driver->savable(&this_sandbox, w->pid, err);

	return r < 0 ? r : this_sandbox.driver->save(&this_sandbox, file, err);
}

/* Report the result as one struct warren_error. */
static pid_t checkpoint_start(const struct work *w, const int *fds, size_t n_fds,
			      int tell)
{
	struct warren_error err = WARREN_ERROR_INIT;
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (w->kind == WORK_SAVE)
		(void)checkpoint_save(w, fds[0], &err);
	else
		(void)this_sandbox.driver->restore(&this_sandbox, fds[0],
						   n_fds > 1 ? fds[1] : -1, &err);
	(void)fd_write_all(tell, &err, sizeof(err));
	_exit(0);
}

void save_work(const struct work *w, int *fds, size_t n_fds)
{
	AUTO_BUF struct buf told = BUF_INIT(4 * sizeof(struct warren_error));
	struct warren_error err = WARREN_ERROR_INIT;
	int ends[2] = { -1, -1 };
	pid_t pid = -1;
	int r = 0;

	shell_pool_release();
	if (w->kind == WORK_SAVE && spool_tick())
		r = error_set(
			&err, EBUSY,
			"%s: a file of the sandbox is open for writing: close it first",
			this_sandbox.name);
	else if (n_fds == 0 || pipe2(ends, O_CLOEXEC) < 0)
		r = error_errno(&err, n_fds == 0 ? EPROTO : errno, "%s: create a pipe",
				this_sandbox.name);
	if (r == 0)
		pid = checkpoint_start(w, fds, n_fds, ends[1]);
	if (ends[1] >= 0)
		(void)close(ends[1]);
	if (r == 0 && pid < 0)
		r = error_errno(&err, EAGAIN, "%s: start a process", this_sandbox.name);
	/*
	 * Wait while the file grows. A restore has its own timeout, and undoes its work
	 * after a failure.
	 */
	if (r == 0)
		r = shim_sandbox_await(pid,
				       shim_sandbox_patience() * (w->kind == WORK_RESTORE
									  ? RESTORE_STEPS
									  : 1),
				       ends[0], &told, -1, fds[0]);
	if (err.code == 0 && r == 0 && told.len == sizeof(err))
		(void)memcpy(&err, told.data, sizeof(err));
	else if (err.code == 0)
		(void)error_set(&err, EREMOTEIO,
				"%s: the process %s, and the sandbox is lost",
				this_sandbox.name,
				r == -ETIMEDOUT ? "takes too long" : "was killed");
	if (ends[0] >= 0)
		(void)close(ends[0]);
	work_reply(w, -err.code, 0, -1, err.code ? err.msg : NULL);
}
