/* SPDX-License-Identifier: Apache-2.0 */
/* trust.c - the file with all certificates that a sandbox trusts */
#include "egress/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/authority.h"

#define TRUST_MAX (8U << 20)

/* Files in which distributions keep the certificates of all authorities. */
static const char *const system_files[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-trust.crt",    /* Fedora, RHEL */
	"/etc/ssl/ca-bundle.pem",             /* SUSE */
	"/etc/ssl/cert.pem",
};

/* If a machine has no such file, no server's certificate can be verified.
 * */
static int trust_read_system(struct buf *out, struct warren_error *err)
{
	char part[65536];

	for (size_t i = 0; i < ARRAY_SIZE(system_files); i++) {
		AUTO_CLOSE int fd = open(system_files[i], O_RDONLY | O_CLOEXEC);
		ssize_t n = -1;

		if (fd < 0)
			continue;
		while ((n = read(fd, part, sizeof(part))) > 0)
			buf_add(out, part, (size_t)n);
		if (n < 0)
			return error_errno(err, errno, "read '%s'", system_files[i]);
		buf_puts(out, "\n");
		return 0;
	}
	return 0;
}

static int trust_replace(const char *path, const struct buf *text,
			 struct warren_error *err)
{
	AUTO_FREE char *part = NULL;
	AUTO_CLOSE int fd = -1;
	int r;

	if (asprintf(&part, "%s.%d", path, (int)getpid()) < 0) {
		part = NULL;
		return error_errno(err, ENOMEM, "write '%s'", path);
	}
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : fd_write_all(fd, text->data, text->len);
	if (r == 0 && (fchmod(fd, 0644) < 0 || rename(part, path) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(part);
	return r < 0 ? error_errno(err, -r, "write '%s'", path) : 0;
}

int trust_write(const char *path, const char *authority, struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(TRUST_MAX);
	AUTO_FREE char *dir = strdup(path);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	int r = trust_read_system(&text, err);

	if (r == 0)
		r = authority_read_certificate(authority, &text, err);
	if (r < 0)
		return r;
	if (!slash || text.failed)
		return error_errno(err, ENOMEM, "write '%s'", path);
	*slash = '\0';
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create the directory '%s'", dir);
	return trust_replace(path, &text, err);
}
