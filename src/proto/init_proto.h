/* SPDX-License-Identifier: Apache-2.0 */
/*
 * init_proto.h - the protocol between a sandbox's init and its clients
 *
 * SOCK_SEQPACKET connections: each message is one struct, with descriptors (SCM_RIGHTS).
 * Both ends are of the same build, or of builds with the same PROTO_VERSION; a message of
 * another version is refused.
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
 *	SAVE, RESTORE, WORKER
 *				<--	REPLY (+ descriptors)
 *	SCAN			-->
 *				<--	ENTRIES, or REPLY when it failed
 *	ACK			-->		is not answered
 *
 * The child that becomes init uses the same connection first: it gets MOUNTS once the id
 * maps are written, and sends FAILED with a struct warren_error if one of its steps
 * fails.
 *
 * Descriptors that init starts with: 0, 1 and 2 are /dev/null, PROTO_FD_MAKER
 * is the maker's connection, and PROTO_FD_LISTEN, of a durable sandbox only, a
 * socket that is bound to a name outside. init itself listens on it, before
 * READY, so that the credentials that a peer sees are init's own.
 *
 * Life. Without PROTO_FD_LISTEN, and until KEEP, the sandbox ends with its creator's
 * connection: init exits, and the kernel kills what is left in the pid namespace. After
 * KEEP, the end of a connection does not end it. A durable init accepts
 * PROTO_CONNECTIONS_MAX connections at a time, including its creator's; a further one
 * gets a REPLY of -EBUSY to no request (seq 0) and is closed.
 *
 * Receivers. A REPLY goes to the connection that sent the request. EXITED goes to those
 * that started the exec or ATTACHed to it, and to those that said HELLO with
 * PROTO_HELLO_ALL. If a client of a durable sandbox does not read and its buffer is full,
 * init reads no request of that connection until it does; messages to it wait, up to a
 * limit (outbox.c). Beyond that limit the connection is closed: the client connects
 * again, and finds in the journals what it missed. What belongs to a connection (its
 * eventfds, its holds) ends with it; what belongs to an exec (its streams) does not.
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
#define PROTO_MESSAGE_MAX  32768 /* larger strings travel in a memfd */
#define PROTO_STRINGS_MAX  (4U << 20)
#define PROTO_POINTERS_MAX 16384 /* argv and environment, together */
#define PROTO_FDS_MAX      24
#define PROTO_GROUPS_MAX   32
#define PROTO_EXECS_MAX    512
#define PROTO_TIMEOUT_MAX  (1ULL << 42) /* ms: a hundred years; more is forever */

#define PROTO_FD_MAKER        3
#define PROTO_FD_LISTEN       4
#define PROTO_FD_DIRS         5 /* and on: PROTO_DIRS roles from PROTO_ROLE_DIRS on */
#define PROTO_CONNECTIONS_MAX 8

/*
 * init's user: one more than the 65,536 that a sandbox has for itself. It is part of the
 * id map, or init could not have it, and the system call filter refuses it to all
 * processes (tools/gen/seccomp-policy.h).
 */
#define INIT_ID 65536

enum proto_type {
	/* to init or to the child before it */
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
	/* to a file worker, which also takes OPEN, SCAN, CHANGE and WATCH */
	PROTO_WRITE,
	PROTO_NOTIFY,
	/* from init or from the child before it */
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
	uint32_t seq; /* of a request; its REPLY repeats it */
};

/* Roles of the descriptors that come with CONFIG. */
enum proto_role {
	PROTO_ROLE_ALIVE,    /* keeps the sandbox's lock while init lives */
	PROTO_ROLE_JOIN,     /* v1: a `tasks` file that every exec joins */
	PROTO_ROLE_JOIN_BOX, /* v1: one that an exec without its own cgroup joins */
	/*
	 * Directories are detached mounts: nothing is above them. If the engine may not
	 * create them, the child creates them before it becomes init, and leaves them at
	 * PROTO_FD_DIRS.
	 */
	PROTO_ROLE_MEMORY, /* v1: directories below which an exec gets its own */
	PROTO_ROLE_CPU,
	PROTO_ROLE_PIDS,
	PROTO_ROLE_UNIFIED, /* v2: the one directory */
	PROTO_ROLE_MAX,
};

