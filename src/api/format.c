/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.c - one checker per format, and its message
 *
 * A checker looks only at the string; whether a user, an image or a file exists is
 * checked later, inside. A string that passes is harmless: it has no control characters
 * where it will be shown, and cannot refer to anything outside of where it will be used.
 */
#include "api/format.h"

#include <signal.h>
#include <string.h>

#include "base/base64.h"
#include "base/id.h"
#include "base/macro.h"
#include "base/parse.h"
#include "base/secret_name.h"
#include "base/snapshot_name.h"
#include "base/volume_name.h"

#define LOWER   "abcdefghijklmnopqrstuvwxyz"
#define LETTERS LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"
#define IDS_MAX 65536 /* number of users and of groups in a sandbox */

/* Does @s have at least one character, and are all of its characters in @set? */
static bool made_of(const char *s, const char *set)
{
	size_t n = strspn(s, set);

	return n > 0 && s[n] == '\0';
}

static bool is_base64(const char *s)
{
	return base64_valid(s, strlen(s));
}

/* The format that Warren writes; the values of the numbers are not checked. */
static bool is_date_time(const char *s)
{
	static const char shape[] = "0000-00-00T00:00:00";
	size_t n = strlen(s);

	for (size_t i = 0; i < sizeof(shape) - 1; i++)
		if (i >= n ||
		    (shape[i] == '0' ? !strchr(DIGITS, s[i]) : s[i] != shape[i]))
			return false;
	s += sizeof(shape) - 1;
	if (*s == '.')
		s += 1 + strspn(s + 1, DIGITS);
	return strcmp(s, "Z") == 0;
}

static bool is_env_name(const char *s)
{
	return made_of(s, LETTERS DIGITS "_.-") && strspn(s, LETTERS "_") > 0;
}

static bool is_hostname(const char *s)
{
	for (;;) {
		size_t n = strspn(s, LETTERS DIGITS "-");

		if (n == 0 || s[0] == '-' || s[n - 1] == '-')
			return false;
		if (s[n] != '.')
			return s[n] == '\0';
		s += n + 1;
	}
}

/* The image code parses references. No path of this machine may reach it. */
static bool is_image(const char *s)
{
	return made_of(s, LETTERS DIGITS "._:/@+-[]") && s[0] != '-' && s[0] != '/' &&
	       strncmp(s, "dir:", 4) != 0;
}

static bool is_key(const char *s)
{
	for (; *s; s++)
		if (*s < '!' || *s > '~')
			return false;
	return true;
}

static bool is_label_key(const char *s)
{
	return made_of(s, LETTERS DIGITS "._/-") && strspn(s, LETTERS DIGITS) > 0;
}

/* Is the text free of control characters, both of ASCII and of Unicode (c2 80 to c2
 * 9f)? */
static bool is_line(const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++)
		if (*s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0))
			return false;
	return true;
}

static bool is_label_filter(const char *s)
{
	size_t n = strspn(s, LETTERS DIGITS "._/-");

	return n > 0 && strspn(s, LETTERS DIGITS) > 0 && (s[n] == '\0' || s[n] == '=') &&
	       is_line(s);
}

static bool is_mode(const char *s)
{
	size_t n = strlen(s);

	return strspn(s, "01234567") == n && n >= 3 &&
	       (n <= 4 || (n == 5 && s[0] == '0'));
}

static bool format_is_name(const char *s)
{
	return made_of(s, LOWER DIGITS "-") && s[0] != '-' && s[strlen(s) - 1] != '-';
}

/* The same names as in docker. A sandbox with the name "batch" could not be reached,
 * because the API has a path of that name. */
static bool is_sandbox_name(const char *s)
{
	return made_of(s, LETTERS DIGITS "_.-") && strspn(s, LETTERS DIGITS) > 0 &&
	       strcmp(s, "batch") != 0;
}

static bool is_work_name(const char *s)
{
	return made_of(s, LETTERS DIGITS "_.-") && strspn(s, LETTERS DIGITS) > 0;
}

static bool is_page_cursor(const char *s)
{
	return made_of(s, LETTERS DIGITS "_-");
}

/* The meaning of a path must not depend on the filesystem: no "." and no ".." in it. */
static bool is_path(const char *s)
{
	if (*s != '/')
		return false;
	while (*s) {
		size_t n;

		s += strspn(s, "/");
		n = strcspn(s, "/");
		if ((n == 1 || n == 2) && strncmp(s, "..", n) == 0)
			return false;
		s += n;
	}
	return true;
}

static bool is_platform(const char *s)
{
	size_t words = 0;

	for (;; s++) {
		size_t n = strspn(s, LOWER DIGITS "_");

		s += n;
		words++;
		if (n == 0 || words > 3)
			return false;
		if (*s != '/')
			return *s == '\0' && words >= 2;
	}
}

