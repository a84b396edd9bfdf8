/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_mcp.c - warren mcp: tools for an agent, as an MCP server on stdin and stdout */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/id.h"
#include "cli/client/bridge.h"
#include "cli/client/commands.h"
#include "cli/common_options.h"
#include "cli/network_options.h"

#define MCP_OUT_HIGH  (16U << 20) /* maximum size of answers that were not read yet */
#define MCP_OUT_MAX   (256U << 20)
#define MCP_LAST_MS   1000 /* time for answers after the end of stdin */
#define MCP_TURN_MS   60000
#define MCP_NAME_SIZE 36
#define MCP_TEXT_MAX  1024 /* maximum length of an option that becomes a header */

_Static_assert(sizeof(((struct bridge *)NULL)->name) == MCP_NAME_SIZE, "the name fits");

static value_fn mcp_value_image, mcp_value_network, mcp_value_project;

#define FIELD(name) offsetof(struct bridge_options, name)

/* clang-format off */
static const struct opt mcp_table[] = {
	{ NULL, OPT_SANDBOX("use this sandbox, and do not delete it", FIELD(sandbox)) },
	{ NULL, "keep", 0, NULL, NULL,
	  "keep the sandbox at the end", opt_flag, FIELD(keep) },
	{ NULL, "image", 0, "IMAGE", "python:3.12",
	  "image of the sandbox", mcp_value_image, FIELD(image) },
	{ NULL, "network", 0, "NETWORK", "packages",
	  "network of the sandbox: loopback (the default), none, or capabilities",
	  mcp_value_network, FIELD(network) },
	{ NULL, "project", 0, "DIR", ".",
	  "mount this directory at the same path, and start there", mcp_value_project,
	  FIELD(project) },
};

static const struct opt_conflict mcp_conflicts[] = {
	{ "sandbox", "image", "the sandbox already exists" },
	{ "sandbox", "network", "the sandbox already exists" },
	{ "sandbox", "project", "the sandbox already exists" },
	{ "sandbox", "keep", "an existing sandbox is always kept" },
};
/* clang-format on */

static const struct opts mcp_opts = {
	.table = mcp_table,
	.n = ARRAY_SIZE(mcp_table),
	.conflicts = mcp_conflicts,
	.n_conflicts = ARRAY_SIZE(mcp_conflicts),
	.example = "warren mcp --project .",
};

/* Check that the text can be the value of a header. */
static int mcp_check_text(const char *text, struct warren_error *err)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return error_set(err, EINVAL, "it has a control character");
	return strlen(text) > MCP_TEXT_MAX
		       ? error_set(err, E2BIG, "it is longer than %d bytes", MCP_TEXT_MAX)
		       : 0;
}

static int mcp_value_image(void *field, const char *value, struct warren_error *err)
{
	int r = mcp_check_text(value, err);

	return r < 0 ? r : value_image(field, value, err);
}

static int mcp_value_network(void *field, const char *value, struct warren_error *err)
{
	int r = mcp_check_text(value, err);

	r = r < 0 ? r : value_network(field, value, err);
	if (r < 0 || strcmp(value, "learn") != 0)
		return r;
	return error_set(
		err, EINVAL,
		"'learn' would report to no one here: create a sandbox with "
		"'warren create --network learn', use it with --sandbox ID, then "
		"see 'warren network ID --suggest'");
}

static int mcp_value_project(void *field, const char *value, struct warren_error *err)
{
	AUTO_FREE char *path = NULL;
	struct stat st;

	if (mcp_check_text(value, err) < 0)
		return -err->code;
	path = realpath(value, NULL);
	if (!path || stat(path, &st) < 0)
		return error_set(err, errno, "'%.200s': %s", value,
				 strerrordesc_np(errno));
	if (!S_ISDIR(st.st_mode))
		return error_set(err, ENOTDIR, "'%.200s' is not a directory", value);
	/* Check the path again after resolving links, because they may lead to any name.
	 */
	if (mcp_check_text(path, err) < 0)
		return error_wrap(err, "its path");
	free(*(char **)field);
	*(char **)field = TAKE_PTR(path);
	return 0;
}

/* Refuse options for existing sandboxes, because a private service has none and keeps
 * none. */
