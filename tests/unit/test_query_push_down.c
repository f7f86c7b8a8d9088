/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Foreseeing filters: whatever match_foresee() is certain of from an oplog entry is what
 * match_test() gives on the event that is built from it. Random filters over random changes of all
 * kinds; the seed is fixed and printed, RUNNEL_SEED and RUNNEL_ROUNDS change it for longer runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oplog/event.h"
#include "oplog/reader.h"
#include "query/match.h"
#include "tests/unit/json.h"

static struct op op;
static uint64_t seed = 20261129;
static struct bv image; /* what every change finds as its pre-image, and as the current document */

int image_get(struct oplog *o, struct op *p, uint64_t optime, int64_t index, struct arena *a,
              struct bv *ret)
{
    (void)o;
    (void)p;
    (void)optime;
    (void)index;
    (void)a;
    *ret = image;
    return 0;
}

static int look_up(void *arg, struct op *p, struct arena *a, const struct event *e, struct bv *ret)
{
    (void)arg;
    (void)p;
    (void)a;
    (void)e;
    *ret = image;
    return 0;
}

/* --- random text -------------------------------------------------------------------------------
 */

static FILE *out;

static uint32_t pick(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 20) % n;
}

#define ONE_OF(list) (list)[pick(sizeof(list) / sizeof((list)[0]))]
#define TS           "{'$timestamp': {'t': 1700000000, 'i': 3}}"
#define WALL         "{'$date': {'$numberLong': '1700000000123'}}"
#define UUID         "{'$binary': {'base64': 'AAECAwQFBgcICQoLDA0ODw==', 'subType': '04'}}"

static void put(const char *s)
{
    fputs(s, out);
}

static const char *const names[] = {"a", "b", "c", "a.b", "0", "", "m"};
static const char *const scalars[] = {"1",
                                      "2",
                                      "{'$numberLong': '1'}",
                                      "1.5",
                                      "0",
                                      "null",
                                      "'insert'",
                                      "'update'",
                                      "'d'",
                                      "'c'",
                                      "'a'",
                                      "'ab'",
                                      "'d.c'",
                                      "true",
                                      "false",
                                      TS,
                                      WALL,
                                      UUID,
                                      "{'$numberDouble': 'NaN'}",
                                      "{'$minKey': 1}",
                                      "{'$maxKey': 1}",
                                      "{'$oid': '000102030405060708090a0b'}"};
static const char *const composed[] = {"[]",
                                       "{}",
                                       "[1, 2]",
                                       "['a']",
                                       "{'a': 1}",
                                       "[{'a': 1}, 2]",
                                       "{'db': 'd', 'coll': 'c'}",
                                       "{'coll': 'c', 'db': 'd'}",
                                       "{'_id': 1}",
                                       "{'db': 'd'}",
                                       "{'field': 'a', 'newSize': 2}",
                                       "{'a': 2, 'b': 1}",
                                       "{'x': null}"};

static void put_value(int depth)
{
    uint32_t n = pick(4);

    switch (depth > 0 ? pick(5) : 0) {
    case 3:
        put("[");
        for (uint32_t i = 0; i < n; i++) {
            put(i > 0 ? ", " : "");
            put_value(depth - 1);
        }
        put("]");
        break;
    case 4:
        put("{");
        for (uint32_t i = 0; i < n; i++) {
            fprintf(out, "%s'%s': ", i > 0 ? ", " : "", ONE_OF(names));
            put_value(depth - 1);
        }
        put("}");
        break;
    default:
        put(pick(3) ? ONE_OF(scalars) : ONE_OF(composed));
    }
}

static void put_document(void)
{
    uint32_t n = pick(5);

    fprintf(out, "{'_id': %s", ONE_OF(scalars));
    for (uint32_t i = 0; i < n; i++) {
        fprintf(out, ", '%s': ", ONE_OF(names));
        put_value(3);
    }
    put("}");
}

static void put_section(const char *name, bool deleted)
{
    fprintf(out, "'%s': {'%s': ", name, ONE_OF(names));
    if (deleted)
        put("false");
    else
        put_value(2);
    put("}");
}

static void put_diff(void)
{
    put("{'$v': 2, 'diff': {");
    put_section("d", true);
    put(", ");
    put_section("u", false);
    if (pick(2)) {
        put(", ");
        put_section("i", false);
    }
    if (pick(2)) {
        put(", 'sa': {'a': true, 'l': 2, 'u0': ");
        put_value(1);
        put(", 's1': {");
        put_section("u", false);
        put("}}");
    }
    if (pick(2)) {
        put(", 'sb': {");
        put_section("d", true);
        put("}");
    }
    put("}}");
}

