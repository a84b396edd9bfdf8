/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - find the operation of a request */
#ifndef API_ROUTE_H
#define API_ROUTE_H

#include "api/api.h"
#include "api/errors.h"
#include "base/id.h"

#define ROUTE_PARAMS_MAX 4
#define ROUTE_TEXT_MAX   192 /* of all path parameters together, NULs included */

struct route {
	const struct api_op *op;
	bool head; /* the method is HEAD: as GET, without a body in the answer */
	size_t n_params;
	const char *param[ROUTE_PARAMS_MAX]; /* decoded, in the order of the path */
	int64_t number[ROUTE_PARAMS_MAX]; /* of those that are numbers, by route_check()
					   */
	/* What x-rest took, undecoded, without its first slash; points into the path. */
	const char *rest;
	size_t rest_len;
	char text[ROUTE_TEXT_MAX];
	char sandbox[ID_LEN + 1]; /* that a name in the path means: param[0] then */
};

/*
 * @path is the part before '?'. A segment is matched after it was decoded, and an encoded
 * slash is not a separator. Refused: API_ERR_NOT_FOUND, API_ERR_METHOD_NOT_ALLOWED (with
 * the header's value in the detail "allow"), and API_ERR_INVALID_REQUEST for what is no
 * path. No memory is allocated.
 */
int route_find(const struct api_face *face, const char *method, const char *path,
	       size_t len, struct route *ret, struct api_error *err) MUST_CHECK;

/*
 * Whether the path parameters match their schemas. A text that cannot be an id is not
 * found, like an unknown id. To be called after authorization, so that an unauthorized
 * client learns nothing.
 */
int route_check(struct route *r, struct api_error *err) MUST_CHECK;

#endif /* API_ROUTE_H */
