/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of E2B's API */
#ifndef API_E2B_INTERNAL_H
#define API_E2B_INTERNAL_H

#include "api/e2b/e2b.h"
#include "api/v1/v1.h"
#include "base/json.h"
#include "db/template.h"

struct exec;

#define ENVD_PORT        49983
#define INTERPRETER_PORT 49999
#define ENVD_VERSION     "0.9.1" /* SDKs use this to find out what is supported */

/*
 * Labels of a sandbox with this prefix belong to this API; no client can set them. All
 * other labels are the sandbox's metadata.
 */
#define E2B_LABEL             "e2b:"
#define E2B_LABEL_TEMPLATE    E2B_LABEL "template"    /* as the client named it */
#define E2B_LABEL_TEMPLATE_ID E2B_LABEL "template_id" /* of a template that was built */
#define E2B_LABEL_BUILD       E2B_LABEL "build" /* of the template; copies have it, too */
#define E2B_LABEL_RESUME      E2B_LABEL "auto_resume"
#define E2B_LABEL_TIMEOUT     E2B_LABEL "timeout"  /* in seconds */
#define E2B_LABEL_TRAFFIC     E2B_LABEL "private"  /* its ports need a token */
#define E2B_LABEL_INTERNET    E2B_LABEL "internet" /* as the client asked for it */

/* Fields of a sandbox that its snapshots keep, as labels. */
static const struct {
	const char *field, *label;
} e2b_kept[] = {
	{ "user", E2B_LABEL "user" },
	{ "workdir", E2B_LABEL "workdir" },
};

/* How the client of an operation expects an error. */
enum e2b_form {
	E2B_REST,   /* {"code": status, "message": ...} */
	E2B_UNARY,  /* {"code": "not_found", "message": ...} */
	E2B_STREAM, /* the last message of a stream, with status 200 */
	E2B_PROXY,  /* with the id of the sandbox */
};

struct e2b_op {
	struct api_op op;
	enum e2b_form form;
	bool public;  /* needs no access token */
	bool streams; /* the handler reads the body itself */
	bool opens;   /* the answer has the access token of a sandbox */
	/* Identify the caller by something else than a key: 0, or a refusal in @err. */
	int (*caller)(struct call *c, struct api_error *err);
	v1_handler handler;
};

/* table.c: NULL: there is none; *@ret_allow says whether other methods exist. */
const struct e2b_op *e2b_find_control(const char *method, const char *path,
				      struct route *ret, bool *ret_allow);
const struct e2b_op *e2b_find_data(uint16_t port, const char *method, const char *path,
				   struct route *ret, bool *ret_allow);
/* Is this a path of an RPC? *@ret is the form of its errors. */
bool e2b_is_rpc(const char *path, enum e2b_form *ret);

/* e2b.c */
/* May the caller have the access token of a sandbox, with which one can do everything? */
static inline bool e2b_may_open(const struct call *c)
{
	const uint32_t both = V1_SCOPE_EXEC | V1_SCOPE_FILES;

	return (c->caller.scopes & V1_SCOPE_ADMIN) || (c->caller.scopes & both) == both;
}

static inline struct e2b *call_e2b(const struct call *c)
{
	return c->face;
}
/*
 * Identify the caller by the id of a key, which a signature of the service names; "": the
 * owner of the service, who needs no key. 0, or a refusal in @err.
 */
int e2b_key_caller(struct call *c, const char *key, struct api_error *err);
/* Index of the list for what belongs to a sandbox. */
size_t e2b_bucket(const char *sandbox);
/* The token for the data plane of a sandbox; it stays the same while the sandbox exists.
 */
#define E2B_TOKEN_LEN 40
void e2b_token(const struct e2b *e, const char *id, const char *purpose,
	       char ret[E2B_TOKEN_LEN + 1]);
/* The same, on any thread. */
void e2b_derive(const char *key, const char *id, const char *purpose,
		char ret[E2B_TOKEN_LEN + 1]);
/* A code that shows that this service wrote the text. */
void e2b_sign(const char *key, const char *text, char ret[E2B_TOKEN_LEN + 1]);
/* The value of a label; NULL: it has none. */
const char *e2b_label(const struct sandbox *sandbox, const char *key);
/*
 * Make sure that the sandbox runs, and call @next; otherwise the call is refused.
 */
