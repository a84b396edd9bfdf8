/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - OPEN and SCAN, with scripts for a shell inside (file_change.c has CHANGE)
 *
 * A path is absolute, or relative to a directory that was opened before (dir_handle.h). A
 * shell of the user does all the work inside the sandbox: the shim resolves no path and
 * uses none of its own privileges. A relative path must not lead through a link, because
 * it must not lead out of its directory.
 *
 * The output of a script begins with an unpredictable mark, so that names may contain any
 * bytes.
 */
#include "shim/core/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/core/proc_path.h"
#include "base/fd.h"
#include "shim/core/dir_handle.h"
#include "shim/core/file_copy.h"
#include "shim/core/guest_client.h"
#include "shim/core/parse_entries.h"
#include "shim/core/scripts.h"
#include "shim/core/shell_pool.h"

#define SHELL_SECS 60
#define LIST_SECS  300
/* Maximum size of a whole directory, about a hundred thousand entries. */
#define LIST_BYTES (16U << 20)
#define ONE_BYTES  (1U << 20) /* maximum size for one file: metadata and small content */

/* -------------------------------------------------------------------- users and paths */

void files_user(uint32_t uid, uint32_t gid, char user[32])
{
	user[0] = '\0';
	if (uid != inside.uid || gid != inside.gid)
		(void)snprintf(user, 32, "%u:%u", uid, gid);
}

int files_path(const char *path, const int *fds, size_t n_fds, char out[TOKEN_PATH_MAX])
{
	int r, n;

	if (n_fds == 0) {
		if (path[0] != '/')
			return -EINVAL;
		(void)snprintf(out, TOKEN_PATH_MAX, "%s", path);
		return 0;
	}
	if (path[0] == '/' || strstr(path, "../") || strcmp(path, "..") == 0)
		return -EXDEV;
	r = token_path(fds[0], out);
	if (r < 0)
		return r;
	n = (int)strlen(out);
	if (!path[0])
		return 0;
	return snprintf(out + n, TOKEN_PATH_MAX - (size_t)n, "%s%s", n > 1 ? "/" : "",
			path) < TOKEN_PATH_MAX - n
		       ? 0
		       : -ENAMETOOLONG;
}

/* Count the common components: no directory between the opened one and the file may be a
 * link. */
static size_t files_common(const char *a, const char *b)
{
	size_t n = 0;

	while (a && a[n] && a[n] == b[n])
		n++;
	return n;
}

