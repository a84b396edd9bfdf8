/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - files and ports of a sandbox: with the backend's own functions, otherwise
 * with execs
 *
 * With execs, `cat` reads a file and `sh -c 'cat > "$1"'` writes it as a stream. This
 * works for any size and content, with two tools that nearly every image has. Names are
 * passed as arguments, never inside a script.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "core/check.h"
#include "core/handle.h"

int warren_file_open(struct warren_sandbox *sb, const char *path, int flags, mode_t mode,
		     const char *user, int *ret_fd, struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;
	int r = check_path("file", path, err);

	if (r < 0)
		return r;
	if (!ops->file_open)
		return not_supported(sb, "passing file descriptors", err);
	return ops->file_open(sb->engine->state, sb->sandbox, path, flags, mode, user,
			      ret_fd, err);
}

int warren_connect(struct warren_sandbox *sb, uint16_t port, int *ret_fd,
		   struct warren_error *err)
{
	const struct backend_ops *ops = sb->engine->ops;

	if (port == 0)
		return error_set(err, EINVAL, "there is no port 0");
	if (!ops->connect)
		return not_supported(sb, "connecting to ports", err);
	return ops->connect(sb->engine->state, sb->sandbox, port, ret_fd, err);
}

/* Read all of @fd into @out, up to its maximum. */
static int files_slurp(int fd, const char *path, struct buf *out,
		       struct warren_error *err)
{
	for (;;) {
		size_t room = out->max - out->len;
		char *p = buf_reserve(out, room < 65536 ? room : 65536);
		char extra;
		ssize_t n;

		if (!p)
			return error_errno(err, ENOMEM, "read '%s'", path);
		if (room == 0) {
			n = read(fd, &extra, 1);
			return n > 0 ? error_set(err, EFBIG,
						 "read '%s': more than %zu bytes", path,
						 out->max)
				     : 0;
		}
		n = read(fd, p, room < 65536 ? room : 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read '%s'", path);
		if (n == 0)
			return 0;
		out->len += (size_t)n;
	}
}

/* Wait for a helper command; if it fails, report its error message. */
static int files_finish(struct warren_exec *ex, const char *what, const char *path,
			struct warren_error *err)
{
	struct warren_result res;
	char said[200];
	ssize_t n = fd_read_all(warren_exec_fd(ex, 2), said, sizeof(said) - 1);
	int r = warren_exec_wait(ex, -1, &res, err);

	if (r < 0)
		return r;
	if (res.exit_code == 0)
		return 0;
	said[n > 0 ? n : 0] = '\0';
	said[strcspn(said, "\n")] = '\0';
	return error_set(err, strstr(said, "No such file") ? ENOENT : EIO, "%s '%s': %s",
			 what, path, said[0] ? said : "the helper command failed");
}

static int read_over_exec(struct warren_sandbox *sb, const char *path, struct buf *out,
			  struct warren_error *err)
{
	const char *argv[] = { "cat", "--", path, NULL };
	struct warren_exec_spec spec = { .argv = argv,
					 .out = WARREN_STDIO_PIPE,
					 .err = WARREN_STDIO_PIPE };
	struct warren_exec *ex = NULL;
	int r = warren_exec(sb, &spec, &ex, err);

	if (r < 0)
		return error_wrap(err, "read '%s'", path);
	r = files_slurp(warren_exec_fd(ex, 1), path, out, err);
	/* If only a part is read, SIGPIPE ends it. */
	(void)close(warren_exec_take_fd(ex, 1));
	if (r == 0)
		r = files_finish(ex, "read", path, err);
	else
		(void)warren_exec_signal(ex, 9, &(struct warren_error)WARREN_ERROR_INIT);
	ex = warren_exec_free(ex);
	return r;
}

static int write_over_exec(struct warren_sandbox *sb, const char *path, const void *data,
			   size_t size, mode_t mode, struct warren_error *err)
{
	char octal[8];
	const char *argv[] = { "sh", "-c", "cat > \"$1\" && chmod \"$2\" \"$1\"",
			       "sh", path, octal,
			       NULL };
	struct warren_exec_spec spec = { .argv = argv,
					 .in = WARREN_STDIO_PIPE,
					 .err = WARREN_STDIO_PIPE };
	struct warren_exec *ex = NULL;
	int r;

	(void)snprintf(octal, sizeof(octal), "%04o", mode & 07777);
	r = warren_exec(sb, &spec, &ex, err);
	if (r < 0)
		return error_wrap(err, "write '%s'", path);
	/*
	 * files_finish() reports a helper that ended early. The caller must ignore
	 * SIGPIPE.
	 */
	r = fd_write_all(warren_exec_fd(ex, 0), data, size);
	(void)close(warren_exec_take_fd(ex, 0));
	if (r < 0 && r != -EPIPE)
		r = error_errno(err, -r, "write '%s'", path);
	else
		r = files_finish(ex, "write", path, err);
	ex = warren_exec_free(ex);
	return r;
}

static int read_by_fd(struct warren_sandbox *sb, const char *path, struct buf *out,
		      struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int r = warren_file_open(sb, path, O_RDONLY, 0, NULL, &fd, err);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
				 "read '%s': it is not a regular file", path);
	return files_slurp(fd, path, out, err);
}

int warren_file_read(struct warren_sandbox *sb, const char *path, size_t max,
		     char **ret_data, size_t *ret_size, struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(max);
	int r = check_path("file", path, err);

	if (r < 0)
		return r;
	r = sb->engine->ops->file_open ? read_by_fd(sb, path, &out, err)
				       : read_over_exec(sb, path, &out, err);
	if (r < 0)
		return r;
	if (!out.data)
		out.data = calloc(1, 1);
	if (!out.data)
		return error_errno(err, ENOMEM, "read '%s'", path);
	out.data[out.len] = '\0';
	*ret_size = out.len;
	*ret_data = TAKE_PTR(out.data);
	return 0;
}

int warren_file_write(struct warren_sandbox *sb, const char *path, const void *data,
		      size_t size, mode_t mode, struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int r = check_path("file", path, err);

	if (r < 0)
		return r;
	if (!sb->engine->ops->file_open)
		return write_over_exec(sb, path, data, size, mode, err);
	/*
	 * warren_file_open() sets O_NONBLOCK: opening a FIFO fails with ENXIO instead of
	 * waiting for a reader.
	 */
	r = warren_file_open(sb, path, O_WRONLY | O_CREAT | O_TRUNC, mode, NULL, &fd,
			     err);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "write '%s': it is not a regular file",
				 path);
	r = fd_write_all(fd, data, size);
	if (r < 0)
		return error_errno(err, -r, "write '%s'", path);
	(void)close(TAKE_FD(fd));
	return sb->engine->ops->file_settle
		       ? sb->engine->ops->file_settle(sb->engine->state, sb->sandbox,
						      path, err)
		       : 0;
}
