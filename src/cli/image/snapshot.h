/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - warren-image --snapshot, which only the warden calls */
#ifndef CLI_IMAGE_SNAPSHOT_H
#define CLI_IMAGE_SNAPSHOT_H

#define SNAPSHOT_WORD  "--snapshot"
#define SNAPSHOT_WORDS 3 /* number of words after it */

/* Returns the exit status. */
int snapshot_main(char **words);

#endif /* CLI_IMAGE_SNAPSHOT_H */
