/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_proto.h - messages between the service (or `warren run`) and warren-egress
 *
 * There is one SOCK_SEQPACKET connection, which warren-egress inherits as descriptor
 * EGRESS_FD. When it ends, warren-egress exits, and all connections of sandboxes to the
 * outside end. Each message is one struct, with descriptors:
 *
 *	ADD      a sandbox, with a policy and the listeners of its network namespace
 *	CHANGE   the policy of a sandbox
 *	REMOVE   a sandbox: all its connections end
 *	QUERY    the state of a sandbox, as JSON
 *	COUNT    what a sandbox has used up to now
 *	PING     nothing; the reply shows that warren-egress works
 *
 * Each of these has one REPLY, with the cookie of the request. Replies are in the order
 * of the requests. Without a request, warren-egress sends DENIED and USAGE.
 *
 * A policy is JSON in a memfd, as policy_read_secrets() reads it. A CHANGE to the same
 * policy has no effect. After a restart of warren-egress, the service sends ADD for all
 * sandboxes again, each with the last usage that it knows, so that limits continue to
 * count.
 */
#ifndef PROTO_EGRESS_PROTO_H
#define PROTO_EGRESS_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

#define EGRESS_VERSION     3U
#define EGRESS_FD          3
#define EGRESS_MESSAGE_MAX 65536
#define EGRESS_POLICY_MAX  (16U << 20) /* maximum size of a policy */
#define EGRESS_ANSWER_MAX  (4U << 20)  /* maximum size of the data of a reply */
#define EGRESS_INLINE_MAX  32768       /* larger data of a reply is in a memfd */
#define EGRESS_FDS_MAX     3
#define EGRESS_USAGE_MAX   512 /* maximum number of sandboxes in one USAGE message */

enum egress_type {
	EGRESS_ADD = 1, /* struct egress_add; descriptors: policy, TCP and UDP listener */
	EGRESS_CHANGE,  /* struct egress_request; descriptor: policy */
	EGRESS_REMOVE,  /* struct egress_request; the reply has a struct egress_usage */
	EGRESS_QUERY,   /* struct egress_request; the reply has data */
	EGRESS_COUNT,   /* struct egress_request; the reply has a struct egress_usage */
	EGRESS_PING,    /* struct egress_header */
	EGRESS_REQUEST_MAX,
	EGRESS_REPLY = 64, /* struct egress_reply */
	EGRESS_DENIED,     /* struct egress_denied */
	EGRESS_USAGE,      /* struct egress_usage_report */
};

/* The order of the descriptors of ADD. */
enum egress_add_fd {
	EGRESS_ADD_POLICY,
	EGRESS_ADD_TCP, /* listening, IPv6 and IPv4, transparent */
	EGRESS_ADD_UDP, /* bound to port 53, IPv6 and IPv4, transparent */
};

struct egress_header {
	uint32_t version; /* EGRESS_VERSION */
	uint32_t type;
	uint64_t cookie; /* the reply repeats it */
};

/* What a sandbox has used since it was created. */
struct egress_usage {
	uint64_t connections; /* connections that it opened, denied ones included */
	uint64_t denied;      /* connections, requests and names that were denied */
	uint64_t bytes_in;    /* bytes that it received from the outside */
	uint64_t bytes_out;   /* bytes that it sent to the outside */
	uint64_t reserved; /* further bytes that count against its limit, used or not */
	uint64_t lookups;  /* queries of names that were sent to name servers */
	uint64_t lookups_limited; /* queries that its rate delayed or refused */
};

struct egress_request {
	struct egress_header h;
	char id[16]; /* see base/id.h; NUL-padded */
};

struct egress_add {
	struct egress_header h;
	char id[16];
	struct egress_usage usage; /* usage before this */
};

struct egress_reply {
	struct egress_header h;
	struct warren_error err; /* code 0: success */
	/* Size of the data; if it exceeds EGRESS_INLINE_MAX, it is in the descriptor. */
	uint32_t size, pad;
	char data[];
};

/* The text is a JSON object, the same that QUERY lists under "denials". */
struct egress_denied {
	struct egress_header h;
	char id[16];
	uint32_t size, pad;
	char text[];
};

/*
 * The sandboxes whose usage has changed; sent once per second, and before a sandbox with
 * a limit uses more bytes than were reserved for it.
 */
struct egress_usage_row {
	char id[16];
	struct egress_usage usage;
};

struct egress_usage_report {
	struct egress_header h;
	uint32_t n, pad;
	struct egress_usage_row rows[];
};

/* Fill in a request. */
void egress_proto_add(struct egress_add *msg, uint64_t cookie, const char *id,
		      const struct egress_usage *usage);
void egress_proto_request(struct egress_request *msg, enum egress_type type,
			  uint64_t cookie, const char *id);

/* Check a request with @n_fds descriptors; 0 or -EPROTO. */
int egress_proto_check_request(const void *data, size_t size, size_t n_fds);
/* Check a message from warren-egress; 0 or -EPROTO. Texts end with a NUL. */
int egress_proto_check_event(const void *data, size_t size, size_t n_fds);

/*
 * Write @n bytes to a new memfd, which is sealed: for policies and for large replies.
 * Returns the descriptor or -errno.
 */
int egress_proto_memfd(const void *data, size_t n, struct warren_error *err);
/*
 * Read such a memfd, of at most @max bytes. The data has a NUL at its end, which *@ret_n
 * does not include; the caller frees it. -EPROTO: @fd is not a sealed memfd; -EFBIG.
 */
int egress_proto_read_memfd(int fd, size_t max, char **ret, size_t *ret_n,
			    struct warren_error *err) MUST_CHECK;

#endif /* PROTO_EGRESS_PROTO_H */
