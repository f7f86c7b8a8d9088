/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tree of paths applied to a document.
 *
 * One walk over tree and document writes the new document front to back and notes its diff: what
 * no path names is copied, changed fields stay where they are, new ones come after the old ones in
 * the order of the tree, which is also that of the diff. Of repeated names in a document the first
 * one is meant.
 *
 * At an array the children of a node are indexes, or stand for all elements ($[]) or those that
 * pass a filter ($[id]); where several of them meet at one element they are merged. The positional
 * $ is made an index or name before anything else happens to its siblings.
 *
 * Recursion follows the paths, whose length update_add_leaf() has bounded.
 */
#include "query/update_internal.h"

/* Where a changed value is noted: a field of a document's diff or an element of an array's. */
struct slot {
    struct diff_node *diff;
    bool array;
    const char *name; /* documents; written into the new document as it is */
    uint32_t name_len;
    uint32_t index; /* arrays */
};

static int apply_value(struct update_apply *x, const struct update_node *n, const struct slot *s,
                       struct bv old);

static void step(struct update_apply *x, const struct slot *s)
{
    if (s->array)
        update_step_at(x, s->index);
    else
        update_step_into(x, s->name, s->name_len);
}

/* --- values that are not there yet ------------------------------------------------------------ */

static int apply_leaf(struct update_apply *x, const struct update_leaf *l, struct bv old,
                      struct outcome *ret)
{
    *ret = (struct outcome){OUTCOME_NONE, BV_NONE};
    return l->op->apply(x, l, old, ret);
}

/* Writes what the node makes of nothing as the field `name` of w; nothing when it makes nothing. */
static int write_missing(struct update_apply *x, const struct update_node *n, struct bw *w,
                         bool *ret_made);

static int write_missing_children(struct update_apply *x, const struct update_node *n, struct bw *w,
                                  bool *ret_made)
{
    const struct update_node *r;

    TRY_RETURN(update_resolve_positional(x, n, &r));
    *ret_made = false;
    for (size_t i = 0; i < r->nchildren; i++) {
        bool made;

        if (r->children[i]->part->kind == PART_EACH)
            return op_fail(x->op, ERR_BAD_VALUE,
                           "The path '%s' must exist in the document in order to apply array "
                           "updates.",
                           update_path_text(x));
        TRY_RETURN(write_missing(x, r->children[i], w, &made));
        *ret_made |= made;
    }
    return 0;
}

static int write_missing(struct update_apply *x, const struct update_node *n, struct bw *w,
                         bool *ret_made)
{
    struct slot s = {.name = n->part->name, .name_len = n->part->len};
    struct outcome out;
    struct bw_mark mark = bw_mark(w);

    update_step_into(x, s.name, s.name_len);
    if (n->leaf != NULL) {
        TRY_RETURN(apply_leaf(x, n->leaf, BV_NONE, &out));
        *ret_made = out.kind == OUTCOME_SET;
        if (*ret_made)
            bw_bvn(w, s.name, s.name_len, out.v);
    } else {
        bw_doc_beginn(w, s.name, s.name_len);
        TRY_RETURN(write_missing_children(x, n, w, ret_made));
        if (*ret_made)
            bw_end(w);
        else
            bw_rewind(w, mark);
    }
    update_step_back(x);
    return 0;
}

/* What the node makes at a place where there is nothing; BV_NONE: nothing. */
static int make_missing(struct update_apply *x, const struct update_node *n, const struct slot *s,
                        struct bv *ret)
{
    struct outcome out;
    struct bw w;
    bool made;

    *ret = BV_NONE;
    step(x, s);
    if (n->leaf != NULL) {
        TRY_RETURN(apply_leaf(x, n->leaf, BV_NONE, &out));
        if (out.kind == OUTCOME_SET)
            *ret = out.v;
    } else {
        bw_init(&w, x->a);
        TRY_RETURN(write_missing_children(x, n, &w, &made));
        if (made) {
            *ret = bw_done(&w);
            x->w.failed |= w.failed;
        }
    }
    update_step_back(x);
    return 0;
}

