/* SPDX-License-Identifier: Apache-2.0 */
/*
 * example.c - a command in a computer of its own, and what it said
 *
 *	cc example.c $(pkg-config --cflags --libs warren) -o example && ./example
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <warren.h>

/* Run `uname -n` in @sb and pass its output on. Its exit code, or -errno. */
static int run(struct warren_sandbox *sb, struct warren_error *err)
{
	const char *argv[] = { "uname", "-n", NULL };
	struct warren_exec_spec spec = {
		.argv = argv,
		.out = WARREN_STDIO_PIPE,
		.timeout_ms = 10000,
	};
	struct warren_exec *ex = NULL;
	struct warren_result res;
	char buf[4096];
	ssize_t n;
	int r;

	r = warren_exec(sb, &spec, &ex, err);
	if (r < 0)
		return r;
	/* Read to the end before waiting: a full pipe holds the command up. */
	while ((n = read(warren_exec_fd(ex, 1), buf, sizeof(buf))) > 0)
		(void)fwrite(buf, 1, (size_t)n, stdout);
	r = warren_exec_wait(ex, -1, &res, err);
	ex = warren_exec_free(ex);
	return r < 0 ? r : res.exit_code;
}

int main(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_spec spec = {
		.hostname = "burrow", .pids = 16, /* enforced, or the call is refused */
	};
	struct warren *w = NULL;
	struct warren_sandbox *sb = NULL;
	int r;

	r = warren_open(NULL, &w, &err);
	if (r == 0)
		r = warren_create(w, &spec, &sb, &err);
	if (r == 0)
		r = run(sb, &err);
	if (r < 0)
		(void)fprintf(stderr, "example: %s\n", err.msg);
	w = warren_close(w); /* destroys the sandbox with all that runs in it */
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
