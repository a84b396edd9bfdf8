/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_artifacts.c - the files that a program of warren_code() leaves
 *
 * Processes that the program left running may change the files at the same time. So each
 * component of a path is opened separately, and no link is followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "core/code_run.h"

#define ARTIFACTS_MAX   256
#define ARTIFACTS_BYTES ((size_t)16 << 20)
#define ARTIFACT_DEPTH  63
#define ARTIFACT_PATH   1024

struct artifact_search {
	const struct code_plan *plan;
	struct warren_code_result *to;
	size_t bytes;
	unsigned depth;
	char path[ARTIFACT_PATH]; /* path relative to /sandbox */
};

static bool artifact_wanted(const struct artifact_search *s)
{
	int r = code_plan_wants(s->plan, s->path);

	if (r < 0)
		s->to->artifacts_complete = false;
	return r > 0;
}

/* Read the whole file. Return 0 if it does not fit, or is gone. */
static int artifact_load(const struct artifact_search *s, int fd, char **ret,
			 size_t *ret_size)
{
	size_t left = ARTIFACTS_BYTES - s->bytes, n = 0;
	struct stat st;
	char *data;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	if ((uint64_t)st.st_size > left) {
		s->to->artifacts_complete = false;
		return 0;
	}
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	/* Ignore data that is appended in the meantime. */
	while (n < (size_t)st.st_size) {
		ssize_t r = read(fd, data + n, (size_t)st.st_size - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	data[n] = '\0';
	*ret = data;
	*ret_size = n;
	return 1;
}

static int artifact_add(struct artifact_search *s, int fd)
{
	struct warren_code_result *to = s->to;
	struct warren_code_file *list;
	char *data = NULL, *name;
	size_t size = 0;
	int r;

	if (to->n_artifacts == ARTIFACTS_MAX) {
		to->artifacts_complete = false;
		return 0;
	}
	r = artifact_load(s, fd, &data, &size);
	if (r <= 0)
		return r;
	list = reallocarray(to->artifacts, to->n_artifacts + 1, sizeof(*list));
	if (list)
		to->artifacts = list;
	name = list ? strdup(s->path) : NULL;
	if (!name) {
		free(data);
		return -ENOMEM;
	}
	list[to->n_artifacts++] = (struct warren_code_file){ name, data, size };
	s->bytes += size;
	return 0;
}

static int artifact_search_dir(struct artifact_search *s, int fd);

static int artifact_look(struct artifact_search *s, int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(
		dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	/*
	 * A file that is gone or a link is not an artifact; a file that cannot be read
	 * may be one.
	 */
	if (fd < 0 && errno != ENOENT && errno != ELOOP && errno != ENXIO)
		s->to->artifacts_complete = false;
	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (S_ISREG(st.st_mode))
		return artifact_wanted(s) ? artifact_add(s, fd) : 0;
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (s->depth == ARTIFACT_DEPTH) {
		s->to->artifacts_complete = false;
		return 0;
	}
	return artifact_search_dir(s, TAKE_FD(fd));
}

/* Takes @fd. */
static int artifact_search_dir(struct artifact_search *s, int fd)
{
	size_t at = strlen(s->path);
	DIR *d = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		(void)close(fd);
		return -errno;
	}
	s->depth++;
	while (r == 0 && (e = readdir(d))) {
		int n;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n = snprintf(s->path + at, sizeof(s->path) - at, "%s%s", at ? "/" : "",
			     e->d_name);
		if ((size_t)n >= sizeof(s->path) - at)
			s->to->artifacts_complete = false;
		else
			r = artifact_look(s, dirfd(d), e->d_name);
		s->path[at] = '\0';
	}
	s->depth--;
	(void)closedir(d);
	return r;
}

static int artifact_by_name(const void *a, const void *b)
{
	return strcmp(((const struct warren_code_file *)a)->name,
		      ((const struct warren_code_file *)b)->name);
}

int code_artifacts_read(struct warren_sandbox *sb, const struct code_plan *plan,
			struct warren_code_result *ret, struct warren_error *err)
{
	struct artifact_search s = { .plan = plan, .to = ret };
	int fd = -1, r;

	r = warren_file_open(sb, CODE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, NULL,
			     &fd, err);
	if (r < 0)
		return r;
	r = artifact_search_dir(&s, fd);
	if (r < 0)
		return error_errno(err, -r, "read the artifacts");
	if (ret->n_artifacts > 1)
		qsort(ret->artifacts, ret->n_artifacts, sizeof(*ret->artifacts),
		      artifact_by_name);
	return 0;
}
