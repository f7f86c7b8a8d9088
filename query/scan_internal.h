/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by query/scan*.c only. */
#ifndef RUNNEL_QUERY_SCAN_INTERNAL_H
#define RUNNEL_QUERY_SCAN_INTERNAL_H

#include "query/pipeline.h"
#include "query/plan.h"

/* A scan of one collection or index: every kind of plan but PLAN_OR. */
struct stage *scan_of_plan(struct arena *a, const struct scan_spec *spec, const struct plan *plan);
/* The scan of PLAN_OR. */
struct stage *scan_or_new(struct arena *a, const struct scan_spec *spec, const struct plan *plan);
/* The part that gave the last row; NULL: the stage is no such scan. */
struct stage *scan_or_part(struct stage *scan);

#endif
