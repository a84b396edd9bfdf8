/* SPDX-License-Identifier: Apache-2.0 */
/* setup_ask.c - questions about commands of a project, and remembered answers */
#include "cli/work/setup_ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/command.h"
#include "cli/work/pager.h"
#include "cli/work/setup_print.h"

#define ASK_TEXT_MAX (4 << 20)

/* Something of the project that the user has to approve. */
struct question {
	const char *what;     /* "setup.sh" */
	const char *digest;   /* of its contents */
	const char *question; /* what follows .what */
	const char *approve;  /* how to change a "no" */
	const char *text;     /* its contents */
};

/* Show exactly what the answer is about: the file may have changed since. */
static void question_view(const struct setup_ready_options *o, const struct question *q)
{
	struct buf AUTO_BUF out = BUF_INIT(ASK_TEXT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;

	setup_print_lines(&out, "", q->text, strlen(q->text));
	if (out.failed || out.len == 0)
		message_say(o->command, "%s is %s", q->what,
			    out.failed ? "too large to be shown" : "empty");
	else if (!isatty(STDOUT_FILENO)) /* stdout is for the result */
		(void)fd_write_all(STDERR_FILENO, out.data, out.len);
	else if (pager_show(&out, &err) < 0)
		message_say(o->command, "%s", err.msg);
}

static void question_help(void)
{
	(void)fputs("y - run it now and whenever the setup needs it, until it changes\n"
		    "n - do not run it, and do not ask again until it changes\n"
		    "v - view it\n"
		    "^C - decide later\n",
		    stderr);
}

/* Ask until there is an answer: 'y' or 'n'; 0: the terminal ended. */
static int question_terminal(const struct setup_ready_options *o,
			     const struct question *q)
{
	char line[256];

	/* What was typed before is no answer. */
	(void)tcflush(STDIN_FILENO, TCIFLUSH);
	for (;;) {
		size_t n;

		(void)fprintf(stderr, "%s of the project %s [y,n,v,?]? ", q->what,
			      q->question);
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		n = strcspn(line, "\n");
		/* The rest of a line that is too long is not an answer either. */
		for (int c = line[n] ? '\n' : 0; c != '\n' && c != EOF;)
			c = fgetc(stdin);
		line[n] = '\0';
		if (strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0)
			return 'y';
		if (strcasecmp(line, "n") == 0 || strcasecmp(line, "no") == 0)
			return 'n';
		if (strcasecmp(line, "v") == 0)
			question_view(o, q);
		else
			question_help();
	}
}

static int question_remember(const struct setup_store *store, const struct question *q,
			     bool yes, struct warren_error *err)
{
	int r = setup_store_set_answer(store, q->digest, yes, err);

	return r < 0 ? r : yes;
}

static int question_put(const struct setup_ready_options *o,
			const struct setup_store *store, const struct question *q,
			struct warren_error *err)
{
	int known = setup_store_answer(store, q->digest), answer;

	if (known == 1)
		return 1;
	if (o->yes)
		return question_remember(store, q, true, err);
	if (known == 0) {
		if (!o->options->quiet)
			message_say(o->command,
				    "%s is not run, because you refused it; %s", q->what,
				    q->approve);
		return 0;
	}
	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
		message_say(o->command, "%s is not run, because it is not approved; %s",
			    q->what, q->approve);
		return 0;
	}
	answer = question_terminal(o, q);
	if (answer != 'y')
		message_say(o->command, "%s is not run; %s", q->what, q->approve);
	return answer ? question_remember(store, q, answer == 'y', err) : 0;
}

/* ---------------------------------------------------------------- questions */

int setup_ask_script(const struct setup_ready_options *o, const struct setup_store *store,
		     const struct setup_plan *p, struct warren_error *err)
{
	const struct question q = {
		.what = p->ask,
		.digest = p->ask_digest,
		.question = "can prepare it. Run it in a sandbox, whose network has only "
			    "package registries",
		.approve = SETUP_APPROVE_SCRIPT,
		.text = p->ask_text,
	};

	return q.what ? question_put(o, store, &q, err) : 1;
}

/* The commands of each start, and their digest. Returns their number. */
static size_t ask_starts_text(const struct setup_plan *p, const char *what,
			      struct buf *text, char digest[SHA256_DIGITS + 1])
{
	struct sha256 h = SHA256_INIT;
	size_t n = 0;

	sha256_text(&h, what);
	for (size_t i = 0; i < p->steps.n; i++)
		if (p->steps.v[i].start) {
			sha256_text(&h, p->steps.v[i].run);
			buf_printf(text, "%s\n", p->steps.v[i].run);
			n++;
		}
	sha256_end(&h, digest);
	return n;
}

/* These run with the variables and the network that the user gives the command. */
int setup_ask_starts(const struct setup_ready_options *o, const struct setup_store *store,
		     const struct setup_plan *p, struct warren_error *err)
{
	struct buf AUTO_BUF text = BUF_INIT(ASK_TEXT_MAX);
	char digest[SHA256_DIGITS + 1];
	struct question q = {
		.what = "postStartCommand",
		.digest = digest,
		.question = "runs in the sandbox before the command, with the same "
			    "variables and network. Run it",
		.approve = SETUP_APPROVE_STARTS,
	};

	if (ask_starts_text(p, q.what, &text, digest) == 0 || !o->starts)
		return 0;
	if (text.failed)
		return error_errno(err, ENOMEM, "ask about %s", q.what);
	q.text = text.data;
	return question_put(o, store, &q, err);
}

void setup_ask_known(const struct setup_plan *p, struct setup_answers *ret)
{
	struct buf AUTO_BUF text = BUF_INIT(ASK_TEXT_MAX);
	struct setup_store store = { .fd = -1 };
	struct warren_error ignored = WARREN_ERROR_INIT;
	char digest[SHA256_DIGITS + 1];

	*ret = (struct setup_answers){ .script = -ENOENT, .starts = -ENOENT };
	if (setup_store_open(NULL, &store, &ignored) < 0)
		return;
	if (p->ask)
		ret->script = setup_store_answer(&store, p->ask_digest);
	if (ask_starts_text(p, "postStartCommand", &text, digest) > 0)
		ret->starts = setup_store_answer(&store, digest);
	setup_store_close(&store);
}
