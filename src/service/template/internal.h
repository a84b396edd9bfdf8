/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of this folder */
#ifndef SERVICE_TEMPLATE_INTERNAL_H
#define SERVICE_TEMPLATE_INTERNAL_H

#include "base/buf.h"
#include "service/core/module.h"
#include "service/template/template.h"

struct template_archive {
	struct template_archive *next;
	struct service *service;
	char tenant[DB_NAME_MAX + 1];
	char hash[TEMPLATE_HASH_LEN + 1];
	int fd; /* a file without a name */
	uint64_t size;
	uint64_t reserved; /* bytes of the disk that are still to be written */
	struct db_hold *hold;
	struct fair_quota_lease descriptor;
	unsigned users; /* builds that read it */
	uint64_t used;  /* the time of the last use, in ms; see clock_now() */
	bool replaced;  /* it is not in the list any more */
	bool known;     /* it begins like an archive */
};

struct template_module {
	struct template_archive *archives;
	struct template_build *builds;
	struct template_upload *uploads;
	struct loop_timer *timer; /* deletes archives that are not used */
};

static inline struct template_module *template_module(struct service *s)
{
	return s->modules[MODULE_TEMPLATE];
}

/* archive.c: find an archive and keep it until template_archive_put(); NULL: none. */
struct template_archive *template_archive_get(struct service *s, const char *tenant,
					      const char *hash);
void template_archive_put(struct template_archive *a);
void template_archives_close(struct service *s);

/* build_log.c */
struct template_log {
	struct buf text; /* a JSON object on each line */
	struct buf part; /* a line without its end */
	bool cut;        /* it is full */
	/* The step whose output it is; 0: the base. */
	size_t step, n_steps;
	char **steps;
};

void template_log_init(struct template_log *log);
void template_log_done(struct template_log *log);
/* Add a line. */
void template_log_add(struct template_log *log, const char *level, const char *text,
		      size_t n);
/* The step whose stage begins with this line of the Dockerfile; 0: the base; -1: none. */
long template_log_stage(const struct template_log *log, const char *line);
/* Announce a step, unless that was done; what follows belongs to it. */
void template_log_begin(struct template_log *log, size_t step);
/* Take output of warren-image(1). */
void template_log_take(struct template_log *log, const char *text, size_t n);

/* context.c */
struct template_context;
/*
 * Write @head, then a tar archive with the Dockerfile and the archives, to @fd, which is
 * taken. The archives are released. If the reader is gone, this ends silently.
 */
struct template_context *template_context_start(struct service *s, int fd,
						struct buf *head, const char *dockerfile,
						struct template_archive **archives,
						size_t n);
struct template_context *template_context_stop(struct template_context *c);

#endif /* SERVICE_TEMPLATE_INTERNAL_H */
