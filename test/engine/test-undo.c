/* SPDX-License-Identifier: Apache-2.0 */
/* test-undo.c - the files of a sandbox are restored, and its processes continue */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "lib/durable-sandbox.h"

static void run_well(struct warren_sandbox *sb, const char *const *argv)
{
	struct said said = sandbox_run(sb, argv);

	if (said.res.exit_code != 0)
		TAP_FAIL("exit status %d: %s", said.res.exit_code, said.err);
	free(said.out);
	free(said.err);
}

/* The files before the command: of every kind, in the image and new. */
static const char *const fill =
	"set -e; cd /srv; mkdir -p d/e/f gone/deep; chmod 2751 d; chown 1000:1001 d/e;"
	"printf 'hello\\n' > plain; chown 12:34 plain; chmod 4755 plain;"
	"touch -d '2001-02-03 04:05:06.789' plain; ln plain d/hard; ln plain d/e/harder;"
	"ln -s /nowhere/at/all link; chown -h 55:66 link; mkfifo -m 640 pipe;"
	"truncate -s 100M holes; printf end | dd of=holes bs=1 seek=50000000 conv=notrunc status=none;"
	"printf secret > unreadable; chmod 000 unreadable; : > empty; printf x > \"$(printf 'odd\\nname\\t\\377')\";"
	"echo a > one; ln one two; echo b > three; ln three four; echo in > gone/deep/file;"
	"rm -rf /etc/perl /etc/pam.d; mkdir /etc/pam.d; echo new > /etc/pam.d/only; rm /etc/login.defs;"
	"chmod 700 /etc/alternatives; echo more >> /etc/bash.bashrc; touch -d '2002-01-01' /srv;"
	"python3 - <<'EOF'\n"
	"import os\n"
	"os.setxattr('/srv/plain', 'user.note', b'a\\0b')\n"
	"os.setxattr('/srv/d', 'user.dir', b'yes')\n"
	/* Names of overlays inside, and of security modules, where the kernel permits
	   them. */
	"for path in '/srv/plain', '/srv/d', '/srv/gone', '/srv/gone/deep/file', '/etc/alternatives', '/etc/bash.bashrc':\n"
	"  for name in 'user.overlay.opaque', 'user.overlay.redirect', 'user.overlay.overlay.origin', 'security.selinux':\n"
	"    try: os.setxattr(path, name, b'y')\n"
	"    except OSError: pass\n"
	"EOF\n";

static const char *const spoil =
	"set -e; cd /srv; echo longer text > plain; chmod 600 plain; chown 0:0 d/e; rm d/hard; echo other > d/hard;"
	"rm link; ln -s elsewhere link; chmod 644 pipe; printf mid | dd of=holes bs=1 seek=30 conv=notrunc status=none;"
	"rm unreadable; mkdir unreadable; echo x > unreadable/x; echo full > empty; rm odd*; rm -rf gone; echo file > gone;"
	"ln -f one three; rm two; cp -a one two; mkdir -p added/a/b/c; echo y > added/a/b/c/y; rm -rf /etc/pam.d;"
	"echo defs > /etc/login.defs; chmod 755 /etc/alternatives; rm /etc/bash.bashrc; rm -rf /etc/vim;"
	"mkdir /etc/perl; echo p > /etc/perl/p; ln -f /etc/passwd /etc/group; mv /etc/security /srv/security;"
	"python3 - <<'EOF'\n"
	"import os\n"
	"os.setxattr('/srv/plain', 'user.note', b'changed')\n"
	"os.setxattr('/srv/plain', 'user.more', b'more')\n"
	"os.removexattr('/srv/d', 'user.dir')\n"
	"for path in '/srv/plain', '/srv/d', '/etc/alternatives':\n"
	"  for name in os.listxattr(path):\n"
	"    if name != 'user.note': os.removexattr(path, name)\n"
	"try: os.setxattr('/srv/empty', 'user.overlay.whiteout', b'y')\n"
	"except OSError: pass\n"
	"EOF\n"
	"d=/srv/deepest; mkdir $d; cd $d; i=0; while [ $i -lt 700 ]; do mkdir d; cd d; i=$((i+1)); done; echo x > f";

