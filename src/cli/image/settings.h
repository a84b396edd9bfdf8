/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - registry settings from files and the environment
 *
 *	/etc/warren/registries.conf	the machine's
 *	$XDG_CONFIG_HOME/warren/registries.conf (~/.config/...)	the user's
 *	$WARREN_INSECURE_REGISTRIES, $WARREN_CA_FILE
 *
 * A file has lines of two words, and comments with '#':
 *
 *	insecure registry.lan:5000	# TLS is optional
 *	ca /etc/ssl/our-ca.pem		# trusted in addition to the system's
 *	trusted registry.lan		# projects may name it, whatever its address is
 *
 * Insecure registries from all sources are combined. For the certificate, the environment
 * takes precedence over the user's file, and the user's over the machine's.
 */
#ifndef CLI_IMAGE_SETTINGS_H
#define CLI_IMAGE_SETTINGS_H

#include "base/error.h"

#define SETTINGS_HOSTS_MAX 64

/* Options of commands that contact a registry, as in cli/common_options.h. */
/* clang-format off */
#define OPT_INSECURE(at) \
	"insecure", 0, "HOST[:PORT]", "registry.lan:5000", \
	"registry that may be contacted without TLS", host_list_add, (at)
#define OPT_PUBLIC_ONLY(says, at) \
	"public-only", 0, NULL, NULL, \
	(says), opt_flag, (at)
#define OPT_FOR_PROJECT(at) \
	"for-project", 0, NULL, NULL, \
	"pull only from public addresses and trusted registries", \
	opt_flag, (at)
#define OPT_TRUSTED(at) \
	"trusted", 0, "HOST[:PORT]", "registry.lan:5000", \
	"with --public-only: registry that may have any address", host_list_add, (at)
#define OPT_CA(at) \
	"ca", 0, "FILE", "./ca.pem", \
	"certificates to trust in addition to the system's", opt_text, (at)
/* clang-format on */

/* NULL-terminated; the strings are borrowed. */
struct host_list {
	const char *v[SETTINGS_HOSTS_MAX + 1];
	size_t n;
};

struct settings {
	struct host_list insecure;
	struct host_list trusted; /* only for --for-project */
	const char *ca_file;      /* NULL: none */
	char *texts[3];           /* the text that the strings above point into */
};

/* Add HOST or HOST:PORT; usable as `set` of struct opt. */
int host_list_add(void *list, const char *host, struct warren_error *err);

int settings_read(struct settings *ret, struct warren_error *err) MUST_CHECK;
/* Add the settings to those of the options, which have precedence. */
int settings_apply(const struct settings *s, struct host_list *insecure,
		   const char **ca_file, struct warren_error *err) MUST_CHECK;
void settings_done(struct settings *s);

#endif /* CLI_IMAGE_SETTINGS_H */