static int mcp_check(const struct bridge_options *o, struct warren_error *err)
{
	bool runs = false;
	int r;

	if (!o->sandbox && !o->keep)
		return 0;
	r = client_finds_service(&runs, err);
	if (r < 0 || runs)
		return r;
	return error_set(err, ECONNREFUSED,
			 "%s needs a service that outlives this command: start one "
			 "with 'warren serve', or set WARREN_HOST",
			 o->sandbox ? "--sandbox" : "--keep");
}

/* ----------------------------------------------------------------------- main loop */

static int mcp_signals(struct warren_error *err)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? error_errno(err, errno, "watch for signals") : fd;
}

/* Wait for the first event; curl has connections only after the client was connected. */
static int mcp_wait(struct bridge *b, struct curl_waitfd *fds, unsigned n, int ms,
		    struct warren_error *err)
{
	struct pollfd same[3];

	if (b->client && b->out.len < MCP_OUT_HIGH)
		return client_turn(b->client, fds, n, ms, err);
	/* Read nothing more from the service until the client reads its answers. */
	for (unsigned i = 0; i < n; i++)
		same[i] = (struct pollfd){ .fd = fds[i].fd, .events = fds[i].events };
	if (poll(same, n, ms) < 0 && errno != EINTR)
		return error_errno(err, errno, "wait for messages");
	for (unsigned i = 0; i < n; i++)
		fds[i].revents = same[i].revents;
	return 0;
}

/*
 * Run until the client closes stdin, or a signal arrives. At the end of stdin, wait a
 * moment for pending answers, while stdout is open.
 */
static int mcp_loop(struct bridge *b, int signals, struct warren_error *err)
{
	uint64_t until = 0;

	while (!b->broken) {
		bool reads = !b->in.ended && b->out.len < MCP_OUT_HIGH;
		struct curl_waitfd fds[] = {
			{ .fd = signals, .events = CURL_WAIT_POLLIN },
			{ .fd = STDOUT_FILENO,
			  .events = b->out.len ? CURL_WAIT_POLLOUT : 0 },
			{ .fd = STDIN_FILENO, .events = CURL_WAIT_POLLIN },
		};
		int ms = bridge_pause(b), r;

		if (b->in.ended) {
			uint64_t now = clock_now() / 1000000;

			until = until ? until : now + MCP_LAST_MS;
			if (now >= until || (!bridge_is_busy(b) && !b->out.len))
				return 0;
			ms = ms < 0 || (uint64_t)ms > until - now ? (int)(until - now)
								  : ms;
		}
		r = mcp_wait(b, fds, reads ? 3 : 2, ms < 0 ? MCP_TURN_MS : ms, err);
		if (r < 0 || fds[0].revents)
			return r;
		if (reads && fds[2].revents)
			bridge_read(b);
		bridge_settle(b);
		bridge_flush(b);
	}
	return 0;
}

static int mcp_serve(const struct bridge_options *o, struct warren_error *err)
{
	struct bridge b = { .o = o,
			    .in.line = BUF_INIT(BRIDGE_LINE_MAX + 1),
			    .out = BUF_INIT(MCP_OUT_MAX) };
	AUTO_CLOSE int signals = -1;
	int r = mcp_check(o, err);

	if (r < 0)
		return r;
	signals = mcp_signals(err);
	if (signals < 0)
		return signals;
	id_make(b.name);
	id_make(b.name + ID_LEN);
	r = mcp_loop(&b, signals, err);
	bridge_end(&b);
	return r;
}

static int run_mcp(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct bridge_options o = { 0 };
	char **words = NULL;
	int status = 0;

	if (command_operands(&client_mcp, argc, argv, &o, 0, 0, &words, &status) &&
	    mcp_serve(&o, &err) < 0)
		status = client_fail(&client_mcp, &err);
	free(o.image);
	free(o.project);
	return status;
}

const struct command client_mcp = {
	.name = "mcp",
	.summary = "Serve sandboxes as tools for an agent (MCP) on stdin and stdout.",
	.about =
		"Agents start this command and speak the Model Context Protocol with it. The sandbox is\n"
		"created when a tool first needs it, and deleted at the end. If no service is running, a\n"
		"private one runs as long as this command.\n",
	.opts = &mcp_opts,
	.run = run_mcp,
};
