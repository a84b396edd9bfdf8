/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - the sandbox of a call: the one that it names, or that of its session
 *
 * A session's sandbox is created when it is first needed. Calls that need it at the same
 * time wait for the same one.
 */
#include <errno.h>
#include <string.h>

#include "api/mcp/internal.h"

struct mcp_placing {
	struct sandbox_waiter waiter;
	mcp_place_fn fn;
};

struct sandbox *mcp_place_find(struct mcp_call *c, const char *word, struct buf *why)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char id[ID_LEN + 1];
	int r = sandbox_resolve(c->mcp->service, c->caller.tenant,
				access_may(&c->caller, "admin"), word, id, &err);
	struct sandbox *sandbox = r < 0 ? NULL : sandbox_find(c->mcp->service, NULL, id);

	/* A token for one sandbox must not reveal which others exist. */
	if (c->caller.sandbox[0] && (!sandbox || strcmp(c->caller.sandbox, id) != 0)) {
		buf_printf(why, "the token is valid only for the sandbox '%s'",
			   c->caller.sandbox);
		return NULL;
	}
	if (!sandbox)
		buf_printf(why, "%s; sandbox_list lists all sandboxes",
			   r < 0 ? err.msg : "the sandbox was deleted");
	return sandbox;
}

static void place_stop(struct mcp_call *c)
{
	struct mcp_placing *p = c->state;

	sandbox_wait_cancel(&p->waiter);
	free(p);
}

/* The sandbox runs, or was resumed for this call. The call has a reference for this
 * function. */
static void place_on_usable(void *ctx, int r, const struct warren_error *err)
{
	struct mcp_call *c = ctx;
	struct mcp_placing *p = c->state;
	struct service *service = c->mcp->service;
	struct sandbox *sandbox;
	mcp_place_fn fn;

	if (!c->done && r < 0) {
		mcp_tool_error(c, "the sandbox '%s' cannot be used: %s", c->sandbox,
			       err->msg);
	} else if (!c->done) {
		fn = p->fn;
		c->state = NULL;
		c->stop = NULL;
		free(p);
		sandbox = mcp_place_again(c);
		service_permit(service, c->caller.token, c->caller.expires_at);
		if (sandbox)
			fn(c, sandbox);
		service_permit(service, NULL, 0);
	}
	mcp_call_unref(c);
}

static void place_use(struct mcp_call *c, struct sandbox *sandbox)
{
	struct service *service = c->mcp->service;

	service_permit(service, c->caller.token, c->caller.expires_at);
	sandbox_use(sandbox, place_on_usable, mcp_call_ref(c));
	service_permit(service, NULL, 0);
}

/*
 * The sandbox cannot be used. If it is the sandbox of the session, the next call creates
 * another one.
 */
static bool place_forget(struct mcp_call *c)
{
	bool ours = c->session && strcmp(c->session->sandbox, c->sandbox) == 0;

	if (ours)
		c->session->sandbox[0] = '\0';
	return ours;
}

static void place_on_made(struct sandbox_waiter *w, struct sandbox *sandbox, int state)
{
	struct mcp_call *c = w->ctx;

	if (state == -ETIMEDOUT) {
		mcp_tool_error(c, "the sandbox '%s' is still being created; try again",
			       c->sandbox);
	} else if (state >= 0 && sandbox_state_is_over((enum sandbox_state)state)) {
		const char *why = sandbox_row(sandbox)->error;
		bool ours = place_forget(c);

		mcp_tool_error(c, "the sandbox '%s' cannot be created: %s", c->sandbox,
			       why ? why : "it failed");
		if (ours)
			sandbox_delete(sandbox, mcp_ignore, NULL);
	} else if (!sandbox || state == SANDBOX_GONE) {
		(void)place_forget(c);
		mcp_tool_error(c, "the sandbox was deleted in the meantime");
	} else {
		place_use(c, sandbox);
	}
}

static json_t *place_request(const struct mcp_wishes *w)
{
	json_t *request = json_object();

	if (request && w->image[0])
		(void)json_object_set_new(request, "image", json_string(w->image));
	if (request && w->network[0])
		(void)json_object_set_new(request, "network", json_string(w->network));
	if (request && w->project[0]) {
		(void)json_object_set_new(request, "mounts",
					  json_pack("[{s:s, s:s}]", "source", w->project,
						    "target", w->project));
		(void)json_object_set_new(request, "workdir", json_string(w->project));
	}
	return request;
}

