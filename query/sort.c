/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The blocking sort behind $sort and find's sort.
 *
 * Rows are copied, each with its keys as views into the copy, and sorted by keys and arrival. With
 * a limit a heap keeps the best rows and nothing else. Past its share of memory the rows in memory
 * are sorted and spilled as a run; at the end the runs are merged, each giving its next row when it
 * is wanted. Runs hold earlier rows than later runs, so ties go to the lower run.
 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "query/sort_key.h"
#include "query/stage.h"
#include "storage/spill.h"

struct row {
    uint64_t seq;  /* arrival */
    uint32_t run;  /* merging: where it came from */
    size_t bytes;  /* of this allocation */
    struct bv doc; /* behind the keys */
    struct bv keys[];
};

struct sort {
    struct stage s;
    struct sort_spec spec;
    struct bv pattern; /* as given */
    int64_t limit;     /* 0: none */
    int64_t ngiven;
    bool allow_disk;

    bool filled;
    struct row **rows; /* a heap while filling with a limit (worst first) and while merging */
    size_t n, cap, at;
    size_t bytes;
    struct stage_memory memory;
    uint64_t seq;
    struct spill *spill;
    struct row *given; /* the row given last, still in use by whoever pulled it */
};

/* --- rows
 * ------------------------------------------------------------------------------------------ */

static struct row *row_new(const struct sort *sort, struct op *op, struct bv doc,
                           const struct bv *keys)
{
    size_t head = sizeof(struct row) + sort->spec.n * sizeof(struct bv);
    struct row *row = mem_try(head + doc.len);
    uint8_t *copy;

    if (row == NULL) {
        (void)!op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory sorting");
        return NULL;
    }
    copy = (uint8_t *)row + head;
    memcpy(copy, doc.p, doc.len);
    row->seq = 0;
    row->run = 0;
    row->bytes = head + doc.len;
    row->doc = (struct bv){copy, doc.len, doc.type};
    for (uint32_t i = 0; i < sort->spec.n; i++) {
        row->keys[i] = keys[i];
        if (keys[i].p >= doc.p && keys[i].p < doc.p + doc.len)
            row->keys[i].p = copy + (keys[i].p - doc.p);
    }
    return row;
}