void files_guard(struct buf *script, const char *path, const char *full,
		 const char *before, const char *otherwise)
{
	size_t base = strlen(full) - strlen(path), known = files_common(before, path);

	if (path[0] == '/')
		return;
	for (const char *slash = strchr(path, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		AUTO_FREE char *part = NULL;

		if ((size_t)(slash - path) < known)
			continue;
		part = strndup(full, base + (size_t)(slash - path));
		if (!part)
			return;
		buf_puts(script, "if [ -L ");
		script_quote(script, part);
		buf_printf(script, " ]; then %s\nfi\n", otherwise);
	}
}

int files_fail(const struct work *w, int code, const char *said)
{
	char why[300];

	(void)snprintf(why, sizeof(why), "%.250s", said ? said : "");
	why[strcspn(why, "\r\n")] = '\0';
	work_reply(w, -code, 0, -1, why);
	return -code;
}

/* Reply with the errno that @said ends in; if it is unknown, include the text. */
static void fail_by(const struct work *w, const char *said, int silent)
{
	const char *why;
	int code = script_errno(said, said[0] ? EIO : silent, &why);

	(void)files_fail(w, code, why);
}

/*
 * Find the tool that lists files ($W). Each tool is tried, because some kernels refuse
 * system calls of some tools. $W stays set for later scripts of the same shell. find is
 * tried first, because it is started only once for a whole directory.
 */
static const char script_which[] =
	/* clang-format off */
	"if [ -z \"$W\" ]; then\n"
		"if find / -maxdepth 0 -printf '%M %U %G %s %T@ %i %p%l' >/dev/null 2>&1; then W=find\n"
		"elif stat -c %f / >/dev/null 2>&1; then W=stat\n"
		"elif ls -lnid --full-time / >/dev/null 2>&1; then W=ls\n"
		"else W=none; fi\n"
	"fi\n";
/* clang-format on */

/* ------------------------------------------------------------------------------- OPEN */

/*
 * Print "dir PATH", or "file SIZE MTIME" and the content if it is small, or the name of
 * an errno, or the shell's message. A file of unknown size counts as large.
 */
static const char script_read[] =
	/* clang-format off */
	"if [ -L \"$p\" ] && [ -n \"$n\" ]; then echo \"$m ELOOP\"\n"
	"elif [ -d \"$p\" ]; then\n"
		"if [ -z \"$d\" ]; then echo \"$m EISDIR\"\n"
		"elif cd -P \"$p\" 2>/dev/null && [ -r . ]; then\n"
			/* gVisor of 2022 treats a path below a link to / as / itself. */
			"if [ \"$PWD\" = / ] && [ \"$p\" != / ] && [ ! -L \"$p\" ]; then echo \"$m ENOENT\"\n"
			"else printf '%s\\n' \"$m dir $PWD\"; fi\n"
		"else echo \"$m EACCES\"; fi\n"
		"cd /\n"
	"elif [ -n \"$d\" ] && [ -e \"$p\" ]; then echo \"$m ENOTDIR\"\n"
	"elif [ -e \"$p\" ] && [ ! -f \"$p\" ]; then echo \"$m ENXIO\"\n"
	"elif [ -r \"$p\" ]; then\n"
	"need " script_pour " || p=\n"
	"if [ -n \"$p\" ]; then\n"
		"case $W in\n"
		"find) s=$(find -L \"$p\" -maxdepth 0 -printf '%s %T@');;\n"
		"stat) s=$(stat -L -c '%s %Y' \"$p\");;\n"
		"*) s=$(wc -c <\"$p\");;\n"
		"esac 2>/dev/null || s=68719476736\n"
		"echo \"$m file $s\"\n"
		"set -- $s\n"
		"if [ \"$1\" -gt 65536 ]; then :\n"
		"elif pour <\"$p\" 2>/dev/null; then echo \"$m ok\"\n"
		"else echo \"$m no\"; pour <\"$p\" 2>&1 >/dev/null; fi\n"
	"fi\n"
	/* Do not use ":", because a failed redirection of it ends the shell. */
	"else true <\"$p\"; fi";
/* clang-format on */

static void put_assignment(struct buf *script, const char *name, const char *value)
{
	buf_printf(script, "%s=", name);
	script_quote(script, value);
	buf_puts(script, "\n");
}

/* Return the errno that a script names; 0: it is not a name. */
static int named_errno(const char *text)
{
	static const int codes[] = { ELOOP,  EISDIR, ENOTDIR, ENXIO,
				     EACCES, EEXIST, EXDEV,   ENOENT };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (strncmp(text, strerrorname_np(codes[i]),
			    strlen(strerrorname_np(codes[i]))) == 0)
			return codes[i];
	return 0;
}

static void files_hand_out(const struct work *w, int fd)
{
	work_reply(w, fd < 0 ? fd : 0, 0, fd, NULL);
	if (fd >= 0)
		(void)close(fd);
}

/* The content in the answer is the complete file. */
static void files_answer_small(const struct work *w, const char *data, size_t n,
			       time_t mtime)
{
	struct timespec times[2] = { { .tv_sec = mtime }, { .tv_sec = mtime } };
	int fd = memfd_create("warren-file", MFD_CLOEXEC);

	if (fd >= 0 && fd_write_all(fd, data, n) == 0) {
		(void)lseek(fd, 0, SEEK_SET);
		(void)futimens(fd, times);
	}
	files_hand_out(w, fd < 0 ? -errno : fd);
}

static void open_large(const struct work *w, const char *user, const char *path,
		       uint64_t size, time_t mtime)
{
	struct timespec times[2] = { { .tv_sec = mtime }, { .tv_sec = mtime } };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLOSE int fd = -1;
	uint64_t most;
	pid_t pid;
	int r = spool_prepare(size, &most, &fd, &err);

	if (r < 0) {
		(void)files_fail(w, err.code, err.msg);
		return;
	}
	/* Do this in a separate process, so that other requests have their turn in the
	 * meantime. */
	pid = fork();
	if (pid != 0) {
		if (pid < 0)
			work_reply(w, -EAGAIN, 0, -1, NULL);
		return;
	}
	spool_leave();
	r = spool_read(user, path, most, fd, &err);
	spool_done(fd); /* do this before a client acts on the answer */
	if (r < 0) {
		(void)files_fail(w, err.code, err.msg);
		_exit(0);
	}
	(void)futimens(fd, times);
	files_hand_out(w, TAKE_FD(fd));
	_exit(0);
}

/* Handle the bytes, which are followed by a mark that they are complete, or by an
 * error. */
static void answer_small(const struct work *w, const char *data, const char *end,
			 const char *mark, time_t mtime)
{
	const char *at = data, *last = NULL;

	while ((at = memmem(at, (size_t)(end - at), mark, MARK_LEN)))
		last = at++;
	if (last && strncmp(last + MARK_LEN, " ok", 3) == 0)
		files_answer_small(w, data, (size_t)(last - data), mtime);
	else /* as in fail_by(): if it works now, another process is changing the file */
		(void)files_fail(
			w,
			last ? script_errno(last, last[MARK_LEN + 4] ? EIO : ENOENT, NULL)
			     : EIO,
			NULL);
}

static void answer_read(const struct work *w, const char *user, const char *path,
			const char *mark, const char *said, const struct buf *out)
{
	char *end = NULL;
	long long size = 0, mtime = 0;
	const char *body = memchr(said, '\n', (size_t)(out->data + out->len - said));
	int code = named_errno(said);

	if (code) {
		work_reply(w, -code, 0, -1, NULL);
	} else if (strncmp(said, "dir ", 4) == 0) {
		char dir[TOKEN_PATH_MAX];

		(void)snprintf(dir, sizeof(dir), "%.*s",
			       body ? (int)(body - said) - 4 : 0, said + 4);
		/* The name contains a newline, so use the requested path. */
		files_hand_out(
			w, token_make(dir[0] == '/' && body + 1 == out->data + out->len
					      ? dir
					      : path));
	} else if (body && strncmp(said, "file ", 5) == 0) {
		size = strtoll(said + 5, &end, 10);
		mtime = *end == ' ' ? strtoll(end, NULL, 10) : 0;
		if (size > SPOOL_INLINE)
			open_large(w, user, path, (uint64_t)size, (time_t)mtime);
		else
			answer_small(w, body + 1, out->data + out->len, mark,
				     (time_t)mtime);
	} else {
		work_reply(w, -EIO, 0, -1, NULL);
	}
}

static void open_read(const struct work *w, const struct proto_open *msg,
		      const char *user, const char *path)
{
	AUTO_BUF struct buf script = BUF_INIT(1U << 20), out = BUF_INIT(ONE_BYTES);
	struct warren_error err = WARREN_ERROR_INIT;
	char mark[MARK_LEN + 1];
	const char *said;
	int r;

	mark_make(mark);
	put_assignment(&script, "p", path);
	put_assignment(&script, "m", mark);
	put_assignment(&script, "n", msg->flags & O_NOFOLLOW ? "1" : "");
	put_assignment(&script, "d", msg->flags & O_DIRECTORY ? "1" : "");
	files_guard(&script, msg->path, path, NULL, "echo \"$m EXDEV\"; p=/dev/null");
	buf_puts(&script, script_which);
	buf_puts(&script, script_read);
	r = shell_pool_run(user, &script, &out, SHELL_SECS, &err);
	/*
	 * If the shim cannot be root inside, it may still read files that all users may
	 * read.
	 */
	if (r == -EOPNOTSUPP && msg->uid == 0 && user[0] && inside.shell[0]) {
		out.len = 0;
		r = shell_pool_run("", &script, &out, SHELL_SECS, &err);
	}
	if (r < 0) {
		(void)files_fail(w, err.code, err.msg);
		return;
	}
	buf_add(&out, "", 1);
	out.len--;
	said = memmem(out.data, out.len, mark, MARK_LEN);
	if (said)
		answer_read(w, user, path, mark, said + MARK_LEN + 1, &out);
	else /* the file exists now, but did not before: another process is changing it */
		fail_by(w, out.data, ENOENT);
}

/*
 * Check that the file exists and is writable before it is opened for the client; with $x,
 * it must be new. If the umask $u can give a new file its mode ($o), no tool is needed.
 */
static const char script_write[] =
	/* clang-format off */
	"if [ -L \"$p\" ] && [ -n \"$x\" ]; then echo \"$m EEXIST\"\n"
	"elif [ -L \"$p\" ] && [ -n \"$n\" ]; then echo \"$m ELOOP\"\n"
	"elif [ -d \"$p\" ]; then echo \"$m EISDIR\"\n"
	"elif [ -e \"$p\" ] && [ -n \"$x\" ]; then echo \"$m EEXIST\"\n"
	"elif [ -e \"$p\" ] && [ ! -f \"$p\" ]; then echo \"$m ENXIO\"\n"
	"elif [ -e \"$p\" ]; then\n"
		"if [ -n \"$t\" ]; then true >\"$p\" && echo \"$m ok\"\n"
		"else true >>\"$p\" && echo \"$m ok\"; fi\n"
	"elif [ -z \"$c\" ]; then echo \"$m ENOENT\"\n"
	"elif [ -z \"$o\" ] || need chmod; then\n"
		"umask $u; true >\"$p\"; s=$?; umask 022\n"
		"[ $s -ne 0 ] || { [ -n \"$o\" ] && ! chmod \"$o\" \"$p\"; } || echo \"$m ok\"\n"
	"fi";
/* clang-format on */

static void open_write(const struct work *w, const struct proto_open *msg,
		       const char *user, const char *path)
{
	AUTO_BUF struct buf script = BUF_INIT(1U << 20), out = BUF_INIT(1U << 20);
	struct warren_error err = WARREN_ERROR_INIT;
	char mark[MARK_LEN + 1], mode[8] = "", mask[8];
	const char *said;
	int fd = -1, r, code;

	mark_make(mark);
	if (msg->mode & 07777 & ~0666U)
		(void)snprintf(mode, sizeof(mode), "%04o", msg->mode & 07777);
	(void)snprintf(mask, sizeof(mask), "%04o", ~msg->mode & 0777);
	put_assignment(&script, "p", path);
	put_assignment(&script, "m", mark);
	put_assignment(&script, "n", msg->flags & O_NOFOLLOW ? "1" : "");
	put_assignment(&script, "x", msg->flags & O_EXCL ? "1" : "");
	put_assignment(&script, "t", msg->flags & O_TRUNC ? "1" : "");
	put_assignment(&script, "c", msg->flags & O_CREAT ? "1" : "");
	put_assignment(&script, "o", mode);
	put_assignment(&script, "u", mask);
	files_guard(&script, msg->path, path, NULL, "echo \"$m EXDEV\"; p=/dev");
	buf_puts(&script, script_write);
	r = shell_pool_run(user, &script, &out, SHELL_SECS, &err);
	buf_add(&out, "", 1);
	if (r < 0) {
		(void)files_fail(w, err.code, err.msg);
		return;
	}
	said = strstr(out.data, mark);
	if (!said) {
		fail_by(w, out.data, EIO);
		return;
	}
	code = named_errno(said + MARK_LEN + 1);
	if (code) {
		work_reply(w, -code, 0, -1, NULL);
		return;
	}
	/* Without O_TRUNC or O_EXCL, existing data stays, and new data is appended. */
	if (msg->flags & O_EXCL)
		spool_note(w->connection, user, path);
	r = spool_write(user, path, !(msg->flags & (O_TRUNC | O_EXCL)), NULL, &fd, &err);
	if (r < 0)
		(void)files_fail(w, err.code, err.msg);
	else
		files_hand_out(w, fd);
}

/* Without a shell inside, use the platform, which works as root. */
static void open_bare(const struct work *w, const struct proto_open *msg,
		      const char *path)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct spool_owner owner = { .mode = msg->mode,
				     .uid = msg->uid,
				     .gid = msg->gid };
	bool reads = (msg->flags & O_ACCMODE) == O_RDONLY;
	int fd = -1, r;

	if (reads && this_sandbox.driver->read_file) {
		open_large(w, "", path, SPOOL_UNTOLD, 0);
		return;
	}
	if (!reads && this_sandbox.driver->write_file && !(msg->flags & O_APPEND))
		r = spool_write("", path, false, &owner, &fd, &err);
	else
		r = error_set(&err, EOPNOTSUPP,
			      "%s: the image has no shell to do this with: no /bin/sh",
			      this_sandbox.name);
	if (r < 0)
		(void)files_fail(w, err.code, err.msg);
	else
		files_hand_out(w, fd);
}