/* op, ns and o of commands, o2 behind. */
static const char *const commands[] = {
    "'d.$cmd', 'o': {'drop': 'c'}, 'o2': {'numRecords': 1}",
    "'d.$cmd', 'o': {'renameCollection': 'd.c', 'to': 'd.e', 'stayTemp': false, 'dropTarget': " UUID
    "}",
    "'d.$cmd', 'o': {'renameCollection': 'd.c', 'to': 'e.c', 'stayTemp': false}",
    "'d.$cmd', 'o': {'dropDatabase': 1}",
    "'d.$cmd', 'o': {'create': 'c', 'idIndex': {'v': 2, 'key': {'_id': 1}}}",
    "'d.$cmd', 'o': {'createIndexes': 'c', 'v': 2, 'key': {'a': 1}, 'name': 'a_1'}",
    "'d.$cmd', 'o': {'dropIndexes': 'c', 'index': 'a_1'}, 'o2': {'v': 2, 'key': {'a': 1}}",
    "'d.$cmd', 'o': {'collMod': 'c', 'index': {'name': 'a_1'}}, 'o2': {'collectionOptions_old': "
    "{'uuid': 1}, 'indexOptions_old': {'hidden': true}}"};

static void put_entry(void)
{
    static const char *const colls[] = {"d.c", "d.c", "d.e", "e.c", "d.system.views"};
    static const char kinds[] = {'i', 'i', 'u', 'u', 'r', 'd', 'c', 'c'};
    char kind = ONE_OF(kinds);

    fprintf(out, "{'op': '%c', 'ns': ", kind == 'r' ? 'u' : kind);
    if (kind == 'c') {
        put(ONE_OF(commands));
    } else {
        fprintf(out, "'%s', 'o': ", ONE_OF(colls));
        if (kind == 'u')
            put_diff();
        else if (kind == 'd')
            fprintf(out, "{'_id': %s}", ONE_OF(scalars));
        else
            put_document();
        if (kind != 'd')
            fprintf(out, ", 'o2': {'_id': %s}", ONE_OF(scalars));
    }
    put(", 'ui': " UUID ", 'ts': " TS ", 't': {'$numberLong': '1'}, 'v': {'$numberLong': '2'}, "
        "'wall': " WALL "}");
}

/* --- random filters ----------------------------------------------------------------------------
 */

static const char *const paths[] = {"operationType",
                                    "operationType",
                                    "ns",
                                    "ns.db",
                                    "ns.coll",
                                    "ns.x",
                                    "documentKey",
                                    "documentKey._id",
                                    "documentKey._id",
                                    "documentKey._id.a",
                                    "fullDocument",
                                    "fullDocument._id",
                                    "fullDocument.a",
                                    "fullDocument.a",
                                    "fullDocument.a.b",
                                    "fullDocument.a.0",
                                    "fullDocument.a.0.b",
                                    "fullDocument.b",
                                    "fullDocument.",
                                    "updateDescription",
                                    "updateDescription.updatedFields",
                                    "updateDescription.updatedFields.a",
                                    "updateDescription.updatedFields.m",
                                    "updateDescription.updatedFields.a.b",
                                    "updateDescription.updatedFields.a.0",
                                    "updateDescription.removedFields",
                                    "updateDescription.removedFields.0",
                                    "updateDescription.truncatedArrays",
                                    "updateDescription.truncatedArrays.field",
                                    "updateDescription.truncatedArrays.0.newSize",
                                    "updateDescription.disambiguatedPaths",
                                    "clusterTime",
                                    "wallTime",
                                    "to",
                                    "to.db",
                                    "to.coll",
                                    "_id",
                                    "_id._data",
                                    "txnNumber",
                                    "lsid",
                                    "lsid.id",
                                    "collectionUUID",
                                    "operationDescription",
                                    "operationDescription.to.db",
                                    "operationDescription.indexes.name",
                                    "rawUpdateDescription",
                                    "rawUpdateDescription.diff.u.a",
                                    "stateBeforeChange",
                                    "stateBeforeChange.indexOptions.hidden",
                                    "fullDocumentBeforeChange",
                                    "fullDocumentBeforeChange.a",
                                    "splitEvent",
                                    "x",
                                    "x.y",
                                    "",
                                    "0"};