#define PROTO_ROLE_DIRS PROTO_ROLE_MEMORY
#define PROTO_DIRS      (PROTO_ROLE_MAX - PROTO_ROLE_DIRS)

/* The root is mounted only now: init opens again what it had opened before. */
#define PROTO_CONFIG_ROOTED (1U << 0)
#define PROTO_CONFIG_AHEAD                                          \
	(1U << 1) /* there is time to make ready for the first exec \
		   */

struct proto_config {
	struct proto_header h;
	uint32_t flags;
	uint32_t n;
	uint8_t role[PROTO_FDS_MAX];
};

#define PROTO_SPAWN_PTY     (1U << 0)
#define PROTO_SPAWN_SOLE    (1U << 1) /* accounted as the whole sandbox */
#define PROTO_SPAWN_MEMFD   (1U << 2) /* strings are in the first descriptor */
#define PROTO_SPAWN_JOURNAL (1U << 3) /* the last two descriptors: journal, eventfd */
#define PROTO_SPAWN_OUT     (1U << 4) /* stdout goes to the journal */
#define PROTO_SPAWN_ERR     (1U << 5) /* stderr goes to the journal */
#define PROTO_SPAWN_GROUPS  (1U << 6) /* setgroups(2) is possible here */
#define PROTO_SPAWN_MKCWD   (1U << 7) /* make the working directory if it is missing */
/*
 * stdin is a pipe whose write end init keeps and passes on with the REPLY: the death of a
 * writer does not end the input; only CLOSE_INPUT does, together with the end of every
 * duplicate that was passed on.
 */
#define PROTO_SPAWN_INPUT (1U << 8)
#define PROTO_SPAWN_HOLD  (1U << 9) /* as PROTO_ATTACH_HOLD, from cursor 0 */
/*
 * PROTO_SPAWN_PTY with PROTO_SPAWN_JOURNAL: what appears on the terminal is
 * stream 1. The master that is passed on is for input and resizing, and does not block; a
 * process that reads from it takes bytes away from the journal.
 */

/* A stdio slot of SPAWN: which descriptor of the message it is. */
#define PROTO_STDIO_NULL 0xff

/*
 * Further descriptors that an exec may have besides the first three, at numbers that the
 * requester chooses (above 2, below its limit of open files; 0: none). For shells that
 * run one command after another.
 */
enum proto_control {
	/*
	 * A pipe to init: data written to it becomes stream 3 of the journal, after
	 * everything that was written to stdout and stderr before.
	 */
	PROTO_CONTROL_RESULT,
	/*
	 * A pipe to read from, which its user may open again by way of /proc. Its write
	 * end is passed on with the REPLY and by ATTACH; init keeps it.
	 */
	PROTO_CONTROL_POKE,
	/* A file that comes with SPAWN, before the journal. init keeps it for ATTACH. */
	PROTO_CONTROL_COMMAND,
	PROTO_CONTROL_MAX,
};

struct proto_spawn {
	struct proto_header h;
	uint32_t exec; /* chosen by the engine, unique while it lives */
	uint32_t flags;
	uint32_t uid, gid;
	uint32_t n_groups;
	uint32_t groups[PROTO_GROUPS_MAX];
	uint64_t timeout_ms;
	uint64_t nofile;
	uint64_t journal_limit;
	/*
	 * Of this exec alone, within those of the sandbox; 0: none. -EOPNOTSUPP without
	 * cgroups.
	 */
	uint64_t memory, cpu_millis, pids;
	uint16_t rows, cols;
	uint8_t stdio[3];
	uint8_t control[PROTO_CONTROL_MAX]; /* by enum proto_control */
	/*
	 * 1 + which descriptor of the message is a gate, the read end of a pipe: nothing
	 * is executed before a byte comes through it, and its end is -ECANCELED. 0: none.
	 */
	uint8_t gate;
	uint8_t pad;
	/* cwd, then argv, then the environment, each NUL-terminated, back to back */
	uint32_t argc, envc, strings_size;
	char strings[];
};

