/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reserve.c - disk space reserved for the database
 *
 * On a full disk, the service must still be able to record results and delete sandboxes;
 * otherwise it could never free space. Both change existing rows, so they need space in
 * the log and hardly any in the file. So blocks for both are allocated in advance beyond
 * their ends (fallocate(2) with FALLOC_FL_KEEP_SIZE), where no other file can use them.
 * The log loses its blocks when it is removed at the end of the process. For the next
 * start on a full disk there is a separate file, which is removed to free its blocks.
 *
 * When the disk is full, the users of the database must not accept anything new.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "db/db_internal.h"

#define LOG_BYTES  (8LL << 20) /* twice the size at which a checkpoint is started */
#define FILE_BYTES (2LL << 20) /* beyond the end of the file */
/*
 * Size of SQLite's shared memory, which is a mapped file. If a part of the mapping had no
 * block on the disk, a write there would cause SIGBUS.
 */
#define SHARED_BYTES (64LL << 10)
#define OPEN_BYTES   (1U << 20) /* space to open the database */

/*
 * A descriptor of SQLite's file must not be closed while SQLite has the file open,
 * because that would drop SQLite's locks.
 */
static int reserve_open(const char *path, const char *suffix, int flags)
{
	AUTO_FREE char *name = NULL;
	int fd;

	if (asprintf(&name, "%s%s", path, suffix) < 0)
		return -ENOMEM;
	fd = open(name, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

static int reserve_range(int fd, off_t from, off_t size)
{
	return fallocate(fd, FALLOC_FL_KEEP_SIZE, from, size) < 0 ? -errno : 0;
}

static int reserve_all(struct db *db)
{
	struct stat st;
	int r;

	if (db->reserve[0] < 0)
		db->reserve[0] = reserve_open(db->path, "-wal", 0);
	if (db->reserve[1] < 0)
		db->reserve[1] = reserve_open(db->path, "", 0);
	if (db->reserve[2] < 0)
		db->reserve[2] = reserve_open(db->path, "-shm", 0);
	if (db->reserve[0] < 0 || db->reserve[1] < 0 || db->reserve[2] < 0)
		return -EIO;
	r = reserve_range(db->reserve[2], 0, SHARED_BYTES);
	if (r == 0)
		r = reserve_range(db->reserve[0], 0, LOG_BYTES);
	if (r == 0 && fstat(db->reserve[1], &st) < 0)
		r = -errno;
	return r == 0 ? reserve_range(db->reserve[1], 0, st.st_size + FILE_BYTES) : r;
}

/* Release or reserve the spare space. */
static int reserve_spare(struct db *db, bool have)
{
	AUTO_CLOSE int fd = reserve_open(db->path, ".reserve", O_CREAT);

	if (fd < 0)
		return fd;
	if (!have)
		return ftruncate(fd, 0) < 0 ? -errno : 0;
	return reserve_range(fd, 0, LOG_BYTES + FILE_BYTES);
}

int db_reserve(struct db *db)
{
	int r = db->path ? reserve_all(db) : -EINVAL;

	if (r == -ENOSPC && reserve_spare(db, false) == 0)
		return reserve_all(db);
	return r < 0 ? r : reserve_spare(db, true);
}

/*
 * Free the spare space before opening: SQLite truncates the file of its shared memory
 * when it opens the database, and then needs space for it again.
 */
void db_make_room(struct db *db)
{
	struct statvfs fs;

	if (db->path && statvfs(db->path, &fs) == 0 && fs.f_blocks > 0 &&
	    (uint64_t)fs.f_bavail * fs.f_frsize < OPEN_BYTES)
		(void)reserve_spare(db, false);
}
