/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_change.c - CHANGE: one script for all paths of a request, or a tool for a whole
 * tree
 *
 * Each verb is a few lines of shell, in which $a is the path, or $a and $b are the pair.
 * A failure prints the text of an errno, from a tool or from the script, and ends the
 * script. The changed paths are counted, as init counts them; but a tool gets up to
 * AT_ONCE names, and if it fails, it is not known how many of them it has changed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim/core/file_copy.h"
#include "shim/core/files.h"
#include "shim/core/scripts.h"
#include "shim/core/shell_pool.h"

#define CHANGE_SECS 120
#define SCRIPT_MAX  (16U << 20)
#define AT_ONCE     100   /* maximum number of names for one call of a tool */
#define WORDS_MAX   65536 /* maximum size of these names, because argv has a limit */

/*
 * The changes are in a function, which returns 1 on failure, because a subshell would be
 * another process. n counts the changes.
 */
static const char prelude[] =
	/* clang-format off */
	"n=0\n"
	"set --\n"
	"no() { echo \"$1\"; return 1; }\n"
	"there() { [ -e \"$1\" ] || [ -L \"$1\" ]; }\n"
	"did() { n=$((n + 1)); }\n"
	"use() { need \"$1\" || return 1; \"$@\"; }\n"
	/* rename(2) replaces a link and an empty directory; mv would move into them. */
	"ren() {\n"
		"if [ -n \"$warren_served\" ]; then\n"
			"ask mv -f \"$1\" \"$2\" || return\n"
			"case $warren_e in 0) return;; 18|38) ;; *) echo \"" SCRIPT_ERRNO "$warren_e\"; return 1;; esac\n"
		"fi\n"
		"need mv || return 1\n"
		"if [ ! -L \"$1\" ] && [ ! -L \"$2\" ] && [ \"$1\" -ef \"$2\" ] 2>/dev/null; then return; fi\n"
		"if [ -L \"$2\" ]; then use rm -f \"$2\" || return 1\n"
		"elif [ -d \"$2\" ]; then\n"
			"use rmdir \"$2\" || return 1\n"
			"plain mv -f \"$1\" \"$2\" || { mkdir \"$2\"; return 1; }\n"
			"return\n"
		"fi\n"
		"plain mv -f \"$1\" \"$2\"\n"
	"}\n";
/* clang-format on */

/*
 * For a verb with a tool, the lines append each path to the arguments ("$@"), so that the
 * tool runs once for all paths, because starting a program takes most of the time.
 */
static const struct verb {
	bool pair;
	const char *lines, *tool;
} verbs[PROTO_VERB_MAX] = {
	[PROTO_MKDIR] = { false,
			  "if [ -z \"$l\" ] || [ ! -d \"$a\" ]; then set -- \"$@\" \"$a\"; fi\n",
			  "use mkdir -m \"$o\" \"$@\"" },
	[PROTO_UNLINK] = { false,
			   "if [ -d \"$a\" ] && [ ! -L \"$a\" ]; then no 'Is a directory' || return; "
			   "elif there \"$a\"; then set -- \"$@\" \"$a\"; "
			   "elif [ -z \"$l\" ]; then no 'No such file or directory' || return; fi\n",
			   "use rm -f \"$@\"" },
	[PROTO_RMDIR] = { false,
			  "if there \"$a\" || [ -z \"$l\" ]; then "
			  "set -- \"$@\" \"$a\"; fi\n",
			  "use rmdir \"$@\"" },
	[PROTO_CHMOD] = { false,
			  "if [ -L \"$a\" ] && [ -z \"$f\" ]; then did; "
			  "elif [ -z \"$l\" ] || there \"$a\"; then set -- \"$@\" \"$a\"; fi\n",
			  "use chmod \"$o\" \"$@\"" },
	[PROTO_CHOWN] = { false,
			  "if [ -z \"$l\" ] || there \"$a\"; then set -- \"$@\" \"$a\"; fi\n",
			  "use chown -h \"$u\" \"$@\"" },
	[PROTO_UTIME] = { false,
			  "there \"$a\" || no 'No such file or directory' || return\n"
			  "set -- \"$@\" \"$a\"\n",
			  "{ use touch -h -d \"@$s\" \"$@\" 2>/dev/null || "
			  "touch -d \"@$s\" \"$@\"; }" },
	[PROTO_RENAME] = { true,
			   "there \"$a\" || no 'No such file or directory' || return\n"
			   "if there \"$b\"; then\n"
			   "[ -z \"$k\" ] || no 'File exists' || return\n"
			   "if [ -d \"$b\" ] && [ ! -L \"$b\" ]; then\n"
			   "{ [ -d \"$a\" ] && [ ! -L \"$a\" ]; } || no 'Is a directory' || return\n"
			   "fi\nfi\n"
			   "if [ \"$a\" = \"$b\" ]; then did\n"
			   "else\n"
			   "if [ -d \"$a\" ] && [ ! -L \"$a\" ]; then case $b/ in \"$a\"/*) "
			   "no 'Invalid argument' || return;; esac; fi\n"
			   "ren \"$a\" \"$b\" && did || return 1\n"
			   "fi\n",
			   NULL },
	[PROTO_SYMLINK] = { true,
			    "! there \"$b\" || no 'File exists' || return\n"
			    "use ln -s \"$a\" \"$b\" && did || return 1\n",
			    NULL },
	[PROTO_LINK] = { true,
			 "! there \"$b\" || no 'File exists' || return\n"
			 "use ln \"$a\" \"$b\" && did || return 1\n",
			 NULL },
};

