/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto.h - what is said between a sandbox's init and whoever made the sandbox
 *
 * One SOCK_SEQPACKET connection, one struct a message, descriptors beside it
 * (SCM_RIGHTS). Both ends are of one build or of builds that share
 * PROTO_VERSION; a message of another version is refused.
 *
 *	engine				init
 *	CONFIG + cgroups	-->
 *				<--	READY
 *	SPAWN + stdio		-->
 *				<--	REPLY (+ pty master), after execve(2) worked
 *				<--	EXITED, once, when the first process ended
 *	SIGNAL, OPEN, CONNECT	-->
 *				<--	REPLY (+ descriptor)
 *
 * The child that becomes init uses the same connection before it: it gets
 * MOUNTS once the id maps are written, and reports FAILED with a struct
 * warren_error when a step of its own failed.
 *
 * The end of the connection is the end of the sandbox: init exits, and the
 * kernel kills what is left in the pid namespace.
 *
 * init is inside: to the engine everything it says is untrusted (proto_check()
 * and the callers' bounds), and a silent or babbling init harms its own
 * sandbox alone.
 */
#ifndef INIT_PROTO_H
#define INIT_PROTO_H

#include <stddef.h>
#include <stdint.h>

#define PROTO_VERSION      1
#define PROTO_MESSAGE_MAX  32768 /* larger strings travel in a memfd */
#define PROTO_STRINGS_MAX  (4U << 20)
#define PROTO_POINTERS_MAX 16384 /* argv and environment, together */
#define PROTO_FDS_MAX      24
#define PROTO_GROUPS_MAX   32
#define PROTO_EXECS_MAX    512
#define PROTO_TIMEOUT_MAX  (1ULL << 42) /* ms: a hundred years; more is for ever */

enum proto_type {
	/* to init or to the child before it */
	PROTO_MOUNTS = 1,
	PROTO_CONFIG,
	PROTO_SPAWN,
	PROTO_SIGNAL,
	PROTO_OPEN,
	PROTO_CONNECT,
	/* from init or from the child before it */
	PROTO_FAILED = 64,
	PROTO_READY,
	PROTO_REPLY,
	PROTO_EXITED,
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
	PROTO_ROLE_JOIN_BOX, /* v1: one that an exec without a cgroup of its own joins */
	PROTO_ROLE_MEMORY,   /* v1: directories below which an exec gets its own */
	PROTO_ROLE_CPU,
	PROTO_ROLE_PIDS,
	PROTO_ROLE_UNIFIED, /* v2: the one directory */
	PROTO_ROLE_MAX,
};

struct proto_config {
	struct proto_header h;
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

/* A stdio slot of SPAWN: which descriptor of the message it is. */
#define PROTO_STDIO_NULL 0xff

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
	uint16_t rows, cols;
	uint8_t stdio[3];
	uint8_t pad;
	/* cwd, then argv, then the environment, each NUL-terminated, back to back */
	uint32_t argc, envc, strings_size, pad2;
	char strings[];
};

_Static_assert(sizeof(struct proto_spawn) == offsetof(struct proto_spawn, strings),
	       "the strings begin where the struct ends");

struct proto_signal {
	struct proto_header h;
	uint32_t exec;
	int32_t sig;
};

struct proto_open {
	struct proto_header h;
	uint32_t uid, gid;
	uint32_t n_groups; /* 0 where setgroups(2) is not possible */
	uint32_t groups[PROTO_GROUPS_MAX];
	int32_t flags;
	uint32_t mode;
	char path[4096];
};

struct proto_connect {
	struct proto_header h;
	uint16_t port;
	uint16_t ipv6;
};

struct proto_ready {
	struct proto_header h;
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

struct proto_reply {
	struct proto_header h;
	int32_t status; /* 0 or -errno */
	uint32_t stage;
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
 * type and of this version? 0, or -EPROTO. (In proto.c, shared with the fuzzer.)
 */
int proto_check(const void *data, size_t size);

#endif /* INIT_PROTO_H */
