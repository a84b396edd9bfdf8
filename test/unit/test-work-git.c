/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-work-git.c - git on the machine starts no process, and changes only one directory
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "os/landlock.h"
#include "os/seccomp.h"
#include "work/git_run.h"

#include "lib/work.h"

/* Run a Python program in git's place, which cannot start processes; get its output. */
static const char *in_git(const struct work *w, bool hostile, const char *writes,
			  const char *script)
{
	static char text[4096];
	struct buf out AUTO_BUF = BUF_INIT(1 << 17);
	const char *const argv[] = { "python3", "-c", script, NULL };

	if (git_run(w,
		    &(struct git_command){ .argv = argv,
					   .program = "/usr/bin/python3",
					   .hostile = hostile,
					   .writes = writes,
					   .in = -1,
					   .out = -1 },
		    &out, &err) < 0)
		TAP_FAIL("%s", err.msg);
	OK(out.len < sizeof(text));
	(void)memcpy(text, out.data ? out.data : "", out.len);
	text[out.len] = '\0';
	return text;
}

#define TRY_ALL                                                                          \
	"import os, socket, threading\n"                                                 \
	"def attempt(what, f, *args):\n"                                                 \
	"    try:\n"                                                                     \
	"        f(*args)\n"                                                             \
	"        print('did', what)\n"                                                   \
	"    except OSError as e:\n"                                                     \
	"        print('not', what, e.strerror)\n"                                       \
	"def write(path):\n"                                                             \
	"    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))\n"                        \
	"print(os.getuid(), os.getgid(), os.getgroups())\n"                              \
	"for path in ('/tmp/warren-probe', '/var/tmp/warren-probe', 'x', 'refs/x',\n"    \
	"             '.git/refs/x', 'objects/x'):\n"                                    \
	"    attempt(path, write, path)\n"                                               \
	"attempt('fork', lambda: os.fork() or os._exit(0))\n"                            \
	"attempt('spawn', os.posix_spawn, '/bin/true', ['true'], {})\n"                  \
	"t = threading.Thread(target=lambda: print('did thread'))\n"                     \
	"t.start(); t.join()\n"                                                          \
	"attempt('connect', socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect,\n" \
	"        ('127.0.0.1', 9))\n"                                                    \
	"print(len(os.listdir('/proc')), os.getpid() < 100)\n"

TEST(git_has_no_rights_over_the_machine_when_it_reads_objects)
{
	AUTO_WORK struct work *w = NULL;
	const char *said;

	SKIP_UNLESS(geteuid() == 0, "only root has rights to give up");
	begin();
	git("init -q . && echo 1 >a && git add . && git commit -qm one");
	shell("chown -R 1234:1235 p && chmod 700 p");
	w = start();
	said = in_git(w, true, "objects", TRY_ALL);
	OK(strstr(said, "65534 65534 []\n"));
	OK(strstr(said, "not /tmp/warren-probe Read-only file system\n"));
	OK(strstr(said, "not /var/tmp/warren-probe Read-only file system\n"));
	OK(strstr(said, "not x Read-only") && strstr(said, "not refs/x Read-only"));
	OK(strstr(said, "did objects/x\n"));
	OK(strstr(said, "not connect Network is unreachable\n"));
	OK(strstr(said, "\n0 True\n"));
	shell("test $(stat -c %%u:%%g p/.git/objects/x) = 1234:1235 -a ! -e p/.git/refs/x");
	/* A control: other commands run as the owner. */
	said = in_git(w, false, ".", TRY_ALL);
	OK(strstr(said, "1234 1235 []\n") && strstr(said, "did .git/refs/x\n"));
	OK(strstr(said, "did connect\n"));
	shell("rm -f /tmp/warren-probe /var/tmp/warren-probe");
	end();
}