/* Everything that a process can see of these files, one line each. */
static const char *const view =
	"python3 - <<'EOF'\n"
	"import os, hashlib, stat\n"
	"for top in ('/srv', '/etc', '/opt', '/root', '/tmp', '/home'):\n"
	"  for d, dirs, files in os.walk(top):\n"
	"    dirs.sort()\n"
	"    for name in ['.'] + sorted(dirs + files):\n"
	"      p = os.path.join(d, name); s = os.lstat(p)\n"
	"      what = oct(s.st_mode), s.st_uid, s.st_gid, s.st_mtime_ns, 0 if stat.S_ISDIR(s.st_mode) else (s.st_size, s.st_nlink)\n"
	"      if stat.S_ISREG(s.st_mode):\n"
	"        h = hashlib.sha256()\n"
	"        with open(p,'rb') as f:\n"
	"          for piece in iter(lambda: f.read(1 << 20), b''): h.update(piece)\n"
	"        what += (h.hexdigest(),)\n"
	"      if stat.S_ISLNK(s.st_mode): what += (os.readlink(p),)\n"
	"      else: what += (sorted((k, os.getxattr(p, k)) for k in os.listxattr(p)),)\n"
	"      print(ascii(p), what)\n"
	"s = os.lstat('/'); print(oct(s.st_mode), s.st_mtime_ns, os.path.samefile('/srv/plain', '/srv/d/hard'),\n"
	"  os.path.samefile('/srv/one', '/srv/two'), os.path.samefile('/srv/three', '/srv/four'), os.stat('/srv/holes').st_blocks < 1000)\n"
	"EOF\n";

static char *view_of(struct warren_sandbox *sb)
{
	struct said said = sandbox_run(sb, SH(view));

	if (said.res.exit_code != 0)
		TAP_FAIL("exit status %d: %s", said.res.exit_code, said.err);
	free(said.err);
	return said.out;
}

