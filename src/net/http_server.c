/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server.c - listen, accept, and the deadlines of all connections
 *
 * All deadlines of one kind have the same duration. So each kind has a queue, with the
 * connection that expires next at the front: setting a deadline appends to the queue, and
 * one timer serves them all.
 *
 * When the maximum number of connections is reached, the server closes the connection
 * that has been idle for the longest time, first of unknown clients, then of known ones.
 * If none is idle, a new connection gets a 503 at once. Unknown clients cannot use all
 * connections: some are reserved for known clients and some for unix sockets, so that the
 * machine's owner can always connect.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "base/date.h"
#include "base/parse.h"
#include "net/http2_internal.h"
#include "net/loop.h"
#include "net/tls_internal.h"

#define ANSWER_HEAD_MAX (64U << 10)
#define LISTENERS_MAX   16
#define BACKLOG         1024
#define ACCEPTS_MAX     64 /* accepts in a row before connections have their turn */
#define LINGER_MS       2000
#define RETRY_MS        100 /* time to wait after descriptors or memory ran out */
#define TIMER_GRAIN_MS  50  /* deadlines may be late by this time */
/*
 * Maximum number of refused connections that are kept open, so that clients can read
 * the 503.
 */
#define REFUSED_MAX 64

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

struct listener {
	struct http_server *server;
	struct loop_watch *watch;
	struct tls *tls;
	int fd;
	char *path; /* socket file to remove at the end; NULL: none */
};

struct http_server {
	struct net_loop *loop;
	struct http_options options;
	struct listener listeners[LISTENERS_MAX];
	size_t n_listeners;
	struct link conns;
	size_t n_conns;     /* all connections except refused ones */
	size_t n_tcp;       /* TCP connections among them */
	size_t n_strangers; /* unauthenticated connections among the TCP connections */
	size_t n_refused;
	struct http_accounts accounts;
	struct link queues[DEADLINE_MAX];
	struct loop_timer *timer; /* for the earliest deadline */
	uint64_t timer_due;       /* 0: the timer is not running */
	struct loop_timer *retry; /* fires when connections should be accepted again */
	bool draining;
	bool freeing;
	time_t date_of;
	char date[DATE_SIZE];
	uint64_t random[ID_RANDOM_MAX]; /* the first n_random values are for new ids */
	size_t n_random;
	struct http_head head;
	struct buf scratch;
};

struct net_loop *http_server_loop(const struct http_server *s)
{
	return s->loop;
}

const struct http_options *http_server_options(const struct http_server *s)
{
	return &s->options;
}

struct http_head *http_server_head(struct http_server *s)
{
	return &s->head;
}

struct buf *http_server_scratch(struct http_server *s)
{
	s->scratch.len = 0;
	s->scratch.failed = false;
	return &s->scratch;
}

struct http_accounts *http_server_accounts(struct http_server *s)
{
	return &s->accounts;
}

bool http_server_is_draining(const struct http_server *s)
{
	return s->draining;
}

const char *http_server_date(struct http_server *s)
{
	time_t now = time(NULL);

	if (now != s->date_of) {
		s->date_of = now;
		date_http(s->date, now);
	}
	return s->date;
}

void http_server_id(struct http_server *s, char id[ID_LEN + 1])
{
	if (s->n_random == 0) {
		s->n_random = ARRAY_SIZE(s->random);
		id_random(s->random, s->n_random);
	}
	id_from(s->random[--s->n_random], id);
}

/* ----------------------------------------------------------- deadlines of connections */

/* How much longer a client may pause after http_allow_slow_body(). */
#define SLOW_BODY_FACTOR 4

static unsigned deadline_ms(const struct http_server *s, enum deadline d)
{
	const struct http_limits *l = &s->options.limits;

	switch (d) {
	case DEADLINE_HEAD:
		return l->header_ms;
	case DEADLINE_IDLE:
		return l->idle_ms;
	case DEADLINE_KEPT:
		return l->kept_ms;
	case DEADLINE_BODY:
		return l->body_ms;
	case DEADLINE_SLOW_BODY:
		return SLOW_BODY_FACTOR * l->body_ms;
	case DEADLINE_WRITE:
		return l->write_ms;
	case DEADLINE_HALF:
		return l->half_close_ms;
	case DEADLINE_LINGER:
		return LINGER_MS;
	case DEADLINE_NONE:
	case DEADLINE_MAX:
		break;
	}
	return 0;
}