static void do_open(const struct work *w, const struct proto_open *msg, const int *fds,
		    size_t n_fds)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char path[TOKEN_PATH_MAX], user[32];
	int r = msg->path[sizeof(msg->path) - 1] == '\0'
			? files_path(msg->path, fds, n_fds, path)
			: -EINVAL;

	/* This is the same rule as in init, although only the shell is at risk here. */
	if (r == 0 && proc_path_after(path, PROC_PATH_ROOT) &&
	    !((msg->flags & (O_ACCMODE | O_PATH | O_DIRECTORY)) == O_RDONLY &&
	      proc_path_may_read(path, 0)))
		r = -EACCES;
	if (r < 0) {
		work_reply(w, r, 0, -1, NULL);
		return;
	}
	files_user(msg->uid, msg->gid, user);
	if (spool_settle(path, &err) < 0)
		(void)files_fail(w, err.code, err.msg);
	else if (msg->flags & O_PATH && !(msg->flags & O_DIRECTORY))
		files_hand_out(w, token_make(path));
	else if (!inside.shell[0] && !(msg->flags & O_DIRECTORY))
		open_bare(w, msg, path);
	else if ((msg->flags & O_ACCMODE) == O_RDONLY)
		open_read(w, msg, user, path);
	else if ((msg->flags & O_ACCMODE) == O_WRONLY &&
		 !(msg->flags & O_TMPFILE & ~O_DIRECTORY))
		open_write(w, msg, user, path);
	else
		(void)files_fail(
			w, EOPNOTSUPP,
			"a file that is read and written, or has no name, is not "
			"supported by this backend");
}

