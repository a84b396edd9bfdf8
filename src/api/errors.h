/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errors.h - error responses for clients
 *
 * v1/openapi.yaml is the only list of codes and their statuses. An error is a plain value
 * that needs no release:
 *
 *	return api_error_set(err, API_ERR_WRONG_STATE, "sandbox '%s' is %s", id, state);
 */
#ifndef API_ERRORS_H
#define API_ERRORS_H

#include "api/v1/codes.h"
#include "base/buf.h"
#include "base/denial.h"
#include "base/error.h"

#define API_DETAILS_MAX 8

/* One field of `detail`; openapi.yaml lists them (ErrorDetail). */
struct api_detail {
	const char *key;
	bool is_text;
	uint64_t number;
	char text[256];
};

struct api_error {
	enum api_code code;
	char message[1024];
	size_t n_details;
	struct api_detail details[API_DETAILS_MAX];
};

/*
 * Set @err, without details. Returns -EBADMSG, so that a caller can refuse in one
 * statement.
 */
int api_error_set(struct api_error *err, enum api_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
/*
 * Convert an engine's error for a client: the errno determines the code, and the message
 * is unchanged.
 */
int api_error_from(struct api_error *err, const struct warren_error *engine);
/* Convert an error from policy_check(). A limit that it names is a field in `limits`. */
int api_error_policy(struct api_error *err, const struct warren_error *why);
/* Add a field to `detail`; beyond API_DETAILS_MAX, it is dropped. */
void api_error_text(struct api_error *err, const char *key, const char *fmt, ...)
	PRINTF_LIKE(3, 4);
void api_error_number(struct api_error *err, const char *key, uint64_t number);
/* Add the quota, its use and its maximum; @d NULL: nothing. */
void api_error_denial(struct api_error *err, const struct denial *d);

const char *api_code_name(enum api_code code);
int api_code_status(enum api_code code);
/* The code for a request that the HTTP server refused itself, with this status. */
enum api_code api_code_refused(int status);
/* Get the value of the header Retry-After in seconds, rounded up; 0: none. */
uint64_t api_error_retry_after(const struct api_error *err);

/*
 * Write the body of the response: {"code":..., "message":..., "detail":...,
 * "request_id":...}.
 */
void api_error_write(const struct api_error *err, const char *request_id,
		     struct buf *out);

#endif /* API_ERRORS_H */