/* Return NULL if the call was answered. */
static struct sandbox *place_create(struct mcp_call *c)
{
	struct mcp_session *s = c->session;
	json_t *request = place_request(&s->wishes);
	struct api_error err = { 0 };
	struct sandbox *sandbox = NULL;
	int r;

	if (!access_may(&c->caller, "write")) {
		json_decref(request);
		mcp_tool_error(
			c,
			"the token lacks the scope 'write', which is needed to create a sandbox: name an existing one in 'sandbox'");
		return NULL;
	}
	r = request ? c->mcp->create(c->mcp->create_ctx, &c->caller, request,
				     s->wishes.keep ? NULL : MCP_MARK, &sandbox, &err)
		    : api_error_set(&err, API_ERR_OVERLOADED, "out of memory");
	json_decref(request);
	if (r < 0 || !sandbox) {
		mcp_tool_error(c, "the sandbox of this session cannot be created: %s",
			       err.message);
		return NULL;
	}
	(void)strcpy(s->sandbox, sandbox_row(sandbox)->id);
	s->unmarked = s->wishes.keep;
	mcp_call_log(c, MCP_INFO, "created the sandbox '%s'", s->sandbox);
	return sandbox;
}

/* Return NULL if the call was answered. */
static struct sandbox *place_of_session(struct mcp_call *c)
{
	struct mcp_session *s = c->session;
	struct sandbox *sandbox;

	if (!s->sandbox[0])
		return place_create(c);
	sandbox = sandbox_find(c->mcp->service, NULL, s->sandbox);
	if (!sandbox || sandbox_row(sandbox)->state == SANDBOX_DELETING) {
		mcp_tool_error(c,
			       "the sandbox '%s' of this session was deleted, with its "
			       "files; the next call creates a new one",
			       s->sandbox);
		s->sandbox[0] = '\0';
		return NULL;
	}
	return sandbox;
}

/* Return the sandbox named by the argument, the client's headers, or the token. */
static const char *place_word(const struct mcp_call *c)
{
	const char *word = mcp_arg_text(c, "sandbox");

	if (word)
		return word;
	if (c->session && c->session->wishes.sandbox[0])
		return c->session->wishes.sandbox;
	if (c->wish[0])
		return c->wish;
	return c->caller.sandbox[0] ? c->caller.sandbox : NULL;
}

static struct sandbox *place_look(struct mcp_call *c, bool create)
{
	AUTO_BUF struct buf why = BUF_INIT(2048);
	const char *word = place_word(c);
	struct sandbox *sandbox = NULL;

	if (word) {
		sandbox = mcp_place_find(c, word, &why);
		if (!sandbox)
			mcp_tool_error(c, "%s", why.data ? why.data : "out of memory");
	} else if (c->session && (create || c->session->sandbox[0])) {
		sandbox = place_of_session(c);
	} else {
		mcp_tool_error(c, "sandbox: this argument is required here: call "
				  "sandbox_create, and pass the id that it returns");
	}
	if (sandbox)
		(void)strcpy(c->sandbox, sandbox_row(sandbox)->id);
	return sandbox;
}

struct sandbox *mcp_place_named(struct mcp_call *c)
{
	return place_look(c, false);
}

struct sandbox *mcp_place_again(struct mcp_call *c)
{
	struct sandbox *sandbox = sandbox_find(c->mcp->service, NULL, c->sandbox);

	if (!sandbox)
		mcp_tool_error(c, "the sandbox '%s' was deleted in the meantime",
			       c->sandbox);
	return sandbox;
}

void mcp_place(struct mcp_call *c, mcp_place_fn fn)
{
	struct sandbox *sandbox = place_look(c, true);
	struct mcp_placing *p = sandbox ? calloc(1, sizeof(*p)) : NULL;

	if (!sandbox)
		return;
	if (!p) {
		mcp_tool_error(c, "out of memory; try again");
		return;
	}
	p->fn = fn;
	p->waiter = (struct sandbox_waiter){ .states = ~(1U << SANDBOX_CREATING),
					     .fn = place_on_made,
					     .ctx = c };
	c->state = p;
	c->stop = place_stop;
	if (sandbox_row(sandbox)->state == SANDBOX_CREATING)
		sandbox_wait(sandbox, &p->waiter, MCP_CREATE_MS);
	else
		place_use(c, sandbox);
}