/* ------------------------------------------------------------------------------- SCAN */

/*
 * Records "MARK s MODE UID GID SIZE MTIME INO NAME" (or i, with the mode in ls's
 * letters), "MARK l NAME" and "MARK t TARGET". `l` prints the target of link $1. ls
 * prints a device's numbers instead of a size.
 */
static const char script_stat[] =
	/* clang-format off */
	"i=\"$m i %M %U %G %s %T@ %i %p\\n\"\n"
	"w() { case $W in\n"
	"stat) stat $L -c \"$m s %f %u %g %s %Y %i %n\" \"$@\";;\n"
	/*
	 * find lists a dangling link like a file; the shell's message gives the reason
	 * why it cannot be opened.
	 */
	"find) if [ -n \"$L\" ] && [ -L \"$1\" ] && [ ! -e \"$1\" ]; then true <\"$1\"; "
		"else find $L \"$@\" -maxdepth 0 -printf \"$i\"; fi;;\n"
	"ls) for f; do set -- $(ls -lnid --full-time $L \"$f\") && {\n"
			"case $6 in *,) set -- $1 $2 $3 $4 $5 0 $8 $9;; esac\n"
			"echo \"$m i $2 $4 $5 $6 ${7}T$8 $1 $f\"\n"
		"} || ls -d \"$f\"; done;;\n"
	"*) echo '" SCRIPT_LACKS "ne of stat, find -printf and ls --full-time';;\n"
	"esac; }\n"
	"l() {\n"
		"need readlink ls || return\n"
		"case $t in\n"
		"readlink) t=$(readlink \"$1\" && echo .) && t=${t%??};;\n"
		"*) t=$(ls -ld \"$1\") && t=${t#*\"$1 -> \"};;\n"
		"esac && printf '%s\\n' \"$m l ${1#./}\" \"$m t $t\"\n"
		"return 0\n"
	"}\n";