static void restores(bool prepared, uint64_t disk)
{
	struct warren_spec spec = { .durable = true, .disk = disk, .memory = 256 * MIB };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_undone undone;
	struct warren_saved saved;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;
	char *first, *second;

	world_enter(SECONDS);
	w = engine();
	if (prepared) {
		GOOD(warren_prepare(w, id, &err));
		spec.id = id;
	}
	sb = sandbox_make(w, &spec);
	EQ(warren_undo(sb, &undone, &err), -ENOENT);
	run_well(sb, SH(fill));
	first = view_of(sb);
	/* A process with an open file stays, and sees the old contents. */
	run_well(sb,
		 SH("exec 9<>/srv/empty; (while :; do sleep 1; done) >/dev/null 2>&1 & "
		    "echo $! > /dev/shm/pid"));
	GOOD(warren_undo_keep(sb, &saved, &err));
	OK(saved.frozen_ns > 0);
	run_well(sb, SH(spoil));
	second = view_of(sb);
	OK(strcmp(first, second) != 0);
	free(second);
	GOOD(warren_undo(sb, &undone, &err));
	OK(undone.removed > 3 && undone.restored > 5 && undone.changed > 0);
	second = view_of(sb);
	STREQ(second, first);
	free(second);
	run_well(
		sb,
		SH("kill -0 $(cat /dev/shm/pid) && echo x >> /srv/plain && mkdir /etc/perl && "
		   "test ! -s /proc/$(cat /dev/shm/pid)/fd/9"));
	/* The copy was removed, so a second undo fails. */
	EQ(warren_undo(sb, &undone, &err), -ENOENT);
	free(first);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(files_are_restored)
{
	restores(false, 0);
}

TEST(files_of_a_sandbox_from_a_prepared_part_are_restored)
{
	restores(true, 0);
}

TEST(files_of_a_sandbox_on_a_disk_are_restored)
{
	restores(false, 400 * MIB);
}

TEST(a_full_sandbox_can_be_restored)
{
	struct warren_spec spec = { .durable = true,
				    .disk = 16 * MIB,
				    .memory = 256 * MIB };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_undone undone;
	struct warren_saved saved;
	struct warren_sandbox *sb;
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	sb = sandbox_make(w, &spec);
	run_well(sb,
		 SH("head -c 6000000 /dev/zero > /srv/big; md5sum /srv/big > /srv/sum"));
	GOOD(warren_undo_keep(sb, &saved, &err));
	run_well(sb, SH("rm /srv/big; ! cat /dev/zero > /srv/all 2>/dev/null"));
	GOOD(warren_undo(sb, &undone, &err));
	run_well(sb, SH("md5sum -c /srv/sum && test ! -e /srv/all"));
	/* Other files use the space that would be needed: nothing changes. */
	run_well(sb, SH("rm /srv/sum"));
	GOOD(warren_undo_keep(sb, &saved, &err));
	run_well(
		sb,
		SH("rm /srv/big; ! cat /dev/zero > /dev/shm/all 2>/dev/null; : > /srv/x"));
	EQ(warren_undo(sb, &undone, &err), -ENOSPC);
	OK(strstr(err.msg, "bytes are free"));
	run_well(sb, SH("test ! -e /srv/big && test -e /srv/x && rm /dev/shm/all"));
	GOOD(warren_undo(sb, &undone, &err));
	run_well(sb, SH("test -e /srv/big && test ! -e /srv/x"));
	sandbox_destroy(sb);
	w = warren_close(w);
}

static void kept_and_killed(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_saved saved;
	struct warren *w = engine();
	struct warren_sandbox *sb = make_durable(w);
	AUTO_FREE char *marker = sandbox_path("state/undo/.busy-%s", warren_id(sb));

	run_well(sb, SH("echo before > /srv/file"));
	GOOD(warren_undo_keep(sb, &saved, &err));
	run_well(sb, SH("echo after > /srv/file; echo x > /srv/x"));
	/* Create the state that a process killed during an undo leaves. */
	OK(close(open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) == 0);
}

TEST(the_next_engine_completes_an_undo)
{
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;

	world_enter(SECONDS);
	killed_after(kept_and_killed);
	w = engine();
	EQ(count_durable(w, id), 1);
	sb = adopt(w, id);
	run_well(sb, SH("test $(cat /srv/file) = before && test ! -e /srv/x"));
	sandbox_destroy(sb);
	w = warren_close(w);
}

static void die(int sig UNUSED)
{
	(void)kill(getpid(), SIGKILL);
}

/* The next removal of a directory kills this process; files can be removed. */
static void die_at_rmdir(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unlinkat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AT_REMOVEDIR, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(code), code };

	OK(signal(SIGSYS, die) != SIG_ERR);
	EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void killed_while_it_forgets(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_saved saved;
	struct warren *w = engine();
	struct warren_sandbox *sb = make_durable(w);

	run_well(sb, SH("mkdir /srv/d; echo before > /srv/d/file"));
	GOOD(warren_undo_keep(sb, &saved, &err));
	die_at_rmdir();
	(void)warren_undo_forget(w, warren_id(sb), &err);
}

/* A part of a copy would remove the files that it does not have any more. */
TEST(a_copy_whose_removal_was_interrupted_is_never_restored)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_undone undone;
	struct warren_sandbox *sb;
	AUTO_FREE char *path = NULL, *aside = NULL;
	char id[ID_LEN + 1];
	struct warren *w;

	world_enter(SECONDS);
	killed_after(killed_while_it_forgets);
	w = engine();
	EQ(count_durable(w, id), 1);
	path = sandbox_path("state/undo/%s", id);
	aside = sandbox_path("state/undo/.old-%s", id);
	OK(access(path, F_OK) < 0 && access(aside, F_OK) < 0);
	sb = adopt(w, id);
	EQ(warren_undo(sb, &undone, &err), -ENOENT);
	run_well(sb, SH("test $(cat /srv/d/file) = before"));
	sandbox_destroy(sb);
	w = warren_close(w);
}