TEST(the_memory_of_git_is_limited)
{
	AUTO_WORK struct work *w = NULL;

	SKIP_UNLESS(geteuid() == 0, "mounts an overlay");
	begin();
	git("init -q . && echo 1 >a && git add . && git commit -qm one");
	w = start();
	STREQ(in_git(w, false, NULL,
		     "import resource\n"
		     "print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20)\n"
		     "a = bytearray(1 << 30)\n" /* a control */
		     "try:\n"
		     "    b = bytearray(1 << 31)\n"
		     "except MemoryError:\n"
		     "    print('no more')\n"),
	      "2048\nno more\n");
	end();
}

TEST(git_starts_no_process)
{
	AUTO_WORK struct work *w = NULL;
	const char *said;

	begin();
	git("init -q . && echo 1 >a && git add . && git commit -qm one");
	w = start();
	for (int hostile = 0; hostile < 2; hostile++) {
		said = in_git(w, hostile, NULL, TRY_ALL);
		OK(strstr(said, "not fork Operation not permitted\n"));
		OK(strstr(said, "not spawn Operation not permitted\n"));
		OK(strstr(said, "did thread\n")); /* a control */
	}
	shell("rm -f /tmp/warren-probe /var/tmp/warren-probe");
	end();
}

/* ---------------------------------------------------------------- what it changes */

/* Behave like a kernel without Landlock: its calls fail with @error. */
static void without_landlock(int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { ARRAY_SIZE(filter), filter };

	EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EQ(seccomp_load_program(&prog, &err), 0);
	EQ(landlock_version(), 0);
}

enum attempts {
	CONTROL,
	READS,
	OBJECTS,
	ALL
};

/* What commands may do that write to nothing, to .git/objects, or to .git. */
static const struct {
	const char *what, *how;
	bool may[ALL + 1];
} attempts[] = {
	{ "read", "open('a').close()", { true, true, true, true } },
	{ "null", "open('/dev/null', 'r+').close()", { true, true, true, true } },
	{ "object", "open('.git/objects/x', 'w').close()", { true, false, true, true } },
	{ "mkdir", "os.mkdir('.git/objects/d')", { true, false, true, true } },
	{ "rename",
	  "os.rename('.git/objects/x', '.git/objects/d/x')",
	  { true, false, true, true } },
	{ "link",
	  "os.link('.git/objects/d/x', '.git/objects/y')",
	  { true, false, true, true } },
	{ "truncate", "os.truncate('.git/objects/y', 1)", { true, false, true, true } },
	{ "unlink", "os.unlink('.git/objects/y')", { true, false, true, true } },
	{ "rmdir",
	  "(os.unlink('.git/objects/d/x'), os.rmdir('.git/objects/d'))",
	  { true, false, true, true } },
	{ "append", "open('.git/config', 'a').close()", { true, false, false, true } },
	{ "ref", "open('.git/refs/heads/x', 'w').close()", { true, false, false, true } },
	{ "file", "open('a', 'a').close()", { true } },
	{ "new", "open('new', 'w').close()", { true } },
	{ "shorten", "os.truncate('a', 1)", { true } },
	{ "move", "os.rename('a', 'b')", { true } },
	{ "out", "os.link('.git/description', 'c')", { true } },
	{ "in", "os.link('d/e', '.git/objects/e')", { true } },
	{ "remove", "os.unlink('d/e')", { true } },
	{ "symlink", "os.symlink('x', '.git/objects/l')", { true } },
	{ "fifo", "os.mkfifo('.git/objects/f')", { true } },
	{ "home", "open(home + '/x', 'w').close()", { true } },
	{ "tmp", "open(tmp + '-x', 'w').close()", { true } },
	{ "through", "open('.git/refs/heads/l', 'a').close()", { true } },
	{ "connect", "socket.create_connection(('127.0.0.1', 9))", { true } },
	{ "bind", "socket.socket().bind(('127.0.0.1', 0))", { true } },
};

static const char *attempts_script(void)
{
	static char text[8192];
	int n = snprintf(text, sizeof(text),
			 "import errno, os, socket\n"
			 "home = '%s/home'\ntmp = '%s'\n"
			 "def attempt(what, f):\n"
			 "    try:\n"
			 "        f()\n"
			 "    except OSError as e:\n"
			 "        if e.errno != errno.ECONNREFUSED:\n"
			 "            print('not', what, e.strerror)\n"
			 "            return\n"
			 "    print('did', what)\n",
			 top, top);

	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "attempt('%s', lambda: %s)\n", attempts[i].what,
			      attempts[i].how);
	OK(n < (int)sizeof(text));
	return text;
}