_Static_assert(sizeof(struct proto_spawn) == offsetof(struct proto_spawn, strings),
	       "the strings begin where the struct ends");

/*
 * Which processes of an exec a signal is for; SIGKILL to the first is one to
 * the tree. A tree is known by the exec's cgroup, where there is none by its session.
 */
enum proto_whom {
	PROTO_WHOM_FIRST, /* the first process */
	PROTO_WHOM_TREE,  /* all */
	PROTO_WHOM_REST,  /* all but the first */
	PROTO_WHOM_NEW, /* those of them that started after the last record of stream 3 */
	PROTO_WHOM_ONE, /* `pid`, if it is one of them */
	PROTO_WHOM_ALL, /* of the sandbox, whichever exec started them; `exec` is 0.
			 * Signal 0: none is sent; -ESRCH if no process catches SIGTERM */
	PROTO_WHOM_MAX,
};

struct proto_signal {
	struct proto_header h;
	uint32_t exec;
	int32_t sig;
	uint32_t whom;
	int32_t pid; /* as inside */
};

/*
 * The processes of an exec, into the file that comes along: as many struct
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
	int32_t pid, ppid; /* as inside */
	uint32_t flags;
	uint32_t pad;
	uint64_t start; /* clock ticks since the machine started */
};

/*
 * Files. A path is absolute and resolved within the sandbox's root; or it is relative to
 * an open directory that comes with the message, and may not lead out of it (-EXDEV).
 * Everything is done with the rights of one user. Nothing in /proc is opened or changed,
 * because init could be made to act on itself there.
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

/* Who does it. */
struct proto_who {
	uint32_t uid, gid;
	uint32_t n_groups; /* 0 where setgroups(2) is not possible */
	uint32_t groups[PROTO_GROUPS_MAX];
};

/*
 * The next entries of the directory that comes with the message, from its position, which
 * advances; no entries means the end. Or, with PROTO_SCAN_ONE, the file at the path.
 */
#define PROTO_SCAN_ONE (1U << 0)
#define PROTO_SCAN_FOLLOW \
	(1U << 1) /* of ONE: a link at the end of the path is followed */

struct proto_scan {
	struct proto_header h;
	struct proto_who who;
	uint32_t flags;
	char path[4096];
};

enum proto_verb {
	PROTO_MKDIR,   /* each with `mode` */
	PROTO_UNLINK,  /* each, whatever but a directory */
	PROTO_RMDIR,   /* each */
	PROTO_CHMOD,   /* each to `mode`; links are passed over */
	PROTO_CHOWN,   /* each to `owner` and `group`; links themselves */
	PROTO_UTIME,   /* each to `mtime`; links themselves */
	PROTO_RENAME,  /* of pairs, the first to the second */
	PROTO_SYMLINK, /* of pairs, the second a link that says the first */
	PROTO_LINK,    /* of pairs, the second another name of the first */
	/*
	 * Of one pair of names in the directory that comes along: the file of O_TMPFILE
	 * behind it gets the second, and has the first while it replaces another.
	 */
	PROTO_PUT, /* `mode` is the stream of the WRITEs that filled it, see there */
	/*
	 * Of one absolute path, and all that is below it. For a shim, which has a tool
	 * for that; an init, and a shim of an older version, is asked for a part at a
	 * time: -EINVAL.
	 */
	PROTO_UNLINK_TREE,
	PROTO_CHMOD_TREE,
	PROTO_CHOWN_TREE,
	PROTO_VERB_MAX,
};

