/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_io.h - forward streams and signals while a command runs, until its end
 *
 * There is one call of poll(2), and no thread. The streams (splice.h) never wait for a
 * slow reader, so that a signal or the end of the command is handled at once. When the
 * command has ended, the sandbox is destroyed first, which ends all other processes that
 * hold the pipes; only then are the pipes drained to their end. Thus no output is lost,
 * and no background process delays the end.
 */
#ifndef CLI_RUN_IO_H
#define CLI_RUN_IO_H

#include "cli/run_options.h"
#include "cli/splice.h"

/* Something else to wait for while the command runs. */
struct run_io_source {
	int fd; /* call .step() when it is readable */
	void (*step)(void *ctx);
	void *ctx;
};

struct run_io {
	int signals; /* borrowed */
	bool tty;    /* the command has a terminal */
	bool raw;    /* the caller's terminal is in raw mode */
	struct splice in, out, err;
	/*
	 * How long the command may live after a signal that was to end this process; 0:
	 * as long as it likes. Then it is killed.
	 */
	int grace_ms;
	int ending;                         /* the signal; 0: none */
	bool killed;                        /* the command was killed */
	uint64_t kill_ms;                   /* when it will be, by the monotonic clock */
	const struct run_io_source *source; /* NULL: nothing; borrowed */
};

/* Take over the streams of @ex; a terminal is shared with @ex, which resizes it. */
int run_io_start(struct run_io *io, struct warren_exec *ex, const struct run_options *o,
		 struct warren_error *err) MUST_CHECK;
/* Run until @ex has ended. */
int run_io_run(struct run_io *io, struct warren_exec *ex,
	       struct warren_result *ret_result, struct warren_error *err) MUST_CHECK;
/* Drain the streams to their end; return the signal that interrupted it, 0: none. */
int run_io_drain(struct run_io *io);
void run_io_done(struct run_io *io);

#endif /* CLI_RUN_IO_H */
