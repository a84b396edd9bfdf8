/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_copy.c - copy files out of and into the sandbox: with cat, or small files with the
 * persistent shell
 */
#include "shim/core/file_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "shim/core/copy_budget.h"
#include "shim/core/scripts.h"
#include "shim/core/shell_pool.h"

#define PENDING_MAX 64
#define PASSING_MAX 256
#define READING_MAX 64
/* Bytes by which a file may grow while it is read, plus an eighth. */
#define SPOOL_SLACK (1U << 20)
#define LOOKS       5 /* number of checks, which together take longer than SPOOL_TICK_MS */
#define LOOK_NS     30000000L
/* Smaller copies are written so quickly that they need no reservation. */
#define RESERVE_MIN (4U << 20)
#define PRINT_MAX   16384 /* maximum bytes for one printf */
#define SHELL_SECS  60
#define TREE_SECS   3600
#define NEED        "need " script_pour " >&2 && "

struct pending {
	char *path; /* NULL: free */
	char user[32];
	int fd;
	bool append, bare;
	struct spool_owner owner; /* owner of the file, if the sandbox has no shell */
	bool flushing;            /* the data is complete and is being sent */
	int failed;               /* errno of a failed attempt; 0: none */
	char why[200];
	uint64_t since;
};

static struct pending pending[PENDING_MAX];

/* Copies that clients are reading, or that are being made. */
static struct reading {
	int fd; /* the shim's descriptor; the copy is in use while another descriptor is
		   open */
	uint64_t bytes; /* maximum size; 0: free */
} reading[READING_MAX];

