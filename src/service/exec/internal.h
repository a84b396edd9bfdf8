/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - an exec and the journals, for the files of this room */
#ifndef SERVICE_EXEC_INTERNAL_H
#define SERVICE_EXEC_INTERNAL_H

#include "service/core/room.h"
#include "service/exec/exec.h"

/* What the room keeps for a sandbox. */
struct sandbox_execs {
	struct exec *list;              /* alive, or in use */
	unsigned n_kept;                /* in the store */
	struct loop_task broken_task;   /* a journal of it lies: journal_limit.c */
	struct fair_quota_lease output; /* for its journals, as `journal_bytes` */
	uint64_t journal_bytes;         /* that its journals have, and may yet take */
	uint32_t *disowned; /* execs that may have started without their clients'
			       knowledge */
	size_t n_disowned;
	struct stop_op *stopping; /* sandbox_stop.c; NULL */
	unsigned main_starting;   /* starts of its main command that are under way */
};

/* What it keeps for the service. */
struct service_execs {
	uint64_t journal_default, journal_max;
	uint64_t journal_total; /* bytes that the journals of a sandbox may have */
	unsigned execs_max;
	bool reuse; /* of journals, see journal_pool.c */
	struct journal_pool *journal_pool;
	struct removals *removals;
	struct sweep *sweep;              /* under way; NULL */
	struct loop_timer *journal_timer; /* journal_limit.c */
	size_t journal_turn;
};

static inline struct sandbox_execs *sandbox_execs(const struct sandbox *sandbox)
{
	return sandbox->rooms[ROOM_EXEC];
}

static inline struct service_execs *service_execs(const struct service *s)
{
	return s->rooms[ROOM_EXEC];
}

struct exec {
	unsigned refs;
	struct service *service;
	struct sandbox *sandbox; /* NULL: it is gone */
	struct exec *next;
	struct fair_quota_lease descriptors, terminal;
	uint64_t journal_room; /* its part of sandbox->journal_bytes */
	struct exec_row row;
	int journal;       /* -1: not open */
	uint64_t capacity; /* that init was told; 0: an earlier process told it */
	int notify;        /* an eventfd, while it runs; -1 */
	int input;         /* write end of stdin, or the terminal; -1 */
	int poke;          /* commands of a session go there; -1 */
	bool listed;       /* in the list of its sandbox */
	bool counted;      /* in sandbox->n_running */
	bool attached;
	bool wants_attach; /* exec_restore.c: its turn has not come yet */
	bool input_ended;  /* its stdin was closed at the request of a client */
	bool starting;     /* init has not answered yet */
	bool lost;         /* its sandbox ended before it did */
	bool unsaved;      /* it ended, and that is not in the store yet: exec_result.c */
	struct loop_watch *watch;
	bool lingers; /* it ended, and there may be more output: the list keeps it */
	struct waiters watchers, waiters; /* for output; for its end */
	struct exec_holder *holders;
	uint64_t held_at; /* the cursor that init was told; UINT64_MAX: none */
	struct loop_timer *hold_timer; /* to tell init again, after that failed; NULL */
	struct exec_holder first; /* from the start on, for a reader that is to come */
	struct loop_timer *first_timer;
	struct journal_hint end; /* where it ended when that was last asked */
	struct net_loop *loop;
	struct exec_stdin *feeds; /* on their way into stdin */
	struct loop_watch *feed_watch;
	uint64_t started; /* ns, monotonic */
};

/* exec.c */
struct exec *exec_load(struct sandbox *sandbox, const struct exec_row *row);
/* Whether there was such an exec. */
bool exec_ended(struct sandbox *sandbox, const struct proto_exited *msg);
void exec_finish(struct exec *exec, const struct warren_result *result);
/* Its end, and the events that tell of it, into the store. */
int exec_record_end(const struct exec *exec, struct warren_error *err);
void exec_sandbox_gone(struct sandbox *sandbox);
int exec_open_journal(struct exec *exec, struct warren_error *err);
/* Where to write to it, as init gave it. */
void exec_take_streams(struct exec *exec, struct init_reply *a);
void exec_ask(struct exec *exec, const void *msg, size_t size, const char *what,
	      service_done_fn done, void *ctx);
/*
 * exec_output.c: of one that is about to be started so, until somebody else holds it, or
 * nobody came.
 */
