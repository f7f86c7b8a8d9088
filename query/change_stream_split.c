/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `$changeStreamSplitLargeEvent`: an event too large for one document is handed out in fragments.
 *
 * The event's fields but _id, in ascending order of their size (then name), are dealt out greedily;
 * a field is never divided. Fragment k has the event's token with fragmentNum k as its _id, so that
 * a stream can be resumed between two fragments of one event.
 */
#include "base/mem.h"
#include "query/change_stream_internal.h"

#include <stdlib.h>

#include "base/limits.h"

/* What is left for a fragment's frame (_id, splitEvent) beside its fields. */
enum { FRAME_BYTES = 8192 };
enum { EVENT_BYTES_MAX = LIMIT_INTERNAL_BYTES - FRAME_BYTES };

bool split_wanted(struct bv event)
{
    return event.len > EVENT_BYTES_MAX;
}

static uint32_t field_bytes(const struct belem *e)
{
    uint32_t n;

    (void)belem_bytes(e, &n);
    return n;
}

static int by_size(const void *a, const void *b)
{
    const struct belem *x = a, *y = b;
    uint32_t nx = field_bytes(x), ny = field_bytes(y);

    if (nx != ny)
        return nx < ny ? -1 : 1;
    return strcmp(x->key, y->key);
}

static int collect_fields(struct event_split *s, struct op *op)
{
    struct biter it = biter(s->event);
    struct belem e;

    s->fields = mem_try_zero(bv_count(s->event), sizeof(*s->fields));
    s->starts = mem_try_zero(bv_count(s->event) + 1, sizeof(*s->starts));
    if (s->fields == NULL || s->starts == NULL)
        return op_no_memory(op);
    while (biter_next(&it, &e)) {
        if (strcmp(e.key, "_id") != 0)
            s->fields[s->nfields++] = e;
    }
    qsort(s->fields, s->nfields, sizeof(*s->fields), by_size);
    return 0;
}

/* Fills `starts`: fragment i has the fields from starts[i] up to starts[i + 1]. */
static int deal_out(struct event_split *s, struct op *op, uint32_t max)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < s->nfields; i++) {
        uint32_t n = field_bytes(&s->fields[i]);

        if (n > max)
            return op_fail(op, 7182500,
                           "the field '%s' of a change event is too large for a fragment",
                           s->fields[i].key);
        if (i == 0 || used + n > max) {
            s->starts[s->n++] = i;
            used = 0;
        }
        used += n;
    }
    s->starts[s->n] = s->nfields;
    return 0;
}

int split_begin(struct event_split *s, struct op *op, struct bv event, uint32_t skip)
{
    struct bv token = bv_get(event, "_id");

    split_end(s);
    s->bytes = mem_try(event.len);
    if (s->bytes == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a large change event");
    memcpy(s->bytes, event.p, event.len);
    s->event = (struct bv){s->bytes, event.len, BV_DOC};
    TRY_RETURN(collect_fields(s, op));
    if (s->nfields == 0)
        return op_fail(op, 7182502, "a change event of only an _id cannot be split");
    TRY_RETURN(deal_out(s, op, EVENT_BYTES_MAX - token.len));
    s->at = skip;
    return 0;
}

bool split_pending(const struct event_split *s)
{
    return s->at < s->n;
}

int split_next(struct event_split *s, struct op *op, struct arena *scratch, struct bv *ret)
{
    struct resume_token t;
    struct bv token;
    struct bw w;

    TRY_RETURN(token_decode(op, bv_get(s->event, "_id"), &t));
    t.fragment = (int32_t)s->at;
    token = token_encode(scratch, &t);
    if (bv_is_missing(token))
        return op_no_memory(op);
    bw_init(&w, scratch);
    bw_bv(&w, "_id", token);
    bw_doc_begin(&w, "splitEvent");
    bw_i32(&w, "fragment", t.fragment + 1);
    bw_i32(&w, "of", (int32_t)s->n);
    bw_end(&w);
    for (uint32_t i = s->starts[s->at]; i < s->starts[s->at + 1]; i++)
        bw_elem(&w, &s->fields[i]);
    *ret = bw_done(&w);
    if (bv_is_missing(*ret))
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory for a large change event");
    if (++s->at == s->n)
        split_end(s);
    return 0;
}

void split_end(struct event_split *s)
{
    free(s->bytes);
    free(s->fields);
    free(s->starts);
    memset(s, 0, sizeof(*s));
}
