/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The projection tree; shared by query/projection*.c only. */
#ifndef RUNNEL_QUERY_PROJECTION_INTERNAL_H
#define RUNNEL_QUERY_PROJECTION_INTERNAL_H

#include "query/doc_path.h"
#include "query/projection.h"

enum pnode_kind {
    PNODE_TREE,    /* has children */
    PNODE_INCLUDE, /* the field as it is */
    PNODE_EXCLUDE,
    PNODE_EXPR,       /* computed */
    PNODE_ELEM_MATCH, /* computed: the first element that matches, as an array of one */
};

struct pnode {
    const char *name;
    uint32_t len;
    enum pnode_kind kind;
    const struct expr *expr;
    const struct match *elem_match;
    bool computed;           /* this or something below is computed */
    struct pnode **children; /* in spec order */
    uint32_t n, cap;
    uint32_t *table; /* hash table of indexes + 1 into children; size a power of two */
    uint32_t table_size;
};

struct pslice {
    const struct doc_path *path;
    int64_t skip, limit; /* skip < 0: from the end */
    struct pslice *next;
};

struct projection {
    bool inclusion; /* fields not named are dropped; false: they are kept */
    bool plain;     /* something is included or excluded: the first pass is needed */
    struct pnode root;
    struct pslice *slices;
    const struct doc_path *positional; /* NULL: none */
    const struct match *filter;        /* for positional */
};

struct pnode *pnode_child(const struct pnode *p, const char *name, size_t len);
/* Passes over a document, in the order they are made. */
int projection_slice(struct op *op, struct arena *a, const struct pslice *s, struct bv doc,
                     struct bv *ret) MUST_CHECK;
int projection_positional(const struct projection *p, struct eval *ev, struct bv original,
                          struct bv doc, struct bv *ret) MUST_CHECK;
/* A finished document, or the error of one that grew too large or too deep. */
int projection_done(struct op *op, struct bw *w, struct bv *ret) MUST_CHECK;

#endif
