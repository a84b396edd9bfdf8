/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - error codes, their HTTP statuses, and the format of all errors */
#include "api/errors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "spec/spec.h"

#define X(code, name, status) [code] = { name, status },
static const struct {
	const char *name;
	int status;
} codes[] = { API_CODES(X) };
#undef X

_Static_assert(ARRAY_SIZE(codes) == API_ERR_COUNT, "an error code has no status");

/*
 * Maps the errno of an engine's error to a status. Everything else is an error of Warren
 * or of the machine: 500.
 */
static const struct {
	int errnum;
	enum api_code code;
} meanings[] = {
	{ EINVAL, API_ERR_INVALID_REQUEST },
	{ ERANGE, API_ERR_INVALID_REQUEST },
	{ ENAMETOOLONG, API_ERR_INVALID_REQUEST },
	{ E2BIG, API_ERR_INVALID_REQUEST },
	{ EFBIG, API_ERR_INVALID_REQUEST }, /* a file that is too large to be copied */
	{ ELOOP, API_ERR_INVALID_REQUEST },
	{ ENOENT, API_ERR_NOT_FOUND },
	{ EACCES, API_ERR_PERMISSION_DENIED },
	{ EPERM, API_ERR_PERMISSION_DENIED },
	{ EEXIST, API_ERR_FILE_EXISTS },
	{ ENOTDIR, API_ERR_NOT_A_DIRECTORY },
	{ EISDIR, API_ERR_IS_A_DIRECTORY },
	{ ENOTUNIQ, API_ERR_NAME_IN_USE },
	{ ENOTEMPTY, API_ERR_DIRECTORY_NOT_EMPTY },
	{ ENXIO, API_ERR_SPECIAL_FILE },
	{ EROFS, API_ERR_READ_ONLY },
	{ EBUSY, API_ERR_CONFLICT },
	{ EADDRINUSE, API_ERR_CONFLICT }, /* a process inside has a port that is needed */
	{ ENOKEY, API_ERR_CONFLICT },
	{ EBADMSG, API_ERR_CONFLICT }, /* a damaged secret */
	{ ESTALE, API_ERR_WRONG_STATE },
	{ ESRCH, API_ERR_WRONG_STATE },
	{ EPIPE, API_ERR_WRONG_STATE }, /* the sandbox ended in the meantime */
	{ ENOEXEC, API_ERR_COMMAND_NOT_EXECUTABLE },
	{ EOPNOTSUPP, API_ERR_NOT_SUPPORTED },
	{ ENOSYS, API_ERR_NOT_SUPPORTED },
	{ EDQUOT, API_ERR_QUOTA_EXCEEDED },
	{ EUSERS, API_ERR_QUOTA_EXCEEDED },
	{ ENOMEDIUM, API_ERR_IMAGE_NOT_FOUND },
	{ EMEDIUMTYPE, API_ERR_VOLUME_DAMAGED },
	{ ENOTBLK, API_ERR_VOLUME_NOT_FOUND },
	{ ECOMM, API_ERR_REGISTRY_FAILED },
	{ ECONNREFUSED, API_ERR_PORT_CLOSED },
	{ EHOSTDOWN, API_ERR_BACKEND_UNAVAILABLE },
	{ EREMOTEIO, API_ERR_SANDBOX_FAILED },
	{ ECONNRESET, API_ERR_SANDBOX_FAILED },
	{ EPROTO, API_ERR_SANDBOX_FAILED },
	{ ETIMEDOUT, API_ERR_TIMEOUT },
	{ ENOSPC, API_ERR_DISK_FULL },
	{ ENOMEM, API_ERR_OVERLOADED },
	{ EMFILE, API_ERR_OVERLOADED },
	{ ENFILE, API_ERR_OVERLOADED },
	{ EAGAIN, API_ERR_OVERLOADED },
	{ ENOBUFS, API_ERR_OVERLOADED },
	{ ETOOMANYREFS, API_ERR_OVERLOADED },
	{ ESHUTDOWN, API_ERR_SHUTTING_DOWN },
};

static const enum api_code refusals[] = {
	API_ERR_MALFORMED_REQUEST,
	API_ERR_UNAUTHORIZED,
	API_ERR_FORBIDDEN,
	API_ERR_NOT_FOUND,
	API_ERR_REQUEST_TIMEOUT,
	API_ERR_BODY_TOO_LARGE,
	API_ERR_EXPECTATION_FAILED,
	API_ERR_UPGRADE_REQUIRED,
	API_ERR_HEADERS_TOO_LARGE,
	API_ERR_NOT_SUPPORTED,
	API_ERR_BAD_GATEWAY,
	API_ERR_OVERLOADED,
	API_ERR_TIMEOUT,
	API_ERR_VERSION_NOT_SUPPORTED,
};

