/* SPDX-License-Identifier: Apache-2.0 */
/* policy_file.c - read a network policy from a file */
#include "cli/client/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "network/policy_json.h"

#define POLICY_FILE_MAX (16U << 20)

static int policy_file_load(const char *path, json_t **ret, struct warren_error *err)
{
	AUTO_FREE char *text = malloc(POLICY_FILE_MAX);
	bool from_stdin = strcmp(path, "-") == 0;
	AUTO_CLOSE int fd = from_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	json_error_t why;
	ssize_t n;

	if (!from_stdin && fd < 0)
		return error_errno(err, errno, "open '%.400s'", path);
	n = text ? fd_read_all(from_stdin ? STDIN_FILENO : fd, text, POLICY_FILE_MAX)
		 : -ENOMEM;
	if (n == (ssize_t)POLICY_FILE_MAX)
		n = -EFBIG;
	if (n < 0)
		return error_errno(err, (int)-n, "read '%.400s'", path);
	*ret = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
	if (!*ret)
		return error_set(err, EINVAL, "'%.200s', line %d: %s", path, why.line,
				 why.text);
	if (!json_is_object(*ret))
		return error_set(err, EINVAL, "'%.200s' is not a JSON object", path);
	return 0;
}

int value_policy_file(void *field, const char *value, struct warren_error *err)
{
	AUTO_POLICY struct policy checked = { 0 };
	AUTO_JSON json_t *policy = NULL, *rules = NULL;
	int r = policy_file_load(value, &policy, err);

	if (r < 0)
		return r;
	/* The names of capabilities are not part of a policy; the service checks them. */
	rules = json_copy(policy);
	if (!rules)
		return error_errno(err, ENOMEM, "read '%.400s'", value);
	(void)json_object_del(rules, "capabilities");
	r = policy_read(rules, "", &checked, err);
	if (r < 0)
		return error_wrap(err, "'%.200s'", value);
	json_decref(*(json_t **)field);
	*(json_t **)field = TAKE_PTR(policy);
	return 0;
}

void policy_file_explain(const json_t *policy, struct warren_error *err)
{
	static const char field[] = "/network";
	const struct warren_error said = *err;
	const char *rest = said.msg + strlen(field);

	if (!policy || strncmp(said.msg, field, strlen(field)) != 0)
		return;
	rest += strncmp(rest, ": ", 2) == 0 ? 2 : 0;
	(void)error_set(err, said.code, "--policy: %s", rest);
}
