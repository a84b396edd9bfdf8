/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - read files that the user gives to a command */
#include "cli/work/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#define INPUT_PIECE 65536

int input_read(const struct input *in, struct buf *ret, struct warren_error *err)
{
	const char *path = in->path;
	const bool standard = strcmp(path, "-") == 0;
	AUTO_CLOSE int opened =
		standard ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	const int fd = standard ? STDIN_FILENO : opened;
	ssize_t n;

	if (fd < 0)
		return error_errno(err, errno, "open '%s'", path);
	do {
		const size_t left = ret->max - ret->len;
		const size_t size = left < INPUT_PIECE ? left : INPUT_PIECE;
		char *room = buf_reserve(ret, size), more;

		if (!room)
			return error_errno(err, ENOMEM, "read '%s'", path);
		n = size ? read(fd, room, size) : read(fd, &more, 1);
		if (n > 0 && !size)
			return error_set(err, EFBIG, "'%s' is larger than %zu bytes",
					 path, ret->max);
		if (n < 0 && errno != EINTR)
			return error_errno(err, errno, "read '%s'", path);
		ret->len += n > 0 ? (size_t)n : 0;
	} while (n != 0);
	if (in->size && ret->len != in->size)
		return error_set(
			err, EPIPE,
			"'%s' has %zu of %zu bytes: the process that wrote it has died",
			path, ret->len, in->size);
	return 0;
}

/* Count the paths in @p->text; -EINVAL: it is not a list of paths. */
static ssize_t input_count(const struct input_paths *p, const char *from,
			   struct warren_error *err)
{
	const struct buf *b = &p->text;
	ssize_t n = 0;

	if (!b->len)
		return error_set(err, EINVAL, "there are no paths in '%s'", from);
	if (b->data[b->len - 1])
		return error_set(err, EINVAL,
				 "the last path in '%s' does not end with a NUL byte",
				 from);
	for (const char *at = b->data; at < b->data + b->len; at += strlen(at) + 1)
		n++;
	return n;
}

int input_paths(const struct input *in, char *const *paths, struct input_paths *ret,
		struct warren_error *err)
{
	AUTO_PATHS struct input_paths p = { .text = BUF_INIT(INPUT_PATHS_MAX) };
	ssize_t n = 0, r = in->path ? input_read(in, &p.text, err) : 0;
	char *at;

	if (r == 0 && in->path)
		r = input_count(&p, in->path, err);
	if (r < 0)
		return (int)r;
	while (paths && paths[n])
		n++;
	p.v = calloc((size_t)(n + r) + 1, sizeof(*p.v));
	if (!p.v)
		return error_errno(err, ENOMEM, "read paths");
	for (ssize_t i = 0; i < n; i++)
		p.v[i] = paths[i];
	at = p.text.data;
	for (ssize_t i = 0; i < r; i++, at += strlen(at) + 1)
		p.v[n + i] = at;
	*ret = p;
	p = (struct input_paths){ 0 };
	return 0;
}

void input_paths_done(struct input_paths *p)
{
	free(p->v);
	buf_done(&p->text);
	*p = (struct input_paths){ 0 };
}
