/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the structs of execs, and functions for journals, for the files of this
 * module
 */
#ifndef SERVICE_EXEC_INTERNAL_H
#define SERVICE_EXEC_INTERNAL_H

#include "service/core/module.h"
#include "service/exec/exec.h"

/* The state of the module for a sandbox. */
struct sandbox_execs {
	struct exec *list;              /* running execs, and those in use */
	unsigned n_kept;                /* number of execs in the database */
	struct loop_task broken_task;   /* handles a corrupt journal (journal_limit.c) */
	struct fair_quota_lease output; /* lease for `journal_bytes` */
	uint64_t journal_bytes; /* size of the sandbox's journals, including reserved
				   space */
	/* Numbers of execs that may have started although their clients got an error. */
	uint32_t *disowned;
	size_t n_disowned;
	char account[64];         /* name of the sandbox's user; "": not known yet */
	struct stop_op *stopping; /* sandbox_stop.c; NULL: no stop in progress */
	/* sandbox_hibernate.c; NULL: the sandbox is not about to hibernate */
	struct hibernate_op *hibernating;
	unsigned main_starting; /* pending starts of the main command */
	struct exec_away *away; /* ended execs of an earlier process of the service */
};

/* The state of the module for the service. */
struct service_execs {
	uint64_t journal_default, journal_max;
	uint64_t journal_total; /* maximum bytes of all journals of a sandbox */
	unsigned execs_max;
	bool reuse; /* reuse journals, see journal_pool.c */
	struct journal_pool *journal_pool;
	struct removals *removals;
	struct sweep *sweep;              /* NULL: not running */
	struct loop_timer *journal_timer; /* journal_limit.c */
	size_t journal_turn;
};

/* exec_account.c: find the user of an exec, and the name of its account if it needs that.
 */
typedef void (*exec_account_fn)(void *ctx, const struct initclient_user *user,
				const struct warren_error *err);
void exec_account_find(struct sandbox *sandbox, const struct exec_start *start,
		       exec_account_fn fn, void *ctx);

static inline struct sandbox_execs *sandbox_execs(const struct sandbox *sandbox)
{
	return sandbox->modules[MODULE_EXEC];
}

static inline struct service_execs *service_execs(const struct service *s)
{
	return s->modules[MODULE_EXEC];
}

struct exec {
	unsigned refs;
	struct service *service;
	struct sandbox *sandbox; /* NULL: the sandbox is gone */
	struct exec *next;
	struct fair_quota_lease descriptors, terminal;
	uint64_t journal_room; /* the exec's share of journal_bytes */
	struct exec_row row;
	int journal;       /* -1: not open */
	uint64_t capacity; /* capacity as passed to init; 0: an earlier process started
			      the exec */
	int notify;        /* an eventfd while the exec runs; otherwise -1 */
	int input;         /* write end of stdin, or the terminal; -1: none */
	int wakeup;        /* write end of the wakeup pipe of a session; -1: none */
	int pid;           /* first process inside the sandbox; 0: unknown */
	bool listed;       /* the exec is in the list of its sandbox */
	bool counted;      /* the exec is counted in sandbox->n_running */
	bool attached;
	bool wants_attach; /* the exec waits for its turn to be attached (exec_restore.c)
			    */
	bool input_ended;  /* a client has closed the exec's stdin */
	bool starting;     /* init has not answered the SPAWN yet */
	uint32_t undo;     /* its number in undo.c; 0: it is not undoable */
	bool lost;         /* the sandbox ended before the exec */
	bool output_waits; /* see exec_output_waits() */
	/* The exec ended, but the result is not in the database yet: exec_result.c. */
	bool unsaved;
	struct loop_watch *watch;
	bool lingers; /* the exec ended, but more output may follow, so the list keeps it
		       */
	struct waiters watchers,
		waiters; /* watchers wait for output, waiters for the end */
	struct exec_holder *holders;
	/* The cursor up to which init may drop output; UINT64_MAX: no limit. */
	uint64_t held_at;
	/* Timer for another attempt to send a message to init; NULL: not needed. */
	struct loop_timer *hold_timer;
	/* Holds the output from the start until a reader comes. */
	struct exec_holder first;
	struct loop_timer *first_timer;
	struct journal_hint end; /* position of the last known end */
	struct net_loop *loop;
	struct exec_stdin *feeds;            /* data that waits to be written to stdin */
	size_t feeding;                      /* its bytes */
	struct fair_quota_lease feed_memory; /* lease for them */
	struct loop_watch *feed_watch;
	uint64_t started; /* ns, monotonic */
};