/* clang-format on */

static const char script_scan[] =
	/* clang-format off */
	/* Find out the reason, because not every shell reports it. */
	"if ! cd \"$p\" 2>/dev/null; then\n"
		"if [ -d \"$p\" ]; then echo 'Permission denied'\n"
		"elif [ -e \"$p\" ]; then echo 'Not a directory'\n"
		"else echo 'No such file or directory'; fi\n"
	"else\n"
	"e=end\n"
	"if [ $W = find ]; then\n"
		"find . -mindepth 1 -maxdepth 1 -printf \"$i\" -type l -printf \"$m l %f\\n$m t %l\\n\"\n"
	"else\n"
	"for f in * .[!.]* ..?*; do\n"
		"[ ! -L \"$f\" ] || l \"./$f\" || { e=; break; }\n"
	"done\n"
	"[ $W != none ] || { w; e=; }\n"
	"set --\n"
	"[ -z \"$e\" ] || for f in * .[!.]* ..?*; do\n"
		/* A pattern without a match stays unchanged. */
		"case $f in '*'|'.[!.]*'|'..?*') [ -e \"$f\" ] || [ -L \"$f\" ] || continue;; esac\n"
		"set -- \"$@\" \"./$f\"\n"
		"[ $# -lt 200 ] || { w \"$@\"; set --; }\n"
	"done\n"
	"[ $# -eq 0 ] || w \"$@\"\n"
	"fi\n"
	"[ -z \"$e\" ] || echo \"$m $e\"\n"
	"cd /; fi";
