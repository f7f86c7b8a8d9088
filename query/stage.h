/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of query/stages/ share. A stage is a row of query/stages.def and a parser that
 * makes a struct stage (embedded first in the stage's own struct) in the cursor's arena.
 */
#ifndef RUNNEL_QUERY_STAGE_H
#define RUNNEL_QUERY_STAGE_H

#include "base/bw.h"
#include "query/pipeline.h"

enum stage_flag {
    STAGE_IN_UPDATE = 1 << 0,  /* allowed in a pipeline update */
    STAGE_IN_STREAM = 1 << 1,  /* allowed behind $changeStream */
    STAGE_FIRST = 1 << 2,      /* a source: only valid as the first stage, handled by the caller */
    STAGE_UNBUILT = 1 << 3,    /* known to MongoDB, not built here */
    STAGE_STREAM_END = 1 << 4, /* only last behind $changeStream, handled by the caller */
    STAGE_ATLAS = 1 << 5,      /* of Atlas search, which MongoDB refuses elsewhere */
};

struct stage_parser {
    struct op *op;
    struct arena *a;
    struct pipeline_ctx *ctx;
    struct bv doc;    /* {$name: spec}, in the arena */
    struct bv spec;   /* what stands behind the stage's name, inside doc */
    const char *name; /* "$match" */
};

typedef int (*stage_parse_fn)(struct stage_parser *p, struct stage **ret);

/* A zeroed stage of the given size; doc: {$name: spec}, or BV_NONE outside pipelines. */
void *stage_new(struct arena *a, size_t size, const struct stage_ops *ops, struct bv doc);
#define STAGE_NEW(p, type, ops) ((type *)stage_new((p)->a, sizeof(type), (ops), (p)->doc))

/* A whole number of a stage's argument: the code for what is no number, the code for what is not
 * whole or below `min`. */
int stage_int(struct stage_parser *p, int code_type, int code_range, int64_t min,
              int64_t *ret) MUST_CHECK;

/* Bytes a blocking stage may hold before it spills: LIMIT_SORT_BYTES, or what a test has set (0:
 * back to the default). */
size_t stage_memory_limit(void);
void stage_memory_limit_set(size_t bytes);
/* Part of what all blocking stages hold together; LIMIT_BLOCKING_BYTES, or what a test has set.
 * Zeroed: holds nothing. One thread at a time. */
struct stage_memory {
    size_t told;
};
/* The stage holds so many bytes now. True: it must spill, for its own sake or for that of all. */
bool stage_memory_full(struct stage_memory *m, size_t bytes);
void stage_memory_release(struct stage_memory *m);
size_t stage_memory_total(void); /* held by all of them, in steps of 64 KB each */
void stage_memory_total_set(size_t bytes);

/* Parts that other stages are made of. */
/* A sort learns that only the first n rows are wanted. False: s is no sort. */
bool sort_limit(struct stage *s, int64_t n);
/* limit and skip stages: their number; -1: s is another stage. */
int64_t limit_of(const struct stage *s);
int64_t skip_of(const struct stage *s);

#define STAGE(name, parser, flags)                                                                 \
    int parser(struct stage_parser *p, struct stage **ret) MUST_CHECK;
#define STAGE_OTHER(name, flags)
#include "query/stages.def"
#undef STAGE
#undef STAGE_OTHER

#endif
