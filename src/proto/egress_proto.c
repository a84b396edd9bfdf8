/* SPDX-License-Identifier: Apache-2.0 */
/* egress_proto.c - messages of warren-egress: filled by one side, checked by the other */
#include "proto/egress_proto.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/macro.h"

#define MEMFD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* The size and the descriptors of each request. */
static const struct {
	size_t size, fds;
} egress_requests[EGRESS_REQUEST_MAX] = {
	[EGRESS_ADD] = { sizeof(struct egress_add), 3 },
	[EGRESS_CHANGE] = { sizeof(struct egress_request), 1 },
	[EGRESS_REMOVE] = { sizeof(struct egress_request), 0 },
	[EGRESS_QUERY] = { sizeof(struct egress_request), 0 },
	[EGRESS_COUNT] = { sizeof(struct egress_request), 0 },
	[EGRESS_PING] = { sizeof(struct egress_header), 0 },
};

static bool egress_id_whole(const char id[16])
{
	return memchr(id, 0, 16) && id_valid(id);
}

void egress_proto_request(struct egress_request *msg, enum egress_type type,
			  uint64_t cookie, const char *id)
{
	*msg = (struct egress_request){
		.h = { .version = EGRESS_VERSION, .type = type, .cookie = cookie }
	};
	(void)strncpy(msg->id, id, sizeof(msg->id) - 1);
}

void egress_proto_add(struct egress_add *msg, uint64_t cookie, const char *id,
		      const struct egress_usage *usage)
{
	*msg = (struct egress_add){
		.h = { .version = EGRESS_VERSION, .type = EGRESS_ADD, .cookie = cookie },
		.usage = *usage
	};
	(void)strncpy(msg->id, id, sizeof(msg->id) - 1);
}

int egress_proto_check_request(const void *data, size_t size, size_t n_fds)
{
	const struct egress_request *q = data;

	if (size < sizeof(q->h) || q->h.version != EGRESS_VERSION || q->h.type == 0 ||
	    q->h.type >= EGRESS_REQUEST_MAX)
		return -EPROTO;
	if (size != egress_requests[q->h.type].size ||
	    n_fds != egress_requests[q->h.type].fds ||
	    (size >= sizeof(*q) && !egress_id_whole(q->id)))
		return -EPROTO;
	return 0;
}

static bool egress_reply_whole(const struct egress_reply *r, size_t size, size_t n_fds)
{
	if (size < sizeof(*r) || !memchr(r->err.msg, 0, sizeof(r->err.msg)) ||
	    r->size > EGRESS_ANSWER_MAX)
		return false;
	if (r->size > EGRESS_INLINE_MAX)
		return size == sizeof(*r) && n_fds == 1;
	return size == sizeof(*r) + r->size && n_fds == 0;
}

static bool egress_denied_whole(const struct egress_denied *d, size_t size, size_t n_fds)
{
	return size > sizeof(*d) && n_fds == 0 && egress_id_whole(d->id) &&
	       d->size == size - sizeof(*d) &&
	       memchr(d->text, 0, d->size) == d->text + d->size - 1;
}

static bool egress_usage_whole(const struct egress_usage_report *u, size_t size,
			       size_t n_fds)
{
	if (size < sizeof(*u) || n_fds != 0 || u->n > EGRESS_USAGE_MAX ||
	    size != sizeof(*u) + u->n * sizeof(u->rows[0]))
		return false;
	for (uint32_t i = 0; i < u->n; i++)
		if (!egress_id_whole(u->rows[i].id))
			return false;
	return true;
}

int egress_proto_check_event(const void *data, size_t size, size_t n_fds)
{
	const struct egress_header *h = data;
	bool whole = false;

	if (size < sizeof(*h) || h->version != EGRESS_VERSION)
		return -EPROTO;
	if (h->type == EGRESS_REPLY)
		whole = egress_reply_whole(data, size, n_fds);
	else if (h->type == EGRESS_DENIED)
		whole = egress_denied_whole(data, size, n_fds);
	else if (h->type == EGRESS_USAGE)
		whole = egress_usage_whole(data, size, n_fds);
	return whole ? 0 : -EPROTO;
}

int egress_proto_memfd(const void *data, size_t n, struct warren_error *err)
{
	AUTO_CLOSE int fd =
		memfd_create("warren-egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fd_write_all(fd, data, n);

	if (r == 0 && fcntl(fd, F_ADD_SEALS, MEMFD_SEALS | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r < 0)
		return error_errno(err, -r, "write a memfd");
	return TAKE_FD(fd);
}

int egress_proto_read_memfd(int fd, size_t max, char **ret, size_t *ret_n,
			    struct warren_error *err)
{
	AUTO_FREE char *data = NULL;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	size_t at = 0;

	if (seals < 0 || (seals & MEMFD_SEALS) != MEMFD_SEALS || fstat(fd, &st) < 0)
		return error_set(err, EPROTO, "the descriptor is not a sealed memfd");
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return error_set(err, EFBIG, "the memfd has more than %zu bytes", max);
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return error_errno(err, ENOMEM, "read a memfd");
	while (at < (size_t)st.st_size) {
		ssize_t n = pread(fd, data + at, (size_t)st.st_size - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_errno(err, n < 0 ? errno : EIO, "read a memfd");
		at += (size_t)n;
	}
	data[at] = '\0';
	*ret = TAKE_PTR(data);
	*ret_n = at;
	return 0;
}
