/* SPDX-License-Identifier: Apache-2.0 */
/* tar.c - run libarchive at one end of a pipe */
#include "cli/client/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/command.h"

#define BLOCK (256U << 10)

/*
 * Refuse names with "..", do not follow links, and do not replace a directory by a link.
 */
#define UNPACK_FLAGS                                              \
	(ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_SECURE_NODOTDOT | \
	 ARCHIVE_EXTRACT_SECURE_SYMLINKS | ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS)
#define PERMISSIONS 0777

static const struct tar_options tar_plain = { .command = "cp" };
/* Set in the process that packs or unpacks. */
static const char *tar_command = "cp";

static int tar_failed(struct archive *a, const char *what)
{
	const char *why = archive_error_string(a);

	message_say(tar_command, "%s: %s", what, why ? why : strerrordesc_np(errno));
	return 1;
}

/* -------------------------------------------------------------------- packing */

static int tar_copy_file(struct archive *disk, struct archive *out)
{
	const void *data;
	size_t n;
	la_int64_t at, done = 0;
	static const char zeros[4096];
	int r;

	while ((r = archive_read_data_block(disk, &data, &n, &at)) == ARCHIVE_OK) {
		/* Write zeros for a hole of a sparse file. */
		while (done < at) {
			size_t gap = at - done > (la_int64_t)sizeof(zeros)
					     ? sizeof(zeros)
					     : (size_t)(at - done);

			if (archive_write_data(out, zeros, gap) < 0)
				return -1;
			done += (la_int64_t)gap;
		}
		if (archive_write_data(out, data, n) < 0)
			return -1;
		done += (la_int64_t)n;
	}
	return r == ARCHIVE_EOF ? 0 : -1;
}

/* Set the name in the archive: @name replaces @path. Return false if the name would be
 * empty. */
static bool rename_entry(struct archive_entry *e, const char *path, const char *name)
{
	const char *below = archive_entry_pathname(e) + strlen(path);
	AUTO_FREE char *copy = NULL;

	below += strspn(below, "/");
	if (asprintf(&copy, "%s%s%s", name, *name && *below ? "/" : "", below) < 0) {
		copy = NULL;
		return false;
	}
	archive_entry_set_pathname(e, copy);
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	archive_entry_set_uname(e, NULL);
	archive_entry_set_gname(e, NULL);
	return *copy;
}

/* Return whether the file @e is part of the archive, and descend into a directory. */
static bool tar_choose(struct archive *disk, struct archive_entry *e, const char *path,
		       const char *name, const struct tar_options *o)
{
	const char *below = archive_entry_pathname(e) + strlen(path);
	bool skipped;

	below += strspn(below, "/");
	skipped = *below && o->skip && o->skip(o->ctx, below);
	/* The receiver leaves out empty directories by itself. */
	if (skipped && archive_entry_filetype(e) == AE_IFDIR && o->skip_has_exceptions)
		skipped = false;
	if (!skipped)
		(void)archive_read_disk_descend(disk);
	return !skipped && archive_entry_filetype(e) != AE_IFSOCK &&
	       rename_entry(e, path, name);
}

static int tar_put_extra(struct archive *out, const struct tar_options *o)
{
	struct archive_entry *e = archive_entry_new();
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->n_extra; i++) {
		(void)archive_entry_clear(e);
		archive_entry_set_pathname(e, o->extra[i].name);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, 0644);
		archive_entry_set_size(e, (la_int64_t)o->extra[i].size);
		if (archive_write_header(out, e) != ARCHIVE_OK ||
		    archive_write_data(out, o->extra[i].data, o->extra[i].size) < 0)
			r = tar_failed(out, o->extra[i].name);
	}
	archive_entry_free(e);
	return r;
}

static int client_tar_pack(const char *path, const char *name,
			   const struct tar_options *o, int fd)
{
	struct archive *disk = archive_read_disk_new(), *out = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	int r;

	(void)archive_write_set_format_pax_restricted(out);
	/* Treat names as bytes. Otherwise, names that are invalid in the locale would be
	 * refused. */
	(void)archive_write_set_options(out, "hdrcharset=BINARY");
	(void)archive_write_set_bytes_per_block(out, BLOCK);
	(void)archive_write_set_bytes_in_last_block(out, 1);
	(void)archive_read_disk_set_symlink_physical(disk);
	(void)archive_read_disk_set_behavior(disk, ARCHIVE_READDISK_NO_XATTR |
							   ARCHIVE_READDISK_NO_ACL |
							   ARCHIVE_READDISK_NO_FFLAGS);
	if (archive_write_open_fd(out, fd) != ARCHIVE_OK)
		return tar_failed(out, "write an archive");
	if (archive_read_disk_open(disk, path) != ARCHIVE_OK)
		return tar_failed(disk, path);
	if (tar_put_extra(out, o) != 0)
		return 1;
	while ((r = archive_read_next_header2(disk, e)) == ARCHIVE_OK) {
		if (!tar_choose(disk, e, path, name, o))
			continue;
		if (o->refuse_devices && (archive_entry_filetype(e) == AE_IFCHR ||
					  archive_entry_filetype(e) == AE_IFBLK)) {
			message_say(tar_command,
				    "'%s' is a device, which an image cannot contain",
				    archive_entry_pathname(e));
			return 1;
		}
		if (archive_write_header(out, e) != ARCHIVE_OK)
			return tar_failed(out, archive_entry_pathname(e));
		if (archive_entry_size(e) > 0 && archive_entry_filetype(e) == AE_IFREG &&
		    tar_copy_file(disk, out) < 0)
			return tar_failed(disk, archive_entry_pathname(e));
	}
	if (r != ARCHIVE_EOF)
		return tar_failed(disk, path);
	if (archive_write_close(out) != ARCHIVE_OK)
		return tar_failed(out, "write an archive");
	return 0;
}

