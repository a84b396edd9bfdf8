/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_proto.h - the protocol between a sandbox's init and its clients
 *
 * SOCK_SEQPACKET connections: each message is one struct, with descriptors (SCM_RIGHTS).
 * Both ends come from the same build, or from builds with the same PROTO_VERSION; a
 * message with another version is refused.
 *
 *	engine				init
 *	CONFIG + cgroups	-->
 *				<--	READY
 *	KEEP			-->		from here on it is durable
 *				<--	REPLY
 *	SPAWN + stdio		-->
 *				<--	REPLY (+ descriptors), after execve(2) worked
 *				<--	EXITED, once, when the first process ended
 *	HELLO			-->
 *				<--	WELCOME
 *	SIGNAL, OPEN, CONNECT,	-->
 *	CLOSE_INPUT, ATTACH,
 *	LIST, CHANGE, WATCH,
 *	SAVE, RESTORE, WORKER,
 *	UPPER, NAME_MEMORY
 *				<--	REPLY (+ descriptors)
 *	SCAN			-->
 *				<--	ENTRIES, or REPLY when it failed
 *	ACK			-->		is not answered
 *
 * The child that becomes init uses the same connection first: it gets MOUNTS once the id
 * maps are written, and sends FAILED with a struct warren_error if one of its steps
 * fails.
 *
 * init starts with these descriptors: 0, 1 and 2 are /dev/null, PROTO_FD_MAKER is the
 * creator's connection, and PROTO_FD_LISTEN, only in a durable sandbox, is a socket that
 * is bound to a name outside the sandbox. init calls listen(2) on it before READY, so
 * that peers see init's credentials.
 *
 * Lifetime. Without PROTO_FD_LISTEN, and until KEEP, the sandbox ends with its creator's
 * connection: init exits, and the kernel kills the remaining processes of the pid
 * namespace. After KEEP, the end of a connection does not end the sandbox. A durable init
 * accepts PROTO_CONNECTIONS_MAX connections at a time, including its creator's; a further
 * one gets a REPLY of -EBUSY to no request (seq 0) and is closed.
 *
 * Receivers. A REPLY goes to the connection that sent the request. EXITED goes to
 * connections that started the exec or ATTACHed to it, and to those that sent HELLO with
 * PROTO_HELLO_ALL. If a client of a durable sandbox does not read and its buffer is full,
 * init reads no requests from that connection until the client reads again. Messages to
 * the client are queued, up to a limit (outbox.c). Beyond that limit init closes the
 * connection: the client connects again, and finds the missed results in the journals.
 * Eventfds and holds belong to a connection and end with it; streams belong to an exec
 * and do not.
 *
 * init is inside the sandbox: the engine trusts none of its messages (proto_check() and
 * the callers' bounds), and an init that is silent or sends garbage harms only its own
 * sandbox.
 */
#ifndef PROTO_INIT_PROTO_H
#define PROTO_INIT_PROTO_H

#include <stddef.h>
#include <stdint.h>

#define PROTO_VERSION      2
#define PROTO_MESSAGE_MAX  32768 /* larger strings are sent in a memfd */
#define PROTO_STRINGS_MAX  (4U << 20)
#define PROTO_POINTERS_MAX 16384 /* argv and environment, together */
#define PROTO_FDS_MAX      24
#define PROTO_GROUPS_MAX   32
#define PROTO_EXECS_MAX    512
/* Maximum timeout in ms, more than a hundred years. A longer timeout means none. */
#define PROTO_TIMEOUT_MAX (1ULL << 42)

#define PROTO_FD_MAKER        3
#define PROTO_FD_LISTEN       4
#define PROTO_FD_DIRS         5 /* first of PROTO_DIRS roles from PROTO_ROLE_DIRS on */
#define PROTO_CONNECTIONS_MAX 8

/*
 * init's user: the first id after the 65,536 ids of a sandbox. It must be part of the id
 * map, so the system call filter keeps all other processes from becoming it
 * (tools/gen/seccomp-policy.h).
 */
#define INIT_ID 65536

enum proto_type {
	/* Messages to init, or to the child before it becomes init. */
	PROTO_MOUNTS = 1,
	PROTO_CONFIG,
	PROTO_SPAWN,
	PROTO_SIGNAL,
	PROTO_OPEN,
	PROTO_CONNECT,
	PROTO_KEEP,
	PROTO_HELLO,
	PROTO_CLOSE_INPUT,
	PROTO_ATTACH,
	PROTO_ACK,
	PROTO_LIST,
	PROTO_SCAN,
	PROTO_CHANGE,
	PROTO_WATCH,
	PROTO_SAVE,
	PROTO_RESTORE,
	PROTO_WORKER,
	/* Sent to a file worker, which also accepts OPEN, SCAN, CHANGE and WATCH. */
	PROTO_WRITE,
	PROTO_NOTIFY,
	/* Sent to init, like those further above. */
	PROTO_UPPER,
	PROTO_NAME_MEMORY,
	PROTO_LOWER,
	/* Messages from init, or from the child before it becomes init. */
	PROTO_FAILED = 64,
	PROTO_READY,
	PROTO_REPLY,
	PROTO_EXITED,
	PROTO_WELCOME,
	PROTO_ENTRIES,
};

struct proto_header {
	uint16_t version;
	uint16_t type;
	uint32_t seq; /* number of a request, repeated in its REPLY */
};

/* Roles of the descriptors that come with CONFIG. */
enum proto_role {
	PROTO_ROLE_ALIVE,    /* keeps the sandbox's lock while init lives */
	PROTO_ROLE_JOIN,     /* v1: a `tasks` file that every exec joins */
	PROTO_ROLE_JOIN_BOX, /* v1: a `tasks` file for execs without their own cgroup */
	/*
	 * Directories are detached mounts without a parent. If the engine may not create
	 * them, the child creates them before it becomes init, and leaves them at
	 * PROTO_FD_DIRS.
	 */
	PROTO_ROLE_MEMORY, /* v1: directories in which execs get their own cgroups */
	PROTO_ROLE_CPU,
	PROTO_ROLE_PIDS,
	PROTO_ROLE_UNIFIED, /* v2: the only directory */
	/* Not cgroups: see struct proto_upper. */
	PROTO_ROLE_UPPER,
	PROTO_ROLE_LOWER,
	PROTO_ROLE_MAX,
};

#define PROTO_ROLE_DIRS PROTO_ROLE_MEMORY
#define PROTO_DIRS      (PROTO_ROLE_MAX - PROTO_ROLE_DIRS)
/* These directories always have these numbers, so that the engine can take them from
 * init. */
#define PROTO_FD_UPPER (PROTO_FD_DIRS + PROTO_ROLE_UPPER - PROTO_ROLE_DIRS)
#define PROTO_FD_LOWER (PROTO_FD_DIRS + PROTO_ROLE_LOWER - PROTO_ROLE_DIRS)

/* The root has just been mounted: init must reopen its files. */
#define PROTO_CONFIG_ROOTED (1U << 0)
#define PROTO_CONFIG_AHEAD  (1U << 1) /* prepare the first exec in advance */

struct proto_config {
	struct proto_header h;
	uint32_t flags;
	uint32_t n;
	uint8_t role[PROTO_FDS_MAX];
};

#define PROTO_SPAWN_PTY     (1U << 0)
#define PROTO_SPAWN_SOLE    (1U << 1) /* report the usage of the whole sandbox */
#define PROTO_SPAWN_MEMFD   (1U << 2) /* strings are in the first descriptor */
#define PROTO_SPAWN_JOURNAL (1U << 3) /* the last two descriptors: journal, eventfd */
#define PROTO_SPAWN_OUT     (1U << 4) /* stdout goes to the journal */
#define PROTO_SPAWN_ERR     (1U << 5) /* stderr goes to the journal */
#define PROTO_SPAWN_GROUPS  (1U << 6) /* setgroups(2) is possible here */
#define PROTO_SPAWN_MKCWD   (1U << 7) /* create the working directory if it is missing */
/*
 * stdin is a pipe; init keeps its write end, and sends a duplicate with the REPLY. So
 * stdin does not end when a writer dies. It ends after CLOSE_INPUT, once every duplicate
 * is closed too.
 */
#define PROTO_SPAWN_INPUT (1U << 8)
#define PROTO_SPAWN_HOLD  (1U << 9) /* like PROTO_ATTACH_HOLD, from cursor 0 */
/*
 * After the environment come the name of a file, without a slash, and its contents up to
 * the end of the strings. The new process creates it in the working directory, as the
 * user, before it executes the program. A file of that name must not exist.
 */
#define PROTO_SPAWN_FILE (1U << 10)
/*
 * PROTO_SPAWN_PTY with PROTO_SPAWN_JOURNAL: the output of the terminal is stream 1. The
 * REPLY contains the master, which is non-blocking, for input and resizing. A process
 * that reads from it takes bytes away from the journal.
 */

/* A stdio slot of SPAWN is the index of a descriptor in the message, or this. */
#define PROTO_STDIO_NULL 0xff

/*
 * Additional descriptors for an exec, for shells that run one command after another. The
 * client chooses their numbers (above 2, below the exec's limit of open files; 0: none).
 */
enum proto_control {
	/*
	 * A pipe to init: data written to it becomes stream 3 of the journal, after
	 * everything that was written to stdout and stderr before.
	 */
	PROTO_CONTROL_RESULT,
	/*
	 * A pipe to read from, which the exec's user may open again through /proc. Its
	 * write end is sent with the REPLY and by ATTACH; init keeps a copy.
	 */
	PROTO_CONTROL_POKE,
	/* A file that comes with SPAWN, before the journal. init keeps it for ATTACH. */
	PROTO_CONTROL_COMMAND,
	PROTO_CONTROL_MAX,
};

struct proto_spawn {
	struct proto_header h;
	uint32_t exec; /* a number that the engine chooses; unique while the exec lives */
	uint32_t flags;
	uint32_t uid, gid;
	uint32_t n_groups;
	uint32_t groups[PROTO_GROUPS_MAX];
	uint64_t timeout_ms;
	uint64_t nofile;
	uint64_t journal_limit;
	/*
	 * Limits of this exec, within those of the sandbox; 0: none. -EOPNOTSUPP without
	 * cgroups.
	 */
	uint64_t memory, cpu_millis, pids;
	uint16_t rows, cols;
	uint8_t stdio[3];
	uint8_t control[PROTO_CONTROL_MAX]; /* descriptor numbers, by enum proto_control
					     */
	/*
	 * 1 + the index of a descriptor in the message that is a gate: the read end of a
	 * pipe. The program is not executed before a byte can be read; if the pipe ends,
	 * the exec fails with -ECANCELED. 0: no gate.
	 */
	uint8_t gate;
	uint8_t pad;
	/*
	 * cwd, then argv, then the environment, each NUL-terminated, back to back; then
	 * the file of PROTO_SPAWN_FILE
	 */
	uint32_t argc, envc, strings_size;
	char strings[];
};

_Static_assert(sizeof(struct proto_spawn) == offsetof(struct proto_spawn, strings),
	       "the strings begin where the struct ends");

/*
 * The processes of an exec that get a signal. SIGKILL to the first process goes to the
 * whole tree. The tree is the exec's cgroup or, without one, its session.
 */
enum proto_whom {
	PROTO_WHOM_FIRST, /* the first process */
	PROTO_WHOM_TREE,  /* all */
	PROTO_WHOM_REST,  /* all except the first */
	/* Processes of PROTO_WHOM_REST that started after the last record of stream 3. */
	PROTO_WHOM_NEW,
	PROTO_WHOM_ONE, /* only `pid`, if it is a process of the exec */
	PROTO_WHOM_ALL, /* all processes of the sandbox; `exec` is 0. Signal 0 only tests:
			   -ESRCH if no process catches SIGTERM */
	PROTO_WHOM_MAX,
};

struct proto_signal {
	struct proto_header h;
	uint32_t exec;
	int32_t sig;
	uint32_t whom;
	int32_t pid; /* pid inside the sandbox */
};

/*
 * Write the processes of an exec to the file that comes with the message: as many struct
 * proto_process as the status of the REPLY says, at most PROTO_PROCESSES_MAX.
 */
struct proto_list {
	struct proto_header h;
	uint32_t exec;
	uint32_t pad;
};

#define PROTO_PROCESSES_MAX       16384
#define PROTO_PROCESS_FIRST       (1U << 0)
#define PROTO_PROCESS_IGNORES_INT (1U << 1)

struct proto_process {
	int32_t pid, ppid; /* pids inside the sandbox */
	uint32_t flags;
	uint32_t pad;
	uint64_t start; /* clock ticks since the machine started */
};

/*
 * Files. A path is absolute and resolved within the sandbox's root; or it is relative to
 * an open directory that comes with the message, and must not lead out of it (-EXDEV).
 * Everything is done with the privileges of one user. Nothing in /proc is opened or
 * changed, because init could be made to act on itself there. Only a file worker reads
 * files there that belong to no process: OPEN then returns a copy, because those files,
 * and files of other such filesystems, have no size.
 */
struct proto_open {
	struct proto_header h;
	uint32_t uid, gid;
	uint32_t n_groups; /* 0 where setgroups(2) is not possible */
	uint32_t groups[PROTO_GROUPS_MAX];
	int32_t flags;
	uint32_t mode;
	char path[4096];
};

/* The user whose privileges are used to carry out a request. */
struct proto_who {
	uint32_t uid, gid;
	uint32_t n_groups; /* 0 where setgroups(2) is not possible */
	uint32_t groups[PROTO_GROUPS_MAX];
};

/*
 * Read the next entries of the directory that comes with the message, and advance its
 * position; no entries means the end. With PROTO_SCAN_ONE, describe the file at the path.
 */
#define PROTO_SCAN_ONE    (1U << 0)
#define PROTO_SCAN_FOLLOW (1U << 1) /* with ONE: follow a link at the end of the path */
/*
 * Look at attributes (xattr(7)) that begin with "user.", of files and directories. With
 * ONE, an entry follows for each: its name, and its value in place of the link. Those
 * whose name has a slash, or whose value has a NUL, are omitted. Otherwise, the entries
 * of files that have any get PROTO_ENTRY_ATTRIBUTES. An older init ignores this flag.
 */
#define PROTO_SCAN_ATTRIBUTES (1U << 2)

struct proto_scan {
	struct proto_header h;
	struct proto_who who;
	uint32_t flags;
	char path[4096];
};

enum proto_verb {
	PROTO_MKDIR,   /* create each with `mode` */
	PROTO_UNLINK,  /* remove each; fails for a directory */
	PROTO_RMDIR,   /* remove each directory */
	PROTO_CHMOD,   /* set each to `mode`; skip links */
	PROTO_CHOWN,   /* set each to `owner` and `group`; do not follow links */
	PROTO_UTIME,   /* set each to `mtime`; do not follow links */
	PROTO_RENAME,  /* pairs: rename the first to the second */
	PROTO_SYMLINK, /* pairs: create the second as a symlink to the first */
	PROTO_LINK,    /* pairs: create the second as a hard link to the first */
	/*
	 * One pair of names in the directory that comes with the message: the O_TMPFILE
	 * file, whose descriptor follows, gets the second name. If it replaces a file, it
	 * has the first name for a moment.
	 */
	PROTO_PUT, /* `mode` is the stream of its WRITEs: struct proto_write */
	/*
	 * Like the verbs above, but for one absolute path and everything below it. Only
	 * newer shims support this, with a tool; init and older shims answer -EINVAL, and
	 * the client sends the changes one by one.
	 */
	PROTO_UNLINK_TREE,
	PROTO_CHMOD_TREE,
	PROTO_CHOWN_TREE,
	/*
	 * Replace attributes of the open file that comes with the message: remove all
	 * whose name begins with the first string, which begins with "user."; then set
	 * those that follow, each a name and its value. An older init answers -EINVAL.
	 */
	PROTO_SET_ATTRIBUTES,
	PROTO_VERB_MAX,
};

/* It is no error if the directory to create exists, or the file to remove does not. */
#define PROTO_CHANGE_LENIENT (1U << 0)
#define PROTO_CHANGE_KEEP    (1U << 1) /* RENAME: do not replace a file; -EEXIST */
#define PROTO_CHANGE_OWNER   (1U << 3) /* PUT: first set `owner` and `group` */
#define PROTO_CHANGE_FOLLOW  (1U << 2) /* CHMOD: follow a link at the end of the path */

/*
 * Apply a verb to many paths or pairs of paths, one after another. If two directories
 * come with the message, the second is for the second path of each pair. The value of the
 * REPLY is how many were changed or, if one failed, how many were processed before it. A
 * shim passes many paths to a tool at once: if one of them fails, some before it may be
 * unchanged, and some after it changed.
 */
struct proto_change {
	struct proto_header h;
	struct proto_who who;
	uint32_t verb;
	uint32_t flags;
	uint32_t mode;
	uint32_t owner, group;
	uint32_t mtime_nsec;
	int64_t mtime_sec;
	uint32_t n;            /* number of paths */
	uint32_t strings_size; /* the paths, each NUL-terminated, back to back */
	char strings[];
};

_Static_assert(sizeof(struct proto_change) == offsetof(struct proto_change, strings),
	       "the strings begin where the struct ends");

/*
 * Watch a path with the inotify(7) instance that comes with the message; the value of the
 * REPLY is the watch descriptor.
 */
struct proto_watch {
	struct proto_header h;
	struct proto_who who;
	uint32_t mask;
	char path[4096];
};

/*
 * Start a file worker: a child of init that accesses files in the sandbox's memory
 * cgroup. The REPLY contains a connection to it, over which it answers OPEN, SCAN,
 * CHANGE, WRITE, NOTIFY and WATCH in order. So init never waits for a lock of a
 * filesystem, and written data is charged to the sandbox's memory. A worker ends with its
 * connection. If one is killed, init sends a last message there: a REPLY to no request
 * (seq 0), with -ENOMEM if the OOM killer killed it, otherwise -EOWNERDEAD. -EBUSY: there
 * are already PROTO_WORKERS_MAX workers.
 */
#define PROTO_WORKERS_MAX 8

struct proto_worker {
	struct proto_header h;
	uint32_t flags;
	uint32_t pad;
};

/*
 * Get the upper directory of the root's overlay, which contains everything that was
 * written to the root: the REPLY contains it (O_PATH). With PROTO_LOWER as type, get the
 * files of the image, as they are below it. -EOPNOTSUPP: this init has none, because an
 * older program created the sandbox.
 */
struct proto_upper {
	struct proto_header h;
};

/*
 * Write to the file that comes with the message, at its position: the `size` bytes after
 * the message or, with a second descriptor, `size` bytes of that file from `offset` on.
 * All bytes are written, or the reply is -errno. After a failed WRITE, a PUT of the same
 * stream fails with the same error, so that a client can send both without waiting in
 * between.
 */
struct proto_write {
	struct proto_header h;
	uint32_t stream; /* a number that the client chooses; 0: none */
	uint32_t size;
	uint64_t offset;
	char data[];
};

_Static_assert(sizeof(struct proto_write) == offsetof(struct proto_write, data),
	       "the data begins where the struct ends");

/*
 * Sent to a file worker: create an inotify(7) instance. The REPLY contains the instance,
 * for WATCH, and a socket (SOCK_SEQPACKET) for its events: each message has all available
 * complete events, up to PROTO_EVENTS_MAX bytes. So no process outside reads from a file
 * that a process inside has open too, and both descriptors are charged to the sandbox's
 * memory and to init's user. The inotify instance ends with the socket.
 */
#define PROTO_EVENTS_MAX 16384

struct proto_notify {
	struct proto_header h;
};

struct proto_connect {
	struct proto_header h;
	uint16_t port; /* 0: only make a socket */
	uint16_t ipv6;
};

/*
 * KEEP: the sandbox is complete, and its state is recorded where other processes find it.
 */
struct proto_keep {
	struct proto_header h;
};

/*
 * SAVE: the shim saves all processes of the sandbox to a file, and they end; RESTORE:
 * they continue. -EOPNOTSUPP: the platform of the shim cannot do this. -EBUSY: a process
 * inside cannot be saved, and nothing has changed. Until the reply to RESTORE, all other
 * requests except HELLO are refused (-EBUSY), and WELCOME has PROTO_WELCOME_SAVED. If
 * saving or restoring ended the sandbox, the error says why. The file has no name.
 * NAME_MEMORY: the shim of a saved sandbox gives it one: PROTO_MEMORY_PREFIX and the id,
 * in the directory of saved sandboxes (backend/shimmed/save.c). -ESRCH: it is not saved.
 */
#define PROTO_MEMORY_PREFIX ".memory-"
/*
 * In the same directory, the file with this prefix and the id of a sandbox exists while
 * its processes are stopped for a copy of its files. They continue by themselves, so
 * requests wait.
 */
#define PROTO_FROZEN_PREFIX ".frozen-"
/* The output of a `warren-shim pause` that failed, and has certainly changed nothing. */
#define PROTO_UNCHANGED "unchanged"

struct proto_save {
	struct proto_header h;
};

#define PROTO_HELLO_ALL (1U << 0) /* send EXITED for every exec */

struct proto_hello {
	struct proto_header h;
	uint32_t flags;
	uint32_t pad;
};

struct proto_close_input {
	struct proto_header h;
	uint32_t exec;
	uint32_t pad;
};

/*
 * An eventfd comes with the message and is written when the journal grows or ends; it
 * replaces an earlier one of this connection.
 */
#define PROTO_ATTACH_NOTIFY (1U << 0)
/*
 * While this connection lasts, output from `cursor` on is not dropped before it is ACKed:
 * when the journal is full, the exec blocks in write(2). EXITED may then be sent before
 * the last output is in the journal.
 */
#define PROTO_ATTACH_HOLD (1U << 1)

struct proto_attach {
	struct proto_header h;
	uint32_t exec;
	uint32_t flags;
	uint64_t cursor; /* for PROTO_ATTACH_HOLD: bytes of output */
};

struct proto_ack {
	struct proto_header h;
	uint32_t exec;
	uint32_t pad;
	uint64_t cursor; /* all output before this cursor was read */
};

struct proto_ready {
	struct proto_header h;
};

#define PROTO_WELCOME_KEPT    (1U << 0)
#define PROTO_WELCOME_SAVED   (1U << 1) /* see struct proto_save */
#define PROTO_WELCOME_GATES   (1U << 2) /* the agent supports gates */
#define PROTO_WELCOME_WORKERS (1U << 3) /* the agent starts file workers */
#define PROTO_WELCOME_FILES   (1U << 4) /* the agent supports PROTO_SPAWN_FILE */

struct proto_welcome {
	struct proto_header h;
	uint32_t flags;
	uint32_t n_execs;   /* running execs */
	uint32_t last_exec; /* the highest number ever used */
	uint32_t pad;
	uint64_t oom_kills; /* OOM kills in cgroups of ended execs */
};

/* The step of a spawn that failed, for the engine's error message. */
enum proto_stage {
	PROTO_STAGE_NONE,
	PROTO_STAGE_REQUEST,
	PROTO_STAGE_PTY,
	PROTO_STAGE_CGROUP,
	PROTO_STAGE_FORK,
	PROTO_STAGE_JOURNAL,
	PROTO_STAGE_IDS,
	PROTO_STAGE_CWD,
	PROTO_STAGE_EXEC,
	PROTO_STAGE_FILE,
	PROTO_STAGE_MAX,
};

/* The descriptors in a REPLY to SPAWN or ATTACH, in this order. */
#define PROTO_GIVES_INPUT   (1U << 0) /* the write end of stdin, or the terminal */
#define PROTO_GIVES_WAKEUP  (1U << 1)
#define PROTO_GIVES_COMMAND (1U << 2)
#define PROTO_GIVES_MAX     3

/*
 * After a failed REPLY there may be a NUL-terminated message: a shim sends the error of
 * its platform. A REPLY with the status -EINPROGRESS is not final: a shim is still
 * working, and sends this so that the client does not time out.
 */
#define PROTO_WHY_MAX 512

struct proto_reply {
	struct proto_header h;
	int32_t status; /* 0 or -errno */
	uint32_t stage;
	uint32_t gives; /* OPEN and CONNECT: 0, these replies have only one descriptor */
	/*
	 * Result of CHANGE and WATCH. SPAWN and ATTACH: the pid of the first process
	 * inside the sandbox; 0: unknown.
	 */
	uint32_t value;
};

/*
 * A directory entry as the sandbox sees it; if it may not be inspected, only its type is
 * set. It is followed by the name (SCAN_ONE: none), a NUL, the target of a link, a NUL,
 * and padding to a multiple of 8.
 */
struct proto_entry {
	uint64_t size, ino;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	uint32_t mode;
	uint32_t uid, gid;
	uint32_t flags;                /* PROTO_ENTRY_* */
	uint16_t name_size, link_size; /* without the NULs */
};

#define PROTO_ENTRY_ATTRIBUTES (1U << 0) /* see PROTO_SCAN_ATTRIBUTES */

#define PROTO_ENTRIES_MAX 16384 /* maximum size of the entries in a message */

/* A message with directory entries, which follow this struct. */
struct proto_entries {
	struct proto_header h;
	uint32_t n;
	uint32_t size;
};

#define PROTO_EXITED_TIMED_OUT (1U << 0)
#define PROTO_EXITED_FULL      (1U << 1) /* output waits for space on the disk */

struct proto_exited {
	struct proto_header h;
	uint32_t exec;
	uint32_t flags;
	int32_t status; /* wait status, see wait(2) */
	uint32_t oom_kills;
	uint64_t wall_usec, user_usec, system_usec;
	uint64_t max_memory;
	uint64_t read_bytes, written_bytes;
};

/*
 * Check that the @size bytes at @data, from an init, are a complete message of a known
 * type and of this version. 0 or -EPROTO. (In init_proto.c, shared with the fuzzer.)
 */
int proto_check(const void *data, size_t size);

/*
 * Get the entry at *@at of the @size bytes of entries, and advance *@at: 1, 0 at the end,
 * or -EPROTO. Names are checked: not empty (except for SCAN_ONE), no slash, not "." or
 * "..".
 */
struct proto_found {
	struct proto_entry is;
	const char *name, *link; /* NUL-terminated; they point into the message */
};

int proto_next(const char *data, size_t size, size_t *at, struct proto_found *ret);

#endif /* PROTO_INIT_PROTO_H */
