/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warden-api.h - a compromised api, and the warden that it is connected to
 *
 * The warden is real, with its own threads in this process and real sandboxes; the test
 * acts as the api: it has the other end of the connection, and can send anything.
 *
 * The backends are `native`, and `toy` and `toy2` of kind command, whose tool records its
 * arguments (toy_calls()).
 */
#ifndef TEST_WARDEN_API_H
#define TEST_WARDEN_API_H

#include <sys/socket.h>

#include "lib/durable-sandbox.h"
#include "proto/warden_proto.h"
#include "warden/warden.h"

#define MAX_MEMORY (256 * MIB)
#define MAX_PIDS   512
#define REPLIES    4096

struct hostile {
	struct warden *warden;
	int sock; /* the api's end of the connection */
	int served;
	uint32_t seq;
	struct warren_error err; /* error of the last reply */
	int fd;                  /* descriptor of the reply; -1: none */
	uint32_t of;             /* its seq */
	size_t size;
	char data[2 * WIRE_MESSAGE_MAX];
};

static struct hostile api;
static struct warden_backend backends[2];
static struct warden_policy policy;
static const char *const trusted[] = { "reg.example.com:5000", NULL };

static bool without_max; /* the configuration has `none` for memory */
/* The rules that a test sets before it begins. */
static const char *mount_rules[8];

static inline char *toy_settings(const char *name)
{
	char *text = NULL;

	OK(asprintf(&text,
		    "{\"name\": \"%s\","
		    " \"create\": [\"%s/tool\", \"create\", \"{image}\", \"{id}\"],"
		    " \"exec\": [\"{argv}\"],"
		    " \"destroy\": [\"%s/tool\", \"destroy\", \"{id}\"]}",
		    name, sandbox_dir, sandbox_dir) > 0);
	return text;
}

