/* SPDX-License-Identifier: Apache-2.0 */
/* shellproto_internal.h - what the parts of a session share */
#ifndef SHELLPROTO_SHELLPROTO_INTERNAL_H
#define SHELLPROTO_SHELLPROTO_INTERNAL_H

#include "shellproto/shellproto.h"

#define TOKEN_LEN  6  /* the prefix of our names in the shell; bash reads byte by byte */
#define HALF_LEN   17 /* of a marker; the first begins with a byte that no other has */
#define MARKER_LEN (2 * HALF_LEN - 1)
#define KEY_LEN    10   /* 60 bits; a wrong guess ends the session */
#define RECORD_MAX 8192 /* numbers and a path */
#define JOBS_MAX   64
#define FLAGS_MAX  32
/*
 * Behind the flags ($-) of a shell that can be given a text by `read`; no flag of any
 * shell's.
 */
#define SCRIPT_READS '+'
/*
 * The same, of a shell with the functions of script.c: one that an earlier program
 * started has none.
 */
#define SCRIPT_KNOWN '='

enum shellproto_state {
	STATE_NEW,     /* before shellproto_start() */
	STATE_IDLE,    /* can be fed */
	STATE_RUNNING, /* fed (or started), no result yet */
	STATE_LEAVING, /* nothing can be fed; the process still lives */
	STATE_ENDED,   /* it does not */
};

/* Where in a stream of the framed transport we are. */
struct frame {
	size_t matched; /* bytes of the marker that were seen and are held back */
	bool begun;     /* of a terminal: what comes is the command's, not its echo */
	bool early;     /* of a terminal: it is the marker that the command can know */
	bool in_record; /* behind the marker of stdout, before its end */
	bool ended;     /* the command's part of this stream is over */
};

struct shellproto {
	enum shellproto_transport transport;
	const struct shellproto_events *events;
	void *arg;
	void (*make_marker)(void *arg, uint64_t serial,
			    uint8_t ret[SHELLPROTO_MARKER_SIZE]);
	enum shellproto_state state;
	bool greeted; /* output before the first result is the shell's own noise */
	char token[TOKEN_LEN + 1];
	uint64_t serial;
	int exit_code; /* of the last command: what it finds in $? */
	char flags[FLAGS_MAX];
	bool line_reset; /* the last line that was fed makes the next one's number
			    LINE_BASE + 1 */
	bool has_debug;  /* a text spoke of DEBUG: there may be a trap */
	int pid;
	int jobs[JOBS_MAX]; /* pids of jobs that earlier commands left, the oldest
			       overwritten */
	size_t n_jobs;
	struct buf record;
	bool have_record;
	char key[KEY_LEN + 1]; /* of the control transport: what a result begins with */
	char marker[MARKER_LEN + 1];
	char early[MARKER_LEN + 1]; /* of a terminal: terminal.c */
	struct frame frames[2];
};

/* script.c: @template with every @ replaced by the session's token. */
void script_add(struct buf *out, const struct shellproto *s, const char *template);
extern const char script_control[], script_framed[], script_common[];
extern const char script_terminal[], script_terminal_end[];

/* shellproto.c */
void shellproto_output(struct shellproto *s, enum shellproto_stream stream,
		       const void *data, size_t n);
/* A record is complete; framed ones wait for the other stream. */
int shellproto_take_record(struct shellproto *s, struct warren_error *err);
/* Add to the record up to its NUL. Returns how much of @data that was, or -EPROTO. */
ssize_t shellproto_collect(struct shellproto *s, const char *data, size_t n,
			   struct warren_error *err);

/* The bits that a command cannot foresee, for what its result is known by. */
void shellproto_bits(struct shellproto *s, uint8_t ret[SHELLPROTO_MARKER_SIZE]);

/* Whether it has the functions of script.c. Not known before its first result. */
bool shellproto_is_known(const struct shellproto *s);
/* Around what asks for a result: behind the command, in the same line. */
void shellproto_ask_begin(const struct shellproto *s, struct buf *out);
void shellproto_ask_end(struct shellproto *s, struct buf *out);

/* control.c and framed.c: how a result is asked for, and how it is found. */
void control_ask(struct shellproto *s, struct buf *out);
/* What control_ask() asked for, by another process, is to come. */
void control_expect(struct shellproto *s);
int control_on_bytes(struct shellproto *s, enum shellproto_stream stream,
		     const char *data, size_t n, struct warren_error *err);
void framed_ask(struct shellproto *s, struct buf *out);
/* What framed_ask() asked for, by another process, is to come. */
void framed_expect(struct shellproto *s);
int framed_on_bytes(struct shellproto *s, enum shellproto_stream stream, const char *data,
		    size_t n, struct warren_error *err);
void framed_flush(struct shellproto *s);
/* terminal.c: text as lines that are typed, which end in a variable of the shell's. */
void terminal_type(struct shellproto *s, struct buf *out, const char *text, size_t n);
/* The marker, at once: before it there is nothing of the command's. */
void terminal_begin(struct shellproto *s, struct buf *out);
void terminal_ask(struct shellproto *s, struct buf *out);

#endif /* SHELLPROTO_SHELLPROTO_INTERNAL_H */