static void run_timer(struct http_server *s, uint64_t due)
{
	uint64_t now = loop_now(s->loop);

	if (s->timer_due != 0 && s->timer_due <= due)
		return;
	s->timer_due = due;
	loop_timer_set(s->timer, (due > now ? due - now : 0) + TIMER_GRAIN_MS);
}

static void listen_again(struct http_server *s, bool yes)
{
	for (size_t i = 0; i < s->n_listeners; i++)
		(void)loop_watch_set(s->listeners[i].watch, yes ? LOOP_READ : 0);
}

void http_server_set_deadline(struct http_server *s, struct http_timer *t,
			      enum deadline d)
{
	link_remove(&t->queue);
	t->kind = (uint8_t)d;
	if (d == DEADLINE_NONE)
		return;
	t->due = loop_now(s->loop) + deadline_ms(s, d);
	link_add(&s->queues[d], &t->queue);
	run_timer(s, t->due);
}

static void http_server_on_timer(void *ctx)
{
	struct http_server *s = ctx;
	uint64_t now = loop_now(s->loop), next = UINT64_MAX;

	s->timer_due = 0;
	for (int d = DEADLINE_HEAD; d < DEADLINE_MAX; d++) {
		struct link *q = &s->queues[d];

		while (!link_empty(q)) {
			struct http_timer *t =
				CONTAINER(q->next, struct http_timer, queue);

			if (t->due > now) {
				next = t->due < next ? t->due : next;
				break;
			}
			http_server_set_deadline(s, t, DEADLINE_NONE);
			t->expired(t, (enum deadline)d);
		}
	}
	if (next != UINT64_MAX)
		run_timer(s, next);
}

/* -------------------------------------------------------------- accepting connections */

static void on_retry(void *ctx)
{
	struct http_server *s = ctx;

	if (!s->draining)
		listen_again(s, true);
}

static bool is_tcp(const struct http_conn *c)
{
	return c->peer.kind == HTTP_PEER_TCP;
}

/* Return the connection that has had this deadline for the longest time. */
static struct http_conn *http_server_first_of(struct http_server *s, enum deadline d)
{
	struct link *q = &s->queues[d];

	return q->next == q ? NULL : CONTAINER(q->next, struct http_conn, timer.queue);
}

/* Return the connection that has waited longer for its client; either may be NULL. */
static struct http_conn *http_server_longer(const struct http_server *s,
					    struct http_conn *a, struct http_conn *b)
{
	if (!a || !b)
		return a ? a : b;
	return a->timer.due + deadline_ms(s, (enum deadline)b->timer.kind) <=
			       b->timer.due + deadline_ms(s, (enum deadline)a->timer.kind)
		       ? a
		       : b;
}

/*
 * Find an unauthenticated connection without a request in progress. Unix sockets and
 * known clients rarely have an unfinished head, so few connections are skipped.
 */
static struct http_conn *waiting_stranger(struct http_server *s)
{
	struct link *heads = &s->queues[DEADLINE_HEAD];
	struct http_conn *head = NULL;

	for (struct link *l = heads->next; l != heads && !head; l = l->next) {
		struct http_conn *c = CONTAINER(l, struct http_conn, timer.queue);

		head = c->known || c->refused ? NULL : c;
	}
	/* If both began to wait at the same time, prefer the one that has received an
	 * answer. */
	return http_server_longer(s, http_server_first_of(s, DEADLINE_IDLE), head);
}

static bool is_stranger(const struct http_conn *c)
{
	return !c->known;
}

static bool is_any(const struct http_conn *c UNUSED)
{
	return true;
}

/* Return the oldest connection in a queue that would make room. */
static struct http_conn *oldest_in(struct http_server *s, enum deadline queue,
				   bool (*fits)(const struct http_conn *c))
{
	struct link *q = &s->queues[queue];

	for (struct link *l = q->next; l != q; l = l->next) {
		struct http_conn *c = CONTAINER(l, struct http_conn, timer.queue);

		if (fits(c))
			return c;
	}
	return NULL;
}

/*
 * Is there space for one more connection, or one that can be closed for it? Waiting
 * unauthenticated connections are closed first, then half-closed ones, whose clients are
 * usually gone.
 */
