/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - the body of a request or response is a file of this machine */
#include "cli/client/transfer.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/client/client.h"

static ssize_t transfer_read(void *arg, char *data, size_t n)
{
	struct transfer *t = arg;
	ssize_t got;

	do
		got = read(t->fd, data, n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		t->failure = errno;
	return got;
}

static int transfer_write(void *arg, const char *data, size_t n)
{
	struct transfer *t = arg;
	int r = fd_write_all(t->fd, data, n);

	if (r < 0)
		t->failure = -r;
	return r;
}

static int transfer_finish(const struct transfer *t, struct request *request,
			   struct warren_error *err)
{
	int r = request_start(request, err);

	if (r == 0)
		r = request_wait(request, err);
	return t->failure ? error_errno(err, t->failure, "'%s'", t->name) : r;
}

int transfer_send(struct transfer *t, struct request *request, const char *type,
		  struct warren_error *err)
{
	bool piped = strcmp(t->name, "-") == 0;
	struct stat st;
	int r;

	if (fstat(t->fd, &st) < 0)
		return error_errno(err, errno, "'%s'", t->name);
	request->from = transfer_read;
	request->arg = t;
	r = request_upload(request, type, S_ISREG(st.st_mode) && !piped ? st.st_size : -1,
			   err);
	return r < 0 ? r : transfer_finish(t, request, err);
}

int transfer_receive(struct transfer *t, struct request *request,
		     struct warren_error *err)
{
	request->on_data = transfer_write;
	request->arg = t;
	return transfer_finish(t, request, err);
}