/* Tools for a whole tree, with the path as $1. Links in the path are not followed. */
static const char *const trees[PROTO_VERB_MAX] = {
	[PROTO_UNLINK_TREE] = "use rm -rf \"$1\"",
	[PROTO_CHMOD_TREE] = "[ -L \"$1\" ] || r=-R\nuse chmod $r \"$o\" \"$1\"",
	[PROTO_CHOWN_TREE] = "use chown -hR \"$u\" \"$1\"",
};

/* Run the tool for the names that were collected so far. */
static void put_tool(struct buf *script, const struct verb *v)
{
	if (v->tool)
		buf_printf(script,
			   "[ $# -eq 0 ] || { %s && n=$((n + $#)) || return; }\nset --\n",
			   v->tool);
}

static bool file_change_is_whole(const struct proto_change *msg, size_t size)
{
	uint32_t n = 0;

	if (size < sizeof(*msg) || msg->strings_size != size - sizeof(*msg) ||
	    msg->verb >= PROTO_VERB_MAX ||
	    (!verbs[msg->verb].lines && !trees[msg->verb]) ||
	    (verbs[msg->verb].pair && msg->n % 2 != 0))
		return false;
	for (uint32_t i = 0; i < msg->strings_size; i++)
		n += msg->strings[i] == '\0';
	return n == msg->n &&
	       (msg->strings_size == 0 || msg->strings[msg->strings_size - 1] == '\0');
}

static void file_change_put_settings(const struct proto_change *msg, struct buf *script)
{
	buf_puts(script, prelude);
	buf_printf(script, "o=%04o u=%u:%u s=%lld\n", msg->mode & 07777, msg->owner,
		   msg->group, (long long)msg->mtime_sec);
	buf_printf(script, "l=%s k=%s f=%s\n",
		   msg->flags & PROTO_CHANGE_LENIENT ? "1" : "",
		   msg->flags & PROTO_CHANGE_KEEP ? "1" : "",
		   msg->flags & PROTO_CHANGE_FOLLOW ? "1" : "");
}

static void file_change_put_path(struct buf *script, const char *name, const char *path)
{
	buf_printf(script, "%s=", name);
	script_quote(script, path);
	buf_puts(script, "\n");
}

/*
 * Finish writing the files that a change concerns; files that are removed need not be
 * written.
 */
static int file_change_settle(const struct proto_change *msg, const char *path,
			      struct warren_error *err)
{
	if (msg->verb == PROTO_UNLINK || msg->verb == PROTO_RENAME)
		spool_unnote(path);
	if (msg->verb == PROTO_UNLINK) {
		spool_forget(path);
		return 0;
	}
	return spool_settle(path, err);
}

/* Write the lines for each name, and a call of the tool for each group of names. */
static int put_changes(const struct proto_change *msg, const int *fds, size_t n_fds,
		       const char *mark, struct buf *script, struct warren_error *err)
{
	const struct verb *v = &verbs[msg->verb];
	size_t to = n_fds > 1 ? 1 : 0, words = 0;
	const char *at = msg->strings, *before = NULL;

	for (uint32_t i = 0; i < msg->n; i++, at += strlen(at) + 1) {
		bool second = v->pair && i % 2 == 1;
		bool text = msg->verb == PROTO_SYMLINK && !second;
		char path[TOKEN_PATH_MAX];
		int r = text ? 0
			     : files_path(at, second && n_fds > 0 ? fds + to : fds,
					  n_fds > 0, path);

		if (r < 0)
			return error_errno(err, -r, "find '%.40s'", at);
		if (!text && (r = file_change_settle(msg, path, err)) < 0)
			return r;
		file_change_put_path(script, second ? "b" : "a", text ? at : path);
		if (!text)
			files_guard(script, at, path, v->pair ? NULL : before,
				    "no 'Invalid cross-device link' || return");
		before = at;
		if (v->pair && !second)
			continue;
		words += strlen(path) + 1;
		if (i > 0 && (i % AT_ONCE == 0 || words > WORDS_MAX)) {
			put_tool(script, v);
			words = strlen(path) + 1;
		}
		buf_printf(script, "i=%u\n", i);
		buf_puts(script, v->lines);
	}
	put_tool(script, v);
	buf_printf(script, "echo %s$n\n", mark);
	return 0;
}

