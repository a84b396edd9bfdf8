/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.c - read the whole store */
#include "cli/image/catalog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"
#include "base/snapshot_name.h"
#include "base/strv.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/image/report.h"

struct reading {
	const struct store *store;
	struct catalog *catalog;
	struct warren_error *err;
};

/* Make room for one more of @size in a list of @n, which grows by doubling. */
static void *catalog_grow(void *list, size_t n, size_t size)
{
	if (n & (n - 1) || (n > 0 && n < 16))
		return list;
	return reallocarray(list, n ? n * 2 : 16, size);
}

static int catalog_add_damaged(struct reading *r, const char *id, int code)
{
	struct catalog *c = r->catalog;
	struct catalog_damaged *list =
		catalog_grow(c->damaged, c->n_damaged, sizeof(*list));

	if (!list)
		return error_errno(r->err, ENOMEM, "list the images");
	c->damaged = list;
	list[c->n_damaged].code = -code;
	(void)snprintf(list[c->n_damaged++].id, sizeof(list->id), "%s", id);
	message_say("image",
		    "cannot read image '%s' (%s); it is left out, and 'warren image rm "
		    "%.19s' removes it",
		    id, strerror(-code), id);
	return 0;
}

static int add_image(void *ctx, const char *id)
{
	struct reading *r = ctx;
	struct catalog *c = r->catalog;
	struct store_image *list = catalog_grow(c->images, c->n_images, sizeof(*list));
	struct warren_error why = WARREN_ERROR_INIT;
	int got;

	if (!list)
		return error_errno(r->err, ENOMEM, "list the images");
	c->images = list;
	got = store_find(r->store, id, &list[c->n_images], &why);
	if (got == -ENOENT)
		return 0; /* it was removed in the meantime */
	if (got < 0)
		return catalog_add_damaged(r, id, got);
	if (list[c->n_images].lock >= 0)
		(void)close(TAKE_FD(list[c->n_images].lock));
	c->n_images++;
	return 0;
}

static int add_name(void *ctx, const char *ref, const char *id)
{
	struct reading *r = ctx;
	struct catalog *c = r->catalog;
	struct catalog_name *list = catalog_grow(c->names, c->n_names, sizeof(*list));
	char *copy = strdup(ref);

	if (list)
		c->names = list;
	if (!list || !copy) {
		free(copy);
		return error_errno(r->err, ENOMEM, "list the images");
	}
	list[c->n_names].ref = copy;
	(void)snprintf(list[c->n_names].id, sizeof(list->id), "%s", id);
	c->n_names++;
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	const struct store_image *x = a, *y = b;
	time_t s = human_parse_time(x->created), t = human_parse_time(y->created);

	return s == t ? strcmp(x->id, y->id) : s < t ? 1 : -1;
}

static int catalog_by_name(const void *a, const void *b)
{
	const struct catalog_name *x = a, *y = b;

	return strcmp(x->ref, y->ref);
}

static int catalog_by_id(const void *a, const void *b)
{
	const struct store_image *const *x = a, *const *y = b;

	return strcmp((*x)->id, (*y)->id);
}

static int catalog_by_id_and_name(const void *a, const void *b)
{
	const struct catalog_name *const *x = a, *const *y = b;
	int r = strcmp((*x)->id, (*y)->id);

	return r ? r : strcmp((*x)->ref, (*y)->ref);
}

int catalog_index(struct catalog *c, struct warren_error *err)
{
	free(c->by_id);
	free(c->names_by_id);
	c->by_id = calloc(c->n_images + 1, sizeof(void *));
	c->names_by_id = calloc(c->n_names + 1, sizeof(void *));
	if (!c->by_id || !c->names_by_id)
		return error_errno(err, ENOMEM, "list the images");
	for (size_t i = 0; i < c->n_images; i++)
		c->by_id[i] = &c->images[i];
	for (size_t i = 0; i < c->n_names; i++)
		c->names_by_id[i] = &c->names[i];
	qsort(c->by_id, c->n_images, sizeof(void *), catalog_by_id);
	qsort(c->names_by_id, c->n_names, sizeof(void *), catalog_by_id_and_name);
	return 0;
}