/* --- values that are there -------------------------------------------------------------------- */

static void write_slot(struct update_apply *x, const struct slot *s, struct bv v)
{
    bw_bvn(&x->w, s->name, s->name_len, v);
}

static void note_set(const struct slot *s, struct bv v)
{
    if (s->array)
        diff_update_at(s->diff, s->index, v);
    else
        diff_update(s->diff, s->name, s->name_len, v);
}

static void note_sub(const struct slot *s, struct diff_node *sub)
{
    if (diff_node_empty(sub))
        return;
    if (s->array)
        diff_sub_at(s->diff, s->index, sub);
    else
        diff_sub(s->diff, s->name, s->name_len, sub);
}

static void append(struct update_apply *x, const struct slot *s, struct bv old, struct bv items)
{
    struct diff_node *sub = diff_node_new(x->a, true);
    struct biter it = biter(items);
    uint32_t i = bv_count(old);
    struct belem e;

    bw_arr_beginn(&x->w, s->name, s->name_len);
    bw_fields(&x->w, old);
    while (biter_next(&it, &e)) {
        bw_bv(&x->w, NULL, e.v);
        diff_update_at(sub, i++, e.v);
    }
    bw_end(&x->w);
    note_sub(s, sub);
}

static int immutable_id(struct update_apply *x, const struct update_node *n)
{
    return op_fail(x->op, ERR_IMMUTABLE_FIELD,
                   "Performing an update on the path '%s' would modify the immutable field '_id'",
                   update_first_leaf(n)->path);
}

static bool is_id(const struct update_apply *x)
{
    return x->depth == 1 && x->path[0].len == 3 && memcmp(x->path[0].name, "_id", 3) == 0;
}

static int apply_leaf_value(struct update_apply *x, const struct update_node *n,
                            const struct slot *s, struct bv old)
{
    struct outcome out;

    TRY_RETURN(apply_leaf(x, n->leaf, old, &out));
    if (out.kind == OUTCOME_UNSET && s->array)
        out = (struct outcome){OUTCOME_SET, bv_null};
    if (is_id(x) && out.kind != OUTCOME_NONE) {
        if (out.kind != OUTCOME_SET || bv_cmp(old, out.v) != 0)
            return immutable_id(x, n);
        out.kind = OUTCOME_NONE;
    }
    switch (out.kind) {
    case OUTCOME_SET:
        write_slot(x, s, out.v);
        if (!bv_identical(old, out.v))
            note_set(s, out.v);
        break;
    case OUTCOME_UNSET:
        diff_delete(s->diff, s->name, s->name_len);
        break;
    case OUTCOME_APPEND:
        append(x, s, old, out.v);
        break;
    case OUTCOME_NONE:
        write_slot(x, s, old);
        break;
    }
    return 0;
}

/* A path that goes on through a value without fields: an error if it would make some. */
static int not_viable(struct update_apply *x, const struct update_node *n, struct bv v)
{
    if (update_has_child(n, PART_EACH))
        return op_fail(x->op, ERR_BAD_VALUE,
                       "Cannot apply array updates to non-array element %s: %s",
                       update_field_text(x), bv_show(x->a, v, 200));
    for (size_t i = 0; i < n->nchildren; i++) {
        const struct update_part *part = n->children[i]->part;

        if (update_creates(x, n->children[i]))
            return op_fail(x->op, ERR_PATH_NOT_VIABLE,
                           "Cannot create field '%.*s' in element {%s: %s}", (int)part->len,
                           part->name, update_field_text(x), bv_show(x->a, v, 200));
    }
    return 0;
}

/* Fields that no field of the old document answered to. */
static int add_fields(struct update_apply *x, const struct update_node *n, const bool *seen,
                      struct diff_node *diff)
{
    for (size_t i = 0; i < n->nchildren; i++) {
        const struct update_part *part = n->children[i]->part;
        struct slot s = {.diff = diff, .name = part->name, .name_len = part->len};
        struct bv v;

        if (seen[i])
            continue;
        TRY_RETURN(make_missing(x, n->children[i], &s, &v));
        if (bv_is_missing(v))
            continue;
        write_slot(x, &s, v);
        diff_insert(diff, s.name, s.name_len, v);
    }
    return 0;
}

