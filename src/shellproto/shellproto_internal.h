/* SPDX-License-Identifier: Apache-2.0 */
/* shellproto_internal.h - definitions that the files of the shell protocol share */
#ifndef SHELLPROTO_SHELLPROTO_INTERNAL_H
#define SHELLPROTO_SHELLPROTO_INTERNAL_H

#include "shellproto/shellproto.h"

#define TOKEN_LEN  6  /* prefix of Warren's names; short, as bash reads byte by byte */
#define HALF_LEN   17 /* half of a marker; its first byte occurs only there */
#define MARKER_LEN (2 * HALF_LEN - 1)
#define KEY_LEN    10   /* 60 bits; a wrong guess ends the session */
#define RECORD_MAX 8192 /* holds numbers and a path */
#define JOBS_MAX   64
#define FLAGS_MAX  32
/*
 * Appended to the flags ($-) of a shell that can receive a text with `read`. No shell has
 * a flag of this name.
 */
#define SCRIPT_READS '+'
/*
 * Appended to the flags of a shell that has the functions of script.c. A shell that an
 * earlier version of Warren started does not have them.
 */
#define SCRIPT_KNOWN '='

enum shellproto_state {
	STATE_NEW,     /* before shellproto_start() */
	STATE_IDLE,    /* the shell can be fed a command */
	STATE_RUNNING, /* a command (or the start) has no result yet */
	STATE_LEAVING, /* accepts no commands; the process still lives */
	STATE_ENDED,   /* the process has ended */
};

/* Parser state of one stream of the framed transport. */
struct frame {
	size_t matched; /* matched bytes of the marker, not yet output */
	bool begun;     /* terminal: output is the command's, not the echo */
	bool early;     /* terminal: match the marker that the command may know */
	bool in_record; /* after the marker of stdout, within the record */
	bool ended;     /* the command's output on this stream has ended */
};

struct shellproto {
	enum shellproto_transport transport;
	const struct shellproto_events *events;
	void *arg;
	void (*make_marker)(void *arg, uint64_t serial,
			    uint8_t ret[SHELLPROTO_MARKER_SIZE]);
	enum shellproto_state state;
	bool greeted; /* the first result has arrived; output before it is dropped */
	char token[TOKEN_LEN + 1];
	uint64_t serial;
	int exit_code; /* exit code of the last command, for $? of the next */
	char flags[FLAGS_MAX];
	bool line_reset; /* the next line fed has number LINE_BASE + 1 */
	bool has_debug;  /* a command contained "DEBUG": there may be a trap */
	int pid;
	int jobs[JOBS_MAX]; /* pids of earlier commands' jobs, as a ring */
	size_t n_jobs;
	struct buf record;
	bool have_record;
	char key[KEY_LEN + 1]; /* control transport: prefix of a result */
	char marker[MARKER_LEN + 1];
	char early[MARKER_LEN + 1]; /* terminal: see terminal.c */
	struct frame frames[2];
};

/* script.c: append @template with every '@' replaced by the session's token. */
void script_add(struct buf *out, const struct shellproto *s, const char *template);
extern const char script_control[], script_framed[], script_common[];
extern const char script_terminal[], script_terminal_end[];

/* shellproto.c */
void shellproto_output(struct shellproto *s, enum shellproto_stream stream,
		       const void *data, size_t n);
/* Process a complete record; a framed one waits for the other stream. */
int shellproto_take_record(struct shellproto *s, struct warren_error *err);
/* Add bytes to the record up to its NUL. Return the number of bytes used, or -EPROTO. */
ssize_t shellproto_collect(struct shellproto *s, const char *data, size_t n,
			   struct warren_error *err);

/* Get unpredictable bytes for the marker or key of the next result. */
void shellproto_bits(struct shellproto *s, uint8_t ret[SHELLPROTO_MARKER_SIZE]);

/* Return whether the shell has the functions of script.c. Unknown before its first
 * result. */
bool shellproto_is_known(const struct shellproto *s);
/*
 * Write the text before and after the request for a result, which follows the command in
 * the same line.
 */
void shellproto_ask_begin(const struct shellproto *s, struct buf *out);
void shellproto_ask_end(struct shellproto *s, struct buf *out);

/* control.c and framed.c: request a result, and find it in the output. */
void control_ask(struct shellproto *s, struct buf *out);
/* Expect the result that another process requested with control_ask(). */
void control_expect(struct shellproto *s);
int control_on_bytes(struct shellproto *s, enum shellproto_stream stream,
		     const char *data, size_t n, struct warren_error *err);
void framed_ask(struct shellproto *s, struct buf *out);
/* Expect the result that another process requested with framed_ask(). */
void framed_expect(struct shellproto *s);
int framed_on_bytes(struct shellproto *s, enum shellproto_stream stream, const char *data,
		    size_t n, struct warren_error *err);
void framed_flush(struct shellproto *s);
/* terminal.c: write text as typed lines that assign it to a shell variable. */
void terminal_type(struct shellproto *s, struct buf *out, const char *text, size_t n);
/* Request the first marker, before any output of the command. */
void terminal_begin(struct shellproto *s, struct buf *out);
void terminal_ask(struct shellproto *s, struct buf *out);

#endif /* SHELLPROTO_SHELLPROTO_INTERNAL_H */