int catalog_read(const struct store *s, struct catalog *ret, struct warren_error *err)
{
	struct catalog c = { 0 };
	struct reading reading = { .store = s, .catalog = &c, .err = err };
	int r = store_each_ref(s, add_name, &reading);

	if (r == 0)
		r = store_each_image(s, add_image, &reading);
	if (r < 0) {
		catalog_done(&c);
		return err->code ? -err->code : error_errno(err, -r, "list the images");
	}
	if (c.n_images > 0)
		qsort(c.images, c.n_images, sizeof(*c.images), newest_first);
	if (c.n_names > 0)
		qsort(c.names, c.n_names, sizeof(*c.names), catalog_by_name);
	r = catalog_index(&c, err);
	if (r < 0) {
		catalog_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void catalog_done(struct catalog *c)
{
	for (size_t i = 0; i < c->n_images; i++)
		store_image_done(&c->images[i]);
	for (size_t i = 0; i < c->n_names; i++)
		free(c->names[i].ref);
	free(c->images);
	free(c->names);
	free(c->damaged);
	free(c->by_id);
	free(c->names_by_id);
	*c = (struct catalog){ 0 };
}

const struct catalog_name *const *catalog_names_of(const struct catalog *c,
						   const char *id, size_t *ret_n)
{
	size_t first = 0, end = c->n_names, n = 0;

	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (strcmp(c->names_by_id[middle]->id, id) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	while (first + n < c->n_names && strcmp(c->names_by_id[first + n]->id, id) == 0)
		n++;
	*ret_n = n;
	return c->names_by_id + first;
}

size_t catalog_count_names(const struct catalog *c, const char *id)
{
	size_t n;

	(void)catalog_names_of(c, id, &n);
	return n;
}

const struct store_image *catalog_find(const struct catalog *c, const char *id)
{
	struct store_image image;
	const struct store_image *key = &image, **found;

	(void)snprintf(image.id, sizeof(image.id), "%s", id);
	found = bsearch(&key, c->by_id, c->n_images, sizeof(void *), catalog_by_id);
	return found ? *found : NULL;
}

const struct catalog_damaged *catalog_find_damaged(const struct catalog *c,
						   const char *id)
{
	for (size_t i = 0; i < c->n_damaged; i++)
		if (strcmp(c->damaged[i].id, id) == 0)
			return &c->damaged[i];
	return NULL;
}

void catalog_warn_unknown(const char *command, const struct store_collected *by)
{
	if (by->unknown[0])
		message_say(command,
			    "image '%s' is damaged, and may need any layer, so no layers "
			    "were removed; 'warren image rm %.19s' removes the image",
			    by->unknown, by->unknown);
}

bool catalog_is_broken(const struct catalog_damaged *image)
{
	static const int broken[] = { EBADMSG, EFBIG, EIO, EISDIR, EUCLEAN };

	for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
		if (image->code == broken[i])
			return true;
	return false;
}

bool catalog_repeats(const struct store_image *image, size_t before)
{
	for (size_t i = 0; i < before; i++)
		if (strcmp(image->layers[i], image->layers[before]) == 0)
			return true;
	return false;
}

static int catalog_layer_order(const void *a, const void *b)
{
	const struct catalog_layer *x = a, *y = b;
	int r = strcmp(x->id, y->id);

	return r ? r : x->image == y->image ? 0 : x->image < y->image ? -1 : 1;
}

int catalog_list_layers(const struct catalog *c, struct catalog_layer **ret,
			size_t *ret_n)
{
	struct catalog_layer *list;
	size_t n = 0, unique = 0;

	for (size_t i = 0; i < c->n_images; i++)
		n += strv_len(c->images[i].layers);
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < c->n_images; i++)
		for (char **l = c->images[i].layers; *l; l++)
			list[n++] = (struct catalog_layer){ *l, &c->images[i], 1 };
	qsort(list, n, sizeof(*list), catalog_layer_order);
	for (size_t i = 0; i < n; i++) {
		struct catalog_layer *last = unique ? &list[unique - 1] : NULL;

		if (!last || strcmp(list[i].id, last->id) != 0) {
			list[unique++] = list[i];
		} else if (list[i].image != last->image) {
			last->image = list[i].image;
			last->users++;
		}
	}
	*ret = list;
	*ret_n = unique;
	return 0;
}

static int catalog_layer_by_id(const void *a, const void *b)
{
	const struct catalog_layer *x = a, *y = b;

	return strcmp(x->id, y->id);
}

size_t catalog_count_users(const struct catalog_layer *list, size_t n,
			   const char *diff_id)
{
	const struct catalog_layer key = { .id = diff_id };
	const struct catalog_layer *found =
		bsearch(&key, list, n, sizeof(*list), catalog_layer_by_id);

	return found ? found->users : 0;
}

const char *catalog_familiar(const char *ref, char text[REF_TEXT_MAX])
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct ref parsed;

	if (ref_parse(ref, &parsed, &ignored) < 0)
		(void)snprintf(text, REF_TEXT_MAX, "%s", ref);
	else
		ref_familiar(&parsed, text);
	return text;
}

static void catalog_put_list(struct json *j, const char *key, char **list)
{
	json_open(j, key, '[');
	for (; *list; list++)
		json_str(j, NULL, *list);
	json_close(j, ']');
}

/* Write the time at which the image arrived, which is that of its directory. */
static void put_arrival(const struct store *s, const char *id, struct json *j)
{
	char text[32];
	struct stat st;
	struct tm tm;

	if (fstatat(s->images, id + strlen("sha256:"), &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !gmtime_r(&st.st_mtim.tv_sec, &tm))
		return;
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_str(j, "pulled", text);
}

void catalog_describe(const struct store *s, const struct catalog *c,
		      const struct store_image *image, struct json *j)
{
	char text[REF_TEXT_MAX];
	size_t n;
	const struct catalog_name *const *names = catalog_names_of(c, image->id, &n);

	json_str(j, "id", image->id);
	json_open(j, "names", '[');
	for (size_t i = 0; i < n; i++)
		if (!(report_wanted() && snapshot_is_ref(names[i]->ref)))
			json_str(j, NULL, catalog_familiar(names[i]->ref, text));
	json_close(j, ']');
	json_str(j, "digest", image->manifest);
	json_str(j, "platform", image->platform);
	json_str(j, "created", image->created);
	put_arrival(s, image->id, j);
	json_u64(j, "size", image->size);
	catalog_put_list(j, "layers", image->layers);
	if (image->base[0])
		json_str(j, "base", image->base);
	json_str(j, "user", image->user);
	json_str(j, "workdir", image->workdir);
	catalog_put_list(j, "env", image->env);
	catalog_put_list(j, "entrypoint", image->entrypoint);
	catalog_put_list(j, "cmd", image->cmd);
}

void catalog_put_json(struct buf *out, const char *action, const char *id,
		      const char *ref)
{
	struct json j = { .out = out };
	char text[REF_TEXT_MAX];

	json_open(&j, NULL, '{');
	json_str(&j, "action", action);
	json_str(&j, "id", id);
	if (ref)
		json_str(&j, "reference", catalog_familiar(ref, text));
	else
		json_nil(&j, "reference");
	json_close(&j, '}');
	buf_puts(out, "\n");
}
