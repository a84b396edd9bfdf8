/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sockmem.c - sizes of socket buffers
 *
 * The kernel decides at the handshake how large the window of a connection can ever be:
 * it must see a receive buffer that is small but not locked. Locked buffers do not adapt,
 * and SO_BUF_LOCK, without a size, locks one at the size that it has.
 */
#include "egress/sockmem.h"

#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "egress/egress_internal.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

enum {
	LOCK_SEND = 1,
	LOCK_RECEIVE = 2,
	LOCK_BOTH = 3,
};

static void sockmem_set(int fd, int level, int option, int value)
{
	/* The connection works without this setting. */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

static int sockmem_share(const struct egress_sandbox *sb)
{
	size_t own = SOCKMEM_SANDBOX / (sb->n_flows + 1);
	size_t all = SOCKMEM_ALL / (sb->egress->n_flows + 1), share = SOCKMEM_MIN;

	own = own < all ? own : all;
	/* Use powers of two, so that the size for the listener rarely changes. */
	while (share * 2 <= own && share * 2 <= SOCKMEM_MAX)
		share *= 2;
	return own >= SOCKMEM_MAX ? (int)SOCKMEM_MAX : (int)share;
}

static void sockmem_set_sizes(int fd, int size, int locked)
{
	sockmem_set(fd, SOL_SOCKET, SO_SNDBUF, size);
	sockmem_set(fd, SOL_SOCKET, SO_RCVBUF, size);
	sockmem_set(fd, SOL_SOCKET, SO_BUF_LOCK, locked);
}

void sockmem_set_listener(struct egress_sandbox *sb)
{
	int size = sockmem_share(sb);

	if (size == sb->buffer_size)
		return;
	sb->buffer_size = size;
	sockmem_set_sizes(sb->tcp, size, LOCK_SEND);
}

void sockmem_prepare(const struct egress_sandbox *sb, int fd)
{
	sockmem_set_sizes(fd, sockmem_share(sb), LOCK_SEND);
}

/* --------------------------------------------------------------------------- grants */

unsigned sockmem_grants(uint64_t bytes)
{
	uint64_t n = bytes / 4 / SOCKMEM_GRANT;

	if (bytes == 0 || n > SOCKMEM_GRANTS)
		return SOCKMEM_GRANTS;
	return n ? (unsigned)n : 1;
}

/* Stop the growth of a receive buffer that is large enough. */
static void sockmem_bound(struct end *e)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t size = sizeof(info);

	if (e->bounded || e->fd < 0 ||
	    getsockopt(e->fd, SOL_SOCKET, SO_MEMINFO, info, &size) < 0 ||
	    info[SK_MEMINFO_RCVBUF] < SOCKMEM_GROWN)
		return;
	e->bounded = true;
	sockmem_set(e->fd, SOL_SOCKET, SO_BUF_LOCK, LOCK_RECEIVE);
	/* The buffer may already be larger. */
	sockmem_set(e->fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, SOCKMEM_GROWN);
}

static bool sockmem_is_empty(const struct end *e)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t size = sizeof(info);

	if (e->fd < 0)
		return true;
	return getsockopt(e->fd, SOL_SOCKET, SO_MEMINFO, info, &size) == 0 &&
	       info[SK_MEMINFO_RMEM_ALLOC] == 0 && info[SK_MEMINFO_WMEM_QUEUED] == 0;
}

void sockmem_release(struct egress_flow *f)
{
	if (!f->grown_prev)
		return;
	DLIST_REMOVE_BY(f, grown_next, grown_prev);
	f->sandbox->n_grown--;
	f->sandbox->egress->n_grown--;
}

/* Give a flow small buffers again. */
static void sockmem_shrink(struct egress_flow *f)
{
	const int fds[] = { f->client.fd, f->server.fd };
	int size = sockmem_share(f->sandbox);

	sockmem_release(f);
	f->client.bounded = f->server.bounded = false;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (fds[i] < 0)
			continue;
		sockmem_set_sizes(fds[i], size, LOCK_BOTH);
		sockmem_set(fds[i], IPPROTO_TCP, TCP_WINDOW_CLAMP, size);
	}
}

/* Shrink the buffers of idle flows of @sb, or of all sandboxes if @sb is NULL. */
static void sockmem_reclaim(struct egress *e, const struct egress_sandbox *sb)
{
	uint64_t now = loop_now(e->loop);

	for (struct egress_flow *f = e->grown, *next; f; f = next) {
		next = f->grown_next;
		if ((!sb || f->sandbox == sb) &&
		    now - f->moved >= SOCKMEM_GRANT_IDLE_MS &&
		    sockmem_is_empty(&f->client) && sockmem_is_empty(&f->server))
			sockmem_shrink(f);
	}
}

/* Once half of all grants are in use, each sandbox may only have one. */
static bool sockmem_may_grow(const struct egress_sandbox *sb)
{
	const struct egress *e = sb->egress;

	return e->n_grown < e->grants &&
	       sb->n_grown < (e->n_grown >= e->grants / 2 ? 1 : SOCKMEM_GRANTS_EACH);
}

/* From now on, the kernel adapts the buffers; this sets their initial size. */
static void sockmem_open(int fd)
{
	if (fd < 0)
		return;
	sockmem_set_sizes(fd, SOCKMEM_GROWN / 2, 0);
	sockmem_set(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, SOCKMEM_GROWN);
}

void sockmem_fix(const struct egress_flow *f, int fd)
{
	if (f->grown_prev)
		sockmem_open(fd);
	else
		sockmem_set(fd, SOL_SOCKET, SO_BUF_LOCK, LOCK_BOTH);
}

static void sockmem_grow(struct egress_flow *f)
{
	struct egress_sandbox *sb = f->sandbox;
	struct egress *e = sb->egress;

	if (!sockmem_may_grow(sb))
		sockmem_reclaim(e, e->n_grown < e->grants ? sb : NULL);
	if (!sockmem_may_grow(sb))
		return;
	DLIST_PUSH_BY(e->grown, f, grown_next, grown_prev);
	sb->n_grown++;
	e->n_grown++;
	sockmem_open(f->client.fd);
	sockmem_open(f->server.fd);
}

void sockmem_moved(struct egress_flow *f)
{
	uint64_t all = f->bytes_in + f->bytes_out;

	f->moved = loop_now(f->sandbox->egress->loop);
	if (all < f->moved_next)
		return;
	f->moved_next = all + SOCKMEM_STEP;
	if (!f->grown_prev) {
		sockmem_grow(f);
		return;
	}
	sockmem_bound(&f->client);
	sockmem_bound(&f->server);
}
