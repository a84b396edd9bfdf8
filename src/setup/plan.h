/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - how a project is prepared for work
 *
 * A plan is made from the files of a project's directory, in this order:
 *
 *	1. .devcontainer/devcontainer.json, .devcontainer.json or
 *	   .devcontainer/<folder>/devcontainer.json (devcontainer.h)
 *	2. warren.yaml (yaml.h)
 *	3. setup.sh, or the target `setup` of a makefile: the user is asked (plan.ask)
 *	4. the table of known manifests (detect.h)
 *
 * The first of 1 and 2 that has an image, a user or an environment gives it; the first of
 * all that names steps gives the steps. Everything in the project is hostile: files are
 * read with limits, links never lead out of the project, and nothing is executed here.
 * The steps run in a sandbox (cli/work/setup_run.h).
 *
 * The result of the steps is a layer, found again by its key: a hash of the image, the
 * steps and the contents of the files that determine them (inputs.h). To compute it, only
 * these files are read.
 */
#ifndef SETUP_PLAN_H
#define SETUP_PLAN_H

#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"

enum setup_limits {
	SETUP_STEPS_MAX = 32,
	SETUP_FILES_MAX = 2000, /* files that determine a plan */
	SETUP_MOUNTS_MAX = 16,
	SETUP_PORTS_MAX = 64,
	SETUP_NOTES_MAX = 100,
	SETUP_TEXT_MAX = 1 << 20,  /* bytes of a file that is parsed */
	SETUP_FILE_MAX = 64 << 20, /* bytes of a file that is part of a key */
};

/* Where the steps come from. */
enum setup_source {
	SETUP_NONE,
	SETUP_DEVCONTAINER,
	SETUP_YAML,
	SETUP_SCRIPT,
	SETUP_MAKE,
	SETUP_DETECTED,
	SETUP_SOURCE_MAX,
};
extern const char *const setup_source_names[SETUP_SOURCE_MAX];

/* What steps read besides .files (inputs.h): bits. */
enum setup_reads {
	SETUP_READS_NAMES = 1, /* all manifests that the table knows, at any depth */
	/* If an installation runs code of one of these package.json, everything. */
	SETUP_READS_SCRIPTS = 2,
	SETUP_READS_ALL = 4, /* every file that .gitignore does not exclude */
};

struct setup_step {
	char *title;       /* for people: "npm ci" */
	char *dir;         /* below the project; "": the project itself */
	char *why;         /* the file that asks for it: "web/package-lock.json" */
	char *run;         /* for /bin/sh */
	char *verify;      /* for /bin/sh, after all steps; NULL: nothing */
	const char *needs; /* the program that must exist; NULL: none is known */
	char **files;      /* files of the project that determine the result */
	/* Directories whose files, and names of directories, determine the result. */
	char **lists;
	unsigned reads;  /* enum setup_reads */
	char *reads_why; /* SETUP_READS_ALL: the reason; otherwise NULL */
	bool start;      /* runs each time, before the command: its result is not kept */
};

/* An image that has to be built first (`warren image build`). */
struct setup_build {
	char *dockerfile; /* below the project; NULL: nothing is built */
	char *context;    /* below the project; "": the project itself */
	char *target;     /* NULL: the last stage */
	char **args;      /* NAME=VALUE */
};

/* A tmpfs. Other mounts are refused by name, in the notes. */
struct setup_mount {
	char *target;
	uint64_t size; /* 0: the default */
};

struct setup_steps {
	struct setup_step *v;
	size_t n;
};

struct setup_plan {
	char *config; /* the file that describes the environment; NULL: none */
	char *image;  /* NULL: nothing is asked for */
	struct setup_build build;
	char *user;    /* NULL: the image's */
	char *workdir; /* where the project appears; NULL: anywhere */
	char **env;    /* NAME=VALUE, for the steps and for the command */
	char **allow;  /* hosts that the command wants to reach: only a request */
	char **hide;   /* patterns of files to hide */
	struct setup_mount mounts[SETUP_MOUNTS_MAX];
	size_t n_mounts;
	uint16_t ports[SETUP_PORTS_MAX]; /* to be forwarded */
	size_t n_ports;
	enum setup_source source; /* of the steps */
	struct setup_steps steps;
	char **files;   /* all files that determine the steps, sorted */
	char **lists;   /* setup_step.lists of all steps */
	unsigned reads; /* enum setup_reads, of all steps */
	char **notes;   /* what is not honoured, by name; what was skipped */
	/* The file with commands that the user has to approve; NULL: none. */
	char *ask;
	char *ask_text;                     /* its contents; NULL: none */
	char ask_digest[SHA256_DIGITS + 1]; /* of them */
};

struct setup_options {
	const char *project; /* its path on the host */
	const char *workdir; /* where it appears inside; NULL: as the plan says, or
				.project */
	const char *image;   /* given by the user, instead of the plan's; NULL: none */
	const char *const
		*env; /* NAME=VALUE: what ${localEnv:NAME} may show; NULL: none */
	const char *const *image_env; /* for ${containerEnv:NAME}; NULL: unknown */
	/*
	 * A file that makes the next plan of the same project faster: the names in its
	 * directories (base/dir_cache.h). NULL: none.
	 */
	const char *memory;
	bool no_script; /* the user has refused .ask */
};

/*
 * Make a plan of the directory @project_fd. setup_plan_done() frees it. -EPERM: the
 * project asks for an image that only the user may choose (dir:PATH).
 */
int setup_plan_make(int project_fd, const struct setup_options *o, struct setup_plan *ret,
		    struct warren_error *err) MUST_CHECK;
void setup_plan_done(struct setup_plan *p);

/* Read only the patterns of files to hide; *@ret may become NULL. The caller frees them.
 */
int setup_plan_hide(int project_fd, char ***ret, struct warren_error *err) MUST_CHECK;

#define AUTO_SETUP_PLAN CLEANUP(setup_plan_done)

struct setup_key {
	char key[SHA256_DIGITS + 1]; /* of the layer */
};

/* What determines a layer besides the plan. */
struct setup_key_of {
	const char *project;  /* its path: no layer is used for another project */
	const char *image_id; /* identifies the files of the image */
	const char *workdir;  /* where the project appears */
	const char *hidden;   /* identifies the names of hidden files; NULL: none */
};

/* Compute the key of the plan's layer. */
int setup_plan_key(int project_fd, const struct setup_plan *p,
		   const struct setup_key_of *of, struct setup_key *ret,
		   struct warren_error *err) MUST_CHECK;

/*
 * Compute the key that the plan would have with only its first @n_steps steps: a layer
 * with it is what the other steps would start from.
 */
int setup_plan_key_of_prefix(int project_fd, const struct setup_plan *p, size_t n_steps,
			     const struct setup_key_of *of, struct setup_key *ret,
			     struct warren_error *err) MUST_CHECK;

/* Write the members of the plan into an open object. */
void setup_plan_json(const struct setup_plan *p, struct json *j);

/*
 * Append an empty step, and return it; NULL: too many or no memory (@err is set). Notes
 * are limited; further ones are dropped.
 */
struct setup_step *setup_steps_add(struct setup_steps *s, struct warren_error *err);
void setup_steps_done(struct setup_steps *s);
void setup_plan_note(struct setup_plan *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif /* SETUP_PLAN_H */
