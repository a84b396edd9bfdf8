/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - turn a request to run code into a plan: what to write, compile and run
 *
 *	AUTO_CODE_PLAN struct code_plan plan = { 0 };
 *
 *	r = code_plan_make(&settings, &request, &plan, err);
 *
 * All checks of a request are here. They need neither a sandbox nor the service. Errors
 * begin with the field, as a JSON pointer: "/timeout_ms: ...".
 */
#ifndef CODE_PLAN_H
#define CODE_PLAN_H

#include <stdint.h>

#include "code/language.h"

#define CODE_DIR            "/sandbox"
#define CODE_TMP_BYTES      (UINT64_C(16) << 20)
#define CODE_BYTES_MAX      (UINT64_C(4) << 20) /* maximum bytes in a program */
#define CODE_FILES_MAX      256
#define CODE_FILES_BYTES    (UINT64_C(16) << 20) /* maximum in all files, and in stdin */
#define CODE_DEPTH_MAX      16                   /* maximum directory depth of a file */
#define CODE_ARGS_MAX       1024
#define CODE_ARGS_BYTES     (UINT64_C(128) << 10)
#define CODE_GLOBS_MAX      32
#define CODE_GLOB_LEN       1024
#define CODE_TIMEOUT_MAX    UINT64_C(3600000)
#define CODE_OUTPUT_DEFAULT (UINT64_C(1) << 20) /* bytes of each output stream */
#define CODE_OUTPUT_MAX     (UINT64_C(16) << 20)
#define CODE_MEMORY_MIN     (UINT64_C(8) << 20)
#define CODE_DISK_MIN       (UINT64_C(1) << 20)

struct code_file {
	const char *name; /* relative to the working directory */
	const void *data;
	size_t size;
};

/* Limits of a run. 0 means the default, or no limit if this is a maximum. */
struct code_limits {
	uint64_t timeout_ms, memory, disk, pids;
};

extern const struct code_limits code_default_limits;

struct code_image {
	const char *language, *image;
};

/* Settings from the configuration. */
struct code_settings {
	struct code_table table;
	const struct code_image *images; /* images by language name */
	size_t n_images;
	struct code_limits defaults, max;
};

/* A request. Everything that it points to is borrowed. */
struct code_request {
	const char *language;
	const char *code;
	size_t code_size;
	const char *const *args; /* NULL-terminated; NULL: none */
	const char *const *env;  /* "NAME=value"; NULL: none */
	const void *input;       /* stdin; NULL: empty */
	size_t input_size;
	const struct code_file *files;
	size_t n_files;
	const char *const *artifacts; /* globs of files to return; NULL: none */
	struct code_limits limits;
	uint64_t max_output; /* bytes of each stream; 0: the default */
	const char *image;   /* NULL: the image of the language */
};

struct code_plan {
	const struct code_language *language;
	const char *image;
	struct code_file *files; /* the first file is the program */
	size_t n_files;
	char **compile, **run; /* compile NULL: nothing is compiled */
	char **run_alone;      /* NULL: the compiler is needed */
	char **env;
	const void *input;
	size_t input_size;
	const char *const *artifacts; /* NULL: none */
	struct code_limits limits;
	uint64_t tmp; /* bytes of /tmp */
	uint64_t max_output;
	char *opened;  /* the program with its opening; NULL: as it was given */
	bool own_path; /* the request sets PATH */
};

/*
 * Make a plan, which borrows from @request and @settings. -EINVAL: a field is wrong;
 * -EPERM: the request exceeds what the service allows; -ENOMEM.
 */
int code_plan_make(const struct code_settings *settings,
		   const struct code_request *request, struct code_plan *ret,
		   struct warren_error *err) MUST_CHECK;
void code_plan_done(struct code_plan *p);

#define AUTO_CODE_PLAN CLEANUP(code_plan_done)

/*
 * Check whether the relative path @path matches @glob: * and ? within a name, ** across
 * names, [sets]. Each step decrements *@steps. Returns -E2BIG when no steps are left.
 */
int code_glob_match(const char *glob, const char *path, unsigned *steps);

/*
 * Maximum steps for one file and all globs of a request. They take about 50 microseconds.
 */
#define CODE_GLOB_STEPS 16384

/*
 * Check whether the request asks for the file @name, relative to CODE_DIR. The program
 * itself and the output of its compiler never count. -E2BIG: the globs are too
 * complicated to decide.
 */
int code_plan_wants(const struct code_plan *p, const char *name);
/*
 * Set an error: the image has none of the programs that the first word of a step names.
 * Returns -ENOENT.
 */
int code_plan_missing(const struct code_plan *p, const char *tools,
		      struct warren_error *err);

#endif /* CODE_PLAN_H */
