/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - sessions: their owners, their settings, and their end
 *
 * A session belongs to the token that opened it; for every other client it does not
 * exist. It ends with DELETE, with its token, and after a long time without use.
 *
 * A session with a holder (Warren-Session), as `warren mcp` opens, also ends with the
 * stream of the holder. The kernel closes that stream when `warren mcp` is killed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"
#include "base/list.h"

#define SESSION_WEIGHT 15 /* while it is alone, one tenant may have 15 of 16 sessions */
#define LOOK_MS        30000
/*
 * Time after which a session without requests and streams ends. It is long, because a
 * local client may wait for its user.
 */
#define IDLE_MS       (60ULL * 60 * 1000)
#define IDLE_LOCAL_MS (24ULL * 60 * 60 * 1000)

/* ---------------------------------------------------------------- settings in headers */

static int wishes_text(const struct http_request *req, const char *name, char *ret,
		       size_t size, struct rpc_error *err)
{
	const char *value;
	int n = mcp_header(req, name, &value);

	ret[0] = '\0';
	if (n == 0)
		return 0;
	if (n < 0 || !*value || strlen(value) >= size)
		return rpc_error_set(
			err, RPC_INVALID_PARAMS,
			"the header %s must be sent once, with 1 to %zu bytes", name,
			size - 1);
	(void)strcpy(ret, value);
	return 1;
}

int mcp_wishes_read(const struct http_request *req, struct mcp_wishes *ret,
		    struct rpc_error *err)
{
	char keep[8];

	*ret = (struct mcp_wishes){ 0 };
	if (wishes_text(req, "Warren-Sandbox", ret->sandbox, sizeof(ret->sandbox), err) <
		    0 ||
	    wishes_text(req, "Warren-Image", ret->image, sizeof(ret->image), err) < 0 ||
	    wishes_text(req, "Warren-Network", ret->network, sizeof(ret->network), err) <
		    0 ||
	    wishes_text(req, "Warren-Project", ret->project, sizeof(ret->project), err) <
		    0 ||
	    wishes_text(req, "Warren-Keep", keep, sizeof(keep), err) < 0)
		return -1;
	if (keep[0] && strcmp(keep, "0") != 0 && strcmp(keep, "1") != 0)
		return rpc_error_set(err, RPC_INVALID_PARAMS,
				     "the header Warren-Keep must be 0 or 1");
	ret->keep = keep[0] == '1';
	if (ret->sandbox[0] && (ret->image[0] || ret->network[0] || ret->project[0]))
		return rpc_error_set(
			err, RPC_INVALID_PARAMS,
			"Warren-Sandbox names a sandbox that exists: "
			"Warren-Image, Warren-Network and Warren-Project cannot change it");
	return 0;
}