static const char *const regexes[] = {"{'$regularExpression': {'pattern': '^a', 'options': ''}}",
                                      "{'$regularExpression': {'pattern': 'S', 'options': 'i'}}",
                                      "{'$regularExpression': {'pattern': '.', 'options': ''}}"};

static void put_filter(int depth);
static void put_expr(int depth);

static void put_list(const char *op_name, bool with_regexes)
{
    fprintf(out, "'%s': [", op_name);
    for (uint32_t n = pick(4) + 1; n > 0; n--) {
        if (with_regexes && pick(5) == 0)
            put(ONE_OF(regexes));
        else
            put_value(1);
        put(n > 1 ? ", " : "]");
    }
}

/* One operator of a field, without braces. */
static void put_operator(int depth)
{
    static const char *const compare[] = {"$eq", "$ne", "$lt", "$lte", "$gt", "$gte"};
    static const char *const types[] = {"'string'", "'object'", "'array'", "'number'",
                                        "'null'",   "'date'",   "'int'",   "10, 16"};

    switch (pick(depth > 0 ? 14 : 11)) {
    case 0:
    case 1:
    case 2:
        fprintf(out, "'%s': ", ONE_OF(compare));
        put_value(1);
        break;
    case 3:
        put_list("$in", true);
        break;
    case 4:
        put_list("$nin", true);
        break;
    case 5:
        fprintf(out, "'$exists': %s", pick(2) ? "true" : "false");
        break;
    case 6:
        fprintf(out, "'@type': [%s]", ONE_OF(types));
        break;
    case 7:
        fprintf(out, "'$size': %u", pick(3));
        break;
    case 8:
        fprintf(out, "'$mod': [2, %u]", pick(2));
        break;
    case 9:
        fprintf(out, "'@regex': %s", ONE_OF(regexes));
        break;
    case 10:
        if (pick(2))
            put_list("$all", false);
        else
            fprintf(out, "'$bitsAnySet': [0, 1]");
        break;
    case 11:
        put("'$not': {");
        put_operator(depth - 1);
        put("}");
        break;
    case 12:
        put("'$elemMatch': {");
        put_operator(depth - 1);
        put("}");
        break;
    default:
        fprintf(out, "'$elemMatch': {'%s': ", pick(2) ? "field" : ONE_OF(names));
        put_value(1);
        put("}");
    }
}

static void put_field(int depth)
{
    fprintf(out, "'%s': ", ONE_OF(paths));
    switch (pick(6)) {
    case 0:
        put(pick(2) ? "null" : ONE_OF(regexes));
        break;
    case 1:
        put_value(1);
        break;
    case 2:
        put("{'$not': ");
        put(ONE_OF(regexes));
        put("}");
        break;
    default:
        put("{");
        put_operator(depth);
        put("}");
    }
}

static void put_args(const char *name, int depth, uint32_t n)
{
    fprintf(out, "{'%s': [", name);
    for (uint32_t i = 0; i < n; i++) {
        put(i > 0 ? ", " : "");
        put_expr(depth - 1);
    }
    put("]}");
}

static void put_expr(int depth)
{
    static const char *const two[] = {"$eq",     "$ne",          "$gt",     "$lte", "$cmp",
                                      "$and",    "$or",          "$ifNull", "$add", "$in",
                                      "$concat", "$arrayElemAt", "$divide"};
    static const char *const one[] = {"$not",     "@type",          "$size",    "$toString",
                                      "$isArray", "$objectToArray", "$toUpper", "$strLenCP"};

    switch (pick(depth > 0 ? 9 : 3)) {
    case 0:
        fprintf(out, "{'$literal': %s}", ONE_OF(scalars));
        break;
    case 1:
    case 2:
        do {
            const char *path = ONE_OF(paths);

            if (path[0] == '\0' || path[0] == '0' || strcmp(path, "fullDocument.") == 0)
                continue;
            fprintf(out, "'$%s%s'", pick(8) ? "" : "$ROOT.", path);
            return;
        } while (true);
    case 3:
        put_args(ONE_OF(one), depth, 1);
        break;
    case 4:
        fprintf(out, "{'$getField': '%s'}", pick(2) ? "ns" : "_id");
        break;
    case 5:
        put("{'$let': {'vars': {'v': ");
        put_expr(depth - 1);
        fprintf(out, ", 'CURRENT': '$%s'}, 'in': {'$eq': ['$$v', '$%s']}}}",
                pick(2) ? "fullDocument" : "$ROOT", pick(2) ? "a" : "ns");
        break;
    case 6:
        put(pick(4) ? "'$$ROOT'" : "{'$lt': [{'$rand': {}}, 0.5]}");
        break;
    default:
        put_args(ONE_OF(two), depth, 2);
    }
}