/* The names at the bottom have longer paths than the kernel accepts. */
#define DEEP                                                 \
	"set -e; cd /srv; python3 - <<'EOF'\n"               \
	"import os, hashlib, shutil\n"                       \
	"for i in range(400):\n"                             \
	"  os.makedirs(f'long-enough-{i}', exist_ok=True)\n" \
	"  os.chdir(f'long-enough-{i}')\n"                   \
	"def sum(): return hashlib.sha256(open('a', 'rb').read()).hexdigest()\n"

static const char *const deep_fill = DEEP "open('a', 'wb').write(os.urandom(9000000))\n"
					  "open('sum', 'w').write(sum())\n"
					  "for n in ('b', 'c'): os.link('a', n)\n"
					  "os.mkdir('d')\n"
					  "for i in range(3000): os.link('a', f'd/{i}')\n"
					  "EOF\n";
static const char *const deep_spoil =
	DEEP "for n in ('a', 'b'): os.unlink(n)\n"
	     "for i in range(3000): os.unlink(f'd/{i}')\n"
	     "os.rmdir('d')\n"
	     "open('d', 'w').write('file')\n"
	     "EOF\n"
	     "! cat /dev/zero > /srv/all 2>/dev/null; ln /srv/all /srv/all2";
static const char *const deep_check =
	DEEP "assert open('sum').read() == sum()\n"
	     "assert os.path.samefile('a', 'b') and os.path.samefile('c', 'd/2999')\n"
	     "assert os.stat('a').st_nlink == 3003 and len(os.listdir('d')) == 3000\n"
	     "assert not os.path.exists('/srv/all')\n"
	     "EOF\n";

TEST(deep_trees_and_many_names_are_exact_or_refused_before_the_command)
{
	struct warren_spec spec = { .durable = true,
				    .disk = 64 * MIB,
				    .memory = 256 * MIB };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_undone undone;
	struct warren_saved saved;
	AUTO_FREE char *path = NULL, *incomplete = NULL;
	struct warren_sandbox *sb;
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	sb = sandbox_make(w, &spec);
	path = sandbox_path("state/undo/%s", warren_id(sb));
	incomplete = sandbox_path("state/undo/.new-%s", warren_id(sb));
	run_well(sb, SH(deep_fill));
	GOOD(warren_undo_keep(sb, &saved, &err));
	run_well(sb, SH(deep_spoil));
	GOOD(warren_undo(sb, &undone, &err));
	run_well(sb, SH(deep_check));
	/* It cannot be copied, so the command does not start, and nothing is left. */
	run_well(sb, SH("set -e; cd /srv; i=0; while [ $i -lt 600 ]; do mkdir d; cd d; "
			"i=$((i+1)); done"));
	OK(warren_undo_keep(sb, &saved, &err) < 0);
	OK(strstr(err.msg, "/d/d/d") || strstr(err.msg, "deep"));
	OK(access(path, F_OK) < 0 && access(incomplete, F_OK) < 0);
	EQ(warren_undo(sb, &undone, &err), -ENOENT);
	sandbox_destroy(sb);
	w = warren_close(w);
}

TEST(a_copy_ends_with_its_sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_saved saved;
	AUTO_FREE char *path = NULL;
	struct warren_sandbox *sb;
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	sb = make_durable(w);
	path = sandbox_path("state/undo/%s", warren_id(sb));
	GOOD(warren_undo_keep(sb, &saved, &err));
	EQ(access(path, F_OK), 0);
	GOOD(warren_undo_forget(w, warren_id(sb), &err));
	OK(access(path, F_OK) < 0);
	GOOD(warren_undo_keep(sb, &saved, &err));
	EQ(access(path, F_OK), 0);
	sandbox_destroy(sb);
	OK(access(path, F_OK) < 0);
	w = warren_close(w);
}

TEST_MAIN()