static bool http_server_make_room(struct http_server *s, bool tcp)
{
	const struct http_limits *l = &s->options.limits;
	bool too_many = tcp && s->n_strangers >= l->connections - 2 * l->reserve;
	bool (*fits)(const struct http_conn *c) = too_many ? is_stranger
						  : tcp    ? is_tcp
							   : is_any;
	struct http_conn *out;

	if (!too_many && s->n_conns < l->connections &&
	    (!tcp || s->n_tcp < l->connections - l->reserve))
		return true;
	out = waiting_stranger(s);
	if (!out)
		out = oldest_in(s, DEADLINE_HALF, fits);
	if (!out && !too_many)
		out = oldest_in(s, DEADLINE_KEPT, fits);
	if (!out)
		return false;
	http_conn_end(out, -ECONNABORTED);
	return true;
}

static void net_http_server_count(struct http_conn *c, int by)
{
	struct http_server *s = c->server;

	if (c->refused) {
		s->n_refused += (size_t)by;
		return;
	}
	s->n_conns += (size_t)by;
	s->n_tcp += is_tcp(c) ? (size_t)by : 0;
	s->n_strangers += c->known ? 0 : (size_t)by;
}

void http_server_known(struct http_conn *c, bool known)
{
	if (c->known == known || !is_tcp(c))
		return;
	net_http_server_count(c, -1);
	c->known = known;
	net_http_server_count(c, 1);
}

static void set_peer(struct http_conn *c, const union address *a, int fd)
{
	struct http_peer *p = &c->peer;

	p->pid = -1;
	if (a->any.sa_family == AF_UNIX) {
		struct ucred cred;
		socklen_t size = sizeof(cred);

		p->kind = HTTP_PEER_UNIX;
		p->uid = (uid_t)-1;
		p->gid = (gid_t)-1;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0) {
			p->pid = cred.pid;
			p->uid = cred.uid;
			p->gid = cred.gid;
		}
		return;
	}
	p->kind = HTTP_PEER_TCP;
	if (a->any.sa_family == AF_INET6) {
		p->address = a->in6.sin6_addr;
		p->port = ntohs(a->in6.sin6_port);
	} else {
		p->address.s6_addr[10] = p->address.s6_addr[11] = 0xff;
		(void)memcpy(&p->address.s6_addr[12], &a->in.sin_addr, 4);
		p->port = ntohs(a->in.sin_port);
	}
}

static int net_http_server_adopt(struct http_server *s, int fd, struct tls *tls,
				 const union address *a, bool refused)
{
	struct http_conn *c = NULL;
	int r, one = 1;

	if (a->any.sa_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r = http_conn_open(s, fd, tls, &c);
	if (r < 0)
		return r;
	set_peer(c, a, fd);
	c->peer.tls = tls != NULL;
	c->known = c->peer.kind == HTTP_PEER_UNIX;
	c->refused = refused;
	link_add(&s->conns, &c->all);
	net_http_server_count(c, 1);
	if (refused && !tls) /* nothing can be sent before the TLS handshake */
		http_conn_overfull(c);
	return 0;
}

int http_server_adopt(struct http_server *s, int fd, struct tls *tls)
{
	union address a = { 0 };
	socklen_t size = sizeof(a);

	if (getpeername(fd, &a.any, &size) < 0) {
		int error = errno;

		(void)close(fd);
		return -error;
	}
	if (tls)
		tls_offer_http2(tls);
	return net_http_server_adopt(s, fd, tls, &a, false);
}

int http_server_adopt_http2(struct http_server *s, int fd)
{
	struct http_conn *c;
	int r = http_server_adopt(s, fd, NULL);

	if (r < 0)
		return r;
	c = CONTAINER(s->conns.prev, struct http_conn, all);
	c->chosen = true;
	r = http2_conn_open(c);
	if (r < 0)
		http_conn_end(c, r);
	return r;
}

/* Accept one connection. Return true if there may be more. */
static bool accept_one(struct listener *l)
{
	struct http_server *s = l->server;
	union address a = { 0 };
	socklen_t size = sizeof(a);
	int fd = accept4(l->fd, &a.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EINTR || errno == ECONNABORTED)
			return true;
		if (errno != EAGAIN) {
			/*
			 * A resource ran out: the socket stays readable, and would keep
			 * the loop busy.
			 */
			listen_again(s, false);
			loop_timer_set(s->retry, RETRY_MS);
		}
		return false;
	}
	if (http_server_make_room(s, a.any.sa_family != AF_UNIX))
		(void)net_http_server_adopt(s, fd, l->tls, &a, false);
	else if (s->n_refused < REFUSED_MAX)
		(void)net_http_server_adopt(s, fd, l->tls, &a, true);
	else
		(void)close(fd);
	return true;
}