/* clang-format on */

/* Read all entries of the directory into its handle. */
static int read_directory(const struct work *w, const char *user, const char *path,
			  int token)
{
	AUTO_BUF struct buf script = BUF_INIT(1U << 20), out = BUF_INIT(LIST_BYTES);
	AUTO_BUF struct buf entries = BUF_INIT(LIST_BYTES);
	struct warren_error err = WARREN_ERROR_INIT;
	char mark[MARK_LEN + 1];
	const char *why;
	int r;

	mark_make(mark);
	put_assignment(&script, "p", path);
	put_assignment(&script, "m", mark);
	put_assignment(&script, "L", "");
	buf_puts(&script, script_which);
	buf_puts(&script, script_stat);
	buf_puts(&script, script_scan);
	r = shell_pool_run(user, &script, &out, LIST_SECS, &err);
	if (r == -EFBIG)
		return files_fail(w, EFBIG, "the directory has too many entries to list");
	if (r < 0)
		return files_fail(w, err.code, err.msg);
	buf_add(&out, "", 1);
	out.len--;
	if (out.failed || !entries_all(out.data, out.len, mark, &entries)) {
		r = script_errno(out.data, EIO, &why);
		return files_fail(w, r, why);
	}
	r = token_fill(token, &entries);
	return r < 0 ? files_fail(w, -r, NULL) : 0;
}

_Alignas(8) static struct {
	struct proto_entries head;
	char data[PROTO_ENTRIES_MAX];
} answer;

static void send_entries(const struct work *w, uint32_t n, size_t size)
{
	answer.head = (struct proto_entries){
		.h = { .version = PROTO_VERSION, .type = PROTO_ENTRIES, .seq = w->seq },
		.n = n,
		.size = (uint32_t)size,
	};
	work_send(w, &answer, sizeof(answer.head) + size, -1);
}

static void shim_files_scan_directory(const struct work *w, const char *user, int token)
{
	char path[TOKEN_PATH_MAX];
	uint32_t n = 0;
	int r = token_path(token, path);

	if (r < 0) {
		work_reply(w, r, 0, -1, NULL);
		return;
	}
	if (!token_is_read(token)) {
		spool_settle_dir(path);
		if (read_directory(w, user, path, token) < 0)
			return;
	}
	r = token_next(token, answer.data, sizeof(answer.data), &n);
	if (r < 0)
		work_reply(w, r, 0, -1, NULL);
	else
		send_entries(w, n, (size_t)r);
}

