/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The Stable API: what a request with apiVersion, apiStrict and apiDeprecationErrors may do.
 *
 * Which commands are in version 1 stands in their flags (commands.def). Version 2 exists for
 * drivers' tests only, with the parameter acceptApiVersion2. Any thread.
 */
#ifndef RUNNEL_SERVER_STABLE_API_H
#define RUNNEL_SERVER_STABLE_API_H

#include "server/command.h"

/* rq->cmd and rq->env->api are set; `flags_given`: apiStrict or apiDeprecationErrors was. 72, 322,
 * 323, 324, or 498870 when a version is required and missing. Makes rq->env->api.version static. */
int stable_api_check(struct request *rq, bool flags_given) MUST_CHECK;

bool stable_api_same(const struct api_params *a, const struct api_params *b);
/* As a document, for messages; in the arena. */
const char *stable_api_show(struct arena *a, const struct api_params *p);

#endif