static void on_listener(void *ctx, unsigned events)
{
	struct listener *l = ctx;

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++)
		if (!accept_one(l))
			break;
}

void http_server_gone(struct http_conn *c)
{
	link_remove(&c->all);
	link_remove(&c->timer.queue);
	net_http_server_count(c, -1);
}

/* ------------------------------------------------------------------ opening listeners */

int http_server_listen_fd(struct http_server *s, int fd, struct tls *tls,
			  struct warren_error *err)
{
	struct listener *l = &s->listeners[s->n_listeners];
	int r;

	if (s->n_listeners == LISTENERS_MAX) {
		(void)close(fd);
		return error_set(err, E2BIG, "more than %d sockets to listen on",
				 LISTENERS_MAX);
	}
	if (tls)
		tls_offer_http2(tls);
	*l = (struct listener){ .server = s, .tls = tls, .fd = fd };
	r = loop_watch(s->loop, fd, LOOP_READ, on_listener, l, &l->watch);
	if (r < 0) {
		(void)close(fd);
		return error_errno(err, -r, "watch a listening socket");
	}
	s->n_listeners++;
	return 0;
}

/* A socket file whose listener is gone refuses connections; one in use does not. */
static bool is_stale(const struct sockaddr_un *a)
{
	AUTO_CLOSE int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(a->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	return connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 &&
	       errno == ECONNREFUSED;
}

int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode,
			    struct warren_error *err)
{
	AUTO_CLOSE int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	AUTO_FREE char *copy = strdup(path);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int r;

	if (fd < 0 || !copy)
		return error_errno(err, fd < 0 ? errno : ENOMEM, "create a socket");
	if (strlen(path) >= sizeof(a.sun_path))
		return error_set(err, ENAMETOOLONG, "'%s' is too long for a socket",
				 path);
	(void)memcpy(a.sun_path, path, strlen(path) + 1);
	if (is_stale(&a))
		(void)unlink(path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return error_errno(err, errno, "bind '%s'", path);
	/* No client can connect before listen(2), so the mode is set in time. */
	if (chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0) {
		r = errno;
		(void)unlink(path);
		return error_errno(err, r, "listen on '%s'", path);
	}
	r = http_server_listen_fd(s, TAKE_FD(fd), NULL, err);
	if (r < 0) {
		(void)unlink(path);
		return r;
	}
	s->listeners[s->n_listeners - 1].path = TAKE_PTR(copy);
	return 0;
}

/* Parse "host:port", where host is an address, in brackets for IPv6. */
static int http_server_parse_address(const char *text, union address *a,
				     struct warren_error *err)
{
	const char *colon = strrchr(text, ':');
	char host[64] = { 0 };
	uint64_t port = 0;
	size_t n;

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return error_set(err, EINVAL, "'%s' is not an address and a port", text);
	n = (size_t)(colon - text);
	(void)memcpy(host, text, n);
	if (parse_u64(colon + 1, 65535, &port, err) < 0)
		return error_wrap(err, "the port of '%s'", text);
	if (inet_pton(AF_INET, host, &a->in.sin_addr) == 1) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons((uint16_t)port);
		return 0;
	}
	if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &a->in6.sin6_addr) == 1) {
			a->in6.sin6_family = AF_INET6;
			a->in6.sin6_port = htons((uint16_t)port);
			return 0;
		}
	}
	return error_set(err, EINVAL, "'%s' is not an address and a port", text);
}

