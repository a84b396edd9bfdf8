/* SPDX-License-Identifier: Apache-2.0 */
/* network_options.c - network options: their values, and the policy that they stand
 * for */
#include "cli/network_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "network/capability.h"

#define CAPABILITY_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-_"
#define CAPABILITY_MAX     63

/* Words that are not capabilities, and cannot be combined with others. */
static const char *const network_words[] = { "loopback", "none", "learn" };

static bool network_word_is(const char *mode, const char *word)
{
	return mode && strcmp(mode, word) == 0;
}

static bool network_word_alone(const char *word, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(network_words); i++)
		if (strlen(network_words[i]) == n &&
		    memcmp(network_words[i], word, n) == 0)
			return true;
	return false;
}

/* The names are not checked here: the engine or the service that creates the sandbox
 * knows the capabilities. */
int value_network(void *field, const char *value, struct warren_error *err)
{
	bool several = strchr(value, ',') != NULL;

	for (const char *word = value;; word++) {
		size_t n = strcspn(word, ",");

		if (several && network_word_alone(word, n))
			return error_set(err, EINVAL,
					 "'%.*s' cannot be combined with other words",
					 (int)n, word);
		if (n == 0 || n > CAPABILITY_MAX || strspn(word, CAPABILITY_LETTERS) != n)
			return error_set(err, EINVAL,
					 "'%.200s' is not loopback, none, learn, or a "
					 "list of capabilities",
					 value);
		word += n;
		if (!*word)
			break;
	}
	*(const char **)field = value;
	return 0;
}

int value_allow(void *field, const char *value, struct warren_error *err)
{
	return policy_option_allow(field, value, err);
}

int value_deny(void *field, const char *value, struct warren_error *err)
{
	return policy_option_deny(field, value, err);
}

bool network_options_learn(const struct network_options *o)
{
	return network_word_is(o->mode, "learn");
}

static bool network_options_closed(const struct network_options *o)
{
	return !o->mode || network_word_is(o->mode, "loopback") ||
	       network_word_is(o->mode, "none");
}

bool network_options_has_policy(const struct network_options *o)
{
	return o->rules.allow.n || !network_options_closed(o);
}

enum warren_network network_options_mode(const struct network_options *o)
{
	return network_word_is(o->mode, "none") ? WARREN_NETWORK_NONE
	       : network_options_has_policy(o)  ? WARREN_NETWORK_CAPTURED
						: WARREN_NETWORK_LOOPBACK;
}

int network_options_check(const struct network_options *o, struct warren_error *err)
{
	const struct rules *given = o->rules.allow.n ? &o->rules.allow : &o->rules.deny;
	const char *option = given == &o->rules.allow ? "allow" : "deny";
	char host[HOST_TEXT_SIZE];

	if (given->n == 0)
		return 0;
	host_text(&given->list[0].host, host);
	if (network_word_is(o->mode, "none"))
		return error_set(err, EINVAL,
				 "--%s '%.100s' and --network none contradict each "
				 "other: leave one of them out",
				 option, host);
	if (!network_options_has_policy(o))
		return error_set(err, EINVAL,
				 "--deny '%.100s': nothing is allowed that it could "
				 "deny; give --network or --allow, too (example: "
				 "--network web --deny '%.100s')",
				 host, host);
	return 0;
}

static int network_options_open(struct policy *p, struct warren_error *err)
{
	const struct host everything = { .kind = HOST_PUBLIC };
	struct rule *rule;

	return policy_add(p, &p->allow, &everything, &rule, err);
}

static int network_options_explain(int r, struct warren_error *err)
{
	size_t n = strlen(err->msg);

	if (r == -EINVAL)
		(void)snprintf(err->msg + n, sizeof(err->msg) - n,
			       "; or loopback, learn");
	return error_wrap(err, "--network");
}

int network_options_policy(const struct network_options *o, struct policy *ret,
			   struct warren_error *err)
{
	int r = 0;

	if (network_options_learn(o))
		r = network_options_open(ret, err);
	else if (!network_options_closed(o))
		r = policy_option_network(ret, NULL, o->mode, err);
	if (r < 0)
		return network_options_explain(r, err);
	for (size_t i = 0; r == 0 && i < o->rules.allow.n; i++)
		r = policy_add_copy(ret, &ret->allow, &o->rules.allow.list[i], err);
	for (size_t i = 0; r == 0 && i < o->rules.deny.n; i++)
		r = policy_add_copy(ret, &ret->deny, &o->rules.deny.list[i], err);
	return r;
}

void network_options_done(struct network_options *o)
{
	policy_done(&o->rules);
}