static void put_filter(int depth)
{
    static const char *const logic[] = {"$and", "$or", "$nor"};
    uint32_t n = pick(3) + 1;

    put("{");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t form = pick(depth > 0 ? 6 : 4);

        put(i > 0 ? ", " : "");
        if (form < 3) {
            put_field(depth);
        } else if (form == 3) {
            put("'$expr': ");
            put_expr(2);
        } else {
            fprintf(out, "'%s': [", ONE_OF(logic));
            for (uint32_t k = pick(3) + 1; k > 0; k--) {
                put_filter(depth - 1);
                put(k > 1 ? ", " : "]");
            }
        }
    }
    put("}");
}

/* The library reads $type and $regex as parts of values: here they begin with @. */
static struct bv json_at(const char *text)
{
    struct bv v = json(&op.arena, text);
    uint8_t *p = arena_dup(&op.arena, v.p, v.len);

    for (uint32_t i = 4; i + 7 < v.len; i++) {
        if (memcmp(p + i, "@type", 6) == 0 || memcmp(p + i, "@regex", 7) == 0)
            p[i] = '$';
    }
    return bv_doc(p);
}

static struct bv random_json(void (*write)(void))
{
    char *text = NULL;
    size_t n = 0;
    struct bv v;

    out = open_memstream(&text, &n);
    assert_non_null(out);
    write();
    fclose(out);
    v = json_at(text);
    free(text);
    return v;
}

static void put_any_filter(void)
{
    put_filter(3);
}

/* --- the comparison ----------------------------------------------------------------------------
 */

struct sample {
    struct event_options opts;
    struct change c;
    struct event e;
    struct bv whole;
};

static struct sample *random_sample(void)
{
    struct sample *s = ARENA_NEW(&op.arena, struct sample);
    bool found;

    s->opts = (struct event_options){.expanded = pick(2),
                                     .raw_update = pick(4) == 0,
                                     .full = pick(2) ? FULL_UPDATE_LOOKUP : FULL_DEFAULT,
                                     .before = pick(2) ? BEFORE_WHEN_AVAILABLE : BEFORE_OFF,
                                     .lookup = look_up};
    image = pick(3) ? random_json(put_document) : BV_NONE;
    s->c = (struct change){.in_txn = pick(4) == 0};
    assert_true(oplog_parse(random_json(put_entry), &s->c.row));
    s->c.row.lsid = json(&op.arena, "{'id': 1}");
    s->c.row.txn_number = 1;
    if (event_open(&op, &op.arena, &s->c, &s->e, &found) != 0 || !found)
        return NULL; /* an update of a view that has a diff */
    assert_int_equal(event_build(&op, &op.arena, NULL, &s->e, &s->opts,
                                 json(&op.arena, "{'_data': 'T'}"), &s->whole),
                     0);
    return s;
}

static bool get_field(void *arg, const char *name, struct bv *ret)
{
    return event_field(arg, name, ret);
}

static enum match_answer foresee(const struct match *m, struct sample *s, bool *ret_no,
                                 bool *ret_risk)
{
    struct event_fields fields = {.e = &s->e, .opts = &s->opts, .op = &op, .arena = &op.arena};
    const struct match_fields f = {get_field, event_field_ever, &fields};
    enum match_answer answer;
    struct eval ev;

    eval_init(&ev, &op, &op.arena);
    ev.now_ms = 1700000000000;
    op.err->code = 0;
    answer = match_foresee(m, &ev, &f);
    assert_int_equal(op.err->code, 0);
    match_outlook(m, &f, ret_no, ret_risk);
    return answer;
}

static void check(const struct match *m, struct bv filter, struct sample *s, uint32_t counts[4])
{
    bool no, risk, hit = false;
    enum match_answer answer = foresee(m, s, &no, &risk);
    struct eval ev;
    int rc;

    eval_init(&ev, &op, &op.arena);
    ev.now_ms = 1700000000000;
    rc = match_test(m, &ev, s->whole, &hit, NULL);
    counts[answer]++;
    if ((answer == MATCH_NO && (rc != 0 || hit || !no)) ||
        (answer == MATCH_YES && (rc != 0 || !hit)) || (answer == MATCH_MAYBE && rc != 0) ||
        (answer == MATCH_RISK && !risk))
        fail_msg("foreseen %d (no %d, risk %d), came %d %d:\n%s\n%s", answer, no, risk, rc, hit,
                 bv_show(&op.arena, filter, 4000), bv_show(&op.arena, s->whole, 4000));
}

