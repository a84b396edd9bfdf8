/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - find the operation of a request */
#ifndef API_ROUTE_H
#define API_ROUTE_H

#include "api/api.h"
#include "api/errors.h"
#include "base/id.h"

#define ROUTE_PARAMS_MAX 4
#define ROUTE_TEXT_MAX   512 /* maximum bytes of all path parameters, including NULs */

struct route {
	const struct api_op *op;
	bool head; /* the method is HEAD: like GET, but the response has no body */
	size_t n_params;
	const char *param[ROUTE_PARAMS_MAX]; /* decoded, in the order of the path */
	/* Set by route_check() for parameters that are numbers. */
	int64_t number[ROUTE_PARAMS_MAX];
	/*
	 * The segments that x-rest matched, not decoded, without the first slash; points
	 * into the path.
	 */
	const char *rest;
	size_t rest_len;
	char text[ROUTE_TEXT_MAX];
	/*
	 * If param[0] was a name: the id of that sandbox, which param[0] then points to.
	 */
	char sandbox[ID_LEN + 1];
};

/*
 * @path is the part before '?'. Segments are decoded before they are matched; an encoded
 * slash is not a separator. Refusals: API_ERR_NOT_FOUND, API_ERR_METHOD_NOT_ALLOWED (with
 * the value of the header Allow in the detail "allow"), and API_ERR_INVALID_REQUEST for
 * an invalid path. Allocates no memory.
 */
int route_find(const struct api_face *face, const char *method, const char *path,
	       size_t len, struct route *ret, struct api_error *err) MUST_CHECK;

/*
 * Check whether the path parameters match their schemas. A text that cannot be an id is
 * refused like an unknown id: not found. Call this after authorization, so that an
 * unauthorized client learns nothing.
 */
int route_check(struct route *r, struct api_error *err) MUST_CHECK;

#endif /* API_ROUTE_H */