/* Later requests must repeat the values of the first one. */
static int wishes_compare(const struct mcp_wishes *had, const struct mcp_wishes *has,
			  struct rpc_error *err)
{
	const struct {
		const char *name, *had, *has;
	} table[] = {
		{ "Warren-Sandbox", had->sandbox, has->sandbox },
		{ "Warren-Image", had->image, has->image },
		{ "Warren-Network", had->network, has->network },
		{ "Warren-Project", had->project, has->project },
		{ "Warren-Keep", had->keep ? "1" : "", has->keep ? "1" : "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].has[0] && strcmp(table[i].had, table[i].has) != 0)
			return rpc_error_set(
				err, RPC_INVALID_PARAMS,
				"the header %s differs from that of the first "
				"request of this session",
				table[i].name);
	return 0;
}

/* ------------------------------------------------------------------- end of a session */

void mcp_session_free(struct mcp_session *s)
{
	live_leave(&s->live);
	mcp_subs_done(&s->subs);
	fair_quota_end(&s->mcp->session_quota, &s->lease);
	DLIST_REMOVE(s);
	if (!s->mcp->sessions)
		s->mcp->chores = loop_timer_free(s->mcp->chores);
	free(s->name);
	free(s);
}

void mcp_session_end(struct mcp_session *s)
{
	struct sandbox *sandbox =
		s->sandbox[0] ? sandbox_find(s->mcp->service, NULL, s->sandbox) : NULL;

	while (s->calls)
		mcp_call_cancel(s->calls);
	for (struct mcp_exchange *x = s->mcp->exchanges; x; x = x->next)
		if (x->session == s)
			x->session = NULL;
	if (s->stream && s->stream->req && !s->stream->answered) {
		s->stream->answered = true;
		s->stream->holds[0] = '\0';
		(void)http_end(s->stream->req);
	}
	if (sandbox && !s->unmarked)
		sandbox_delete(sandbox, mcp_ignore, NULL);
	mcp_session_free(s);
}

static void session_on_token_end(struct live_request *r)
{
	struct mcp_session *s =
		(struct mcp_session *)((char *)r - offsetof(struct mcp_session, live));

	mcp_session_end(s);
}

static void session_on_chores(void *ctx)
{
	struct mcp *mcp = ctx;
	uint64_t now = loop_now(service_loop(mcp->service));
	struct mcp_session *next;

	loop_timer_set(mcp->chores, LOOK_MS);
	for (struct mcp_session *s = mcp->sessions; s; s = next) {
		next = s->next;
		if (s->calls || s->stream)
			s->used = now;
		else if (now - s->used >= (s->is_local ? IDLE_LOCAL_MS : IDLE_MS))
			mcp_session_end(s);
	}
}

/* --------------------------------------------------------------------- opening */

static int session_watch(struct mcp *mcp)
{
	int r;

	if (mcp->chores)
		return 0;
	r = loop_timer_new(service_loop(mcp->service), session_on_chores, mcp,
			   &mcp->chores);
	if (r == 0)
		loop_timer_set(mcp->chores, LOOK_MS);
	return r;
}

/* Return -1 for an error, or 0 if there is no such header. */
static int session_read_name(const struct http_request *req, const char **ret,
			     struct rpc_error *err)
{
	int n = mcp_header(req, "Warren-Session", ret);

	if (n == 1 && (!**ret || strlen(*ret) > MCP_NAME_MAX))
		n = -1;
	if (n < 0)
		(void)rpc_error_set(err, RPC_INVALID_PARAMS,
				    "the header Warren-Session must be sent once, with 1 "
				    "to %d bytes",
				    MCP_NAME_MAX);
	return n;
}

static int session_charge(struct mcp *mcp, struct mcp_session *s, struct rpc_error *err)
{
	uint64_t used, maximum;

	mcp->session_quota.limit = MCP_SESSIONS;
	mcp->session_quota.weight = SESSION_WEIGHT;
	if (fair_quota_lease(&mcp->session_quota, s->caller.tenant, 1, &s->lease) == 0)
		return 0;
	fair_quota_look(&mcp->session_quota, s->caller.tenant, &used, &maximum);
	return rpc_error_set(err, RPC_INTERNAL_ERROR,
			     "the tenant '%s' has %ju sessions and cannot have more: end "
			     "some of them",
			     s->caller.tenant, (uintmax_t)used);
}

struct mcp_session *mcp_session_new(struct mcp_exchange *x, const char *name,
				    struct rpc_error *err)
{
	struct mcp *mcp = x->mcp;
	struct mcp_session *s = calloc(1, sizeof(*s));
	const char *holder = NULL;

	if (!s || (name && !(s->name = strdup(name))) || session_watch(mcp) < 0) {
		(void)rpc_error_set(err, RPC_INTERNAL_ERROR, "out of memory");
		free(s);
		return NULL;
	}
	s->mcp = mcp;
	s->caller = x->caller;
	s->log_level = -1;
	s->version = rpc_legacy_versions[0];
	s->is_local = x->req->peer->kind == HTTP_PEER_UNIX;
	s->used = loop_now(service_loop(mcp->service));
	if (session_read_name(x->req, &holder, err) < 0 ||
	    mcp_wishes_read(x->req, &s->wishes, err) < 0 ||
	    session_charge(mcp, s, err) < 0) {
		free(s->name);
		free(s);
		return NULL;
	}
	(void)snprintf(s->holder, sizeof(s->holder), "%s", holder ? holder : "");
	if (!name) {
		id_make(s->id);
		id_make(s->id + ID_LEN);
	}
	live_hold(mcp->live, &s->live, &s->caller, session_on_token_end);
	DLIST_PUSH(mcp->sessions, s);
	return s;
}

/* -------------------------------------------------------------------- finding */

static bool session_is_of(const struct mcp_session *s, const struct caller *caller)
{
	return strcmp(s->caller.token, caller->token) == 0 &&
	       strcmp(s->caller.tenant, caller->tenant) == 0;
}

/* Find a session by its name, or by its id if @name is NULL. */
static struct mcp_session *session_look(struct mcp_exchange *x, const char *id,
					const char *name)
{
	for (struct mcp_session *s = x->mcp->sessions; s; s = s->next)
		if (session_is_of(s, &x->caller) &&
		    (name ? s->name && strcmp(s->name, name) == 0
			  : id && !s->name && strcmp(s->id, id) == 0))
			return s;
	return NULL;
}

/* Find the session of a message to MCP_SSE_PATH by its query. */
static int session_find_sse(struct mcp_exchange *x, struct rpc_error *err)
{
	const char *at = x->req->query;
	char name[16], id[2 * ID_LEN + 1];

	while (at && http_query_next(&at, name, sizeof(name), id, sizeof(id)) == 1)
		if (strcmp(name, "session_id") == 0)
			x->session = session_look(x, id, NULL);
	if (x->session && (!x->session->stream || !x->session->stream->at_sse))
		x->session = NULL;
	if (x->session)
		return 0;
	(void)rpc_error_set(
		err, RPC_INVALID_REQUEST,
		"there is no such session; GET " MCP_SSE_PATH
		" opens one, and its stream contains the address for messages");
	return 404;
}

int mcp_session_find(struct mcp_exchange *x, struct rpc_error *err)
{
	const char *id = NULL, *name = NULL;
	struct mcp_wishes wishes;
	bool ends = strcmp(x->req->method, "DELETE") == 0;
	int n = mcp_header(x->req, "Mcp-Session-Id", &id);

	if (x->at_sse)
		return session_find_sse(x, err);
	if (n == 0 && ends && session_read_name(x->req, &name, err) < 0)
		return 400;
	if (n != 1 && !name) {
		(void)rpc_error_set(err, RPC_INVALID_REQUEST,
				    "the header Mcp-Session-Id is required; 'initialize' "
				    "opens a session");
		return 400;
	}
	x->session = session_look(x, id, name);
	if (!x->session) {
		(void)rpc_error_set(
			err, RPC_INVALID_REQUEST,
			"there is no such session; it has ended, or belongs to "
			"another token");
		return 404;
	}
	x->session->used = loop_now(service_loop(x->mcp->service));
	if (mcp_wishes_read(x->req, &wishes, err) < 0 ||
	    wishes_compare(&x->session->wishes, &wishes, err) < 0) {
		x->session = NULL;
		return 400;
	}
	return 0;
}

int mcp_session_join(struct mcp_exchange *x, struct rpc_error *err)
{
	struct mcp_wishes wishes;
	const char *name;
	int n = session_read_name(x->req, &name, err);

	if (n < 0 || mcp_wishes_read(x->req, &wishes, err) < 0)
		return -1;
	if (n == 0 &&
	    (wishes.keep || wishes.image[0] || wishes.network[0] || wishes.project[0]))
		return rpc_error_set(
			err, RPC_INVALID_PARAMS,
			"Warren-Keep, Warren-Image, Warren-Network and Warren-Project are "
			"for the sandbox of a session: send Warren-Session, too");
	if (n == 0)
		return 0;
	x->session = session_look(x, NULL, name);
	if (!x->session)
		x->session = mcp_session_new(x, name, err);
	if (!x->session)
		return -1;
	x->session->used = loop_now(service_loop(x->mcp->service));
	return wishes_compare(&x->session->wishes, &wishes, err);
}

void mcp_session_let_go(struct mcp *mcp, const struct caller *caller, const char *holder)
{
	struct mcp_session *s;

	do {
		for (s = mcp->sessions; s; s = s->next)
			if (session_is_of(s, caller) && strcmp(s->holder, holder) == 0)
				break;
		if (s)
			mcp_session_end(s);
	} while (s);
}

/* -------------------------------------------------------- start and end of the module */

void mcp_done(struct mcp *mcp)
{
	while (mcp->sessions) {
		struct mcp_session *s = mcp->sessions;

		while (s->calls)
			mcp_call_cancel(s->calls);
		mcp_session_free(s);
	}
}

struct mcp_leftover {
	struct mcp_leftover *next;
	char id[ID_LEN + 1];
};

static int session_add_leftover(void *ctx, const struct sandbox_row *row)
{
	struct mcp_leftover **list = ctx, *one;

	if (!row->template || strcmp(row->template, MCP_MARK) != 0)
		return 0;
	one = calloc(1, sizeof(*one));
	if (!one)
		return -ENOMEM;
	(void)memcpy(one->id, row->id, sizeof(one->id));
	LIST_PUSH(*list, one);
	return 0;
}

void mcp_restore(struct mcp *mcp)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct mcp_leftover *list = NULL, *one;

	/* If the database cannot be read now, the next start deletes these sandboxes. */
	if (db_each_sandbox(service_db(mcp->service), session_add_leftover, &list, &err) <
	    0)
		service_metrics(mcp->service)->store_errors++;
	while ((one = LIST_POP(list))) {
		struct sandbox *sandbox = sandbox_find(mcp->service, NULL, one->id);

		if (sandbox)
			sandbox_delete(sandbox, mcp_ignore, NULL);
		free(one);
	}
}
