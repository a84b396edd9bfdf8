/* SPDX-License-Identifier: Apache-2.0 */
/* loop_internal.h - the loop as the streams of this folder see it: buffers they share */
#ifndef NET_LOOP_INTERNAL_H
#define NET_LOOP_INTERNAL_H

#include <stddef.h>
#include <uv.h>

#include "net/loop.h"

#define LOOP_IN_SIZE  (128U << 10)
#define LOOP_OUT_SIZE (64U << 10)

struct stream;

struct net_loop {
	uv_loop_t uv;
	uv_prepare_t prepare;   /* runs tasks before the loop sleeps */
	uv_idle_t idle;         /* keeps it awake when tasks have made tasks */
	struct loop_task tasks; /* the head of a ring */
	/*
	 * What is received is handed on before the next thing is received, and what
	 * one round of one stream sends is sent together: so one buffer each serves
	 * all connections, and an idle one needs none.
	 */
	char *in;
	char *out;
	size_t out_len;
	struct stream *corked; /* whose bytes are in @out */
};

#endif /* NET_LOOP_INTERNAL_H */
