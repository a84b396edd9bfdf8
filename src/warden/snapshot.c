/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c - copy the files of a sandbox into the image store
 *
 * The warden writes the layer, because only the warden can stop the sandbox. Then the
 * sandbox continues, while warren-image computes the digest of the layer and creates an
 * image from it, which may take long. The layer's directory is locked all that time, and
 * the store only for moments.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "image/store_write.h"
#include "warden/internal.h"

static int snapshot_save(struct images *all, const struct warden_policy *policy,
			 const struct store *s, struct warren_sandbox *sb, const char *id,
			 int *ret_fd, struct warren_error *err)
{
	const char *parent = warren_image(sb);
	struct store_new layer = { .fd = -1 };
	const char *const argv[] = { "warren-image", "--snapshot", layer.name,
				     parent,         id,           NULL };
	struct warren_saved saved;
	int r = store_new_snapshot(s, id, &layer, err);

	if (r == 0 && fchmod(layer.fd, 0755) < 0)
		r = error_errno(err, errno, "create a directory for a layer");
	if (r == 0)
		r = warren_save_files(sb, layer.fd, 0, &saved, err);
	if (r == 0)
		r = images_snapshot(all, policy, argv, layer.fd, ret_fd, err);
	if (r < 0)
		store_drop_layer(s, &layer);
	else
		(void)close(layer.fd); /* warren-image has it, too, and so its lock */
	return r;
}

int snapshot_start(struct images *all, const struct warden_policy *policy,
		   struct warren_sandbox *sb, const char *id, int *ret_fd,
		   struct warren_error *err)
{
	AUTO_FREE char *state = NULL;
	struct store s = { 0 };
	int r;

	if (!warren_image(sb))
		return error_set(err, EOPNOTSUPP,
				 "the backend of the sandbox has no snapshots");
	r = store_state_dir(&state, err);
	if (r == 0)
		r = store_open(state, true, &s, err);
	if (r < 0)
		return r;
	r = snapshot_save(all, policy, &s, sb, id, ret_fd, err);
	store_close(&s);
	return r;
}