enum { SAMPLES = 12 };

static void what_is_foreseen_comes(void **state)
{
    const char *s = getenv("RUNNEL_SEED"), *r = getenv("RUNNEL_ROUNDS");
    long rounds = r == NULL ? 20000 : strtol(r, NULL, 10);
    uint32_t counts[4] = {0};

    (void)state;
    if (s != NULL)
        seed = strtoull(s, NULL, 10) | 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (long i = 0; i < rounds; i++) {
        struct match *m = NULL;
        struct bv filter = random_json(put_any_filter);

        if (match_parse(&op, &op.arena, filter, NULL, &m) == 0) {
            for (int k = 0; k < SAMPLES; k++) {
                struct sample *sample = random_sample();

                if (sample != NULL)
                    check(m, filter, sample, counts);
            }
        }
        arena_reset(&op.arena);
    }
    print_message("no %u, yes %u, maybe %u, risk %u\n", counts[0], counts[1], counts[2], counts[3]);
    for (int k = 0; k < 4; k++)
        assert_true(counts[k] > (uint32_t)rounds / 10);
}

/* --- what a random filter seldom meets ---------------------------------------------------------
 */

static void expect(const char *filter, enum match_answer want)
{
    struct bv f = json_at(filter);
    struct sample s = {.opts = {.full = FULL_UPDATE_LOOKUP, .lookup = look_up}};
    enum match_answer got;
    struct match *m;
    bool found, no, risk;

    assert_true(oplog_parse(
        json(&op.arena,
             "{'op': 'u', 'ns': 'd.c', 'ui': " UUID ", 'o': {'$v': 2, 'diff': {'u': "
             "{'a': 1}}}, 'o2': {'_id': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'}, 'ts': " TS
             ", 'wall': " WALL "}"),
        &s.c.row));
    assert_int_equal(event_open(&op, &op.arena, &s.c, &s.e, &found), 0);
    assert_int_equal(match_parse(&op, &op.arena, f, NULL, &m), 0);
    got = foresee(m, &s, &no, &risk);
    if (got != want)
        fail_msg("%s: %d, not %d", filter, got, want);
}

static void an_error_is_left_to_the_stage(void **state)
{
    (void)state;
    image = BV_NONE;
    expect("{'operationType': 'insert', 'fullDocument.x': 1}", MATCH_NO);
    expect("{'fullDocument.x': 1, 'operationType': 'insert'}", MATCH_NO);
    expect("{'fullDocument.x': 1, 'operationType': 'update'}", MATCH_MAYBE);
    expect("{'$or': [{'fullDocument.x': 1}, {'operationType': 'update'}]}", MATCH_YES);
    /* a pattern, or an expression, on what is not at hand may fail first */
    expect("{'operationType': 'insert', 'fullDocument.x': {'@regex': 'a'}}", MATCH_NO);
    expect("{'fullDocument.x': {'@regex': 'a'}, 'operationType': 'insert'}", MATCH_RISK);
    expect("{'fullDocument.x': {'$in': [1, {'$regularExpression': {'pattern': 'a', 'options': "
           "''}}]}, 'operationType': 'insert'}",
           MATCH_RISK);
    expect("{'$expr': '$fullDocument.x', 'operationType': 'insert'}", MATCH_RISK);
    expect("{'$or': [{'$expr': '$fullDocument.x'}, {'operationType': 'update'}]}", MATCH_RISK);
    /* what fails on the entry fails on the event */
    expect("{'$expr': {'$add': ['$operationType', 1]}, 'operationType': 'insert'}", MATCH_RISK);
    expect("{'operationType': 'insert', '$expr': {'$add': ['$operationType', 1]}}", MATCH_NO);
    expect("{'documentKey._id': {'@regex': '^(a+)+$'}, 'operationType': 'insert'}", MATCH_RISK);
    expect("{'$expr': {'$lt': [{'$rand': {}}, 2]}}", MATCH_RISK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_foreseen_comes),
        cmocka_unit_test(an_error_is_left_to_the_stage),
    };
    int failed;

    op_init(&op);
    failed = cmocka_run_group_tests_name("push-down", tests, NULL, NULL);
    op_fini(&op);
    return failed;
}