/* exec.c */
struct exec *exec_load(struct sandbox *sandbox, const struct exec_row *row);
/* Handle the end of an exec. Returns whether such an exec exists. */
bool exec_ended(struct sandbox *sandbox, const struct proto_exited *msg);
void exec_finish(struct exec *exec, const struct warren_result *result);
/* Write its end and the events for it to the database. */
int exec_record_end(const struct exec *exec, struct warren_error *err);
void exec_sandbox_gone(struct sandbox *sandbox);
/* exec_restore.c: its init is gone; execs get a result if its files are kept. */
void exec_sandbox_lost(struct sandbox *sandbox);
int exec_open_journal(struct exec *exec, struct warren_error *err);
/* Take the descriptors for writing to the exec from init's reply. */
void exec_take_streams(struct exec *exec, struct init_reply *a);
void exec_ask(struct exec *exec, const void *msg, size_t size, const char *what,
	      service_done_fn done, void *ctx);
/*
 * exec_output.c: hold the output of an exec that is about to start, until a reader holds
 * it or a time limit passes.
 */
bool exec_hold_first(struct exec *exec);
void exec_hold_first_end(struct exec *exec);
/* For a new connection: tell init again which output to hold. */
void exec_hold_again(struct exec *exec);
void exec_attach(struct exec *exec, service_done_fn done, void *ctx);
/* exec_stdin.c: stop accepting data for stdin; waiting writers get an error. */
void feed_stop(struct exec *exec);
void exec_tell_watchers(struct exec *exec);
/*
 * Handle the end of an exec. Returns whether more output may follow and will be reported.
 */
bool exec_linger(struct exec *exec);
int row_copy_exec(struct exec_row *to, const struct exec_row *from);

/* exec_argv.c */
#define EXEC_ARGV_MAX ((size_t)64 << 10)
/* Write the command line as JSON, as clients see it. */
void exec_write_argv(struct buf *out, const char *const *argv);

/* exec_result.c */
/*
 * Write the result of an ended exec to the database, or keep it until that is possible.
 */
void exec_save_result(struct exec *exec);
void exec_forget_unsaved(struct exec *exec);
/* Try again to write results that could not be written. */
void exec_save_results(struct service *s);

/* exec_restore.c */
/* Load the execs of an earlier process from the database. */
void exec_restore_all(struct sandbox *sandbox);
/* Attach to all running execs. Calls @done when init has answered for each. */
void exec_attach_all(struct sandbox *sandbox, service_done_fn done, void *ctx);
void exec_detach_all(struct sandbox *sandbox);
/*
 * Kill an exec that may run although its client got an error, as soon as that is
 * possible.
 */
void exec_disown(struct exec *exec);
/* Finish the exec if its journal has a result. Returns whether there is one. */
bool exec_finish_by_journal(struct exec *exec);
void exec_forget_away(struct sandbox *sandbox, int64_t until);
/* An exec has ended: if an earlier process of the service started it, keep its pid. */
void exec_note_away(struct exec *exec);
void exec_kill_disowned(struct sandbox *sandbox);

/* journal_limit.c */
int journal_limit_open(struct service *s);
void journal_limit_close(struct service *s);
/* Check that the journal is within its agreed size; otherwise the sandbox is lost. */
bool exec_check_journal(struct exec *exec);
/* Let a task mark the sandbox as lost, because the journal cannot be read. */
void exec_journal_broken(struct exec *exec);

/*
 * journal_pool.c: create or reuse an empty journal with the name @name. Returns a
 * descriptor or -errno.
 */
int journal_pool_open(struct service *s);
void journal_pool_close(struct service *s);
int journal_pool_take(struct service *s, const char *name);
/*
 * Return the file @name, which is not needed any more. -errno: it still exists. May be
 * called from any thread.
 */
int journal_pool_return(const struct service *s, const char *name);

