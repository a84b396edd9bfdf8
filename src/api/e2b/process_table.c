/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_table.c - commands by the pid of their first process
 *
 * The service keeps a command for a while after its end, so that a late client gets the
 * result. Then it needs only the id of the exec; while the command runs, it also keeps
 * the request, for lists, unless that is long. Commands that an earlier process of the
 * service started are found by their exec, even after they ended.
 */
#include <string.h>

#include "api/e2b/internal.h"
#include "base/list.h"
#include "net/loop.h"
#include "service/exec/exec.h"

#define ENDED_KEPT_MS 30000
#define ENDED_MAX     256 /* of one sandbox */
#define SWEEP_MS      5000
#define CONFIG_MAX    16384 /* bytes of a request that is kept */

static void process_free(struct e2b_process *p)
{
	(void)exec_unref(p->exec);
	free(p->config);
	free(p->tag);
	free(p);
}

/* Notice the end of a command. */
static void process_check_end(struct e2b_process *p, int64_t now)
{
	if (!p->exec || (!exec_row(p->exec)->ended && !exec_lost(p->exec)))
		return;
	p->ended_at = now;
	p->exec = exec_unref(p->exec);
	free(TAKE_PTR(p->config));
}

/* Forget commands some time after their end. */
static void process_on_sweep(void *ctx)
{
	struct e2b *e = ctx;
	int64_t now = service_time();
	bool any = false;

	for (size_t i = 0; i < E2B_BUCKETS; i++) {
		for (struct e2b_process **at = &e->processes[i]; *at;) {
			struct e2b_process *p = *at;

			process_check_end(p, now);
			if (!p->exec && p->ended_at + ENDED_KEPT_MS < now) {
				*at = p->next;
				process_free(p);
			} else {
				at = &p->next;
			}
		}
		any = any || e->processes[i];
	}
	e->sweeps = any;
	if (any)
		loop_timer_set(e->timer, SWEEP_MS);
}

/* Forget commands of the sandbox that ended first, if there are many. */
static void process_trim(struct e2b_process **at, const char *sandbox)
{
	int64_t now = service_time();
	size_t ended = 0;

	while (*at) {
		struct e2b_process *p = *at;
		bool own = strcmp(p->sandbox, sandbox) == 0;

		if (own)
			process_check_end(p, now);
		ended += own && !p->exec;
		if (own && !p->exec && ended > ENDED_MAX) {
			*at = p->next;
			process_free(p);
		} else {
			at = &p->next;
		}
	}
}

void e2b_forget_processes(struct e2b *e)
{
	for (size_t i = 0; i < E2B_BUCKETS; i++) {
		struct e2b_process *p;

		while ((p = LIST_POP(e->processes[i])))
			process_free(p);
	}
	e->timer = loop_timer_free(e->timer);
}

void process_keep(struct call *c, struct exec *exec, int pid)
{
	struct e2b *e = call_e2b(c);
	struct e2b_process **bucket = &e->processes[e2b_bucket(c->route.sandbox)];
	const char *tag = body_text(&c->body, "tag");
	struct e2b_process *p = calloc(1, sizeof(*p));

	if (p && !e->timer &&
	    loop_timer_new(service_loop(c->v1->service), process_on_sweep, e, &e->timer) <
		    0) {
		free(p);
		return;
	}
	if (!p)
		return;
	p->exec = exec_ref(exec);
	(void)memcpy(p->sandbox, c->route.sandbox, sizeof(p->sandbox));
	(void)memcpy(p->id, exec_row(exec)->id, sizeof(p->id));
	p->pid = pid;
	p->tag = tag && *tag ? strdup(tag) : NULL;
	p->config = json_dumps(json_object_get(c->body.json, "process"), JSON_COMPACT);
	if (p->config && strlen(p->config) > CONFIG_MAX)
		free(TAKE_PTR(p->config));
	LIST_PUSH(*bucket, p);
	process_trim(bucket, c->route.sandbox);
	if (!e->sweeps)
		loop_timer_set(e->timer, SWEEP_MS);
	e->sweeps = true;
}

const struct e2b_process *process_of(struct e2b *e, const char *sandbox,
				     const struct exec *exec)
{
	const struct e2b_process *p = e->processes[e2b_bucket(sandbox)];

	while (p && p->exec != exec)
		p = p->next;
	return p;
}

static bool process_has_pid(void *ctx, struct exec *exec)
{
	return exec_pid(exec) == *(int *)ctx;
}

/* The exec of a command that was started here; the caller releases it. */
static struct exec *process_exec(struct sandbox *sandbox, const struct e2b_process *p)
{
	return p->exec ? exec_ref(p->exec) : exec_of_sandbox(sandbox, p->id);
}

struct exec *process_find(struct call *c, const struct body *from, int *ret_pid)
{
	struct body which = body_object(from, "process");
	const char *tag = body_text(&which, "tag");
	int pid = (int)body_int(&which, "pid");
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);
	struct e2b_process *p = call_e2b(c)->processes[e2b_bucket(c->route.sandbox)];
	struct exec *exec = NULL;

	while (p && (strcmp(p->sandbox, c->route.sandbox) != 0 ||
		     (tag ? !p->tag || strcmp(p->tag, tag) != 0 : p->pid != pid)))
		p = p->next;
	*ret_pid = p ? p->pid : pid;
	if (sandbox && p) {
		exec = process_exec(sandbox, p);
	} else if (sandbox && pid > 1) {
		exec = exec_each_running(sandbox, process_has_pid, &pid);
		exec = exec ? exec_ref(exec) : exec_find_away(sandbox, pid);
	}
	if (!exec && tag)
		e2b_refuse_rpc(c, "not_found", "process with tag %s not found", tag);
	else if (!exec)
		process_refuse_ended(c, pid);
	return exec;
}

void process_refuse_ended(struct call *c, int pid)
{
	e2b_refuse_rpc(c, "not_found", "process with pid %d not found", pid);
}

struct exec *process_find_running(struct call *c, const struct body *from, int *ret_pid)
{
	struct exec *exec = process_find(c, from, ret_pid);

	if (!exec || !exec_row(exec)->ended)
		return exec;
	process_refuse_ended(c, *ret_pid);
	return exec_unref(exec);
}
