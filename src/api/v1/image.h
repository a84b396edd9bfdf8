/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - shared by the handlers for images */
#ifndef API_V1_IMAGE_H
#define API_V1_IMAGE_H

#include "api/v1/v1.h"

#define V1_IMAGE_SIZE 512

/*
 * The image that @text names for the caller: the id of its image, if it is a snapshot of
 * the caller's tenant; otherwise @text itself. Other images of snapshots cannot be named,
 * not even by their ids: the call is answered, and NULL is returned.
 */
const char *v1_image_named(struct call *c, const char *text, char room[V1_IMAGE_SIZE]);
/* Answer with an error of warren-image(1). */
void v1_image_fail(struct call *c, const struct warren_error *err);
/* A callback with a reference to a call: respond with 204, or with the error. */
void v1_image_on_changed(void *ctx, int r, const char *json, size_t size,
			 const struct warren_error *err);

struct json;
/*
 * image_build.c: write the tenant, the network and the limits of a build, from the fields
 * `limits` and `network` of a CreateSandbox, for warren-image(1); and what the build
 * uses.
 */
int v1_build_put_rules(struct call *c, const struct body *body, struct json *j,
		       struct image_stream_request *request,
		       struct api_error *err) MUST_CHECK;
/* A build runs commands in new sandboxes: may the caller do that? */
int v1_build_check_scopes(const struct call *c, struct api_error *err) MUST_CHECK;

#endif /* API_V1_IMAGE_H */