int api_error_set(struct api_error *err, enum api_code code, const char *fmt, ...)
{
	va_list ap;

	err->code = code;
	err->n_details = 0;
	va_start(ap, fmt);
	(void)vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	return -EBADMSG;
}

int api_error_from(struct api_error *err, const struct warren_error *engine)
{
	const char *name = strerrorname_np(engine->code);
	enum api_code code = API_ERR_INTERNAL;

	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].errnum == engine->code)
			code = meanings[i].code;
	(void)api_error_set(err, code, "%s", engine->msg);
	if (name)
		api_error_text(err, "errno", "%s", name);
	return -EBADMSG;
}

static struct api_detail *add_detail(struct api_error *err, const char *key)
{
	struct api_detail *d = &err->details[err->n_details];

	if (err->n_details == API_DETAILS_MAX)
		return NULL;
	err->n_details++;
	*d = (struct api_detail){ .key = key };
	return d;
}

void api_error_text(struct api_error *err, const char *key, const char *fmt, ...)
{
	struct api_detail *d = add_detail(err, key);
	va_list ap;

	if (!d)
		return;
	d->is_text = true;
	va_start(ap, fmt);
	(void)vsnprintf(d->text, sizeof(d->text), fmt, ap);
	va_end(ap);
}

void api_error_number(struct api_error *err, const char *key, uint64_t number)
{
	struct api_detail *d = add_detail(err, key);

	if (d)
		d->number = number;
}

void api_error_denial(struct api_error *err, const struct denial *d)
{
	if (!d)
		return;
	api_error_text(err, "quota", "%s", d->quota);
	api_error_number(err, "used", d->used);
	api_error_number(err, "maximum", d->maximum);
}

const char *api_code_name(enum api_code code)
{
	return code < API_ERR_COUNT ? codes[code].name : codes[API_ERR_INTERNAL].name;
}

int api_code_status(enum api_code code)
{
	return code < API_ERR_COUNT ? codes[code].status : codes[API_ERR_INTERNAL].status;
}

enum api_code api_code_refused(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (api_code_status(refusals[i]) == status)
			return refusals[i];
	return API_ERR_INTERNAL;
}

/* Return a time in milliseconds; 0: retrying is useless. The error need not contain a
 * time. */
static uint64_t retry_after(const struct api_error *err, bool *ret_said)
{
	int status = api_code_status(err->code);

	*ret_said = true;
	for (size_t i = 0; i < err->n_details; i++)
		if (strcmp(err->details[i].key, "retry_after_ms") == 0)
			return err->details[i].number;
	*ret_said = false;
	return status == 429 || status == 503 ? 1000 : 0;
}

uint64_t api_error_retry_after(const struct api_error *err)
{
	bool said;

	return (retry_after(err, &said) + 999) / 1000;
}

void api_error_write(const struct api_error *err, const char *request_id, struct buf *out)
{
	struct json j = { .out = out };
	bool said;
	uint64_t retry = retry_after(err, &said);
	bool has_detail = err->n_details > 0 || retry > 0;

	json_open(&j, NULL, '{');
	json_str(&j, "code", api_code_name(err->code));
	json_str(&j, "message", err->message);
	if (!has_detail)
		json_nil(&j, "detail");
	else
		json_open(&j, "detail", '{');
	for (size_t i = 0; i < err->n_details; i++) {
		const struct api_detail *d = &err->details[i];

		if (d->is_text)
			json_str(&j, d->key, d->text);
		else
			json_u64(&j, d->key, d->number);
	}
	if (retry > 0 && !said)
		json_u64(&j, "retry_after_ms", retry);
	if (has_detail)
		json_close(&j, '}');
	json_str(&j, "request_id", request_id);
	json_close(&j, '}');
}

int api_error_policy(struct api_error *err, const struct warren_error *why)
{
	int r = api_error_set(err,
			      why->code == EPERM ? API_ERR_POLICY_REFUSED
						 : API_ERR_INVALID_REQUEST,
			      "%s", why->msg);

	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		size_t n = strlen(spec_limits[i].word);

		if (strncmp(why->msg, spec_limits[i].word, n) == 0 && why->msg[n] == ':')
			api_error_text(err, "pointer", "/limits/%s", spec_limits[i].name);
	}
	return r;
}