int http_server_listen_tcp(struct http_server *s, const char *address, struct tls *tls,
			   uint16_t *ret_port, struct warren_error *err)
{
	union address a = { 0 };
	socklen_t size;
	AUTO_CLOSE int fd = -1;
	int one = 1, r;

	r = http_server_parse_address(address, &a, err);
	if (r < 0)
		return r;
	size = a.any.sa_family == AF_INET6 ? sizeof(a.in6) : sizeof(a.in);
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_errno(err, errno, "create a socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a.any.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, &a.any, size) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, &a.any, &size) < 0)
		return error_errno(err, errno, "listen on '%s'", address);
	if (ret_port)
		*ret_port = ntohs(a.any.sa_family == AF_INET6 ? a.in6.sin6_port
							      : a.in.sin_port);
	return http_server_listen_fd(s, TAKE_FD(fd), tls, err);
}

static void stop_listening(struct http_server *s)
{
	for (size_t i = 0; i < s->n_listeners; i++) {
		struct listener *l = &s->listeners[i];

		(void)loop_watch_free(l->watch);
		(void)close(l->fd);
		if (l->path)
			(void)unlink(l->path);
		free(l->path);
	}
	s->n_listeners = 0;
}

/* --------------------------------------------------------------- lifetime of a server */

static void default_limit(unsigned *limit, unsigned value)
{
	if (*limit == 0)
		*limit = value;
}

int http_server_new(struct net_loop *loop, const struct http_options *options,
		    struct http_server **ret, struct warren_error *err)
{
	struct http_server *s = calloc(1, sizeof(*s));
	struct http_limits *l;

	if (!s)
		return error_errno(err, ENOMEM, "create a server");
	s->loop = loop;
	s->options = *options;
	s->scratch.max = ANSWER_HEAD_MAX;
	l = &s->options.limits;
	default_limit(&l->connections, 16384);
	default_limit(&l->header_bytes, 32U << 10);
	default_limit(&l->header_ms, 10000);
	default_limit(&l->idle_ms, 75000);
	default_limit(&l->kept_ms, 330000);
	default_limit(&l->body_ms, 30000);
	default_limit(&l->write_ms, 60000);
	default_limit(&l->half_close_ms, 3000);
	default_limit(&l->bodies, 256U << 20);
	s->accounts.limit[HTTP_BODIES] = l->bodies;
	s->accounts.limit[HTTP_KEPT] = l->bodies / 2;
	if (l->reserve > (l->connections - 1) / 2)
		l->reserve = (l->connections - 1) / 2;
	link_init(&s->conns);
	for (int d = 0; d < DEADLINE_MAX; d++)
		link_init(&s->queues[d]);
	if (loop_timer_new(loop, http_server_on_timer, s, &s->timer) < 0 ||
	    loop_timer_new(loop, on_retry, s, &s->retry) < 0) {
		(void)loop_timer_free(s->timer);
		free(s);
		return error_errno(err, ENOMEM, "create a server");
	}
	*ret = s;
	return 0;
}

struct http_server *http_server_free(struct http_server *s)
{
	if (!s)
		return NULL;
	s->freeing = true;
	stop_listening(s);
	while (s->conns.next != &s->conns)
		http_conn_end(CONTAINER(s->conns.next, struct http_conn, all),
			      -ECANCELED);
	(void)loop_timer_free(s->timer);
	(void)loop_timer_free(s->retry);
	buf_done(&s->scratch);
	free(s);
	return NULL;
}

void http_server_drain(struct http_server *s)
{
	struct link *next;

	s->draining = true;
	stop_listening(s);
	for (struct link *l = s->conns.next; l != &s->conns; l = next) {
		struct http_conn *c = CONTAINER(l, struct http_conn, all);

		next = l->next;
		c->protocol->drain(c);
	}
}

void http_server_cut(struct http_server *s)
{
	struct link *next;

	for (struct link *l = s->conns.next; l != &s->conns; l = next) {
		struct http_conn *c = CONTAINER(l, struct http_conn, all);

		next = l->next;
		if (!link_empty(&c->requests))
			c->taken = 0;
		else if (c->taken == c->stream.sent + 1)
			http_conn_end(c, -ECANCELED);
		else
			c->taken = c->stream.sent + 1;
	}
}

static void http_server_refuse_requests(struct http_conn *c, const char *code,
					const char *message)
{
	for (struct link *l = c->requests.next; l != &c->requests; l = l->next) {
		struct request *r = CONTAINER(l, struct request, link);

		if (!r->begun && !r->upgraded)
			(void)http_refuse(&r->pub, 503, code, message);
	}
}

void http_server_refuse(struct http_server *s, const char *code, const char *message)
{
	for (struct link *l = s->conns.next; l != &s->conns; l = l->next)
		http_server_refuse_requests(CONTAINER(l, struct http_conn, all), code,
					    message);
}

size_t http_server_count(const struct http_server *s)
{
	return s->n_conns + s->n_refused;
}
