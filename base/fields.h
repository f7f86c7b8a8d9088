/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Field tables: how commands, stages and options read their documents.
 *
 * A table lists every field a document may have. fields_parse() fills a struct from it and gives
 * MongoDB's errors: 40415 unknown field, 40413 duplicate, 14 wrong type, 40414 missing, 51024 out
 * of range. Fields that any command may carry ($db, lsid, comment, ... ) are known to it when
 * FIELDS_COMMAND is set and are skipped.
 *
 *     struct args { struct bv filter; int64_t limit; bool single; };
 *     static const struct field fields[] = {
 *         {"filter", F_DOC, offsetof(struct args, filter), 0},
 *         {"limit", F_INT, offsetof(struct args, limit), FIELD_NON_NEGATIVE},
 *         {"singleBatch", F_BOOL, offsetof(struct args, single), 0},
 *         {NULL, 0, 0, 0}};
 */
#ifndef RUNNEL_BASE_FIELDS_H
#define RUNNEL_BASE_FIELDS_H

#include "base/op.h"

enum field_kind {
    F_ANY,         /* struct bv: any type */
    F_DOC,         /* struct bv: object */
    F_ARRAY,       /* struct bv: array */
    F_DOC_ARRAY,   /* struct bv: array or object */
    F_STR,         /* const char *, NUL-terminated in the op's arena; embedded NUL: BadValue */
    F_STR_BV,      /* struct bv: string */
    F_BOOL,        /* bool; numbers accepted ("safe bool") */
    F_STRICT_BOOL, /* bool; only a boolean */
    F_INT,         /* int64_t; int, long, and whole double or decimal */
    F_NUMBER,      /* struct bv: any number */
    F_TS,          /* struct bv: timestamp */
    F_STR_DOC,     /* struct bv: string or object */
    F_BIN,         /* struct bv: binary */
    F_DATE,        /* struct bv: date */
    F_IGNORE,      /* accepted and dropped */
};

enum field_flag {
    FIELD_REQUIRED = 1 << 0,
    FIELD_NON_NEGATIVE = 1 << 1, /* F_INT */
    FIELD_POSITIVE = 1 << 2,     /* F_INT */
    FIELD_NULL_OK = 1 << 3,      /* null counts as absent */
    FIELD_INT32 = 1 << 4,        /* F_INT: at most INT32_MAX */
    FIELD_UNBUILT = 1 << 5,      /* known to MongoDB, not built here: any use is error 238 */
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    unsigned flags;
};

enum {
    FIELDS_COMMAND = 1 << 0, /* first field is the command itself; generic fields are skipped */
    FIELDS_LENIENT = 1 << 1, /* unknown fields are ignored */
};

/*
 * `what` names the document in error texts ("find", "$changeStream"). `out` must be zeroed or
 * hold defaults: fields that are absent stay untouched. Tables end with a NULL name.
 */
int fields_parse(struct op *op, const char *what, const struct field *table, struct bv doc,
                 unsigned flags, void *out) MUST_CHECK;

/* True for fields that every command accepts ($db, lsid, $clusterTime, comment, ...). */
bool field_is_generic(const char *name);

#endif
