/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the fuzz targets share: values written so that every string of bytes is some.
 *
 * Inputs of most targets are text, e.g. {a: {$gt: 1}} {a: [1, 2.5, 'x']}. What is broken is
 * completed or skipped, never refused, so that a mutated input is still a document:
 *
 *     {k v k v}  [v v]  'text' or "text" with \xNN   1 int32 or int64   1L int64   1.5 double
 *     1.5m decimal   true false null undefined NaN Inf MinKey MaxKey   /pattern/flags
 *     date(ms) ts(seconds increment) oid(hex) bin(subtype 'text') code('text') symbol('text')
 *     scope('text' {}) ptr('text' hex)   any other word: a string
 *
 * Blanks, commas and colons separate.
 */
#ifndef RUNNEL_TESTS_FUZZ_NOTATION_H
#define RUNNEL_TESTS_FUZZ_NOTATION_H

#include <stddef.h>
#include <stdint.h>

#include "base/bw.h"
#include "base/op.h"

/* The entry of every target, as libFuzzer and replay.c call it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All values of the text as one array; nesting is cut at LIMIT_DEPTH_STORED. */
struct bv notation(struct arena *a, const uint8_t *data, size_t size);

/* A target's input: its values, taken one after the other. */
struct input {
    struct op op;
    struct biter values;
};
void input_open(struct input *in, const uint8_t *data, size_t size);
void input_close(struct input *in);
/* The next value; BV_NONE when there are no more. */
struct bv input_next(struct input *in);
/* The next value when it is a document, else an empty one. */
struct bv input_doc(struct input *in);

/* A failure must have a code and a text that a client can be told. */
void check_failure(const struct op *op, int rc);
/* A document of ours must pass the checks that a client's has to pass. */
void check_sound(struct bv doc);

#endif
