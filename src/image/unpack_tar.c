/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_tar.c - the process that reads the tar archive, and decides what to create for
 * each entry
 *
 * libarchive parses the format (ustar, pax, GNU); this file makes the decisions. Names
 * are bytes: in the C locale of this process, libarchive cannot convert a name that is
 * not ASCII, warns about it, and returns the bytes unchanged. (In a UTF-8 locale it would
 * compose accents, and the file would get another name.) Every other warning is an error,
 * because an archive must be valid.
 *
 * Some programs omit the end of an archive: the zeros that fill the block of the last
 * member, or the two blocks of zeros after it. Common tar programs accept that, and so
 * does this one; but it never invents a byte of a header or of a file.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <limits.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "image/unpack_tar.h"

#define TAR_BLOCK 512

void unpack_warm_up(void)
{
	iconv_t cd;

	(void)setlocale(LC_ALL, "C");
	/*
	 * Load the only conversion that libarchive needs. The C library reads its table
	 * of modules on first use, and must read the machine's file, not one of the
	 * archive.
	 */
	cd = iconv_open("ANSI_X3.4-1968", "UTF-8");
	if (cd != (iconv_t)-1)
		(void)iconv_close(cd);
}

/* ---------------------------------------------------------------- reading the archive */

/* At the end, pad the last block once. */
static la_ssize_t fill_up(struct untar *u)
{
	size_t n = u->padded ? 0 : (size_t)(-u->got % TAR_BLOCK);

	u->padded = true;
	(void)memset(u->block, 0, n);
	return (la_ssize_t)n;
}

static la_ssize_t unpack_tar_feed(struct archive *a, void *ctx, const void **ret)
{
	struct untar *u = ctx;
	ssize_t n;

	do
		n = read(u->in, u->block, sizeof(u->block));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "%s", strerror(errno));
	*ret = u->block;
	if (n == 0)
		return fill_up(u);
	u->got += n > 0 ? (uint64_t)n : 0;
	return n < 0 ? ARCHIVE_FATAL : n;
}

/* Has libarchive, with @n more bytes, read beyond the real data? */
static bool made_up(const struct untar *u, size_t n)
{
	return u->padded && (uint64_t)archive_filter_bytes(u->a, 0) + n > u->got;
}

static int unpack_tar_damaged(const struct untar *u, const char *name,
			      struct warren_error *err)
{
	const char *why = archive_error_string(u->a);
	int code = archive_errno(u->a) == ENOMEM ? ENOMEM : EBADMSG;

	if (!why)
		why = "Damaged tar archive";
	if (!name)
		return error_set(err, code, "%s", why);
	return error_set(err, code, "'%.200s': %s", name, why);
}

/* Return 1 for an entry, or 0 if there are no more. */
static int next_entry(const struct untar *u, struct archive_entry **ret,
		      struct warren_error *err)
{
	int r = archive_read_next_header(u->a, ret);
	const char *why = r == ARCHIVE_WARN ? archive_error_string(u->a) : NULL;

	if (r == ARCHIVE_EOF)
		return 0;
	if (made_up(u, 0))
		return error_set(err, EBADMSG, "Truncated tar archive");
	if (r == ARCHIVE_OK || (why && strstr(why, "can't be converted from")))
		return 1;
	return unpack_tar_damaged(u, NULL, err);
}

static int unpack_tar_write_at(int fd, const char *data, size_t n, off_t offset)
{
	while (n > 0) {
		ssize_t w = pwrite(fd, data, n, offset);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		data += w;
		n -= (size_t)w;
		offset += w;
	}
	return 0;
}

int untar_data(struct untar *u, struct archive_entry *e, const char *name, int fd,
	       struct warren_error *err)
{
	la_int64_t size = archive_entry_size(e), end = 0, offset;
	const void *data;
	size_t n;
	int r;

	while ((r = archive_read_data_block(u->a, &data, &n, &offset)) == ARCHIVE_OK) {
		int q;

		if (n == 0)
			continue;
		if (made_up(u, n))
			return error_set(err, EBADMSG, "'%.200s': Truncated tar archive",
					 name);
		if (offset < end)
			return error_set(err, EBADMSG, "'%.200s': data out of order",
					 name);
		q = unpack_tar_write_at(fd, data, n, offset);
		if (q < 0)
			return error_errno(err, -q, "write '%.200s'", name);
		end = offset + (la_int64_t)n;
	}
	if (r != ARCHIVE_EOF)
		return unpack_tar_damaged(u, name, err);
	/* The file ends with a hole. */
	if (end < size && ftruncate(fd, size) < 0)
		return error_errno(err, errno, "resize '%.200s' to %jd bytes", name,
				   (intmax_t)size);
	return 0;
}

