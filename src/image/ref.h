/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ref.h - parse image references as people type them
 *
 *	python			docker.io/library/python:latest
 *	python:3.12		docker.io/library/python:3.12
 *	me/tool			docker.io/me/tool:latest
 *	localhost:5000/x	localhost:5000/x:latest
 *	reg.example.com/a/b@sha256:...
 *
 * References are normalised by docker's rules; all other forms are refused.
 */
#ifndef IMAGE_REF_H
#define IMAGE_REF_H

#include "base/error.h"

#define REF_DIGEST_LEN 71 /* "sha256:" and 64 hexadecimal digits */

struct ref {
	char registry[256];              /* host, optionally with a port */
	char name[256];                  /* "library/python" */
	char tag[129];                   /* "" when there is only a digest */
	char digest[REF_DIGEST_LEN + 1]; /* "" when there is none */
};

#define REF_TEXT_MAX 768

int ref_parse(const char *text, struct ref *ret, struct warren_error *err) MUST_CHECK;
/* "registry/name:tag@digest", without missing parts: the name in the store. */
void ref_text(const struct ref *ref, char text[REF_TEXT_MAX]);
/*
 * The short form that docker shows: without the default registry and "library/", with
 * tag.
 */
void ref_familiar(const struct ref *ref, char text[REF_TEXT_MAX]);
/* Return whether @s is "sha256:" and 64 lower-case hexadecimal digits. */
bool ref_digest_valid(const char *s);
/* The name of images that `warren work` builds for projects. */
#define REF_OF_PROJECT "warren-devcontainer"
/* Return whether @text is such an image, which no other project may use. */
bool ref_is_of_project(const char *text);
/* Return whether the registry is on this machine, so that TLS is optional. */
bool ref_is_loopback(const struct ref *ref);

#endif /* IMAGE_REF_H */
