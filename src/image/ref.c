/* SPDX-License-Identifier: Apache-2.0 */
/* ref.c - split and normalise references */
#include "image/ref.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_REGISTRY "docker.io"
#define DEFAULT_FOLDER   "library/"
#define LOWER            "abcdefghijklmnopqrstuvwxyz"
#define UPPER            "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT            "0123456789"

bool ref_digest_valid(const char *s)
{
	return strncmp(s, "sha256:", 7) == 0 && strspn(s + 7, DIGIT "abcdef") == 64 &&
	       s[71] == '\0';
}

/* A valid registry is host[:port]: letters, digits, '-' and '.', or an IPv6 address in
 * brackets. */
static bool valid_registry(const char *s)
{
	size_t n = s[0] == '[' ? strcspn(s, "]") + 1 : strspn(s, LOWER UPPER DIGIT "-.");

	if (s[0] == '[' &&
	    (s[n - 1] != ']' || strspn(s + 1, DIGIT "abcdefABCDEF:") != n - 2))
		return false;
	if (n == 0 || s[0] == '-' || s[0] == '.' || s[n - 1] == '-' || s[n - 1] == '.' ||
	    strstr(s, ".."))
		return false;
	if (s[n] == '\0')
		return true;
	return s[n] == ':' && strlen(s + n + 1) > 0 && strlen(s + n + 1) < 6 &&
	       strspn(s + n + 1, DIGIT) == strlen(s + n + 1);
}

/*
 * Components consist of lower-case letters and digits, with '.', '_', '__' or dashes
 * between them.
 */
static bool valid_name(const char *s)
{
	while (*s) {
		size_t n = strspn(s, LOWER DIGIT);

		if (n == 0)
			return false;
		s += n;
		if (*s == '\0')
			return true;
		if (*s == '/')
			n = 1;
		else if (*s == '-')
			n = strspn(s, "-");
		else
			n = strncmp(s, "__", 2) == 0 ? 2 : (*s == '.' || *s == '_');
		if (n == 0)
			return false;
		s += n;
	}
	return false;
}

static bool valid_tag(const char *s)
{
	return *s && *s != '.' && *s != '-' && strlen(s) <= 128 &&
	       strspn(s, LOWER UPPER DIGIT "_.-") == strlen(s);
}

/* Does the part before the first '/' name a registry, by docker's rule? */
static bool looks_like_registry(const char *first)
{
	return strpbrk(first, ".:") || strcmp(first, "localhost") == 0 ||
	       strpbrk(first, UPPER);
}

static int ref_bad(struct warren_error *err, const char *text, const char *why)
{
	return error_set(err, EINVAL,
			 "'%.200s' is not an image reference: %s (example: python:3.12)",
			 text, why);
}

/* Copy into a field; the length of @from was checked before. */
static void ref_set(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from);
}

static int split_name(char *rest, const char *text, struct ref *r,
		      struct warren_error *err)
{
	char *slash = strchr(rest, '/');
	const char *folder = "";

	ref_set(r->registry, sizeof(r->registry), DEFAULT_REGISTRY);
	if (slash) {
		*slash = '\0';
		if (looks_like_registry(rest)) {
			if (strlen(rest) >= sizeof(r->registry) || !valid_registry(rest))
				return ref_bad(err, text,
					       "the registry is not host or host:port");
			ref_set(r->registry, sizeof(r->registry), rest);
			rest = slash + 1;
		} else {
			*slash = '/';
		}
	}
	/* "index." is an older name of the default registry. */
	if (strcmp(r->registry, "index." DEFAULT_REGISTRY) == 0)
		ref_set(r->registry, sizeof(r->registry), DEFAULT_REGISTRY);
	if (strcmp(r->registry, DEFAULT_REGISTRY) == 0 && !strchr(rest, '/'))
		folder = DEFAULT_FOLDER;
	if (strlen(folder) + strlen(rest) >= sizeof(r->name))
		return ref_bad(err, text, "the name is too long");
	if (!valid_name(rest))
		return ref_bad(
			err, text,
			"names are lower-case letters and digits, separated by . _ -");
	ref_set(r->name, sizeof(r->name), folder);
	ref_set(r->name + strlen(folder), sizeof(r->name) - strlen(folder), rest);
	return 0;
}

int ref_parse(const char *text, struct ref *ret, struct warren_error *err)
{
	struct ref r = { 0 };
	char rest[REF_TEXT_MAX], *at, *colon;
	int code;

	if (strlen(text) >= sizeof(rest))
		return ref_bad(err, text, "it is too long");
	ref_set(rest, sizeof(rest), text);
	at = strchr(rest, '@');
	if (at) {
		*at = '\0';
		if (!ref_digest_valid(at + 1))
			return ref_bad(
				err, text,
				"the digest is not sha256: and 64 hexadecimal digits");
		ref_set(r.digest, sizeof(r.digest), at + 1);
	}
	colon = strrchr(rest, ':');
	if (colon && !strchr(colon, '/')) {
		*colon = '\0';
		if (!valid_tag(colon + 1))
			return ref_bad(err, text,
				       "the tag is not letters, digits, _ . and -");
		ref_set(r.tag, sizeof(r.tag), colon + 1);
	} else if (!at) {
		ref_set(r.tag, sizeof(r.tag), "latest");
	}
	code = split_name(rest, text, &r, err);
	if (code < 0)
		return code;
	*ret = r;
	return 0;
}

void ref_text(const struct ref *ref, char text[REF_TEXT_MAX])
{
	(void)snprintf(text, REF_TEXT_MAX, "%s/%s%s%s%s%s", ref->registry, ref->name,
		       ref->tag[0] ? ":" : "", ref->tag, ref->digest[0] ? "@" : "",
		       ref->digest);
}

void ref_familiar(const struct ref *ref, char text[REF_TEXT_MAX])
{
	bool standard = strcmp(ref->registry, DEFAULT_REGISTRY) == 0;
	const char *name = ref->name;
	char first[sizeof(ref->name)];

	(void)snprintf(first, sizeof(first), "%.*s", (int)strcspn(name, "/"), name);
	if (standard && strncmp(name, DEFAULT_FOLDER, strlen(DEFAULT_FOLDER)) == 0 &&
	    !strchr(name + strlen(DEFAULT_FOLDER), '/'))
		name += strlen(DEFAULT_FOLDER);
	else if (standard && looks_like_registry(first))
		standard = false; /* without its registry, it would name another image
				     elsewhere */
	(void)snprintf(text, REF_TEXT_MAX, "%s%s%s%s%s%s%s",
		       standard ? "" : ref->registry, standard ? "" : "/", name,
		       ref->tag[0] ? ":" : "", ref->tag, ref->digest[0] ? "@" : "",
		       ref->digest);
}

bool ref_is_of_project(const char *text)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct ref ref;

	return ref_parse(text, &ref, &ignored) == 0 &&
	       strcmp(ref.name, DEFAULT_FOLDER REF_OF_PROJECT) == 0;
}

bool ref_is_loopback(const struct ref *ref)
{
	const char *h = ref->registry;
	size_t n = h[0] == '[' ? strcspn(h, "]") + 1 : strcspn(h, ":");

	return (n == 9 && strncmp(h, "localhost", 9) == 0) ||
	       (n == 5 && strncmp(h, "[::1]", 5) == 0) ||
	       (strncmp(h, "127.", 4) == 0 && strspn(h, DIGIT ".") == n);
}