/*
 * journal_remove.c: remove the journal @name, which belongs to no exec any more, on
 * another thread.
 */
int remove_open(struct service *s);
void remove_close(struct service *s);
void exec_remove_journal(struct service *s, const char *name);

/* journal_sweep.c: find and remove journals that belong to no exec, in the background. */
void sweep_start(struct service *s);
void sweep_close(struct service *s);

/* sandbox_stop.c */
/* Like sandbox_stop(), with the reason for the event. */
void sandbox_stop_for(struct sandbox *sandbox, const char *why, uint64_t grace_ms,
		      service_done_fn done, void *ctx);
/*
 * Stop the sandbox in order to save or drop its files (SANDBOX_HIBERNATING). Do nothing
 * if the cause no longer applies.
 */
void sandbox_stop_to_save(struct sandbox *sandbox, enum sandbox_cause cause,
			  uint64_t grace_ms, service_done_fn done, void *ctx);
/* Shorten the grace period of a stop that is in progress. */
void sandbox_stop_sooner(struct sandbox *sandbox, uint64_t grace_ms);
/* Continue a stop, if possible, after an exec of the sandbox has ended. */
void sandbox_stop_look(struct sandbox *sandbox);
/* Return whether processes are being ended: from now on, none can be started. */
bool sandbox_stop_has_begun(const struct sandbox *sandbox);
/* Return what ended @exec, which may be a stop because the sandbox hibernates. */
enum exec_ended_by sandbox_stop_ended_by(const struct exec *exec);
/* Handle a broken connection to the sandbox's init. */
void sandbox_stop_disconnected(struct sandbox *sandbox);
void sandbox_stop_gone(struct sandbox *sandbox);

/* sandbox_hibernate.c */
void sandbox_hibernate_for(struct sandbox *sandbox, enum sandbox_cause cause,
			   service_done_fn done, void *ctx);

/* main_command.c: start the main command; calls @done with the result of its start. */
void main_command_start(struct sandbox *sandbox, service_done_fn done, void *ctx);
/*
 * Start the main command of a sandbox that was just created: its waiters learn the
 * outcome of the creation and of this start together.
 */
void main_command_first(struct sandbox *sandbox);
/* The exec @exec has ended. If it was the main command, carry out on_exit. */
void main_command_look(struct sandbox *sandbox, const char *exec);
/* A stop has ended. If the main command ended too, carry out on_exit now. */
void main_command_stopped(struct sandbox *sandbox);
/*
 * Record that a hibernation is about to end the command within @ms, so that the next
 * process knows it if the service is killed. If the command runs after that time, the
 * hibernation was interrupted, and its end is its own. 0: no hibernation is to end it.
 */
void main_command_ends_within(struct sandbox *sandbox, uint64_t ms);
/* Return whether the sandbox has a main command that neither runs nor is being
 * started. */
bool main_command_is_over(const struct sandbox *sandbox);
/* Return whether the main command runs, or is being started. */
bool main_command_runs(const struct sandbox *sandbox);
/*
 * Carry out on_exit if the main command ended while the sandbox was paused. Called when
 * the sandbox runs again.
 */
void main_command_resumed(struct sandbox *sandbox);
/*
 * The sandbox was restored: start a main command that was never started, or carry out
 * on_exit if it has ended in the meantime.
 */
void main_command_restore(struct sandbox *sandbox);

/* journals.c */
/*
 * Reserve space for the journal of a new exec, and delete old results if necessary.
 * -EUSERS: there is not enough space even then.
 */
int journals_reserve(struct exec *exec, uint64_t capacity, struct warren_error *err);
/* Count the actual size of a journal that gets no more output. */
void journals_settle(struct exec *exec);
/* Release the reservation of an exec that was never started and has no journal. */
void journals_drop(struct exec *exec);
/* Delete the oldest ended execs if there are too many. */
void journals_forget(struct sandbox *sandbox);
/*
 * Count the journal of a restored exec. @exec is the exec if it is running, otherwise
 * NULL; @row is its row.
 */
void journals_restore(struct sandbox *sandbox, const struct exec_row *row,
		      struct exec *exec);

#endif /* SERVICE_EXEC_INTERNAL_H */