bool exec_hold_first(struct exec *exec);
void exec_hold_first_end(struct exec *exec);
/* The line is a new one: init knows of no holds. */
void exec_hold_again(struct exec *exec);
void exec_attach(struct exec *exec, service_done_fn done, void *ctx);
/* exec_stdin.c: its stdin accepts no more data; writers that wait get an error. */
void feed_stop(struct exec *exec);
void exec_tell_watchers(struct exec *exec);
/* Of one that ended: whether output may still come, and it will be heard of. */
bool exec_linger(struct exec *exec);
int row_copy_exec(struct exec_row *to, const struct exec_row *from);

/* exec_result.c */
/* It has ended: in the store, or kept until it can be. */
void exec_save_result(struct exec *exec);
void exec_forget_unsaved(struct exec *exec);
/* Try again with those that could not be written. */
void exec_save_results(struct service *s);

/* exec_restore.c */
/* Of a former process, by what the store has. */
void exec_restore_all(struct sandbox *sandbox);
/* Attach to all execs that run; @done with 0 when all have been asked. */
void exec_attach_all(struct sandbox *sandbox, service_done_fn done, void *ctx);
void exec_detach_all(struct sandbox *sandbox);
/* It may run, and its client was told that it does not: kill it when that is possible. */
void exec_disown(struct exec *exec);
/* How it ended, if its journal says so. */
bool exec_finish_by_journal(struct exec *exec);
void exec_kill_disowned(struct sandbox *sandbox);

/* journal_limit.c */
int journal_limit_open(struct service *s);
void journal_limit_close(struct service *s);
/* Whether its journal is no larger than agreed; else its sandbox is lost. */
bool exec_check_journal(struct exec *exec);
/* It cannot be read: its sandbox is lost, by the task of its sandbox. */
void exec_journal_broken(struct exec *exec);

/*
 * journal_pool.c: an empty file for output, by the name @name; its descriptor, or -errno.
 */
int journal_pool_open(struct service *s);
void journal_pool_close(struct service *s);
int journal_pool_take(struct service *s, const char *name);
/* The file @name is not wanted any more; -errno: it is still there. From any thread. */
int journal_pool_return(const struct service *s, const char *name);

/*
 * journal_remove.c: the journal @name, which no exec has any more; soon, by another
 * thread.
 */
int remove_open(struct service *s);
void remove_close(struct service *s);
void exec_remove_journal(struct service *s, const char *name);

/* journal_sweep.c: journals that no exec has are looked for and removed, in time. */
void sweep_start(struct service *s);
void sweep_close(struct service *s);

/* sandbox_stop.c */
/* Like sandbox_stop(), with the reason for the event. */
void sandbox_stop_for(struct sandbox *sandbox, const char *why, uint64_t grace_ms,
		      service_done_fn done, void *ctx);
/* An exec of it has ended: a stop may go on. */
void sandbox_stop_look(struct sandbox *sandbox);
void sandbox_stop_gone(struct sandbox *sandbox);

/* main_command.c: start it; @done as of an exec. */
void main_command_start(struct sandbox *sandbox, service_done_fn done, void *ctx);
/* The same for a sandbox that was just created: its waiters get the outcome of both. */
void main_command_first(struct sandbox *sandbox);
/* An exec has ended: if it was the main command, what that means happens. */
void main_command_look(struct sandbox *sandbox, const char *exec);
/* A stop is over: if it ended the main command, too, what that means happens now. */
void main_command_stopped(struct sandbox *sandbox);
/* It has one, which does not run and is not being started. */
bool main_command_is_over(const struct sandbox *sandbox);
/* It runs again: its main command may have ended while that was no time to stop. */
void main_command_resumed(struct sandbox *sandbox);
/* Found again: it was never started, or has ended in the meantime. */
void main_command_restore(struct sandbox *sandbox);

/* journals.c */
/*
 * Room for the journal of an exec that is to start; -EUSERS: there is none, whatever is
 * forgotten.
 */
int journals_reserve(struct exec *exec, uint64_t capacity, struct warren_error *err);
/* It is not written to any more: what it has is what counts. */
void journals_settle(struct exec *exec);
/* It was never started, and has no journal. */
void journals_drop(struct exec *exec);
/* Forget the oldest that ended while there are too many. */
void journals_forget(struct sandbox *sandbox);
/* Found again: one that ended, or that is @exec. */
void journals_restore(struct sandbox *sandbox, const struct exec_row *row,
		      struct exec *exec);

#endif /* SERVICE_EXEC_INTERNAL_H */