static void attempts_check(const char *said, enum attempts kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		char line[64];

		(void)snprintf(line, sizeof(line), "%s %s",
			       attempts[i].may[kind] ? "did" : "not", attempts[i].what);
		if (!strstr(said, line))
			TAP_FAIL("kind %u: not '%s' in:\n%s", kind, line, said);
	}
}

/* Run the script in git's place: @owner has the repository, and @caller runs Warren. */
static void attempts_run(enum attempts kind, uid_t owner, uid_t caller, int error)
{
	static const char *const writes[] = { ".", NULL, "objects", "." };
	struct work *w;
	int status;
	pid_t pid;

	begin();
	git("init -q . && mkdir d ../home && echo 1 >a && echo 1 >d/e && touch ../victim && "
	    "ln -s ../../../../victim .git/refs/heads/l && chmod 755 ..");
	w = start();
	/* As root, git runs as the owner, who may write to all of this, too. */
	shell("chown -Rh %u:%u p home victim", owner, owner);
	if (caller != 0)
		shell("chown -Rh %u:%u .", owner, owner);
	(void)fflush(stdout);
	pid = fork();
	OK(pid >= 0);
	if (pid == 0) {
		if (caller != geteuid())
			OK(setresgid(caller, caller, caller) == 0 &&
			   setresuid(caller, caller, caller) == 0);
		if (error)
			without_landlock(error);
		attempts_check(in_git(w, false, writes[kind], attempts_script()), kind);
		exit(0);
	}
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	(void)work_close(w);
	shell("rm -f %s-x", top);
	end();
}

static void attempts_of(uid_t owner, uid_t caller)
{
	/* A control; also how Warren works on a kernel without Landlock. */
	attempts_run(CONTROL, owner, caller, ENOSYS);
	attempts_run(CONTROL, owner, caller, EOPNOTSUPP);
	SKIP_UNLESS(landlock_version() >= LANDLOCK_HAS_NET,
		    "this kernel's landlock is too old");
	for (enum attempts kind = READS; kind <= ALL; kind++)
		attempts_run(kind, owner, caller, 0);
}

TEST(git_changes_only_what_its_command_writes)
{
	attempts_of(geteuid(), geteuid());
}

TEST(git_changes_only_what_its_command_writes_for_an_ordinary_user)
{
	SKIP_UNLESS(geteuid() == 0, "the test above is that of an ordinary user");
	attempts_of(1234, 1234);
}

TEST(git_changes_only_what_its_command_writes_for_root_in_a_users_project)
{
	SKIP_UNLESS(geteuid() == 0, "only root becomes the owner");
	attempts_of(1234, 0);
}

/* The rules apply to directories of the project, not to where links lead. */
TEST(git_does_not_write_through_links_of_the_project)
{
	static const char *const links[] = {
		"mv .git/objects .git/o && ln -s ../../dir .git/objects",
		"mv .git ../g && ln -s ../g .git",
	};

	for (size_t i = 0; i <= ARRAY_SIZE(links); i++) {
		AUTO_WORK struct work *w = NULL;
		const char *const argv[] = { "rev-parse", NULL };
		struct buf out AUTO_BUF = BUF_INIT(1 << 16);
		bool last = i == ARRAY_SIZE(links); /* a control: without a link */
		int r;

		begin();
		git("init -q . && echo 1 >a && git add . && git commit -qm one && mkdir ../dir");
		w = start();
		if (!last)
			shell("cd p && %s", links[i]);
		r = git_run(
			w,
			&(struct git_command){
				.argv = argv, .writes = "objects", .in = -1, .out = -1 },
			&out, &err);
		if (last ? r != 0 : r != -ELOOP && r != -ENOTDIR)
			TAP_FAIL("%s: %d", last ? "no link" : links[i], r);
		end();
	}
}

TEST_MAIN()