/* It is no error if the directory to create exists, or the file to remove does not. */
#define PROTO_CHANGE_LENIENT (1U << 0)
#define PROTO_CHANGE_KEEP                                            \
	(1U << 1) /* RENAME: what is at the new place stays, -EEXIST \
		   */
#define PROTO_CHANGE_OWNER                                          \
	(1U << 3) /* PUT: it is given to `owner` and `group` before \
		   */
#define PROTO_CHANGE_FOLLOW \
	(1U << 2) /* CHMOD: a link at the end of the path is followed */

/*
 * A verb, done to many paths one after another, or to pairs of them. Of two
 * directories that come along the second is for the second of each pair. The
 * value of the REPLY is how many were changed; if one failed, how many were
 * dealt with before it. A shim passes many paths to a tool at once: if one of them fails,
 * some before it may be unchanged, and some after it changed.
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
	uint32_t n;            /* of paths */
	uint32_t strings_size; /* the paths, each NUL-terminated, back to back */
	char strings[];
};

_Static_assert(sizeof(struct proto_change) == offsetof(struct proto_change, strings),
	       "the strings begin where the struct ends");

/*
 * Watch a path by the inotify(7) that comes along: the value of the REPLY is the watch.
 */
struct proto_watch {
	struct proto_header h;
	struct proto_who who;
	uint32_t mask;
	char path[4096];
};

/*
 * Start a file worker: a child of init that does file calls in the sandbox's memory
 * cgroup. The REPLY brings a connection to it, over which it answers OPEN, SCAN, CHANGE,
 * WRITE, NOTIFY and WATCH, in the order in which they come. So init never waits for a
 * lock of a file system, and what is written counts as the sandbox's memory. A worker
 * ends with its connection. If one is killed, init sends a last message there: a REPLY to
 * no request (seq 0), with -ENOMEM if the OOM killer killed it, otherwise -EOWNERDEAD.
 * -EBUSY: there are PROTO_WORKERS_MAX.
 */
#define PROTO_WORKERS_MAX 8

struct proto_worker {
	struct proto_header h;
	uint32_t flags;
	uint32_t pad;
};

/*
 * Write to the file that comes along, at its position: `size` bytes behind the message;
 * or, with a second descriptor, that many of this second file from `offset` on. All of
 * it, or -errno. After one that failed, a PUT of the same stream fails with the same
 * error: so a client need not wait for one before it sends the other.
 */
struct proto_write {
	struct proto_header h;
	uint32_t stream; /* a number of the client's choice; 0: none */
	uint32_t size;
	uint64_t offset;
	char data[];
};

_Static_assert(sizeof(struct proto_write) == offsetof(struct proto_write, data),
	       "the data begin where the struct ends");

/*
 * To a file worker: make an inotify(7). The REPLY brings it, for WATCH, and a socket
 * (SOCK_SEQPACKET) for its events: each message has as many complete events as there are,
 * up to PROTO_EVENTS_MAX bytes. So no process outside reads from a file that a process
 * inside has open too, and both count as the sandbox's memory and for init's user. The
 * inotify instance ends with the socket.
 */
#define PROTO_EVENTS_MAX 16384

struct proto_notify {
	struct proto_header h;
};

struct proto_connect {
	struct proto_header h;
	uint16_t port;
	uint16_t ipv6;
};

/* The creation is complete, and recorded where others find it. */
struct proto_keep {
	struct proto_header h;
};

/*
 * SAVE: the shim saves all processes of the sandbox to a file, and they end; RESTORE:
 * they continue. -EOPNOTSUPP: the platform of the shim cannot do this. -EBUSY: a process
 * inside cannot be saved, and nothing has changed. Until the answer to RESTORE all other
 * requests but HELLO are refused (-EBUSY), and WELCOME says so. If the sandbox ended
 * because of it, the error says why.
 */
struct proto_save {
	struct proto_header h;
};

#define PROTO_HELLO_ALL (1U << 0) /* to be told when any exec ends */

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
 * Nothing from `cursor` on is dropped before it is ACKed, while this connection
 * lasts: when the ring is full, the exec waits in write(2). Its first process
 * may then be reported as EXITED before the last of its output is in the journal.
 */
