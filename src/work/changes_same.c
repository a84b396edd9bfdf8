/* SPDX-License-Identifier: Apache-2.0 */
/* changes_same.c - compare and read the two sides of a change */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "work/changes_internal.h"
#include "work/files_internal.h"

#define SAME_CHUNK ((size_t)64 << 10)

/* The next byte from @at on that is not in a hole; @size: there is none. */
static off_t same_next_data(int fd, off_t at, off_t size)
{
	off_t next = lseek(fd, at, SEEK_DATA);

	return next >= 0 ? next : errno == ENXIO ? size : at;
}

static ssize_t same_read(int fd, char *room, off_t at)
{
	size_t done = 0;

	while (done < SAME_CHUNK) {
		ssize_t n = pread(fd, room + done, SAME_CHUNK - done, at + (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Holes that both files have are skipped, so that a huge file takes no time. */
static int same_contents(int a, int b, off_t size)
{
	static char room[2][SAME_CHUNK];
	bool sparse = size > (off_t)(16 * SAME_CHUNK);
	off_t at = 0;

	while (at < size) {
		ssize_t n, m;

		if (sparse) {
			off_t x = same_next_data(a, at, size),
			      y = same_next_data(b, at, size);

			at = x < y ? x : y;
			if (at >= size)
				break;
		}
		n = same_read(a, room[0], at);
		m = n < 0 ? n : same_read(b, room[1], at);
		if (m < 0)
			return (int)m;
		if (n != m || n == 0 || memcmp(room[0], room[1], (size_t)n) != 0)
			return 0;
		at += n;
	}
	return 1;
}

static int same_links(const struct change_at *a, const struct change_at *b)
{
	AUTO_FREE char *x = NULL, *y = NULL;
	size_t n, m;
	int r = link_read(a->dir, a->name, &x, &n);

	r = r < 0 ? r : link_read(b->dir, b->name, &y, &m);
	return r < 0 ? r : n == m && memcmp(x, y, n) == 0;
}

int change_same(const struct change_at *a, const struct change_at *b)
{
	AUTO_CLOSE int x = -1, y = -1;
	struct stat xs, ys;

	if ((a->st.st_mode & S_IFMT) != (b->st.st_mode & S_IFMT))
		return 0;
	if (S_ISLNK(a->st.st_mode))
		return same_links(a, b);
	if (!S_ISREG(a->st.st_mode) || a->st.st_size != b->st.st_size)
		return 0;
	if (a->st.st_size == 0)
		return 1;
	x = beneath_file(a->dir, a->name, &xs);
	if (x < 0)
		return x;
	y = beneath_file(b->dir, b->name, &ys);
	if (y < 0)
		return y;
	return xs.st_size == ys.st_size ? same_contents(x, y, xs.st_size) : 0;
}

int change_side_read(const struct change_at *at, struct change_side *ret)
{
	struct change_side s = { .exists = true, .mode = at->st.st_mode };
	AUTO_CLOSE int fd = -1;
	struct stat st;
	size_t n = 0;
	int r = 0;

	if (S_ISLNK(s.mode)) {
		r = link_read(at->dir, at->name, &s.data, &n);
	} else if (S_ISREG(s.mode)) {
		fd = beneath_file(at->dir, at->name, &st);
		r = fd < 0 ? fd : work_file_read(fd, TEXT_MAX, &s.data, &n);
	}
	s.large = r == -EFBIG;
	if (r < 0 && !s.large)
		return r;
	s.text = TEXT(s.data, n);
	*ret = s;
	return 0;
}

void change_side_done(struct change_side *s)
{
	free(s->data);
	*s = (struct change_side){ 0 };
}