/* ---------------------------------------------------------------- attributes */

static void read_meta(struct untar *u, struct archive_entry *e, struct unpack_meta *ret)
{
	la_int64_t uid = archive_entry_uid(e), gid = archive_entry_gid(e);
	bool known = uid >= 0 && uid < UNPACK_IDS && gid >= 0 && gid < UNPACK_IDS;
	long nsec = archive_entry_mtime_nsec(e);

	*ret = (struct unpack_meta){
		.mode = archive_entry_mode(e) & 07777,
		.uid = uid >= 0 && uid < UNPACK_IDS ? (uid_t)uid : UNPACK_NOBODY,
		.gid = gid >= 0 && gid < UNPACK_IDS ? (gid_t)gid : UNPACK_NOBODY,
		.mtime = { archive_entry_mtime(e),
			   nsec >= 0 && nsec < 1000000000 ? nsec : 0 },
	};
	/* Remove the set-id bits, because the file must not run as another user than
	 * intended. */
	if (!known || !u->rules->own_ids)
		ret->mode &= (mode_t) ~(S_ISUID | S_ISGID);
	u->ret->remapped += !known && u->rules->own_ids;
}

/*
 * Keep user attributes except those that control overlay, and file capabilities, which
 * belong to the namespace's root and have no effect on a nosuid mount. An archive must
 * not set others (trusted.*, labels, ACLs).
 */
static bool keeps_xattr(const struct untar *u, const char *name)
{
	if (strncmp(name, "user.", 5) == 0)
		return strncmp(name, "user.overlay.", 13) != 0;
	return u->rules->own_ids && strcmp(name, "security.capability") == 0;
}

static int set_xattrs(struct untar *u, struct archive_entry *e, const char *path, int fd,
		      struct warren_error *err)
{
	const char *name;
	const void *value;
	size_t n;

	(void)archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &n) == ARCHIVE_OK) {
		if (!name || fd < 0 || !keeps_xattr(u, name)) {
			u->ret->skipped++;
			continue;
		}
		if (fsetxattr(fd, name, value, n, 0) == 0)
			continue;
		/*
		 * Ignore an attribute that the filesystem does not support, or that the
		 * kernel does not accept as a capability.
		 */
		if (errno != EOPNOTSUPP && errno != EPERM && errno != EINVAL)
			return error_errno(err, errno,
					   "set the attribute '%.100s' of '%.200s'", name,
					   path);
		u->ret->skipped++;
	}
	return 0;
}

/* -------------------------------------------------------------------- layers */

static int unpack_tar_make_file(struct untar *u, struct archive_entry *e,
				const char *name, const struct unpack_meta *meta,
				struct warren_error *err)
{
	AUTO_CLOSE int fd = -1;
	int r = unpack_tree_file(&u->tree, name, meta->mode, &fd, err);

	if (r == 0)
		r = untar_data(u, e, name, fd, err);
	if (r < 0)
		return r;
	r = unpack_apply(&u->tree, fd, meta);
	if (r < 0)
		return error_errno(err, -r, "set the attributes of '%.200s'", name);
	return set_xattrs(u, e, name, fd, err);
}

static int unpack_tar_make_dir(struct untar *u, struct archive_entry *e, const char *name,
			       const struct unpack_meta *meta, struct warren_error *err)
{
	int fd, r = unpack_tree_dir(&u->tree, name, meta, &fd, err);

	return r < 0 ? r : set_xattrs(u, e, name, fd, err);
}

static int make_symlink(struct untar *u, struct archive_entry *e, const char *name,
			const struct unpack_meta *meta, struct warren_error *err)
{
	const char *target = archive_entry_symlink(e);
	int r;

	if (!target || !*target || strlen(target) >= PATH_MAX)
		return error_set(
			err, EBADMSG, "the link '%.200s' points to a name of %s", name,
			target && *target ? "more than 4,095 bytes" : "no bytes");
	r = unpack_tree_symlink(&u->tree, name, target, meta, err);
	return r < 0 ? r : set_xattrs(u, e, name, -1, err);
}

/* Only whiteouts may have names that begin with this. */
static const char *find_whiteout(const char *name)
{
	if (strncmp(name, ".wh.", 4) == 0)
		return name;
	name = strstr(name, "/.wh.");
	return name ? name + 1 : NULL;
}

static int make_hardlink(struct untar *u, const char *name, const char *to,
			 struct warren_error *err)
{
	char target[4096];
	int r = unpack_clean_name(to, UNPACK_DEPTH, target, err);