static bool is_secret_name(const char *s)
{
	return secret_name_ok(s);
}

/* Paths have the name of a snapshot or its id. */
static bool is_snapshot_name(const char *s)
{
	return snapshot_name_ok(s) || id_valid(s);
}

static bool is_volume_name(const char *s)
{
	return volume_name_ok(s);
}

static bool is_session(const char *s)
{
	return s[0] == '/' ? is_path(s) && is_line(s)
			   : made_of(s, LETTERS DIGITS "._+-") && s[0] != '-';
}

int format_signal(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int sig = 1; sig < NSIG; sig++) {
		const char *known = sigabbrev_np(sig);

		if (known && strcmp(known, name) == 0)
			return sig;
	}
	return 0;
}

static bool is_signal(const char *s)
{
	return format_signal(s) > 0;
}

static bool is_size(const char *s)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t bytes;

	return parse_size(s, &bytes, &err) == 0;
}

/* A name is looked up later, in the image's passwd(5). */
static bool is_user(const char *s)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint32_t uid, gid = 0;

	if (strspn(s, DIGITS) > 0)
		return parse_ids(s, &uid, &gid, &err) >= 0 && uid < IDS_MAX &&
		       gid < IDS_MAX;
	return made_of(s, LETTERS DIGITS "._-") && strspn(s, LETTERS "_") > 0;
}

static const struct {
	bool (*is)(const char *s);
	const char *wanted;
} formats[API_FORMAT_COUNT] = {
	[API_FORMAT_BASE64] = { is_base64, "must be base64, with its padding" },
	[API_FORMAT_DATE_TIME] = { is_date_time, "must be an RFC 3339 time in UTC" },
	[API_FORMAT_ENV_NAME] = { is_env_name,
				  "must be a variable name: letters, digits, '_', '.' "
				  "and '-', not starting with a digit" },
	[API_FORMAT_HOSTNAME] = { is_hostname,
				  "must be a host name: letters, digits and inner "
				  "hyphens, separated by dots" },
	[API_FORMAT_ID] = { id_valid,
			    "must be an id: twelve characters, chosen by the service" },
	[API_FORMAT_IMAGE] = { is_image, "must be 'host', a reference like 'python:3.12' "
					 "or the id of an image" },
	[API_FORMAT_KEY] = { is_key, "must be printable ASCII without spaces" },
	[API_FORMAT_LABEL_FILTER] = { is_label_filter, "must be key=value, or a key" },
	[API_FORMAT_LABEL_KEY] = { is_label_key,
				   "must be a label key: letters, digits, '.', '_', '/' "
				   "and '-', starting with a letter or digit" },
	[API_FORMAT_LINE] = { is_line, "must not contain control characters" },
	[API_FORMAT_MODE] = { is_mode, "must be octal permissions, like '0644'" },
	[API_FORMAT_NAME] = { format_is_name,
			      "must be a name: lower-case letters, digits and "
			      "inner hyphens" },
	[API_FORMAT_PAGE_CURSOR] = { is_page_cursor,
				     "must be the next_cursor of an earlier page" },
	[API_FORMAT_PATH] = { is_path, "must be an absolute path without '.' and '..'" },
	[API_FORMAT_PLATFORM] = { is_platform, "must be OS/ARCH or OS/ARCH/VARIANT" },
	[API_FORMAT_SANDBOX_NAME] = { is_sandbox_name,
				      "must be a name: letters, digits, '_', '.' and "
				      "'-', starting with a letter or digit, and not 'batch'" },
	[API_FORMAT_SECRET_NAME] = { is_secret_name,
				     "must be the name of a secret: letters, digits and "
				     "'_', not starting with a digit" },
	[API_FORMAT_SHELL] = { is_session,
			       "must be the name or the absolute path of a shell" },
	[API_FORMAT_SIGNAL] = { is_signal, "must be a signal name, like 'TERM'" },
	[API_FORMAT_SIZE] = { is_size,
			      "must be a number of bytes or a size like '512m'" },
	[API_FORMAT_USER] = { is_user, "must be a user: a name, a uid or uid:gid below "
				       "65536" },
	[API_FORMAT_SNAPSHOT_NAME] = { is_snapshot_name,
				       "must be the name of a snapshot, which "
				       "has " SNAPSHOT_NAME_RULE },
	[API_FORMAT_WORK_NAME] = { is_work_name,
				   "must be the id or name of a work: letters, digits, "
				   "'_', '.' and '-', starting with a letter or digit" },
	[API_FORMAT_VOLUME_NAME] = { is_volume_name,
				     "must be the name of a volume: " VOLUME_NAME_RULE },
};

const char *format_check(enum api_format format, const char *s)
{
	return !formats[format].is || formats[format].is(s) ? NULL
							    : formats[format].wanted;
}