/* Runs in a separate process, so that other requests have their turn. */
static void change_tree(const struct work *w, const struct proto_change *msg,
			const char *user)
{
	AUTO_BUF struct buf script = BUF_INIT(SCRIPT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	pid_t pid;
	int r;

	if (msg->n != 1 || msg->strings[0] != '/') {
		work_reply(w, -EINVAL, 0, -1, NULL);
		return;
	}
	if (!inside.shell[0]) {
		(void)files_fail(w, EOPNOTSUPP,
				 SCRIPT_LACKS " shell to do this with: no /bin/sh");
		return;
	}
	spool_settle_dir(msg->strings);
	buf_puts(&script, "exec >&2\n"
			  "no() { echo \"$1\"; exit 1; }\n"
			  "use() { need \"$1\" || exit 1; \"$@\"; }\n"
			  "[ -e \"$1\" ] || [ -L \"$1\" ] || "
			  "no 'No such file or directory'\n");
	/* gVisor of 2022 treats a path below a link to / as / itself. */
	if (msg->verb != PROTO_UNLINK_TREE)
		buf_puts(&script, "[ \"$1\" = / ] || ");
	buf_puts(&script, "if [ ! -L \"$1\" ] && cd -P \"$1\" 2>/dev/null && "
			  "[ \"$PWD\" = / ]; then no 'No such file or directory'; fi\n"
			  "cd /\n");
	buf_printf(&script, "o=%04o u=%u:%u r=\n", msg->mode & 07777, msg->owner,
		   msg->group);
	buf_puts(&script, trees[msg->verb]);
	buf_add(&script, "", 1);
	pid = script.failed ? -1 : fork();
	if (pid < 0)
		work_reply(w, -EAGAIN, 0, -1, NULL);
	if (pid != 0)
		return;
	r = spool_run(user, script.data, msg->strings, -1, -1, &err);
	if (r < 0)
		(void)files_fail(w, err.code, err.msg);
	else
		work_reply(w, 0, 1, -1, NULL);
	_exit(0);
}

void change_work(const struct work *w, const struct proto_change *msg, size_t size,
		 const int *fds, size_t n_fds)
{
	AUTO_BUF struct buf script = BUF_INIT(SCRIPT_MAX), out = BUF_INIT(1U << 20);
	struct warren_error err = WARREN_ERROR_INIT;
	char mark[MARK_LEN + 1], user[32];
	const char *end, *why;
	int r;

	if (!file_change_is_whole(msg, size)) {
		work_reply(w, -EINVAL, 0, -1, NULL);
		return;
	}
	files_user(msg->who.uid, msg->who.gid, user);
	if (trees[msg->verb]) {
		change_tree(w, msg, user);
		return;
	}
	mark_make(mark);
	buf_puts(&script, "change() {\ni=0\n");
	file_change_put_settings(msg, &script);
	r = put_changes(msg, fds, n_fds, mark, &script, &err);
	/* Report how many paths were changed, in any case. */
	buf_printf(&script, "}\nchange || { echo \"%s$i\"; false; }", mark);
	if (r == 0)
		r = shell_pool_run(user, &script, &out, CHANGE_SECS, &err);
	if (r < 0) {
		(void)files_fail(w, err.code, err.msg);
		return;
	}
	buf_add(&out, "", 1);
	end = strstr(out.data, mark);
	if (r == 0 && end) {
		work_reply(w, 0, (uint32_t)strtoul(end + MARK_LEN, NULL, 10), -1, NULL);
		return;
	}
	r = script_errno(out.data, EIO, &why);
	if (why)
		out.data[why - out.data + (ptrdiff_t)strcspn(why, "\n")] = '\0';
	work_reply(w, -r, end ? (uint32_t)strtoul(end + MARK_LEN, NULL, 10) : 0, -1, why);
}
