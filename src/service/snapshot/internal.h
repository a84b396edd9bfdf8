/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of this folder */
#ifndef SERVICE_SNAPSHOT_INTERNAL_H
#define SERVICE_SNAPSHOT_INTERNAL_H

#include "base/snapshot_name.h"
#include "service/core/module.h"
#include "service/snapshot/snapshot.h"

struct snapshot_op {
	struct snapshot_op *next;
	struct service *service;
	char id[ID_LEN + 1];
	char sandbox[ID_LEN + 1];
	char tenant[DB_NAME_MAX + 1];
	char name[SNAPSHOT_NAME_MAX + 1]; /* "": none */
	char *labels;
	struct snapshot_quota quota;
	bool transient;
	bool has_turn, recorded;
	bool deletes, removes;    /* its image must be removed; is being removed */
	struct loop_timer *timer; /* of a client that waits for a deletion */
	unsigned tries;           /* how often the sandbox hibernated in the meantime */
	struct permit permit;     /* of the client's request */
	int report;               /* pipe with the report of warren-image; -1: none */
	snapshot_done_fn done;
	service_done_fn deleted; /* of a deletion; NULL: no callback */
	void *ctx;
};

/* snapshot.c */
struct snapshot_op *snapshot_op_new(struct service *s, const char *tenant,
				    const char *labels);
void snapshot_op_free(struct snapshot_op *op);
/* Insert the row, if the quota allows it. */
int snapshot_op_record(struct snapshot_op *op, struct warren_error *err);
/* The image was created, or has failed: end the operation. */
void snapshot_on_image(void *ctx, int r, const char *json, size_t size,
		       const struct warren_error *failure);
void snapshot_op_fail(struct snapshot_op *op, const struct warren_error *err);

#endif /* SERVICE_SNAPSHOT_INTERNAL_H */
