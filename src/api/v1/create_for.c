/* SPDX-License-Identifier: Apache-2.0 */
/* create_for.c - create a sandbox on behalf of another API (api/create.h) */
#include <errno.h>

#include "api/v1/sandbox.h"
#include "api/validate.h"

int v1_create_for(void *ctx, const struct caller *caller, json_t *request,
		  const char *mark, struct sandbox **ret, struct api_error *err)
{
	struct v1 *v1 = ctx;
	struct body body = { .schema = v1_face.ops[V1_CREATE_SANDBOX].schema,
			     .json = request };
	CLEANUP(wanted_done) struct wanted w = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	struct sandbox *sandbox = NULL;
	int r = validate_json(body.schema, request, err);

	if (r == 0)
		r = wanted_read(v1, caller, &body, &w, err);
	if (r < 0)
		return r;
	if (mark)
		w.row.template = mark;
	r = sandbox_create(v1->service, &w.row, &w.spec, &w.source, &w.request, &sandbox,
			   &why);
	if (r < 0)
		return api_error_from(err, &why);
	*ret = sandbox;
	return 0;
}
