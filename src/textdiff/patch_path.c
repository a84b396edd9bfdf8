/* SPDX-License-Identifier: Apache-2.0 */
/* patch_path.c - read the names of files in patches, as git writes them */
#include "textdiff/patch_path.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

#define PATCH_PATH_MAX 65536

static bool path_is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* Read the escape behind a backslash; return its length, or 0. */
static size_t path_read_escape(const char *p, size_t n, char *ret)
{
	static const char names[] = "abtnvfr"; /* 7 and the following bytes */
	const char *name = n && *p ? strchr(names, *p) : NULL;

	if (name) {
		*ret = (char)(7 + (name - names));
		return 1;
	}
	if (n && (*p == '"' || *p == '\\')) {
		*ret = *p;
		return 1;
	}
	if (n < 3 || p[0] > '3' || !path_is_octal(p[0]) || !path_is_octal(p[1]) ||
	    !path_is_octal(p[2]))
		return 0;
	*ret = (char)((p[0] - '0') << 6 | (p[1] - '0') << 3 | (p[2] - '0'));
	return *ret ? 3 : 0;
}

/* Read a name in quotes; return its length with the quotes, or 0. */
static size_t path_read_quoted(struct text t, struct buf *out)
{
	for (size_t i = 1; i < t.len && t.data[i] != '\n';) {
		char c = t.data[i++];

		if (c == '"')
			return i;
		if (c == '\\') {
			size_t n = path_read_escape(t.data + i, t.len - i, &c);

			if (!n)
				return 0;
			i += n;
		}
		if (!c)
			return 0;
		buf_add(out, &c, 1);
	}
	return 0;
}

static bool path_is_safe(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		size_t n;

		p += p != path;
		n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
	}
	return true;
}

/* Take the name in @b, without its prefix. */
static int path_take(const struct buf *b, bool prefixed, char **ret,
		     struct warren_error *err)
{
	const char *path = b->data ? b->data : "";

	if (strcmp(path, "/dev/null") == 0) {
		*ret = NULL;
		return 0;
	}
	if (prefixed)
		path = strchr(path, '/') ? strchr(path, '/') + 1 : path;
	if (b->failed || !path_is_safe(path))
		return error_set(err, EINVAL, "a name is not a relative path");
	*ret = strdup(path);
	return *ret ? 0 : error_errno(err, ENOMEM, "read a name");
}

int patch_path_read(struct text t, bool prefixed, char **ret, size_t *ret_len,
		    struct warren_error *err)
{
	AUTO_BUF struct buf b = BUF_INIT(PATCH_PATH_MAX);
	size_t n = 0;

	if (t.len && t.data[0] == '"') {
		n = path_read_quoted(t, &b);
		if (!n)
			return error_set(err, EINVAL, "a name has wrong quotes");
	} else {
		while (n < t.len && t.data[n] != '\n' && t.data[n] != '\t')
			n++;
		if (n && memchr(t.data, '\0', n))
			return error_set(err, EINVAL, "a name contains a NUL");
		buf_add(&b, t.data, n);
	}
	*ret_len = n;
	return path_take(&b, prefixed, ret, err);
}

int patch_path_read_both(struct text t, char **ret_old, char **ret_new,
			 struct warren_error *err)
{
	size_t n = 0, m = 0;
	int r;

	while (t.len && (t.data[t.len - 1] == '\n' || t.data[t.len - 1] == '\r'))
		t.len--;
	if (!t.len || t.data[0] != '"') {
		/* Without quotes, only equal names can be told apart from each other. */
		n = t.len / 2;
		if (t.len < 5 || t.data[n] != ' ' || n < 3 || t.data[1] != '/' ||
		    t.len != 2 * n + 1 || memcmp(t.data + 2, t.data + n + 3, n - 2) != 0)
			return error_set(err, EINVAL, "the names cannot be read");
		r = patch_path_read(TEXT(t.data, n), true, ret_old, &m, err);
	} else {
		r = patch_path_read(t, true, ret_old, &n, err);
		if (r == 0 && (n >= t.len || t.data[n] != ' ')) {
			free(*ret_old);
			*ret_old = NULL;
			return error_set(err, EINVAL, "the names cannot be read");
		}
	}
	if (r < 0)
		return r;
	r = patch_path_read(TEXT(t.data + n + 1, t.len - n - 1), true, ret_new, &m, err);
	if (r < 0) {
		free(*ret_old);
		*ret_old = NULL;
	}
	return r;
}