static int apply_doc(struct update_apply *x, const struct update_node *n, struct bv old,
                     struct diff_node *diff)
{
    struct biter it = biter(old);
    struct belem e;
    bool *seen;

    TRY_RETURN(update_resolve_positional(x, n, &n));
    if (update_has_child(n, PART_EACH))
        return not_viable(x, n, old);
    seen = arena_try(x->a, n->nchildren + 1);
    if (seen == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
    memset(seen, 0, n->nchildren + 1);
    while (biter_next(&it, &e)) {
        struct update_node **child = update_find_child(n, &e);
        struct slot s = {.diff = diff, .name = e.key, .name_len = e.key_len};

        if (child == NULL || seen[child - n->children]) {
            bw_elem(&x->w, &e);
            continue;
        }
        seen[child - n->children] = true;
        diff_rank(diff, (uint32_t)(child - n->children));
        TRY_RETURN(apply_value(x, *child, &s, e.v));
    }
    diff_arrange(diff);
    return add_fields(x, n, seen, diff);
}

/* --- arrays ----------------------------------------------------------------------------------- */

int update_test_element(struct update_apply *x, const char *id, const struct match *m, struct bv v,
                        bool *ret)
{
    struct bv doc;

    /* One buffer serves for all elements. */
    if (!x->candidate_begun) {
        bw_init(&x->candidate, NULL);
        x->candidate_start = bw_mark(&x->candidate);
        x->candidate_begun = true;
    }
    bw_rewind(&x->candidate, x->candidate_start);
    bw_bv(&x->candidate, id, v);
    doc = bw_done(&x->candidate);
    if (bv_is_missing(doc))
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory to test an array element");
    return match_test(m, x->ev, doc, ret, NULL);
}

/* The children of a node that may stand for any element. */
struct each_list {
    struct update_node **v;
    size_t n;
};

static int list_each(struct update_apply *x, const struct update_node *n, struct each_list *ret)
{
    *ret = (struct each_list){NULL, 0};
    if (!update_has_child(n, PART_EACH))
        return 0;
    ret->v = arena_try(x->a, n->nchildren * sizeof(ret->v[0]));
    if (ret->v == NULL)
        return op_fail(x->op, ERR_EXCEEDED_MEMORY_LIMIT, "no memory for an update's paths");
    for (size_t i = 0; i < n->nchildren; i++) {
        if (n->children[i]->part->kind == PART_EACH)
            ret->v[ret->n++] = n->children[i];
    }
    return 0;
}

/* The node for one element: the indexed child, and those of $[] and $[id] that apply, merged. */
static int select_element(struct update_apply *x, const struct each_list *each, struct bv v,
                          struct update_node **node)
{
    for (size_t i = 0; i < each->n; i++) {
        const struct update_filter *f = each->v[i]->part->filter;
        bool applies = true;

        if (f != NULL)
            TRY_RETURN(update_test_element(x, f->id, f->match, v, &applies));
        if (!applies)
            continue;
        if (*node == NULL)
            *node = each->v[i];
        else
            TRY_RETURN(update_merge(x, *node, each->v[i], node));
    }
    return 0;
}

static int backfill(struct update_apply *x, uint32_t from, uint32_t to)
{
    if (to - from > LIMIT_ARRAY_BACKFILL)
        return op_fail(x->op, ERR_CANNOT_BACKFILL_ARRAY, "can't backfill more than %d elements",
                       LIMIT_ARRAY_BACKFILL);
    for (; from < to; from++)
        bw_null(&x->w, NULL);
    return 0;
}

/* Elements beyond the end of the array, from child `at` on; indexes come first among children. */
static int add_elements(struct update_apply *x, const struct update_node *n, size_t at,
                        uint32_t len, struct diff_node *diff)
{
    for (; at < n->nchildren && n->children[at]->part->index >= 0; at++) {
        uint32_t index = (uint32_t)n->children[at]->part->index;
        struct slot s = {.diff = diff, .array = true, .index = index};
        struct bv v;

        TRY_RETURN(make_missing(x, n->children[at], &s, &v));
        if (bv_is_missing(v))
            continue;
        TRY_RETURN(backfill(x, len, index));
        write_slot(x, &s, v);
        note_set(&s, v);
        len = index + 1;
    }
    return 0;
}

static int check_array_names(struct update_apply *x, const struct update_node *n, struct bv old)
{
    for (size_t i = 0; i < n->nchildren; i++) {
        const struct update_part *part = n->children[i]->part;

        if (part->kind == PART_NAME && part->index < 0 && update_creates(x, n->children[i]))
            return op_fail(x->op, ERR_PATH_NOT_VIABLE,
                           "Cannot create field '%.*s' in element {%s: %s}", (int)part->len,
                           part->name, update_field_text(x), bv_show(x->a, old, 200));
    }
    return 0;
}

static int apply_array(struct update_apply *x, const struct update_node *n, struct bv old,
                       struct diff_node *diff)
{
    struct biter it = biter(old);
    struct belem e;
    size_t at = 0; /* the next indexed child */
    uint32_t i = 0;
    struct each_list each;