#define PROTO_ATTACH_HOLD (1U << 1)

struct proto_attach {
	struct proto_header h;
	uint32_t exec;
	uint32_t flags;
	uint64_t cursor; /* of PROTO_ATTACH_HOLD: bytes of output */
};

struct proto_ack {
	struct proto_header h;
	uint32_t exec;
	uint32_t pad;
	uint64_t cursor; /* output before it has been read */
};

struct proto_ready {
	struct proto_header h;
};

#define PROTO_WELCOME_KEPT    (1U << 0)
#define PROTO_WELCOME_SAVED   (1U << 1) /* see struct proto_save */
#define PROTO_WELCOME_GATES   (1U << 2) /* it supports gates */
#define PROTO_WELCOME_WORKERS (1U << 3) /* it starts file workers */

struct proto_welcome {
	struct proto_header h;
	uint32_t flags;
	uint32_t n_execs;   /* alive */
	uint32_t last_exec; /* the highest number that was ever used */
	uint32_t pad;
	uint64_t oom_kills; /* in cgroups of execs, which are gone */
};

/* Which part of a spawn failed, so that the engine can say it in words. */
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
	PROTO_STAGE_MAX,
};

/* Which descriptors a REPLY to SPAWN or ATTACH brings, in this order. */
#define PROTO_GIVES_INPUT   (1U << 0) /* the write end of stdin, or the terminal */
#define PROTO_GIVES_POKE    (1U << 1)
#define PROTO_GIVES_COMMAND (1U << 2)
#define PROTO_GIVES_MAX     3

/*
 * Behind a REPLY of failure there may be words of who failed, with their NUL: a shim's,
 * since what a platform has to say is more than a number. One with the status
 * -EINPROGRESS is no answer yet: a shim is at it, and says so before its asker gives it
 * up.
 */
#define PROTO_WHY_MAX 512

struct proto_reply {
	struct proto_header h;
	int32_t status; /* 0 or -errno */
	uint32_t stage;
	uint32_t gives; /* OPEN and CONNECT: 0, their one descriptor needs no name */
	uint32_t value; /* of CHANGE and WATCH */
};

/*
 * One thing in a directory, as the sandbox sees it; of one that may not be looked
 * at, the type. Behind it the name (of SCAN_ONE: none), a NUL, what a link says, a
 * NUL; up to a multiple of 8.
 */
struct proto_entry {
	uint64_t size, ino;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	uint32_t mode;
	uint32_t uid, gid;
	uint32_t pad;
	uint16_t name_size, link_size; /* without the NULs */
};

#define PROTO_ENTRIES_MAX 16384 /* bytes of them in a message */

/* Behind it, the entries. */
struct proto_entries {
	struct proto_header h;
	uint32_t n;
	uint32_t size;
};

#define PROTO_EXITED_TIMED_OUT (1U << 0)

struct proto_exited {
	struct proto_header h;
	uint32_t exec;
	uint32_t flags;
	int32_t status; /* as of wait(2) */
	uint32_t oom_kills;
	uint64_t wall_usec, user_usec, system_usec;
	uint64_t max_memory;
	uint64_t read_bytes, written_bytes;
};

/*
 * Is @data of @size bytes, as it came from an init, a whole message of a known
 * type and of this version? 0, or -EPROTO. (In init_proto.c, shared with the fuzzer.)
 */
int proto_check(const void *data, size_t size);

/*
 * The next of the @size bytes of entries at *@at, which moves on: 1, 0 at the
 * end, or -EPROTO. Names are names: not empty (but of SCAN_ONE), no slash, not
 * "." or "..".
 */
struct proto_found {
	struct proto_entry is;
	const char *name, *link; /* NUL-terminated, in the message */
};

int proto_next(const char *data, size_t size, size_t *at, struct proto_found *ret);

#endif /* PROTO_INIT_PROTO_H */
