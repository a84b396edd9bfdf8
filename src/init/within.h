/* SPDX-License-Identifier: Apache-2.0 */
/* within.h - an anchor that does for its keeper what an init does with files and ports */
#ifndef INIT_WITHIN_H
#define INIT_WITHIN_H

/* Whoever listens on the socket @door is served for ever; returns where that cannot be. */
void within_serve(const char *door);

#endif /* INIT_WITHIN_H */