static int cmp_rows(const struct sort *sort, const struct row *a, const struct row *b)
{
    int c = sort_keys_cmp(&sort->spec, a->keys, b->keys);

    if (c != 0)
        return c;
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

static int cmp_row_ptrs(const void *a, const void *b, void *sort)
{
    return cmp_rows(sort, *(struct row *const *)a, *(struct row *const *)b);
}

static int reserve(struct sort *sort, struct op *op)
{
    size_t cap = sort->cap == 0 ? 64 : sort->cap * 2;
    struct row **rows;

    if (sort->n < sort->cap)
        return 0;
    rows = mem_try_resize(sort->rows, cap * sizeof(*rows));
    if (rows == NULL)
        return op_fail(op, ERR_EXCEEDED_MEMORY_LIMIT, "out of memory sorting");
    sort->bytes += (cap - sort->cap) * sizeof(*rows);
    sort->rows = rows;
    sort->cap = cap;
    return 0;
}

/* --- heap: the row for which `sign` * order is greatest is on top
 * ----------------------------------- */

static void sift_down(struct sort *sort, size_t i, int sign)
{
    struct row **rows = sort->rows;

    for (;;) {
        size_t top = i, left = 2 * i + 1, right = left + 1;
        struct row *tmp;

        if (left < sort->n && sign * cmp_rows(sort, rows[left], rows[top]) > 0)
            top = left;
        if (right < sort->n && sign * cmp_rows(sort, rows[right], rows[top]) > 0)
            top = right;
        if (top == i)
            return;
        tmp = rows[i];
        rows[i] = rows[top];
        rows[top] = tmp;
        i = top;
    }
}

static void sift_up(struct sort *sort, size_t i, int sign)
{
    struct row **rows = sort->rows;

    while (i > 0 && sign * cmp_rows(sort, rows[i], rows[(i - 1) / 2]) > 0) {
        struct row *tmp = rows[i];

        rows[i] = rows[(i - 1) / 2];
        rows[(i - 1) / 2] = tmp;
        i = (i - 1) / 2;
    }
}

/* --- filling
 * ------------------------------------------------------------------------------------------ */

static void drop_rows(struct sort *sort)
{
    for (size_t i = sort->at; i < sort->n; i++)
        free(sort->rows[i]);
    sort->n = 0;
    sort->at = 0;
    sort->bytes = sort->cap * sizeof(*sort->rows);
}

static void order_rows(struct sort *sort)
{
    if (sort->n > 1)
        qsort_r(sort->rows, sort->n, sizeof(*sort->rows), cmp_row_ptrs, sort);
}

/* Writes the rows in memory as a sorted run. */
static int spill_rows(struct sort *sort, struct exec *x)
{
    if (!sort->allow_disk)
        return op_fail(x->op, ERR_QUERY_MEMORY_NO_DISK,
                       "Sort exceeded memory limit of %d bytes, but did not opt in to external "
                       "sorting.",
                       (int)stage_memory_limit());
    if (sort->spill == NULL)
        TRY_RETURN(spill_new(x->db->engine, x->op, &sort->spill));
    order_rows(sort);
    TRY_RETURN(spill_run_begin(sort->spill, x->op));
    for (size_t i = 0; i < sort->n; i++) {
        struct bv doc = sort->rows[i]->doc;

        TRY_RETURN(spill_put(sort->spill, x->op, (struct bytes){doc.p, doc.len}));
        if ((i & 255) == 255)
            TRY_RETURN(op_check(x->op));
    }
    drop_rows(sort);
    return spill_run_end(sort->spill);
}

/* True when the limit is reached already by rows that are better. */
static bool not_wanted(const struct sort *sort, const struct bv *keys)
{
    return sort->limit > 0 && sort->n == (size_t)sort->limit &&
           sort_keys_cmp(&sort->spec, keys, sort->rows[0]->keys) >= 0;
}

static int add(struct sort *sort, struct exec *x, struct bv doc)
{
    struct bv keys[SORT_KEYS_MAX];
    struct row *row;

    TRY_RETURN(sort_keys(&sort->spec, x->op, doc, keys));
    if (not_wanted(sort, keys))
        return 0;
    TRY_RETURN(reserve(sort, x->op));
    row = row_new(sort, x->op, doc, keys);
    if (row == NULL)
        return ERR_EXCEEDED_MEMORY_LIMIT;
    row->seq = sort->seq++;
    sort->bytes += row->bytes;
    if (sort->limit > 0 && sort->n == (size_t)sort->limit) {
        sort->bytes -= sort->rows[0]->bytes;
        free(sort->rows[0]);
        sort->rows[0] = row;
        sift_down(sort, 0, 1);
    } else {
        sort->rows[sort->n++] = row;
        if (sort->limit > 0)
            sift_up(sort, sort->n - 1, 1);
    }
    return stage_memory_full(&sort->memory, sort->bytes) ? spill_rows(sort, x) : 0;
}

/* --- merging
 * -------------------------------------------------------------------------------------------- */

/* Reads the next row of a run onto the heap; the run may be at its end. */
static int pull_run(struct sort *sort, struct exec *x, uint32_t run)
{
    struct bv keys[SORT_KEYS_MAX], doc;
    struct bytes value;
    bool found;

    TRY_RETURN(spill_read(sort->spill, x->op, run, &value, &found));
    if (!found)
        return 0;
    doc = bv_doc(value.p);
    TRY_RETURN(sort_keys(&sort->spec, x->op, doc, keys));
    TRY_RETURN(reserve(sort, x->op));
    sort->rows[sort->n] = row_new(sort, x->op, doc, keys);
    if (sort->rows[sort->n] == NULL)
        return ERR_EXCEEDED_MEMORY_LIMIT;
    sort->rows[sort->n]->run = run;
    sort->n++;
    sift_up(sort, sort->n - 1, -1);
    return 0;
}

static int fill(struct sort *sort, struct exec *x, bool *ret_more)
{
    for (uint32_t i = 0;; i++) {
        struct bv row;

        TRY_RETURN(stage_next(sort->s.source, x, &row, ret_more));
        if (bv_is_missing(row))
            break;
        TRY_RETURN(add(sort, x, row));
        arena_reset(&x->scratch);
        if ((i & 255) == 255)
            TRY_RETURN(op_check(x->op));
    }
    if (*ret_more)
        return 0;
    if (sort->spill == NULL) {
        order_rows(sort);
    } else {
        TRY_RETURN(spill_rows(sort, x));
        for (uint32_t run = 0; run < spill_runs(sort->spill); run++)
            TRY_RETURN(pull_run(sort, x, run));
    }
    sort->filled = true;
    return 0;
}

static int sort_next(struct stage *s, struct exec *x, struct bv *ret, bool *ret_more)
{
    struct sort *sort = (struct sort *)s;

    *ret = BV_NONE;
    if (!sort->filled) {
        TRY_RETURN(fill(sort, x, ret_more));
        if (!sort->filled)
            return 0;
    }
    free(sort->given);
    sort->given = NULL;
    *ret_more = sort->at < sort->n && (sort->limit == 0 || sort->ngiven < sort->limit);
    if (!*ret_more)
        return 0;
    sort->ngiven++;
    sort->given = sort->rows[sort->at];
    if (sort->spill == NULL) {
        sort->at++;
    } else {
        sort->rows[0] = sort->rows[--sort->n];
        sift_down(sort, 0, -1);
        TRY_RETURN(pull_run(sort, x, sort->given->run));
    }
    *ret = sort->given->doc;
    return 0;
}

static void sort_save(struct stage *s, struct exec *x)
{
    struct sort *sort = (struct sort *)s;

    (void)x;
    if (sort->spill != NULL)
        spill_save(sort->spill);
}

static void sort_close(struct stage *s)
{
    struct sort *sort = (struct sort *)s;

    drop_rows(sort);
    stage_memory_release(&sort->memory);
    free(sort->rows);
    free(sort->given);
    spill_free(sort->spill);
    sort->rows = NULL;
    sort->given = NULL;
    sort->spill = NULL;
    sort->cap = 0;
}

static void sort_explain(struct stage *s, struct bw *w)
{
    const struct sort *sort = (struct sort *)s;

    bw_bv(w, "sortPattern", sort->pattern);
    bw_i64(w, "memLimit", (int64_t)stage_memory_limit());
    if (sort->limit > 0)
        bw_i64(w, "limitAmount", sort->limit);
    bw_str(w, "type", "simple");
}

static const struct stage_ops sort_ops = {.name = "$sort",
                                          .next = sort_next,
                                          .save = sort_save,
                                          .close = sort_close,
                                          .explain = sort_explain,
                                          .plan = "SORT"};

bool sort_limit(struct stage *s, int64_t n)
{
    struct sort *sort = (struct sort *)s;

    if (s->ops != &sort_ops)
        return false;
    if (n > 0 && (sort->limit == 0 || n < sort->limit))
        sort->limit = n;
    return true;
}

int sort_new(struct op *op, struct arena *a, struct bv spec, int64_t limit, bool allow_disk_use,
             struct stage **ret)
{
    struct sort *sort;

    if (spec.type == BV_DOC && bv_empty(spec)) {
        *ret = limit > 0 ? limit_new(a, limit) : skip_new(a, 0);
        return 0;
    }
    sort = stage_new(a, sizeof(*sort), &sort_ops, BV_NONE);
    TRY_RETURN(op_dup(op, a, spec, &sort->pattern));
    TRY_RETURN(sort_spec_parse(op, a, spec, &sort->spec));
    sort->limit = limit;
    sort->allow_disk = allow_disk_use;
    *ret = &sort->s;
    return 0;
}

int stage_sort_parse(struct stage_parser *p, struct stage **ret)
{
    if (p->spec.type == BV_DOC && bv_empty(p->spec))
        return op_fail(p->op, 15976, "$sort stage must have at least one sort key");
    TRY_RETURN(sort_new(p->op, p->a, p->spec, 0, p->ctx->allow_disk_use, ret));
    (*ret)->spec = p->doc;
    return 0;
}
