/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.h - run a program once, in a new sandbox that is then deleted
 *
 * A run is a state machine in the event loop; no thread waits for it:
 *
 *	create		a sandbox in the usual way, if possible from the pool
 *	write		the program and the files that came with it: write.c
 *	compile		if the language needs it: execute.c
 *	run		the program, as an exec: execute.c
 *	collect		the files that the request asks for: artifacts.c
 *	delete		the sandbox
 *
 * If code.warm is configured, interpreters are started before there is a program for
 * them: warm.c.
 *
 * code/plan.h says what is written and executed. The sandbox belongs to the run: other
 * requests to use, pause or stop it are refused (-EBUSY). If a client deletes it, the run
 * ends with -EBUSY. If the service is killed, it deletes the sandbox when it starts
 * again.
 *
 *	r = code_begin(s, &plan, &sandbox, &callbacks, ctx, &run, err);
 *	...
 *	run = code_cancel(run); // at any time, also after done()
 */
#ifndef SERVICE_CODE_CODE_H
#define SERVICE_CODE_CODE_H

#include "base/buf.h"
#include "code/plan.h"
#include "service/core/service.h"

#define CODE_ARTIFACTS_MAX   256
#define CODE_ARTIFACTS_BYTES (UINT64_C(16) << 20)
#define CODE_ARTIFACT_DEPTH  63
#define CODE_ARTIFACT_PATH   1024 /* maximum bytes in a path */
#define CODE_EXIT_TIMEOUT    124

struct code_run;

extern const struct service_module code_hooks;

/* A sandbox to create, for sandbox_create(). Only used until code_begin() returns. */
struct code_sandbox {
	struct sandbox_row *row;
	const struct warren_spec *spec;
	const struct sandbox_source *source;
};

struct code_artifact {
	char *path; /* relative to the working directory */
	char *data;
	size_t size;
};

struct code_result {
	const char *language; /* name of the language, not an alias */
	struct warren_result
		exec;  /* result of the program, or of the compiler if it failed */
	bool compiler; /* `exec` belongs to the compiler: the program did not run */
	/*
	 * Exit code as in a shell: 128 + the signal number; CODE_EXIT_TIMEOUT after a
	 * timeout.
	 */
	int exit_code;
	uint64_t duration_usec; /* duration of the compiler and the program together */
	struct buf enforced; /* a JSON array: what is enforced in the sandbox, and how */
	struct buf not_enforced; /* names of what is not enforced: "memory, pids" */
	/* stdout and stderr, up to the maximum. */
	struct buf output[2];
	uint64_t
		written[2]; /* bytes written; if more than in `output`, it is truncated */
	bool truncated[2];
	struct code_artifact *artifacts; /* sorted by path */
	size_t n_artifacts;
	/*
	 * Whether all files that match are included; false if a limit on size or number
	 * was reached.
	 */
	bool artifacts_complete;
};

/*
 * All are called from the loop, never from code_begin(). Each may be NULL except done().
 */
struct code_callbacks {
	/* The compiler or the program has started. */
	void (*started)(void *ctx);
	/*
	 * Output of the program (@stream is 1 or 2), up to the maximum. If this is set,
	 * the result has no output. Returns whether the run must wait for code_go_on()
	 * before it reads more.
	 */
	bool (*output)(void *ctx, int stream, const char *data, size_t n);
	/*
	 * Called once, at the end of the run. @result is NULL if there is none, and @err
	 * says why. -ENOENT: the image lacks a tool, which the error names; -EBUSY: the
	 * sandbox was deleted. The result belongs to the run, until code_cancel().
	 */
	void (*done)(void *ctx, const struct code_result *result,
		     const struct warren_error *err);
};

/*
 * Begin a run. Takes *@plan, even on failure; what the plan borrows must stay valid until
 * done() or code_cancel(). Errors are the same as for sandbox_create().
 */
int code_begin(struct service *s, struct code_plan *plan,
	       const struct code_sandbox *sandbox, const struct code_callbacks *callbacks,
	       void *ctx, struct code_run **ret, struct warren_error *err) MUST_CHECK;
/* Continue to read after output() has asked to wait. */
void code_go_on(struct code_run *run);
/*
 * End the run if it is not done, without another callback, and free it. Accepts NULL;
 * returns NULL.
 */
struct code_run *code_cancel(struct code_run *run);
/* Delete the interpreters that wait for programs of this tenant; NULL: of all tenants. */
void code_warm_drop_of(struct service *s, const char *owner);
/* Return whether the run waits for quota, so that nothing has been started yet. Accepts
 * NULL. */
bool code_waits(const struct code_run *run);
/* Get the id of the run's sandbox, which may no longer exist. */
const char *code_sandbox_id(const struct code_run *run);

#endif /* SERVICE_CODE_CODE_H */
