/* SPDX-License-Identifier: Apache-2.0 */
/* setup_image.h - the image of a project: what identifies its files, and its environment
 */
#ifndef CLI_WORK_SETUP_IMAGE_H
#define CLI_WORK_SETUP_IMAGE_H

#include "cli/run_options.h"
#include "setup/plan.h"

struct setup_image {
	char id[SHA256_DIGITS + 32]; /* changes with the files of the image */
	char **env;
};

/*
 * Identify an image; @image NULL: host. -ENOENT: it is not on this machine. For `host`
 * and dir:PATH, the directories of programs and the database of packages are examined,
 * not every file.
 */
int setup_image_find(const char *image, struct setup_image *ret,
		     struct warren_error *err) MUST_CHECK;
/* The same; the image is pulled if it is missing and the options allow that. */
int setup_image_get(const struct run_options *o, const char *image,
		    struct setup_image *ret, struct warren_error *err) MUST_CHECK;
void setup_image_done(struct setup_image *i);

/*
 * Build the image of a plan; steps that were built before are in the cache. @hide is the
 * layer that hides files of the project (work/hide.h), or NULL. Of @o, the rules of the
 * network and .quiet are used; @network is its mode. *@ret is the image's
 * name, which the caller frees.
 */
int setup_image_build(int project_fd, const char *project, const struct setup_build *b,
		      const char *hide, const struct run_options *o, const char *network,
		      char **ret, struct warren_error *err) MUST_CHECK;

#endif /* CLI_WORK_SETUP_IMAGE_H */
