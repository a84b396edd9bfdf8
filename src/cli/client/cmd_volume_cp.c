/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_volume_cp.c - warren volume cp: copy a volume, or files into or out of one
 *
 * VOLUME:PATH is a file of a volume; a word without a slash or a colon is a volume, if
 * both operands are such words.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/client/cmd_volume.h"
#include "cli/client/commands.h"
#include "cli/client/transfer.h"

void volume_put_url(struct buf *out, const char *word)
{
	int n = (int)(strchr(word, ':') - word);

	buf_printf(out, "/v1/volumes/%.*s/files", n, word);
	put_query(out, "path", word + n + 1);
}

static bool volume_is_path(const char *word)
{
	const char *colon = strchr(word, ':');
	const char *slash = strchr(word, '/');

	return colon && (!slash || colon < slash);
}

static bool volume_is_word(const char *word)
{
	return !strpbrk(word, ":/") && strcmp(word, "-") != 0;
}

int volume_cp_put(struct volume_copy *cp, const char *to, struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	bool piped = strcmp(cp->outside.name, "-") == 0;
	struct stat st;
	char mode[8];
	int r;

	if (fstat(cp->outside.fd, &st) < 0)
		return error_errno(err, errno, "'%s'", cp->outside.name);
	volume_put_url(&url, to);
	(void)snprintf(mode, sizeof(mode), "%04o", st.st_mode & 0777);
	if (!piped)
		put_query(&url, "mode", mode);
	if (url.failed)
		return error_errno(err, ENAMETOOLONG, "'%s'", cp->outside.name);
	r = request_new(cp->client, "PUT", url.data, &request, err);
	if (r < 0)
		return r;
	return transfer_send(&cp->outside, request, "application/octet-stream", err);
}

static int volume_cp_in(struct volume_copy *cp, const char *to, struct warren_error *err)
{
	bool piped = strcmp(cp->outside.name, "-") == 0;
	struct stat st;

	cp->outside.fd =
		piped ? STDIN_FILENO : open(cp->outside.name, O_RDONLY | O_CLOEXEC);
	if (cp->outside.fd < 0 || fstat(cp->outside.fd, &st) < 0)
		return error_errno(err, errno, "'%s'", cp->outside.name);
	if (!S_ISDIR(st.st_mode))
		return volume_cp_put(cp, to, err);
	(void)close(TAKE_FD(cp->outside.fd));
	return volume_tree_in(cp, cp->outside.name, to, err);
}

int volume_cp_get(struct volume_copy *cp, const char *from, struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_REQUEST struct request *request = NULL;
	int r;

	volume_put_url(&url, from);
	if (url.failed)
		return error_errno(err, ENAMETOOLONG, "'%s'", from);
	r = request_new(cp->client, "GET", url.data, &request, err);
	return r < 0 ? r : transfer_receive(&cp->outside, request, err);
}

/* 1: it is a directory; 0: it is not; -errno. */
static int volume_cp_is_dir(struct client *c, const char *word, struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(PATH_LIMIT);
	AUTO_JSON json_t *info = NULL;
	int n = (int)(strchr(word, ':') - word), r;

	buf_printf(&url, "/v1/volumes/%.*s/files/stat", n, word);
	put_query(&url, "path", word + n + 1);
	put_query(&url, "follow", "true");
	r = url.failed ? error_errno(err, ENAMETOOLONG, "'%s'", word)
		       : client_call(c, "GET", url.data, NULL, &info, err);
	return r < 0 ? r : strcmp(print_text_of(info, "type"), "directory") == 0;
}

/* Write to a temporary name and then rename the file. */
static int volume_cp_out(struct volume_copy *cp, const char *from,
			 struct warren_error *err)
{
	AUTO_FREE char *temporary = NULL;
	bool piped = strcmp(cp->outside.name, "-") == 0;
	int r = piped ? 0 : volume_cp_is_dir(cp->client, from, err);

	if (r < 0)
		return r;
	if (r > 0)
		return volume_tree_out(cp, from, cp->outside.name, err);
	if (!piped && asprintf(&temporary, "%s.XXXXXX", cp->outside.name) < 0)
		return error_errno(err, ENOMEM, "copy '%s'", from);
	cp->outside.fd = temporary ? mkostemp(temporary, O_CLOEXEC) : STDOUT_FILENO;
	if (cp->outside.fd < 0)
		return error_errno(err, errno, "create '%s'", cp->outside.name);
	r = volume_cp_get(cp, from, err);
	if (r == 0 && temporary &&
	    (fchmod(cp->outside.fd, 0644) < 0 || rename(temporary, cp->outside.name) < 0))
		r = error_errno(err, errno, "create '%s'", cp->outside.name);
	if (r < 0 && temporary)
		(void)unlink(temporary);
	return r;
}

static int volume_cp_whole(struct client *c, const char *from, const char *to,
			   struct warren_error *err)
{
	AUTO_JSON json_t *body = json_pack("{ss}", "name", to);
	char path[128];

	(void)snprintf(path, sizeof(path), "/v1/volumes/%s/copy", from);
	return client_call(c, "POST", path, body, NULL, err);
}

static int volume_cp_any(struct volume_copy *cp, char **words, struct warren_error *err)
{
	const char *from = words[0], *to = words[1];
	char name[80];

	if (volume_is_word(from) && volume_is_word(to))
		return volume_check_operand(&volume_cp, from) != 0 ||
				       volume_check_operand(&volume_cp, to) != 0
			       ? -ECANCELED
			       : volume_cp_whole(cp->client, from, to, err);
	if (volume_is_path(from) == volume_is_path(to))
		return error_set(err, EINVAL,
				 "give two volumes, or one VOLUME:PATH and one file");
	(void)snprintf(name, sizeof(name), "%s", volume_is_path(from) ? from : to);
	*strchrnul(name, ':') = '\0';
	if (volume_check_operand(&volume_cp, name) != 0)
		return -ECANCELED;
	cp->outside.name = volume_is_path(from) ? to : from;
	return volume_is_path(from) ? volume_cp_out(cp, from, err)
				    : volume_cp_in(cp, to, err);
}

static int volume_run_cp(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct volume_copy cp = { .outside.fd = -1 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0, none = 0, r;

	if (!command_operands(&volume_cp, argc, argv, &none, 2, 2, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&volume_cp, &err);
	cp.client = c;
	r = volume_cp_any(&cp, words, &err);
	if (cp.outside.fd > STDERR_FILENO)
		(void)close(cp.outside.fd);
	if (r == -ECANCELED)
		return STATUS_FAILED;
	return r < 0 ? client_fail(&volume_cp, &err) : 0;
}

const struct command volume_cp = {
	.name = "volume cp",
	.summary = "Copy a volume, or files into or out of a volume.",
	.about =
		"With two volumes, creates the second one as a copy of the first one. With\n"
		"VOLUME:PATH and a file, copies the file; '-' is stdin or stdout. A\n"
		"directory is copied with everything in it.\n",
	.opts = &(const struct opts){ .operands = "SRC DST",
				      .example = "warren volume cp ./a.csv data:/a.csv",
				      .mixed = true },
	.run = volume_run_cp,
	.complete = complete_volumes,
};