int spool_new(void)
{
	AUTO_CLOSE int memory = -1;
	char name[32];
	int fd = open(this_sandbox.state_dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	/* If the engine has no images yet, the state directory may be missing. */
	if (fd < 0 && errno == ENOENT && fd_make_dirs(this_sandbox.state_dir, 0755) == 0)
		fd = open(this_sandbox.state_dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	memory = memfd_create("warren-file", MFD_CLOEXEC);
	/*
	 * Open the file again, because for leases the kernel does not count the first
	 * descriptor as a writer.
	 */
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", memory);
	fd = memory < 0 ? -1 : open(name, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* -------------------------------------------------------- copies with a separate exec */

static void drop_pending(struct pending *p)
{
	free(p->path);
	if (p->fd >= 0)
		(void)close(p->fd);
	*p = (struct pending){ .fd = -1 };
}

int spool_run(const char *user, const char *last, const char *path, int in, int out,
	      struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(16384), said = BUF_INIT(65536);
	const char *argv[] = { inside.shell, "-c", NULL, "sh", path, NULL };
	AUTO_CLOSE int outcome = memfd_create("warren-outcome", MFD_CLOEXEC);
	struct shim_outcome o;
	/* A command without data changes a tree, which may be large. */
	int secs = in < 0 && out < 0 ? TREE_SECS : shim_sandbox_patience();
	int r, words[2];

	buf_puts(&script, "LC_ALL=C\nexport LC_ALL\n");
	buf_puts(&script, script_tools);
	buf_printf(&script, "%s\n", last);
	argv[2] = script.data;
	if (script.failed || pipe2(words, O_CLOEXEC) < 0)
		return error_errno(err, ENOMEM, "%s: exec", this_sandbox.name);
	r = child_start(argv, user[0] ? user : NULL, in, out, words[1], outcome);
	(void)close(words[1]);
	if (r > 0)
		r = shim_sandbox_await(r, secs, words[0], &said, in, out);
	(void)close(words[0]);
	if (r == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "%s: exec: no data was transferred within %d seconds",
				 this_sandbox.name, secs);
	if (r < 0)
		return error_errno(err, -r, "%s: exec", this_sandbox.name);
	r = WIFEXITED(r) ? WEXITSTATUS(r) : 128;
	/* The platform's report takes precedence over the exit status of its process. */
	for (off_t at = 0; pread(outcome, &o, sizeof(o), at) == sizeof(o);
	     at += (off_t)sizeof(o))
		r = o.verdict == SHIM_EXITED ? o.code : r ? r : 128;
	if (r == 0)
		return 0;
	buf_add(&said, "", 1);
	said.data[strcspn(said.data, "\r\n")] = '\0';
	r = script_errno(said.data, EIO, NULL);
	return error_set(err, r, "%s: %.300s", this_sandbox.name,
			 said.data[0] ? said.data
				      : "the tool inside failed and gave no reason");
}

/*
 * Does the platform itself copy files? It does if there is no shell, or if this is
 * configured.
 */
static bool by_platform(const char *setting)
{
	return !inside.shell[0] || json_object_get(this_sandbox.config, setting);
}

static bool still_open(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return errno == EAGAIN;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/*
 * Open a file again instead of duplicating its descriptor: the new descriptor has a
 * separate position, and counts as open.
 */
static int file_copy_open_again(int fd, int flags)
{
	char name[32];
	int r;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	r = open(name, flags | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

static void drop_readings(void)
{
	for (size_t i = 0; i < READING_MAX; i++)
		if (reading[i].bytes > 0 && !still_open(reading[i].fd)) {
			(void)close(reading[i].fd);
			reading[i].bytes = 0;
		}
}

static uint64_t on_disk(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Record the bytes of all copies plus @more; @fd is any of the files, or the next one. */
static int file_copy_claim(int fd, uint64_t more, struct warren_error *err)
{
	uint64_t bytes = more, written = 0;

	for (size_t i = 0; i < READING_MAX; i++)
		if (reading[i].bytes > 0) {
			bytes += reading[i].bytes;
			written += on_disk(fd = reading[i].fd);
		}
	for (size_t i = 0; i < PENDING_MAX; i++)
		if (pending[i].path) {
			uint64_t n = on_disk(fd = pending[i].fd);

			bytes += n;
			written += n;
		}
	return room_claim(this_sandbox.state_dir, fd, bytes, written, err);
}

/* If this fails, the next spool_guard() tries again. */
static void empty_file(int fd)
{
	if (ftruncate(fd, 0) < 0)
		return;
}

/*
 * Refuse further writes to the file; a writer notices this by its mode
 * (service/files/file_writer.c).
 */
static void revoke_pending(struct pending *p, const struct warren_error *why)
{
	(void)fchmod(p->fd, 0);
	empty_file(p->fd);
	p->failed = why->code;
	(void)snprintf(p->why, sizeof(p->why), "%.199s", why->msg);
}

/* Set if this process has passed the accounting of this many bytes on disk to its
 * parent. */
static bool left;
static uint64_t left_written;

void spool_guard(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct pending *largest;

	if (left)
		return;
	drop_readings();
	do {
		largest = NULL;
		for (size_t i = 0; i < PENDING_MAX; i++) {
			struct pending *p = &pending[i];

			if (p->path && p->failed && on_disk(p->fd) > 0)
				empty_file(p->fd); /* drop data that was written since
						      then */
			else if (p->path && !p->failed && !p->flushing &&
				 (!largest || on_disk(p->fd) > on_disk(largest->fd)))
				largest = p;
		}
		if (file_copy_claim(-1, 0, &err) == 0 || !largest)
			return;
		revoke_pending(largest, &err);
	} while (largest);
}

int spool_wait_ms(int ms)
{
	for (size_t i = 0; i < PENDING_MAX; i++)
		if (pending[i].path && (ms < 0 || ms > SPOOL_TICK_MS))
			return SPOOL_TICK_MS;
	return ms;
}

/*
 * Reserve the blocks of a large copy before it is written, and record that they are used.
 * Otherwise other shims see less free space with every block written, and count it twice
 * until this shim records it. On filesystems that cannot reserve blocks, other shims
 * check again.
 */
static void file_copy_reserve(int fd, uint64_t size)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (size == SPOOL_UNTOLD || size < RESERVE_MIN ||
	    fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size) < 0)
		return;
	(void)file_copy_claim(fd, 0, &ignored);
}

/* Bytes that another shim has just written may not be in its locks yet: check again. */
static int file_copy_claim_patiently(int fd, uint64_t bytes, struct warren_error *err)
{
	int r = file_copy_claim(fd, bytes, err);

	for (int i = 0; r == -ENOSPC && i < LOOKS; i++) {
		(void)nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
		r = file_copy_claim(fd, bytes, err);
	}
	return r;
}

int spool_prepare(uint64_t size, uint64_t *ret_most, int *ret_fd,
		  struct warren_error *err)
{
	AUTO_CLOSE int fd = spool_new(), again = -1;
	struct reading *free_one = NULL;
	uint64_t bytes;
	int r;

	spool_guard();
	for (size_t i = 0; i < READING_MAX; i++)
		if (reading[i].bytes == 0)
			free_one = &reading[i];
	if (fd < 0 || !free_one)
		return error_errno(err, fd < 0 ? -fd : EMFILE,
				   "reserve space for the file");
	if (size != SPOOL_UNTOLD && size > room_limit())
		return error_set(err, EFBIG,
				 "%s: the file has %llu bytes, but a copy may have at "
				 "most %llu (the sandbox's disk limit, or the default)",
				 this_sandbox.name, (unsigned long long)size,
				 (unsigned long long)room_limit());
	/* A file of unknown size reserves half of the limit. */
	bytes = size == SPOOL_UNTOLD ? room_limit() / 2 : size + size / 8 + SPOOL_SLACK;
	if (bytes > room_limit())
		bytes = room_limit();
	again = file_copy_open_again(fd, O_RDWR);
	r = again < 0 ? error_errno(err, -again, "reserve space for the file")
		      : file_copy_claim_patiently(fd, bytes, err);
	if (r < 0) {
		spool_guard(); /* records the bytes without this copy */
		return r;
	}
	*free_one = (struct reading){ .fd = TAKE_FD(fd), .bytes = bytes };
	file_copy_reserve(free_one->fd, size);
	/* One byte more than allowed, to detect that there is more. */
	*ret_most = bytes + 1;
	*ret_fd = TAKE_FD(again);
	return 0;
}

void spool_leave(void)
{
	left = true;
	for (size_t i = 0; i < READING_MAX; i++) {
		left_written += reading[i].bytes > 0 ? on_disk(reading[i].fd) : 0;
		reading[i].bytes = 0;
	}
	for (size_t i = 0; i < PENDING_MAX; i++) {
		left_written += pending[i].path ? on_disk(pending[i].fd) : 0;
		pending[i].path = NULL;
	}
}

void spool_done(int fd)
{
	room_written(left_written + on_disk(fd));
	room_leave();
}

int spool_read(const char *user, const char *path, uint64_t most, int fd,
	       struct warren_error *err)
{
	struct stat st;
	int r;

	child_most = most;
	r = by_platform("copy_out")
		    ? this_sandbox.driver->read_file(&this_sandbox, path, 0, child_most,
						     fd, err)
		    : spool_run(user, NEED "pour <\"$1\"", path, -1, fd, err);
	if (fstat(fd, &st) == 0 && (rlim_t)st.st_size >= child_most)
		r = error_set(err, EFBIG, "%s: the file does not end", this_sandbox.name);
	child_most = RLIM_INFINITY;
	if (r < 0)
		return r;
	(void)lseek(fd, 0, SEEK_SET);
	return 0;
}

/* ---------------------------------------------------------------- writing copies back */

/* Write the bytes with the shell's own printf, which accepts every byte. */
static void file_copy_put_bytes(struct buf *script, const unsigned char *data, size_t n)
{
	buf_puts(script, "printf '");
	for (size_t i = 0; i < n; i++) {
		if (data[i] >= ' ' && data[i] < 127 && !strchr("'%\\", data[i]))
			buf_add(script, &data[i], 1);
		else
			buf_printf(script, "\\%03o", data[i]);
	}
	buf_puts(script, "'");
}

static int write_small(const struct pending *p, size_t size, struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(8U << 20), out = BUF_INIT(1U << 20);
	unsigned char data[SPOOL_INLINE];
	ssize_t n = pread(p->fd, data, size, 0);
	int r;

	if (n != (ssize_t)size)
		return error_errno(err, EIO, "read the written data");
	buf_puts(&script, "p=");
	script_quote(&script, p->path);
	buf_printf(&script, "\n{ true\n");
	for (size_t at = 0; at < size; at += PRINT_MAX) {
		file_copy_put_bytes(&script, data + at,
				    size - at < PRINT_MAX ? size - at : PRINT_MAX);
		buf_puts(&script, " &&\n");
	}
	buf_printf(&script, "true; } %s\"$p\"", p->append ? ">>" : ">");
	r = shell_pool_run(p->user, &script, &out, SHELL_SECS, err);
	if (r <= 0)
		return r;
	buf_add(&out, "", 1);
	out.data[strcspn(out.data, "\n")] = '\0';
	return error_set(err, script_errno(out.data, EIO, NULL), "%s: %.300s",
			 this_sandbox.name,
			 out.data[0] ? out.data : "the shell inside could not write it");
}

static int flush_now(const struct pending *p, struct warren_error *err)
{
	struct stat st;

	if (fstat(p->fd, &st) < 0)
		return error_errno(err, errno, "read the written data");
	/* The file was created empty when it was opened. */
	if (st.st_size == 0 && !p->bare)
		return 0;
	(void)lseek(p->fd, 0, SEEK_SET);
	if (p->bare)
		return this_sandbox.driver->write_file(
			&this_sandbox, p->path, p->fd, (uint64_t)st.st_size,
			p->owner.mode, p->owner.uid, p->owner.gid, err);
	if (st.st_size <= SPOOL_INLINE)
		return write_small(p, (size_t)st.st_size, err);
	if (!p->append && by_platform("copy_in"))
		return this_sandbox.driver->write_file(&this_sandbox, p->path, p->fd,
						       (uint64_t)st.st_size, 0, 0, 0,
						       err);
	return spool_run(p->user, p->append ? NEED "pour >>\"$1\"" : NEED "pour >\"$1\"",
			 p->path, p->fd, -1, err);
}

static int file_copy_flush(struct pending *p, struct warren_error *err)
{
	int r;

	spool_guard(); /* handles data that was written since the last check */
	if (p->failed)
		return error_set(err, p->failed, "%s", p->why);
	p->flushing = true;
	r = flush_now(p, err);
	p->flushing = false;
	return r;
}

int spool_write(const char *user, const char *path, bool append,
		const struct spool_owner *owner, int *ret_fd, struct warren_error *err)
{
	struct pending *p = NULL, *oldest = NULL;
	AUTO_CLOSE int fd = spool_new();

	spool_forget(path);
	for (size_t i = 0; i < PENDING_MAX; i++) {
		if (!pending[i].path)
			p = &pending[i];
		else if (pending[i].failed &&
			 (!oldest || pending[i].since < oldest->since))
			oldest = &pending[i];
	}
	if (!p && oldest) {
		drop_pending(oldest);
		p = oldest;
	}
	if (!p || fd < 0)
		return error_errno(err, fd < 0 ? -fd : EMFILE,
				   "reserve space for the file");
	*p = (struct pending){ .path = strdup(path),
			       .append = append,
			       .bare = owner,
			       .owner = owner ? *owner : (struct spool_owner){ 0 },
			       .since = clock_now() };
	(void)snprintf(p->user, sizeof(p->user), "%s", user);
	*ret_fd = file_copy_open_again(fd, O_WRONLY);
	p->fd = TAKE_FD(fd);
	if (!p->path || *ret_fd < 0) {
		drop_pending(p);
		return error_errno(err, ENOMEM, "reserve space for the file");
	}
	return 0;
}

static struct pending *file_copy_find(const char *path)
{
	for (size_t i = 0; i < PENDING_MAX; i++)
		if (pending[i].path && strcmp(pending[i].path, path) == 0)
			return &pending[i];
	return NULL;
}

int spool_settle(const char *path, struct warren_error *err)
{
	struct pending *p = file_copy_find(path);
	int r;

	if (!p)
		return 0;
	r = file_copy_flush(p, err);
	drop_pending(p);
	return r;
}

/* No request waits for the result, so keep an error for the next request with this
 * name. */
static void flush_quietly(struct pending *p)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (p->failed || still_open(p->fd))
		return;
	if (file_copy_flush(p, &err) == 0) {
		drop_pending(p);
		return;
	}
	p->failed = err.code;
	(void)snprintf(p->why, sizeof(p->why), "%.199s", err.msg);
}

void spool_settle_dir(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < PENDING_MAX; i++) {
		const char *p = pending[i].path;

		if (p && strncmp(p, path, n) == 0 && (p[n] == '/' || n == 1))
			flush_quietly(&pending[i]);
	}
}

void spool_forget(const char *path)
{
	struct pending *p = file_copy_find(path);

	if (p)
		drop_pending(p);
}

/* ----------------------------------------------------------- errors of files, by name */

static struct passing {
	char *path; /* NULL: free */
	char user[32];
	uint64_t connection;
} passing[PASSING_MAX];

static unsigned next_passing;

static bool is_passing(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t n = name ? strlen(++name) : 0;

	return n > 9 && strncmp(name, ".warren-", 8) == 0 && name[n - 1] == '~';
}

void spool_note(uint64_t connection, const char *user, const char *path)
{
	struct passing *p;

	if (!is_passing(path))
		return;
	p = &passing[next_passing++ % PASSING_MAX];
	free(p->path); /* drop the oldest one */
	*p = (struct passing){ .path = strdup(path), .connection = connection };
	(void)snprintf(p->user, sizeof(p->user), "%s", user);
}

void spool_unnote(const char *path)
{
	for (size_t i = 0; is_passing(path) && i < PASSING_MAX; i++)
		if (passing[i].path && strcmp(passing[i].path, path) == 0) {
			free(passing[i].path);
			passing[i].path = NULL;
		}
}

void spool_abandon(uint64_t connection)
{
	for (size_t i = 0; i < PASSING_MAX; i++) {
		AUTO_BUF struct buf script = BUF_INIT(65536), out = BUF_INIT(65536);
		struct warren_error ignored = WARREN_ERROR_INIT;
		struct passing *p = &passing[i];

		if (!p->path || p->connection != connection)
			continue;
		spool_forget(p->path);
		buf_puts(&script, "rm -f ");
		script_quote(&script, p->path);
		(void)shell_pool_run(p->user, &script, &out, SHELL_SECS, &ignored);
		free(p->path);
		p->path = NULL;
	}
}

bool spool_tick(void)
{
	bool more = false;

	spool_guard();
	for (size_t i = 0; i < PENDING_MAX; i++) {
		if (!pending[i].path)
			continue;
		flush_quietly(&pending[i]);
		/* A refused file counts too, because a client may still write to it. */
		more |= pending[i].path &&
			(!pending[i].failed || still_open(pending[i].fd));
	}
	for (size_t i = 0; i < READING_MAX; i++)
		more |= reading[i].bytes > 0;
	return more;
}