    TRY_RETURN(update_resolve_positional(x, n, &n));
    TRY_RETURN(check_array_names(x, n, old));
    TRY_RETURN(list_each(x, n, &each));
    for (; biter_next(&it, &e); i++) {
        struct update_node *child = NULL;
        struct slot s = {.diff = diff, .array = true, .index = i};

        if (at < n->nchildren && n->children[at]->part->index == (int32_t)i)
            child = n->children[at++];
        update_step_at(x, i);
        TRY_RETURN(select_element(x, &each, e.v, &child));
        update_step_back(x);
        if (child == NULL)
            write_slot(x, &s, e.v);
        else
            TRY_RETURN(apply_value(x, child, &s, e.v));
        if (i % 1024 == 1023)
            TRY_RETURN(op_check(x->op));
    }
    return add_elements(x, n, at, i, diff);
}

/* Writes the value at the slot as the node leaves it. */
static int apply_value(struct update_apply *x, const struct update_node *n, const struct slot *s,
                       struct bv old)
{
    struct diff_node *sub;

    step(x, s);
    if (n->leaf != NULL) {
        TRY_RETURN(apply_leaf_value(x, n, s, old));
    } else if (bv_is_container(old)) {
        sub = diff_node_new(x->a, old.type == BV_ARRAY);
        if (old.type == BV_ARRAY)
            bw_arr_beginn(&x->w, s->name, s->name_len);
        else
            bw_doc_beginn(&x->w, s->name, s->name_len);
        TRY_RETURN(old.type == BV_ARRAY ? apply_array(x, n, old, sub) : apply_doc(x, n, old, sub));
        bw_end(&x->w);
        if (is_id(x) && !diff_node_empty(sub))
            return immutable_id(x, n);
        note_sub(s, sub);
    } else {
        const struct update_node *r;

        TRY_RETURN(update_resolve_positional(x, n, &r));
        TRY_RETURN(not_viable(x, r, old));
        write_slot(x, s, old);
    }
    update_step_back(x);
    return 0;
}

/* --- the whole document ------------------------------------------------------------------ */

int update_apply_tree(struct update_apply *x, struct bv *ret, struct diff_node **ret_diff)
{
    struct diff_node *diff = diff_node_new(x->a, false);
    int rc;

    bw_init(&x->w, x->a);
    TRY(update_find_renamed(x));
    TRY(apply_doc(x, x->u->root, x->doc, diff));
    *ret = bw_done(&x->w);
    if (bv_is_missing(*ret))
        rc = op_fail(x->op, ERR_BSON_TOO_LARGE, "a document after its update is too large");
    *ret_diff = diff;
fail:
    if (x->candidate_begun)
        bw_fini(&x->candidate);
    x->candidate_begun = false;
    return rc;
}