/* ------------------------------------------------------------------ unpacking */

static int unpack_one(struct archive *in, struct archive *disk, struct archive_entry *e)
{
	const void *data;
	size_t n;
	la_int64_t at;
	int r;

	/* Remove the set-id bits, because a file from a sandbox must not give a user of
	 * this machine more rights. */
	archive_entry_set_perm(e, archive_entry_perm(e) & PERMISSIONS);
	if (archive_write_header(disk, e) < ARCHIVE_WARN)
		return tar_failed(disk, archive_entry_pathname(e));
	while ((r = archive_read_data_block(in, &data, &n, &at)) == ARCHIVE_OK)
		if (archive_write_data_block(disk, data, n, at) < ARCHIVE_OK)
			return tar_failed(disk, archive_entry_pathname(e));
	if (r != ARCHIVE_EOF)
		return tar_failed(in, archive_entry_pathname(e));
	return archive_write_finish_entry(disk) < ARCHIVE_WARN
		       ? tar_failed(disk, archive_entry_pathname(e))
		       : 0;
}

static int client_tar_unpack(int fd)
{
	struct archive *in = archive_read_new(), *disk = archive_write_disk_new();
	struct archive_entry *e;
	int r, status = 0;

	(void)archive_read_support_format_tar(in);
	(void)archive_write_disk_set_options(disk, UNPACK_FLAGS);
	if (archive_read_open_fd(in, fd, BLOCK) != ARCHIVE_OK)
		return tar_failed(in, "read the archive");
	while (status == 0 && (r = archive_read_next_header(in, &e)) != ARCHIVE_EOF) {
		mode_t type = archive_entry_filetype(e);

		if (r < ARCHIVE_WARN)
			return tar_failed(in, "read the archive");
		if (type == AE_IFREG || type == AE_IFDIR || type == AE_IFLNK ||
		    archive_entry_hardlink(e))
			status = unpack_one(in, disk, e);
		else
			message_say("cp",
				    "%s: not a file, a directory or a link, ignoring",
				    archive_entry_pathname(e));
	}
	if (status == 0 && archive_write_close(disk) < ARCHIVE_WARN)
		return tar_failed(disk, "write");
	return status;
}

/* ------------------------------------------------------------------ processes */

/*
 * Fork a child with one end of a pipe; *@ret_fd is that end in the child, and -1 in the
 * parent, which has the other end.
 */
static int tar_start(bool child_writes, struct tar *ret, int *ret_fd,
		     struct warren_error *err)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	(void)fcntl(pair[0], F_SETPIPE_SZ, 1 << 20);
	ret->pid = fork();
	if (ret->pid < 0) {
		(void)close(pair[0]);
		(void)close(pair[1]);
		return error_errno(err, errno, "start a process");
	}
	*ret_fd = ret->pid == 0 ? pair[child_writes] : -1;
	ret->fd = pair[!child_writes];
	(void)close(ret->pid == 0 ? ret->fd : pair[child_writes]);
	return 0;
}

int tar_pack(const char *path, const char *name, struct tar *ret,
	     struct warren_error *err)
{
	int fd = -1, r = tar_start(true, ret, &fd, err);

	if (r == 0 && ret->pid == 0)
		_exit(client_tar_pack(path, name, &tar_plain, fd));
	return r;
}

int tar_pack_with(const char *path, const struct tar_options *o, struct tar *ret,
		  struct warren_error *err)
{
	int fd = -1, r = tar_start(true, ret, &fd, err);

	if (r == 0 && ret->pid == 0) {
		tar_command = o->command;
		_exit(client_tar_pack(path, "", o, fd));
	}
	return r;
}

int tar_unpack(const char *path, struct tar *ret, struct warren_error *err)
{
	int fd = -1, r = tar_start(false, ret, &fd, err);

	if (r == 0 && ret->pid == 0) {
		if (chdir(path) < 0) {
			message_say("cp", "%s: %s", path, strerrordesc_np(errno));
			_exit(1);
		}
		_exit(client_tar_unpack(fd));
	}
	return r;
}

int client_tar_end(struct tar *t, struct warren_error *err)
{
	int status = 0;

	if (t->fd >= 0)
		(void)close(TAKE_FD(t->fd));
	while (t->pid > 0 && waitpid(t->pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_errno(err, errno, "wait for a process");
	t->pid = 0;
	if (status == 0)
		return 0;
	err->code = EIO;
	err->msg[0] = '\0'; /* the child has already printed the reason */
	return -EIO;
}