	if (r < 0)
		return error_wrap(err, "the hard link '%.160s'", name);
	return unpack_tree_hardlink(&u->tree, name, target, err);
}

/* @mark is the position of ".wh." in @name. */
static int make_whiteout(struct untar *u, char *name, const char *mark,
			 struct warren_error *err)
{
	const char *hidden = mark + 4;
	size_t at = (size_t)(mark - name);

	if (!u->rules->overlay || strchr(mark, '/') || !*hidden ||
	    strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
		return error_set(err, EBADMSG, "the name '%.200s' is %s", name,
				 u->rules->overlay ? "not a valid whiteout"
						   : "reserved for whiteouts");
	if (strcmp(hidden, ".wh..opq") == 0) {
		name[at > 0 ? at - 1 : 0] = '\0';
		return unpack_tree_opaque(&u->tree, name, err);
	}
	/* Skip names that aufs used for itself. */
	if (strncmp(hidden, ".wh.", 4) == 0) {
		u->ret->skipped++;
		return 0;
	}
	(void)memmove(name + at, hidden, strlen(hidden) + 1);
	return unpack_tree_whiteout(&u->tree, name, err);
}

static int layer_entry(struct untar *u, struct archive_entry *e, struct warren_error *err)
{
	const char *raw = archive_entry_pathname(e), *link = archive_entry_hardlink(e),
		   *mark;
	struct unpack_meta meta;
	char name[4096];
	int r;

	if (!raw || !*raw)
		return error_set(err, EBADMSG, "an entry has no name");
	r = unpack_clean_name(raw, UNPACK_DEPTH, name, err);
	if (r < 0)
		return r;
	mark = find_whiteout(name);
	if (mark)
		return make_whiteout(u, name, mark, err);
	if (link)
		return make_hardlink(u, name, link, err);
	read_meta(u, e, &meta);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return unpack_tar_make_file(u, e, name, &meta, err);
	case AE_IFDIR:
		return unpack_tar_make_dir(u, e, name, &meta, err);
	case AE_IFLNK:
		return make_symlink(u, e, name, &meta, err);
	case AE_IFIFO:
		return unpack_tree_fifo(&u->tree, name, &meta, err);
	case AE_IFCHR:
	case AE_IFBLK:
	case AE_IFSOCK:
		u->ret->skipped++;
		return 0;
	default:
		return error_set(err, EBADMSG, "'%.200s' has an unknown type", name);
	}
}

/* ------------------------------------------------------------------ the whole archive */

/* Read the data after the end of the archive, because it is part of the digest. */
static int unpack_tar_drain(struct untar *u, struct warren_error *err)
{
	ssize_t n;

	do
		n = read(u->in, u->block, sizeof(u->block));
	while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? error_errno(err, errno, "read the archive") : 0;
}

static int unpack_tar_read_all(struct untar *u, struct warren_error *err)
{
	struct archive_entry *e;
	int r;

	if (archive_read_support_format_tar(u->a) != ARCHIVE_OK ||
	    archive_read_open(u->a, u, NULL, unpack_tar_feed, NULL) != ARCHIVE_OK)
		return unpack_tar_damaged(u, NULL, err);
	while ((r = next_entry(u, &e, err)) > 0) {
		if (++u->ret->entries > u->rules->entries_max)
			return error_set(err, EFBIG,
					 "the archive has more than %ju entries",
					 (uintmax_t)u->rules->entries_max);
		r = u->rules->spool ? untar_spool_entry(u, e, err)
				    : layer_entry(u, e, err);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = u->rules->spool ? untar_spool_links(u, err)
				    : unpack_tree_settle(&u->tree, err);
	return r < 0 ? r : unpack_tar_drain(u, err);
}

int unpack_untar(int in, int root, const struct unpack_rules *rules,
		 struct unpack_report *ret, struct warren_error *err)
{
	static struct untar u; /* static, because it is too large for the stack; a process
				  does this only once */
	int r;

	u.in = in;
	u.got = 0;
	u.padded = false;
	u.rules = rules;
	u.ret = ret;
	u.a = archive_read_new();
	r = unpack_tree_init(&u.tree, root, rules);
	if (!u.a || r < 0)
		r = error_errno(err, r < 0 ? -r : ENOMEM, "begin");
	else
		r = unpack_tar_read_all(&u, err);
	ret->entries = u.tree.made;
	(void)archive_read_free(u.a);
	untar_spool_done(&u);
	unpack_tree_done(&u.tree);
	return r;
}
