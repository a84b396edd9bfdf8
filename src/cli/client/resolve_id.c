/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve_id.c - find an object by its id, its name, or the beginning of its id
 *
 * A complete id is used without a request; if there is no such object, the next request
 * fails. The service resolves names of sandboxes and beginnings of their ids. For other
 * objects, this program does it: exactly one id must begin with the given text.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/client/commands.h"

#define ALPHABET     "0123456789bcdfghjklmnpqrstvwxyz"
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define NAME_MAX_LEN 63

struct search {
	const char *word;
	char id[ID_LEN + 1];
	unsigned found;
};

static bool resolve_is_id(const char *word)
{
	return strlen(word) == ID_LEN && strspn(word, ALPHABET) == ID_LEN;
}

static int resolve_id_consider(void *arg, json_t *item)
{
	struct search *s = arg;
	const char *id = print_text_of(item, "id");

	if (s->word && strncmp(id, s->word, strlen(s->word)) != 0)
		return 0;
	s->found++;
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	return 0;
}

static int resolve_id_judge(const struct search *s, const char *what,
			    char ret_id[ID_LEN + 1], struct warren_error *err)
{
	if (s->found == 0)
		return error_set(err, ENOENT, "there is no %s '%.100s'", what, s->word);
	if (s->found > 1)
		return error_set(
			err, EEXIST,
			"'%.100s' is ambiguous (%u matches): use more of the id of the %s",
			s->word, s->found, what);
	(void)memcpy(ret_id, s->id, sizeof(s->id));
	return 0;
}

/* Can it be part of a path? The service decides whether it is a name. */
static bool resolve_id_is_name(const char *word)
{
	size_t n = strlen(word);

	return n > 0 && n <= NAME_MAX_LEN && strspn(word, NAME_LETTERS) == n &&
	       !strchr("_.-", word[0]);
}

int resolve_id_find_sandbox(struct client *c, const char *word, char ret_id[ID_LEN + 1],
			    struct warren_error *err)
{
	AUTO_JSON json_t *sandbox = NULL;
	char path[128];
	int r;

	if (resolve_is_id(word)) {
		(void)memcpy(ret_id, word, ID_LEN + 1);
		return 0;
	}
	if (!resolve_id_is_name(word))
		return error_set(err, EINVAL,
				 "'%.100s' is neither an id nor a name of a sandbox "
				 "('warren ls' lists them)",
				 word);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", word);
	r = client_call(c, "GET", path, NULL, &sandbox, err);
	if (r == 0)
		(void)snprintf(ret_id, ID_LEN + 1, "%s", print_text_of(sandbox, "id"));
	return r;
}

/* Search the list at @path, whose elements are called @what. */
static int find_listed(struct client *c, const char *path, const char *what,
		       const char *word, struct search *s, struct warren_error *err)
{
	char list[32];

	/*
	 * An empty prefix, such as an empty variable, would match everything, which is
	 * never intended.
	 */
	if (word && !*word)
		return error_set(err, EINVAL, "'' is not the id of %s %s",
				 what[0] == 'e' ? "an" : "a", what);
	s->word = word;
	(void)snprintf(list, sizeof(list), "%ss", what);
	if (word && resolve_is_id(word)) {
		s->found = 1;
		(void)memcpy(s->id, word, ID_LEN + 1);
		return 0;
	}
	return client_list(c, path, list, resolve_id_consider, s, err);
}

int resolve_id_find_exec(struct client *c, const char *sandbox, const char *word,
			 char ret_id[ID_LEN + 1], struct warren_error *err)
{
	struct search s = { 0 };
	char path[128];
	int r;

	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/execs", sandbox);
	r = find_listed(c, path, "exec", word, &s, err);
	if (r < 0)
		return r;
	if (word)
		return resolve_id_judge(&s, "exec", ret_id, err);
	if (s.found == 0)
		return error_set(err, ENOENT, "no command has been run in '%s' yet",
				 sandbox);
	/* The last item of the list is the newest. */
	(void)memcpy(ret_id, s.id, sizeof(s.id));
	return 0;
}

int find_session(struct client *c, const char *sandbox, const char *word,
		 char ret_id[ID_LEN + 1], struct warren_error *err)
{
	struct search s = { 0 };
	char path[128];
	int r;

	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/sessions", sandbox);
	r = find_listed(c, path, "session", word, &s, err);
	return r < 0 ? r : resolve_id_judge(&s, "session", ret_id, err);
}

int find_token(struct client *c, const char *word, char ret_id[ID_LEN + 1],
	       struct warren_error *err)
{
	struct search s = { 0 };
	int r = find_listed(c, "/v1/tokens", "token", word, &s, err);

	return r < 0 ? r : resolve_id_judge(&s, "token", ret_id, err);
}

/* -------------------------------------------------------------- completion */

static int put_candidate(void *arg, json_t *item)
{
	struct buf *out = arg;
	const char *name = print_text_of(item, "name");

	if (*name)
		buf_printf(out, "%s\t%s\n", name, print_text_of(item, "id"));
	buf_printf(out, "%s\t%s %s\n", print_text_of(item, "id"),
		   print_text_of(item, "state"), print_text_of(item, "image"));
	return 0;
}

void complete_sandboxes(int at, struct buf *out)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;

	(void)at;
	if (client_open(&c, &ignored) == 0)
		(void)!client_list(c, "/v1/sandboxes", "sandboxes", put_candidate, out,
				   &ignored);
}

void complete_sandbox(int at, struct buf *out)
{
	if (at == 0)
		complete_sandboxes(at, out);
}
