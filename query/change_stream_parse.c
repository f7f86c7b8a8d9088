/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The `$changeStream` stage: its options, and all the reasons not to open a stream, in the order
 * in which MongoDB finds them.
 */
#include "base/fields.h"
#include "query/change_stream_internal.h"

struct stage_options {
    const char *full_document, *before;
    struct bv resume_after, start_after, start_time;
    bool cluster, expanded, system, migration, raw_update;
    bool allow_config, allow_system_ns;
    bool ignored;
};

#define OPTION(member) offsetof(struct stage_options, member), FIELD_NULL_OK

/* Null counts as absent for all of them. matchCollectionUUIDForUpdateLookup asks for what lookups
 * do anyway: they go by UUID. */
static const struct field stage_fields[] = {
    {"fullDocument", F_STR, OPTION(full_document)},
    {"fullDocumentBeforeChange", F_STR, OPTION(before)},
    {"resumeAfter", F_DOC, OPTION(resume_after)},
    {"startAfter", F_DOC, OPTION(start_after)},
    {"startAtOperationTime", F_TS, OPTION(start_time)},
    {"allChangesForCluster", F_BOOL, OPTION(cluster)},
    {"showExpandedEvents", F_BOOL, OPTION(expanded)},
    {"showSystemEvents", F_BOOL, OPTION(system)},
    {"showRawUpdateDescription", F_BOOL, OPTION(raw_update)},
    {"allowToRunOnConfigDB", F_BOOL, OPTION(allow_config)},
    {"allowToRunOnSystemNS", F_BOOL, OPTION(allow_system_ns)},
    {"showMigrationEvents", F_BOOL, OPTION(migration)},
    {"matchCollectionUUIDForUpdateLookup", F_BOOL, OPTION(ignored)},
    {NULL, 0, 0, 0},
};

struct parsing {
    struct op *op;
    const struct change_stream_args *args;
    struct arena *arena;
    bool split;
    struct stage_options in;
    struct stream_options out;
};

/* --- the document ------------------------------------------------------------------------------
 */

/* names end with NULL; *ret is the index of the given one. */
static int parse_enum(struct op *op, const char *field, const char *given, const char *const *names,
                      unsigned *ret)
{
    if (given == NULL)
        return 0;
    for (unsigned i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], given) == 0) {
            *ret = i;
            return 0;
        }
    }
    return op_fail(op, ERR_BAD_VALUE,
                   "Enumeration value '%s' for field '$changeStream.%s' is not a valid value.",
                   given, field);
}

/* What makes a token at all is asked while parsing, what it says later. */
static int check_token_shape(struct op *op, struct bv token)
{
    struct bv bits = bv_get(token, "_typeBits");
    struct resume_token t;

    if (bv_is_missing(token) || (bv_get(token, "_data").type == BV_STRING &&
                                 (bv_is_missing(bits) || bits.type == BV_BINARY)))
        return 0;
    return token_decode(op, token, &t);
}

static int parse_document(struct parsing *p, struct bv spec)
{
    static const char *const full[] = {"default", "updateLookup", "whenAvailable", "required",
                                       NULL};
    static const char *const before[] = {"off", "whenAvailable", "required", NULL};
    unsigned f = FULL_DEFAULT, b = BEFORE_OFF;

    TRY_RETURN(fields_parse(p->op, "$changeStream", stage_fields, spec, 0, &p->in));
    TRY_RETURN(parse_enum(p->op, "fullDocument", p->in.full_document, full, &f));
    TRY_RETURN(parse_enum(p->op, "fullDocumentBeforeChange", p->in.before, before, &b));
    TRY_RETURN(check_token_shape(p->op, p->in.resume_after));
    TRY_RETURN(check_token_shape(p->op, p->in.start_after));
    p->out.event.full = (enum event_full)f;
    p->out.event.before = (enum event_before)b;
    p->out.event.expanded = p->in.expanded;
    p->out.event.raw_update = p->in.raw_update;
    return 0;
}

/* --- where -------------------------------------------------------------------------------------
 */

static const char *shown_ns(struct parsing *p)
{
    const struct change_stream_args *a = p->args;

    return arena_printf(&p->op->arena, "%s.%s", a->db,
                        a->coll == NULL ? "$cmd.aggregate" : a->coll);
}

static int check_namespace(struct parsing *p)
{
    const struct change_stream_args *a = p->args;
    bool admin = strcmp(a->db, "admin") == 0;

    if (p->in.cluster) {
        if (!admin || a->coll != NULL)
            return op_fail(p->op, ERR_INVALID_OPTIONS,
                           "A $changeStream with 'allChangesForCluster:true' may only be opened on "
                           "the 'admin' database, and with no collection name; found %s",
                           shown_ns(p));
        return 0;
    }
    if (admin || strcmp(a->db, "local") == 0 ||
        (strcmp(a->db, "config") == 0 && !p->in.allow_config))
        return op_fail(p->op, ERR_INVALID_NAMESPACE,
                       "$changeStream may not be opened on the internal %s database", a->db);
    if (a->coll != NULL && strncmp(a->coll, "system.", 7) == 0 && !p->in.allow_system_ns)
        return op_fail(p->op, ERR_INVALID_NAMESPACE,
                       "$changeStream may not be opened on the internal %s collection",
                       shown_ns(p));
    return 0;
}