static inline void write_script(const char *name, const char *text)
{
	AUTO_FREE char *path = sandbox_path("%s", name);
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	OK(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
}

static inline void write_tool(void)
{
	AUTO_FREE char *calls = sandbox_path("calls");
	char *text = NULL;

	(void)unlink(calls); /* leftovers of another test */
	OK(asprintf(&text, "#!/bin/sh\necho \"$*\" >>%s/calls\n", sandbox_dir) > 0);
	write_script("tool", text);
	free(text);
}

/* Return the arguments of all calls of the tool; "": none. */
static inline const char *toy_calls(void)
{
	static char text[65536];
	AUTO_FREE char *path = sandbox_path("calls");
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : fd_read_all(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* Start a warden with the test's policy, in a separate world. */
static inline void warden_begin(void)
{
	/* These are never freed, because the warden opens engines with them on demand. */
	struct warren_options options = { .state_dir = sandbox_path("state"),
					  .run_dir = sandbox_path("run"),
					  .engine_name = "serve" };
	struct warren_error err = WARREN_ERROR_INIT;
	int ends[2];

	world_enter(SECONDS);
	(void)alarm(SECONDS);
	(void)signal(SIGPIPE, SIG_IGN);
	write_tool();
	backends[0] = (struct warden_backend){ "toy", "command", toy_settings("toy"),
					       TIER_NONE };
	backends[1] = (struct warden_backend){ "toy2", "command", toy_settings("toy2"),
					       TIER_NONE };
	policy.mounts = mount_rules;
	policy.trusted_registries = trusted;
	policy.host_image = true;
	policy.native_tier = TIER_NAMESPACE;
	policy.max[SPEC_MEMORY] = without_max ? 0 : MAX_MEMORY;
	policy.max[SPEC_CPU] = 2000;
	policy.max[SPEC_PIDS] = MAX_PIDS;
	policy.max[SPEC_DISK] = MAX_MEMORY;
	policy.max[SPEC_NOFILE] = 4096;
	if (!policy.image_program)
		policy.image_program = "/bin/false";
	GOOD(warden_open(&options, true, backends, 2, &policy, &api.warden, &err));
	EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	api.sock = ends[0];
	api.served = ends[1];
	api.fd = -1;
	GOOD(warden_serve(api.warden, ends[1], &err));
}

/* The api disconnects; the warden must end normally. */
static inline void warden_end(void)
{
	(void)close(api.sock);
	(void)shutdown(api.served, SHUT_RDWR);
	(void)warden_join(api.warden, 0);
	api.warden = warden_close(api.warden);
	(void)close(api.served);
}

/* Send a message unchanged, with descriptors. */
static inline void api_say(const void *msg, size_t size, const int *fds, size_t n_fds)
{
	EQ(fd_send(api.sock, msg, size, fds, n_fds), 0);
}

/* Receive the next reply to any request; messages about the pool are skipped. */
static inline void api_hear(void)
{
	const struct warden_proto_reply *r = (const void *)api.data;
	ssize_t n;

	if (api.fd >= 0)
		(void)close(TAKE_FD(api.fd));
	do {
		size_t n_fds = 1;

		api.fd = -1;
		n = fd_recv(api.sock, api.data, sizeof(api.data), &api.fd, &n_fds, 0);
		OK(n > 0);
	} while (r->h.type == WIRE_STOCK);
	OK((size_t)n >= sizeof(*r) && r->h.type == WIRE_REPLY);
	api.err = r->err;
	api.of = r->h.seq;
	api.size = r->size;
}

static inline const char *reply_data(void)
{
	return api.data + sizeof(struct warden_proto_reply);
}

/* Send a request and wait for the reply; return its result, 0 or -errno. */
static inline int api_ask(void *msg, size_t size)
{
	struct warden_proto_header *h = msg;

	h->seq = ++api.seq;
	api_say(msg, size, NULL, 0);
	do
		api_hear();
	while (api.of != h->seq);
	return -api.err.code;
}

#define REFUSED(code_, call)                                                 \
	do {                                                                 \
		int r_ = (call);                                             \
		if (r_ != -(code_) || !api.err.msg[0])                       \
			TAP_FAIL("%s is %d \"%s\", not -" #code_, #call, r_, \
				 api.err.msg);                               \
	} while (0)
#define GRANTED(call)                                                        \
	do {                                                                 \
		int r_ = (call);                                             \
		if (r_ != 0)                                                 \
			TAP_FAIL("%s is %d \"%s\"", #call, r_, api.err.msg); \
	} while (0)

/* Return limits that every sandbox may have. */
static inline struct warren_spec modest(void)
{
	return (struct warren_spec){ .image = "host",
				     .memory = 64 * MIB,
				     .cpu_millis = 1000,
				     .pids = 64,
				     .disk = 16 * MIB,
				     .nofile = 256 };
}

static inline void put_create(struct buf *out, const char *backend, const char *id,
			      const struct warren_spec *spec)
{
	*out = (struct buf)BUF_INIT(WIRE_MESSAGE_MAX);
	EQ(warden_proto_put_create(out, backend, id, spec), 0);
}

static inline int create(const char *backend, const char *id,
			 const struct warren_spec *spec)
{
	struct buf msg;
	int r;

	put_create(&msg, backend, id, spec);
	r = api_ask(msg.data, msg.len);
	buf_done(&msg);
	return r;
}

static inline int api_sandbox(enum warden_proto_type type, const char *backend,
			      const char *id)
{
	struct warden_proto_sandbox m = { .h = { .type = type } };

	EQ(warden_proto_put_backend(&m.h, backend), 0);
	(void)strncpy(m.id, id, sizeof(m.id) - 1);
	return api_ask(&m, sizeof(m));
}

/* Return the number of sandboxes of the backend. */
static inline size_t count_listed(const char *backend)
{
	struct warden_proto_list m = { .h = { .type = WIRE_LIST } };

	EQ(warden_proto_put_backend(&m.h, backend), 0);
	GRANTED(api_ask(&m, sizeof(m)));
	return api.size / (ID_LEN + 1);
}

/* Does the sandbox exist, and does its init answer? If so, api.fd is a connection to the
 * init. */
static inline bool lives(const char *backend, const char *id)
{
	return api_sandbox(WIRE_CONNECT, backend, id) == 0 && api.fd >= 0;
}

#endif /* TEST_WARDEN_API_H */