void e2b_resume(struct call *c, void (*next)(struct call *c));

/* query.c: the longest values of parameters, in bytes. */
#define E2B_PATH_MAX      4095 /* as in the kernel */
#define E2B_USER_MAX      63
#define E2B_TEMPLATE_MAX  256
#define E2B_WORD_MAX      63
#define E2B_NUMBER_MAX    31
#define E2B_SIGNATURE_MAX 127
/* Can the query be decoded, and is no value too long? Done before a request is handled.
 */
int e2b_query_check(const struct http_request *req, struct api_error *err);
/* Decode a parameter; false: it is missing. @size: of its longest value and a NUL. */
bool e2b_query(const struct call *c, const char *name, char *ret, size_t size);
/* The same, for a value of any length, which the caller frees; NULL: out of memory. */
char *e2b_query_whole(const struct call *c, const char *name);

/* errors.c */
void e2b_show_rest(struct call *c, const struct api_error *err);
void e2b_show_unary(struct call *c, const struct api_error *err);
void e2b_show_stream(struct call *c, const struct api_error *err);
void e2b_show_proxy(struct call *c, const struct api_error *err);
/* End a stream that has begun with an error. */
void e2b_end_stream(struct call *c, const char *code, const char *message);
/* The code of an RPC for an error. */
const char *e2b_rpc_code(const struct api_error *err);
/* Answer with a code of an RPC, in the form of the operation. */
void e2b_refuse_rpc(struct call *c, const char *code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
#define E2B_UNARY_TYPE  "application/json"
#define E2B_STREAM_TYPE "application/connect+json"
/* The body of an RPC has another type than its method needs: status 415, as in Connect.
 */
void e2b_refuse_type(struct call *c, enum e2b_form form);
/* If @err says that the image has no such user, refuse the call and return true. */
bool e2b_refuse_user(struct call *c, const char *user, const struct warren_error *err);
/* Answer with a status that v1 does not use for this error. */
void e2b_refuse(struct call *c, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same, with an error_code, which programs can compare. */
void e2b_refuse_as(struct call *c, int status, const char *word, const char *message);
/* The sandbox does not exist for a client of the data plane. */
void e2b_refuse_gone(struct call *c);
/* Write the body of a refusal of the server; @sandbox and @port: of a proxied request. */
void e2b_write_refusal(enum e2b_form form, struct http_refusal *refusal,
		       const char *sandbox, uint16_t port, struct buf *body);

/*
 * fields.c: the message of an error, with the names of fields that this API has. The
 * result is overwritten by the next call.
 */
const char *e2b_message(const struct api_error *err);

/* envelope.c */
#define ENVELOPE_HEAD 5
#define ENVELOPE_LAST 0x02
#define ENVELOPE_MAX  (4U << 20)
struct envelope_reader {
	unsigned char head[ENVELOPE_HEAD];
	size_t n_head;
	struct buf body;
};
/* Append @size bytes of a message with its head. */
void envelope_put(struct buf *out, unsigned flags, const char *data, size_t size);
/*
 * Take bytes from *@data. 1: a message is complete in r->body; call envelope_next()
 * before the next call; 0: more bytes are needed; -EBADMSG: it is not valid, or too
 * large.
 */
int envelope_take(struct envelope_reader *r, const char **data, size_t *n);
void envelope_next(struct envelope_reader *r);
/* Begin the response of a stream. */
void envelope_begin(struct call *c);
/*
 * Collect the only message of a request, check it with the schema of the operation, and
 * call the handler with it as the body of the call.
 */
void envelope_read(struct call *c);
/* Parse and check a message; NULL: *@err says why. */
json_t *envelope_parse(const struct api_schema *schema, const char *data, size_t n,
		       struct api_error *err);

/*
 * cors.c: whether a browser asks what it may send to the data plane, from a page of
 * another origin. @envd: the request names that port of a sandbox.
 */
bool e2b_is_preflight(const struct http_request *req, bool envd);
void e2b_answer_preflight(struct http_request *req);
/* Let pages of every origin read the response. */
void e2b_allow_origins(struct http_request *req);

/* create.c */
void e2b_create_v1(struct call *c);
void e2b_create_v2(struct call *c);
/* Write the object Sandbox of a response. */
void e2b_sandbox_to_json(struct call *c, const struct sandbox *sandbox, struct json *j);

/*
 * network.c: the field `network` for v1; NULL: the default of the service. @internet is
 * allow_internet_access; -1: the request omits it.
 */
int e2b_network(struct body *network, int internet, json_t **ret, struct api_error *err);
/* Does a policy allow every public address? */
bool e2b_network_is_public(const json_t *policy);
/* Write `allowInternetAccess` and `network` of a sandbox, as its policy is now. */
void e2b_network_to_json(struct json *j, const struct sandbox *sandbox);

/* sandbox.c: the sandbox in the path; NULL: the call was refused. */
struct sandbox *e2b_sandbox(struct call *c);
/* A sandbox that could not be resumed is kept until a client connects to it. */
void e2b_without_end(struct call *c, struct sandbox *sandbox);
/* Answer the call, of which @ctx is a reference, with nothing or the error. */
void e2b_on_done(void *ctx, int r, const struct warren_error *err);
/* Refuse a request about a sandbox: with 404 if the sandbox no longer exists. */
void e2b_fail(struct call *c, const struct warren_error *err);
/* For an operation whose end needs no reaction. */
void e2b_ignore(void *ctx, int r, const struct warren_error *err);
#define TIMEOUT_MAX 31536000 /* seconds: one year */
/* May a sandbox live this long? */
int e2b_check_timeout(const struct call *c, int64_t seconds, struct api_error *err);
void e2b_list(struct call *c);
void e2b_list_running(struct call *c);
void e2b_get(struct call *c);
void e2b_kill(struct call *c);
/* Set the end of a sandbox that traffic has resumed; false: the call was refused. */
bool e2b_renew(struct call *c, struct sandbox *sandbox);
void e2b_timeout(struct call *c);
void e2b_refresh(struct call *c);
void e2b_pause(struct call *c);
void e2b_connect_v1(struct call *c);
void e2b_connect_v2(struct call *c);
void e2b_resume_old(struct call *c);
void e2b_metrics(struct call *c);
void e2b_metrics_of_all(struct call *c);
/* What a sandbox may use; without a limit, the whole machine. */
uint64_t e2b_cpu_count(const struct sandbox_row *row);
uint64_t e2b_memory_size(const struct sandbox_row *row);
void e2b_health(struct call *c);

/* snapshot.c */
void e2b_create_snapshot(struct call *c);
void e2b_list_snapshots(struct call *c);
void e2b_delete_template(struct call *c);
void e2b_fork(struct call *c);

/* template.c */
struct template_row;
#define E2B_NAME_MAX 128
/*
 * Find the template of the caller by "id", "name" or "tenant/name", each with an optional
 * ":tag", which is written to @tag ("default": none given). -ENOENT: there is none.
 */
int e2b_find_template(struct call *c, const char *word, struct template_row *ret,
		      char tag[E2B_NAME_MAX + 1], struct warren_error *err);
/* A template of the configuration, which comes before those of tenants. */
bool e2b_is_configured(const struct call *c, const char *name);
/* A template that needs no configuration, if no other has the name. */
bool e2b_has_template(const char *name);
bool e2b_tag_is_valid(const char *tag);
/* Delete the template in the path. 1: answered; 0: the caller has no such template. */
int e2b_delete_own_template(struct call *c);
extern const char *const e2b_template_states[]; /* by enum template_state */
/* The template in the path; false: refused. */
bool e2b_template(struct call *c, struct template_row *ret);
void e2b_list_templates(struct call *c);
void e2b_get_template(struct call *c);
void e2b_get_alias(struct call *c);
void e2b_publish_template(struct call *c);
void e2b_refuse_push(struct call *c);
void e2b_assign_tags(struct call *c);
void e2b_remove_tags(struct call *c);
void e2b_list_tags(struct call *c);

/* template_build.c */
void e2b_request_build(struct call *c);
void e2b_start_build(struct call *c);
void e2b_build_status(struct call *c);
void e2b_build_logs(struct call *c);

/* template_steps.c: the steps of a template as a Dockerfile. */
struct template_plan {
	/* In: the base, and what its commands begin with. */
	const char *base;   /* for FROM */
	bool prepare;       /* it is an image of others: create the account `user` */
	char user[64];      /* out: of the last step */
	char workdir[4096]; /* the same; "": only the image knows it */
	bool force;         /* do not use results of earlier builds */
	/* Out. */
	struct buf dockerfile;
	char **steps;
	const char **hashes; /* borrowed from the body */
	size_t n;
};
int template_plan_make(struct template_plan *p, json_t *steps, struct api_error *err);
void template_plan_done(struct template_plan *p);

/* template_upload.c */
bool e2b_hash_is_valid(const char *hash);
/* Identify the caller by the signature in the query: 0, or a refusal in @err. */
int e2b_upload_caller(struct call *c, struct api_error *err);
void e2b_get_upload(struct call *c);
void e2b_upload_archive(struct call *c);

/* template_create.c: the template of a new sandbox, and the commands that it starts with.
 */
struct template_start {
	char *start, *ready; /* NULL: none */
	/* The value of E2B_LABEL_BUILD; "": the template was not built. */
	char build[ID_LEN + 1 + TEMPLATE_UUID_LEN + 1];
};
/* Read the commands of the build that the label of a snapshot names; none: there is no
 * such build of the caller. */
void e2b_find_build_start(const struct call *c, const char *label,
			  struct template_start *ret);
/*
 * Put the fields of the template @name into the request for v1. 1: done, and @ret_id and
 * @ret_name are its id and its name; 0: the caller has no such template; -errno.
 */
int e2b_put_template(struct call *c, json_t *out, const char *name,
		     char ret_id[ID_LEN + 1], char ret_name[E2B_NAME_MAX + 1],
		     struct template_start *ret, struct warren_error *err);
void template_start_done(struct template_start *t);
/*
 * Start the command, and wait until the template is ready; then call @done with 0 or
 * -errno, unless the call is gone. @again: the command was started before.
 */
void e2b_start_template(struct call *c, struct sandbox *sandbox,
			const struct template_start *t, bool again, service_done_fn done,
			void *ctx);
/*
 * The same for a sandbox that has lost its processes, or a copy that never had them, and
 * whose command no other call is starting.
 */
void e2b_restart_template(struct call *c, struct sandbox *sandbox, service_done_fn done,
			  void *ctx);
void e2b_forget_starting(struct e2b *e);

/* secret.c */
void e2b_list_secrets(struct call *c);
void e2b_create_secret(struct call *c);
void e2b_get_secret(struct call *c);
void e2b_update_secret(struct call *c);
void e2b_delete_secret(struct call *c);

/* volume.c */
void e2b_list_volumes(struct call *c);
void e2b_create_volume(struct call *c);
void e2b_get_volume(struct call *c);
void e2b_delete_volume(struct call *c);
/*
 * Identify the caller by the token of the volume in the path, and put its name there, as
 * the handlers of v1 expect it: 0, or a refusal in @err.
 */
int e2b_volume_caller(struct call *c, struct api_error *err);

/* content.c: files of volumes */
void e2b_content_stat(struct call *c);
void e2b_content_change(struct call *c);
void e2b_content_remove(struct call *c);
void e2b_content_list(struct call *c);
void e2b_content_make_dir(struct call *c);
void e2b_content_read(struct call *c);
void e2b_content_write(struct call *c);

/* account.c */
void e2b_teams(struct call *c);
void e2b_update_network(struct call *c);

/* Programs that use it expect it to be set; nothing answers there (doc/e2b.md). */
#define E2B_EVENTS_ENV "E2B_EVENTS_ADDRESS=http://192.0.2.1"

/* process.c */
void e2b_process_start(struct call *c);
void e2b_process_connect(struct call *c);
void e2b_process_list(struct call *c);
void e2b_process_send_input(struct call *c);
void e2b_process_stream_input(struct call *c);
void e2b_process_close_stdin(struct call *c);
void e2b_process_send_signal(struct call *c);
void e2b_process_update(struct call *c);

/* process_table.c: a command that the data plane has started */
struct e2b_process {
	struct e2b_process *next;
	char sandbox[ID_LEN + 1];
	char id[ID_LEN + 1]; /* of the exec */
	struct exec *exec;   /* a reference; NULL: it has ended */
	int pid;
	int64_t ended_at;
	char *tag;    /* NULL: none */
	char *config; /* cmd, args, envs and cwd, as JSON; NULL: too long, or it has ended
		       */
};

/* Keep a command for lists and late clients. */
void process_keep(struct call *c, struct exec *exec, int pid);
/* The command of a running exec; NULL: unknown. */
const struct e2b_process *process_of(struct e2b *e, const char *sandbox,
				     const struct exec *exec);
/*
 * Find the command that the field `process` names. The caller releases it. NULL: refused.
 */
struct exec *process_find(struct call *c, const struct body *from, int *ret_pid);
/* The same, but one that has ended is refused, too. */
struct exec *process_find_running(struct call *c, const struct body *from, int *ret_pid);
void process_refuse_ended(struct call *c, int pid);
/* The command did not take the input. */
void process_refuse_input(struct call *c, const struct exec *exec, int pid);
/* The bytes of the field `input`, which the caller frees; NULL: refused. */
char *process_input(struct call *c, const struct body *from, bool pty, size_t *ret_n);

/* process_stream.c: send the events of a command until it ends. */
struct process_stream_options {
	struct exec *exec; /* taken */
	int pid;
	bool from_start; /* all output; otherwise output from now on */
	bool bounded;    /* the command has a time limit, which is that of the request */
	uint64_t limit_ms; /* of the stream, not of the command; 0: none */
};
void process_stream_begin(struct call *c, const struct process_stream_options *o);

/* The user that the request names; NULL: the default of the sandbox. */
const char *e2b_user(struct call *c, char room[64]);
/* Make a path absolute; false: it is too long. */
bool e2b_path(const struct sandbox *sandbox, const char *user, const char *path,
	      char ret[4096]);
void e2b_forget_processes(struct e2b *e);
void e2b_forget_watchers(struct e2b *e);
/* The time limit that the request sets; 0: none. */
uint64_t e2b_timeout_ms(const struct call *c);
/* How long a stream may be silent. */
uint64_t e2b_keepalive_ms(const struct call *c);

/* filesystem.c */
void e2b_fs_stat(struct call *c);
void e2b_fs_make_dir(struct call *c);
void e2b_fs_move(struct call *c);
void e2b_fs_list_dir(struct call *c);
void e2b_fs_remove(struct call *c);

/* watch.c */
void e2b_fs_watch_dir(struct call *c);
void e2b_fs_create_watcher(struct call *c);
void e2b_fs_get_watcher_events(struct call *c);
void e2b_fs_remove_watcher(struct call *c);

/*
 * signature.c: whether the client may use the file in the query, by its access token or
 * by a signature; otherwise the call is refused.
 */
bool e2b_may_use_file(struct call *c);
/* Find the sandbox of a URL that has only a signature; on failure, the call is refused.
 */
void e2b_find_signed(struct call *c, void (*found)(struct call *c, const char *id));

/* interpreter.c */
void e2b_interpreter_health(struct call *c);
void e2b_interpreter_execute(struct call *c);
void e2b_contexts_list(struct call *c);
void e2b_contexts_create(struct call *c);
void e2b_contexts_delete(struct call *c);
void e2b_contexts_restart(struct call *c);
/* context.c */
void e2b_forget_contexts(struct e2b *e);
/* Is the exec the kernel of a context of the sandbox? */
bool e2b_is_kernel(const struct e2b *e, const char *sandbox, const char *exec);

/* logs.c */
void e2b_logs(struct call *c);
void e2b_logs_v2(struct call *c);
/* The rank of a level of logs; -1: there is no such level. */
int e2b_log_level(const char *word);

/* file.c */
void e2b_file_read(struct call *c);
void e2b_file_write(struct call *c);
void e2b_envd_health(struct call *c);
void e2b_envd_envs(struct call *c);
void e2b_envd_metrics(struct call *c);

#endif /* API_E2B_INTERNAL_H */