static void make_scope(struct parsing *p)
{
    struct scope *s = &p->out.scope;

    s->expanded = p->in.expanded;
    s->system = p->in.system;
    s->migration = p->in.migration;
    s->db = arena_strdup(p->arena, p->args->db);
    if (p->in.cluster) {
        s->kind = SCOPE_CLUSTER;
    } else if (p->args->coll == NULL) {
        s->kind = SCOPE_DATABASE;
    } else {
        s->kind = SCOPE_COLLECTION;
        s->ns = arena_printf(p->arena, "%s.%s", p->args->db, p->args->coll);
    }
}

/* --- from when ---------------------------------------------------------------------------------
 */

static int check_token(struct parsing *p)
{
    const struct resume_token *t = p->out.resume;

    if (t->from_invalidate && !bv_is_missing(p->in.resume_after))
        return op_fail(p->op, ERR_INVALID_RESUME_TOKEN,
                       "Attempting to resume a change stream using 'resumeAfter' is not allowed "
                       "from an invalidate notification");
    if (p->out.scope.kind == SCOPE_COLLECTION && t->type == TOKEN_EVENT && !t->has_uuid)
        return op_fail(p->op, ERR_INVALID_RESUME_TOKEN,
                       "Attempted to resume a single-collection stream, but the resume token does "
                       "not include a UUID");
    if (t->fragment >= 0 && !p->split) {
        (void)op_fail(p->op, ERR_CHANGE_STREAM_FATAL,
                      "To resume from a split event, the $changeStream pipeline must include a "
                      "$changeStreamSplitLargeEvent stage");
        p->op->err->labels |= LABEL_NON_RESUMABLE_CHANGE_STREAM;
        return ERR_CHANGE_STREAM_FATAL;
    }
    return 0;
}

static int parse_start(struct parsing *p)
{
    bool after = !bv_is_missing(p->in.resume_after), start = !bv_is_missing(p->in.start_after);
    bool timed = !bv_is_missing(p->in.start_time);

    p->out.start = timed ? STREAM_FROM_TIME : STREAM_FROM_NOW;
    if (after && start)
        return op_fail(p->op, 50865,
                       "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream "
                       "stage");
    if (after || start) {
        struct resume_token *t = ARENA_NEW(p->arena, struct resume_token);

        p->out.start = STREAM_FROM_TOKEN;
        p->out.resume = t;
        TRY_RETURN(op_dup(p->op, p->arena, after ? p->in.resume_after : p->in.start_after,
                          &p->out.resume_doc));
        TRY_RETURN(token_decode(p->op, p->out.resume_doc, t));
        TRY_RETURN(op_dup(p->op, p->arena, t->event_id, &t->event_id));
    }
    if (timed && (after || start))
        return op_fail(p->op, 40674,
                       "Only one type of resume option is allowed, but multiple were found");
    if (timed)
        p->out.start_time = bv_ts(p->in.start_time);
    return after || start ? check_token(p) : 0;
}

/* --- the whole ---------------------------------------------------------------------------------
 */

static int check_stage(struct op *op, const struct change_stream_args *args, struct bv *ret)
{
    struct bv stage = bv_first(args->pipeline, NULL);
    struct belem e;

    if (bv_count(stage) != 1)
        return op_fail(op, 40323,
                       "A pipeline stage specification object must contain exactly one field.");
    *ret = bv_first(stage, &e);
    if (ret->type != BV_DOC)
        return op_fail(op, 6188500, "$changeStream must take a nested object but found: %s",
                       bv_show(&op->arena, stage, 256));
    if (args->read_level != NULL && strcmp(args->read_level, "majority") != 0)
        return op_fail(op, ERR_INVALID_OPTIONS,
                       "Aggregation stage $changeStream cannot run with a readConcern other than "
                       "'majority'. Current readConcern: %s",
                       args->read_level);
    return 0;
}

int change_stream_parse(struct op *op, const struct change_stream_args *args, bool split,
                        struct arena *a, struct stream_options *ret)
{
    struct parsing p = {.op = op, .args = args, .arena = a, .split = split};
    struct bv spec;

    p.out.token_version = args->v1_tokens ? 1 : 2;
    TRY_RETURN(check_stage(op, args, &spec));
    TRY_RETURN(parse_document(&p, spec));
    if (oplog_hidden(op->database->oplog))
        return op_fail(op, 40573, "The $changeStream stage is only supported on replica sets");
    TRY_RETURN(check_namespace(&p));
    make_scope(&p);
    TRY_RETURN(parse_start(&p));
    *ret = p.out;
    return 0;
}