static void answer_one(const struct work *w, struct buf *out, const char *mark)
{
	AUTO_BUF struct buf entry = BUF_INIT(PROTO_ENTRIES_MAX);

	if (!entries_one(out->data, out->len, mark, &entry)) {
		fail_by(w, out->data, EIO);
		return;
	}
	(void)memcpy(answer.data, entry.data, entry.len);
	send_entries(w, 1, entry.len);
}

static void shim_files_scan_one(const struct work *w, const struct proto_scan *msg,
				const char *user, const char *path)
{
	AUTO_BUF struct buf script = BUF_INIT(1U << 20), out = BUF_INIT(ONE_BYTES);
	struct warren_error err = WARREN_ERROR_INIT;
	bool follow = msg->flags & PROTO_SCAN_FOLLOW;
	char mark[MARK_LEN + 1];
	int r;

	mark_make(mark);
	put_assignment(&script, "p", path);
	put_assignment(&script, "m", mark);
	put_assignment(&script, "L", follow ? "-L" : "");
	files_guard(&script, msg->path, path, NULL, "p=/dev/null/x");
	buf_puts(&script, script_which);
	buf_puts(&script, script_stat);
	/*
	 * A client that writes a file first checks whether the file exists: answer
	 * without starting a process, if possible.
	 */
	buf_puts(&script, "d=${p%/*}/\n"
			  "if [ ${#p} -lt 200 ] && [ -d \"$d\" ] && [ -x \"$d\" ] && "
			  "[ ! -e \"$p\" ] && [ ! -L \"$p\" ]; then\n"
			  "echo 'No such file or directory'\n"
			  "elif [ -n \"$L\" ] || [ ! -L \"$p\" ]; then w \"$p\"\n"
			  "elif need readlink ls; then w \"$p\"; l \"$p\"; fi");
	r = shell_pool_run(user, &script, &out, SHELL_SECS, &err);
	buf_add(&out, "", 1);
	out.len -= out.len > 0;
	if (r < 0)
		(void)files_fail(w, err.code, err.msg);
	else
		answer_one(w, &out, mark);
}

static void do_scan(const struct work *w, const struct proto_scan *msg, const int *fds,
		    size_t n_fds)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char path[TOKEN_PATH_MAX], user[32];
	bool one = msg->flags & PROTO_SCAN_ONE;
	int r = msg->path[sizeof(msg->path) - 1] == '\0' && (one || n_fds > 0) ? 0
									       : -EINVAL;

	files_user(msg->who.uid, msg->who.gid, user);
	if (r == 0 && one)
		r = files_path(msg->path, fds, n_fds, path);
	if (r < 0)
		work_reply(w, r, 0, -1, NULL);
	else if (!one)
		shim_files_scan_directory(w, user, fds[0]);
	else if (spool_settle(path, &err) < 0)
		(void)files_fail(w, err.code, err.msg);
	else
		shim_files_scan_one(w, msg, user, path);
}

/* ---------------------------------------------------------------------------- requests
 */

void files_work(const struct work *w, const void *msg, size_t size, int *fds,
		size_t n_fds)
{
	const struct proto_header *h = msg;
	char why[100];

	if (this_sandbox.within >= 0) {
		within_work(w, msg, size, fds, n_fds);
		return;
	}
	switch (h->type) {
	case PROTO_OPEN:
		do_open(w, msg, fds, n_fds);
		return;
	case PROTO_SCAN:
		do_scan(w, msg, fds, n_fds);
		return;
	case PROTO_CHANGE:
		change_work(w, msg, size, fds, n_fds);
		return;
	case PROTO_CONNECT:
		port_work(w, msg);
		return;
	default:
		(void)snprintf(why, sizeof(why),
			       "watching files is not supported by backend '%s'",
			       this_sandbox.name);
		(void)files_fail(w, EOPNOTSUPP, why);
	}
}
