/* SPDX-License-Identifier: Apache-2.0 */
/* diff_layers.c - find and open the layers of a snapshot that a sandbox is compared with
 */
#include "backend/native/diff_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/strv.h"

void diff_layers_close(struct diff_layers *l)
{
	for (size_t i = 0; i < l->n; i++)
		(void)close(l->fds[i]);
	l->n = 0;
	store_image_done(&l->image);
}

/*
 * Return the number of layers that the two images have in common: all layers of the
 * sandbox's image, or -EINVAL.
 */
static int diff_layers_shared(const struct store *s, const char *sandbox_image,
			      const struct store_image *image, struct warren_error *err)
{
	struct store_image below = { .lock = -1 };
	int n, r;

	/* "host" and "dir:PATH" have no layers. */
	if (!ref_digest_valid(sandbox_image))
		return strcmp(image->base, sandbox_image) == 0 ? 0 : -EINVAL;
	r = store_find(s, sandbox_image, &below, err);
	if (r < 0)
		return error_wrap(err, "find the image of the sandbox");
	n = (int)strv_len(below.layers);
	if (strcmp(below.base, image->base) != 0 ||
	    strv_len(image->layers) < strv_len(below.layers))
		n = -EINVAL;
	for (int i = 0; i < n; i++)
		if (strcmp(below.layers[i], image->layers[i]) != 0)
			n = -EINVAL;
	store_image_done(&below);
	return n;
}

static int diff_layers_open_one(const struct store *s, const char *layer,
				struct diff_layers *l, struct warren_error *err)
{
	char name[STORE_SHORT_LEN + 1];
	int r = store_layer(s, layer, name), fd = -1;

	if (r == 0)
		fd = openat(s->data, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r < 0 || fd < 0)
		return error_errno(err, r < 0 ? -r : errno, "open the layer %s", layer);
	l->fds[l->n++] = fd;
	return 0;
}

static int diff_layers_find(const struct native_sandbox *sandbox, const struct store *s,
			    const char *id, struct diff_layers *l,
			    struct warren_error *err)
{
	size_t n;
	int shared, r = store_find(s, id, &l->image, err);

	if (r == -ENOENT)
		return error_set(err, ENOMEDIUM, "there is no image '%s'", id);
	if (r < 0)
		return r;
	shared = diff_layers_shared(s, native_image(&sandbox->base), &l->image, err);
	if (shared == -EINVAL)
		return error_set(err, EINVAL,
				 "the snapshot has another base than the sandbox: its "
				 "layers do not begin with the image of the sandbox");
	if (shared < 0)
		return shared;
	n = strv_len(l->image.layers);
	if (n - (size_t)shared > DIFF_LAYERS_MAX)
		return error_set(err, EINVAL,
				 "the snapshot has %zu layers more than the image of the "
				 "sandbox; at most %d can be compared",
				 n - (size_t)shared, DIFF_LAYERS_MAX);
	for (r = 0; r == 0 && n > (size_t)shared; n--)
		r = diff_layers_open_one(s, l->image.layers[n - 1], l, err);
	return r;
}

int diff_layers_open(const struct native_sandbox *sandbox, const char *id,
		     struct diff_layers *ret, struct warren_error *err)
{
	struct diff_layers l = DIFF_LAYERS_NONE;
	struct store s;
	int r = store_open(sandbox->engine->state_dir, false, &s, err);

	if (r == -ENOENT)
		return error_set(err, ENOMEDIUM, "there is no image '%s'", id);
	if (r < 0)
		return r;
	r = diff_layers_find(sandbox, &s, id, &l, err);
	store_close(&s);
	if (r < 0) {
		diff_layers_close(&l);
		return r;
	}
	*ret = l;
	return 0;
}
