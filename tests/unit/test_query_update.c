/* SPDX-License-Identifier: GPL-3.0-or-later */
/* query/update: every operator, what the oplog says of it, and errors. */
#include "base/diff.h"
#include "tests/unit/update_util.h"

/* Rows of the tables end where nothing more is to be said. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct ucase {
    const char *doc, *update;
    const char *want;    /* the new document; NULL: no change */
    const char *o;       /* the diff in the oplog; NULL: not looked at */
    const char *filters; /* arrayFilters */
    const char *query;   /* for the positional operator */
};

static struct bv array_of(const char *text)
{
    struct bv v = text == NULL ? BV_NONE : json(&op.arena, text);

    if (text != NULL)
        v.type = BV_ARRAY;
    return v;
}

static int run(const struct ucase *c, struct bv old, struct update_result *ret)
{
    struct update_spec spec = {.u = doc_of(c->update), .array_filters = array_of(c->filters)};
    struct update *u = NULL;
    int32_t position = -1;
    bool matched;

    if (c->update[0] == '[')
        spec.u.type = BV_ARRAY;
    if (c->query != NULL) {
        assert_int_equal(match_test(filter_of(c->query), &ev, old, &matched, &position), 0);
        assert_true(matched);
    }
    TRY_RETURN(update_parse(&op, &op.arena, &spec, &u));
    return update_apply(u, &ev, old, position, ret);
}

static void check(const struct ucase *c)
{
    struct bv old = doc_of(c->doc), back;
    struct update_result r;
    int rc = run(c, old, &r);

    if (rc != 0)
        fail_msg("%s on %s: %d %s", c->update, c->doc, rc, op.err->text);
    if (r.changed != (c->want != NULL))
        fail_msg("%s on %s: changed is %d: %s", c->update, c->doc, r.changed, show(r.doc));
    if (c->want == NULL) {
        assert_true(bv_identical(r.doc, old));
        return;
    }
    if (!bv_identical(r.doc, doc_of(c->want)))
        fail_msg("%s on %s: got %s", c->update, c->doc, show(r.doc));
    if (r.is_replacement) {
        assert_true(bv_identical(r.entry_o, r.doc));
        assert_null(c->o);
        return;
    }
    if (c->o != NULL) {
        struct bv o = doc_of(arena_printf(&op.arena, "{'$v':2,'diff':%s}", c->o));

        if (!bv_identical(r.entry_o, o))
            fail_msg("%s on %s: o is %s", c->update, c->doc, show(r.entry_o));
    }
    assert_int_equal(diff_apply(&op, &op.arena, old, bv_get(r.entry_o, "diff"), &back), 0);
    assert_true(bv_identical(back, r.doc));
}

static void check_all(const struct ucase *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check(&c[i]);
}

#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof((cases)[0]))

/* --- setting and removing --------------------------------------------------------------------- */

static void test_set(void **state)
{
    static const struct ucase cases[] = {
        {"{'_id':1,'a':1}", "{'$set':{'a':2}}", "{'_id':1,'a':2}", "{'u':{'a':2}}"},
        {"{'_id':1}", "{'$set':{'new':1}}", "{'_id':1,'new':1}", "{'i':{'new':1}}"},
        {"{'_id':1,'a':1}", "{'$set':{'a':1}}", NULL},
        {"{'_id':1,'a':1}", "{'$set':{}}", NULL},
        {"{'_id':1,'a':1}", "{'$set':{'a':1.0}}", "{'_id':1,'a':1.0}", "{'u':{'a':1.0}}"},
        {"{'_id':1,'s':{'x':1}}", "{'$set':{'s.x':2}}", "{'_id':1,'s':{'x':2}}",
         "{'ss':{'u':{'x':2}}}"},
        /* Missing parents. */
        {"{}", "{'$set':{'a.b.c':1}}", "{'a':{'b':{'c':1}}}", "{'i':{'a':{'b':{'c':1}}}}"},
        {"{'a':{}}", "{'$set':{'a.b.c':1}}", "{'a':{'b':{'c':1}}}", "{'sa':{'i':{'b':{'c':1}}}}"},
        {"{'_id':1}", "{'$set':{'a.0':1,'a.10':2,'a.9':3}}", "{'_id':1,'a':{'0':1,'9':3,'10':2}}",
         "{'i':{'a':{'0':1,'9':3,'10':2}}}"},
        /* Order: by name, numbers first and by value; old fields keep their place in the document.
         */
        {"{'_id':1}", "{'$set':{'b':1,'a':1,'c':1}}", "{'_id':1,'a':1,'b':1,'c':1}",
         "{'i':{'a':1,'b':1,'c':1}}"},
        {"{'_id':2}", "{'$set':{'10':1,'2':1,'x':1}}", "{'_id':2,'2':1,'10':1,'x':1}"},
        {"{'_id':2}", "{'$set':{'01':1,'9':1,'00':1,'10':1}}",
         "{'_id':2,'9':1,'10':1,'00':1,'01':1}"},
        {"{'b':0,'a':0}", "{'$set':{'b':1,'a':2,'c':3}}", "{'b':1,'a':2,'c':3}",
         "{'u':{'a':2,'b':1},'i':{'c':3}}"},
        {"{'_id':1,'a':1,'b':[1,2,3],'c':{'x':1,'y':2}}",
         "{'$set':{'a':5,'b.1':9,'c.x':7,'z':0},'$unset':{'c.y':1}}",
         "{'_id':1,'a':5,'b':[1,9,3],'c':{'x':7},'z':0}",
         "{'u':{'a':5},'i':{'z':0},'sb':{'a':true,'u1':9},'sc':{'d':{'y':false},'u':{'x':7}}}"},
        /* Arrays. */
        {"{'a':[1]}", "{'$set':{'a.3':5}}", "{'a':[1,null,null,5]}", "{'sa':{'a':true,'u3':5}}"},
        {"{'a':[1]}", "{'$set':{'a.2.x':5}}", "{'a':[1,null,{'x':5}]}",
         "{'sa':{'a':true,'u2':{'x':5}}}"},
        {"{'a':[{'x':1},{'x':2}]}", "{'$set':{'a.1.x':5,'a.0.y':6}}",
         "{'a':[{'x':1,'y':6},{'x':5}]}",
         "{'sa':{'a':true,'s0':{'i':{'y':6}},'s1':{'u':{'x':5}}}}"},
        /* Names that begin with a dollar are fine below the top. */
        {"{'_id':1}", "{'$set':{'a.$x':1,'b':{'$y':2}}}", "{'_id':1,'a':{'$x':1},'b':{'$y':2}}"},
        /* The same _id may be set. */
        {"{'_id':1,'a':1}", "{'$set':{'_id':1.0,'a':2}}", "{'_id':1,'a':2}", "{'u':{'a':2}}"},
        {"{'_id':1}", "{'$setOnInsert':{'a':2}}", NULL},
    };

    (void)state;
    CHECK_ALL(cases);
}

static void test_unset(void **state)
{
    static const struct ucase cases[] = {
        {"{'_id':1,'a':1,'b':2}", "{'$unset':{'a':''}}", "{'_id':1,'b':2}", "{'d':{'a':false}}"},
        {"{'_id':1,'a':1}", "{'$unset':{'zz':1,'a.b':1,'c.d':1}}", NULL},
        {"{'a':[1,2,3]}", "{'$unset':{'a.1':1}}", "{'a':[1,null,3]}",
         "{'sa':{'a':true,'u1':null}}"},
        {"{'a':[1,null]}", "{'$unset':{'a.1':1,'a.7':1,'a.x':1}}", NULL},
        {"{'a':{'b':{'c':1}}}", "{'$unset':{'a.b.c':1}}", "{'a':{'b':{}}}",
         "{'sa':{'sb':{'d':{'c':false}}}}"},
    };

    (void)state;
    CHECK_ALL(cases);
}

static void test_rename(void **state)
{
    static const struct ucase cases[] = {
        {"{'_id':1,'a':1}", "{'$rename':{'a':'b'}}", "{'_id':1,'b':1}",
         "{'d':{'a':false},'i':{'b':1}}"},
        {"{'_id':1,'a':1,'b':2,'c':3}", "{'$rename':{'a':'b'}}", "{'_id':1,'b':1,'c':3}",
         "{'d':{'a':false},'u':{'b':1}}"},
        {"{'_id':1,'a':{'x':1}}", "{'$rename':{'a.x':'q.r'}}", "{'_id':1,'a':{},'q':{'r':1}}",
         "{'i':{'q':{'r':1}},'sa':{'d':{'x':false}}}"},
        {"{'_id':1,'b':1}", "{'$rename':{'a':'b','a.x':'c.d'}}", NULL},
        {"{'_id':1,'a':[1]}", "{'$rename':{'a':'b'}}", "{'_id':1,'b':[1]}"},
        {"{'_id':1,'a':1}", "{'$rename':{'a.x':'b'}}", NULL},
        {"{'_id':1,'a':1,'b':[2]}", "{'$rename':{'a':'b'}}", "{'_id':1,'b':1}"},
    };

    (void)state;
    /* "a" and "a.x" are one path after the other and may not be renamed together. */
    check(&cases[0]);
    check(&cases[1]);
    check(&cases[2]);
    check_all(cases + 4, 3);
}

/* {$currentDate: {field: {$type: type}}}; libbson's JSON has no plain "$type". */
static struct bv current_date(const char *field, const char *type)
{
    struct bw w;

    bw_init(&w, &op.arena);
    bw_doc_begin(&w, "$currentDate");
    bw_doc_begin(&w, field);
    bw_str(&w, "$type", type);
    bw_end(&w);
    bw_end(&w);
    return bw_done(&w);
}

#define NOW "{'$date':{'$numberLong':'1500000000123'}}"

static void test_current_date(void **state)
{
    static const struct ucase cases[] = {
        {"{}", "{'$currentDate':{'d':true,'e':false}}", "{'d':" NOW ",'e':" NOW "}"},
        {"{'d':1}", "{'$currentDate':{'d':false}}", "{'d':" NOW "}", "{'u':{'d':" NOW "}}"},
    };
    struct update_result r;

    (void)state;
    CHECK_ALL(cases);
    assert_int_equal(apply_bv(current_date("x", "date"), doc_of("{}"), &r), 0);
    assert_true(bv_identical(r.doc, doc_of("{'x':" NOW "}")));
    assert_int_equal(apply_bv(current_date("x", "timestamp"), doc_of("{}"), &r), 0);
    assert_true(bv_identical(r.doc, doc_of("{'x':{'$timestamp':{'t':1500000000,'i':1}}}")));
    ev.cluster_time = 7ULL << 32 | 9;
    assert_int_equal(apply_bv(current_date("x", "timestamp"), doc_of("{}"), &r), 0);
    assert_true(bv_identical(r.doc, doc_of("{'x':{'$timestamp':{'t':7,'i':9}}}")));
    assert_int_equal(apply_bv(current_date("x", "time"), doc_of("{}"), &r), 2);
    assert_string_equal(op.err->text, "The '$type' string field is required to be 'date' or "
                                      "'timestamp': {$currentDate: {field : {$type: 'date'}}}");
}

/* --- numbers ---------------------------------------------------------------------------------- */

static void test_numbers(void **state)
{
    static const struct ucase cases[] = {
        {"{'a':1}", "{'$inc':{'a':2}}", "{'a':3}", "{'u':{'a':3}}"},
        {"{'_id':1}", "{'$inc':{'a':2}}", "{'_id':1,'a':2}", "{'i':{'a':2}}"},
        {"{'a':1}", "{'$inc':{'a':0}}", NULL},
        {"{'a':2147483647}", "{'$inc':{'a':1}}", "{'a':{'$numberLong':'2147483648'}}"},
        {"{'a':1}", "{'$inc':{'a':0.5}}", "{'a':1.5}"},
        {"{'a':1}", "{'$inc':{'a':{'$numberLong':'1'}}}", "{'a':{'$numberLong':'2'}}"},
        {"{'a':1}", "{'$inc':{'a':{'$numberDecimal':'0.1'}}}", "{'a':{'$numberDecimal':'1.1'}}"},
        {"{'a':3}", "{'$mul':{'a':2}}", "{'a':6}", "{'u':{'a':6}}"},
        {"{}", "{'$mul':{'a':2.5}}", "{'a':0.0}", "{'i':{'a':0.0}}"},
        {"{}", "{'$mul':{'a':{'$numberLong':'3'}}}", "{'a':{'$numberLong':'0'}}"},
        {"{'a':1}", "{'$mul':{'a':1}}", NULL},
        {"{'a':5}", "{'$min':{'a':3}}", "{'a':3}", "{'u':{'a':3}}"},
        {"{'a':5}", "{'$min':{'a':7}}", NULL},
        {"{'a':5}", "{'$max':{'a':7}}", "{'a':7}"},
        {"{'a':1}", "{'$max':{'a':0}}", NULL},
        {"{'a':1}", "{'$max':{'a':1.0}}", NULL},
        {"{'a':1}", "{'$max':{'a':'x','b':1}}", "{'a':'x','b':1}"},
        {"{'a':13}", "{'$bit':{'a':{'and':10}}}", "{'a':8}", "{'u':{'a':8}}"},
        {"{'a':3}", "{'$bit':{'a':{'or':5}}}", "{'a':7}"},
        {"{'a':1}", "{'$bit':{'a':{'xor':5}}}", "{'a':4}"},
        {"{}", "{'$bit':{'a':{'or':5}}}", "{'a':5}"},
        {"{'a':1}", "{'$bit':{'a':{'or':{'$numberLong':'2'}}}}", "{'a':{'$numberLong':'3'}}"},
        {"{'a':-1}", "{'$bit':{'a':{'and':{'$numberLong':'255'}}}}", "{'a':{'$numberLong':'255'}}"},
    };

    (void)state;
    CHECK_ALL(cases);
}

/* --- arrays ----------------------------------------------------------------------------------- */

static void test_push(void **state)
{
    static const struct ucase cases[] = {
        {"{'a':[1]}", "{'$push':{'a':2}}", "{'a':[1,2]}", "{'sa':{'a':true,'u1':2}}"},
        {"{'a':[1]}", "{'$push':{'a':[2]}}", "{'a':[1,[2]]}", "{'sa':{'a':true,'u1':[2]}}"},
        {"{'a':[1]}", "{'$push':{'a':{'$each':[2,3]}}}", "{'a':[1,2,3]}",
         "{'sa':{'a':true,'u1':2,'u2':3}}"},
        {"{'a':[1]}", "{'$push':{'a':{'$each':[]}}}", NULL},
        {"{}", "{'$push':{'a':1}}", "{'a':[1]}", "{'i':{'a':[1]}}"},
        {"{}", "{'$push':{'a.b':{'$each':[]}}}", "{'a':{'b':[]}}", "{'i':{'a':{'b':[]}}}"},
        {"{'a':[]}", "{'$push':{'a':{'x':1}}}", "{'a':[{'x':1}]}",
         "{'sa':{'a':true,'u0':{'x':1}}}"},
        {"{'a':[1,2]}", "{'$push':{'a':{'$each':[9],'$position':0}}}", "{'a':[9,1,2]}",
         "{'u':{'a':[9,1,2]}}"},
        {"{'a':[1,2]}", "{'$push':{'a':{'$each':[8,9],'$position':-1}}}", "{'a':[1,8,9,2]}"},
        {"{'a':[1,2]}", "{'$push':{'a':{'$each':[9],'$position':-5}}}", "{'a':[9,1,2]}"},
        {"{'a':[1,2]}", "{'$push':{'a':{'$each':[9],'$position':50}}}", "{'a':[1,2,9]}",
         "{'u':{'a':[1,2,9]}}"},
        {"{'a':{'b':[3,1,2]}}", "{'$push':{'a.b':{'$each':[9],'$sort':-1,'$slice':0}}}",
         "{'a':{'b':[]}}", "{'sa':{'u':{'b':[]}}}"},
        {"{'a':[3,1,2]}", "{'$push':{'a':{'$each':[9],'$sort':-1,'$slice':2}}}", "{'a':[9,3]}"},
        {"{'a':[3,1,2]}", "{'$push':{'a':{'$each':[],'$slice':-2}}}", "{'a':[1,2]}"},
        {"{'a':[1,2]}",
         "{'$push':{'a':{'$each':[],'$slice':{'$numberLong':"
         "'-9223372036854775808'}}}}",
         NULL},
        {"{'a':[{'x':2,'y':1},{'x':1,'y':1},5,{'x':1,'y':2}]}",
         "{'$push':{'a':{'$each':[{'x':1,'y':3}],'$sort':{'x':1,'y':-1}}}}",
         "{'a':[5,{'x':1,'y':3},{'x':1,'y':2},{'x':1,'y':1},{'x':2,'y':1}]}"},
        {"{'a':[{'x':{'y':2}},{'x':{'y':1}}]}", "{'$push':{'a':{'$each':[],'$sort':{'x.y':1}}}}",
         "{'a':[{'x':{'y':1}},{'x':{'y':2}}]}"},
        {"{}", "{'$push':{'a':{'$each':[3,1,2],'$sort':1,'$slice':-2}}}", "{'a':[2,3]}",
         "{'i':{'a':[2,3]}}"},
    };

    (void)state;
    CHECK_ALL(cases);
}

static void test_sets(void **state)
{
    static const struct ucase cases[] = {
        {"{'s':[1]}", "{'$addToSet':{'s':1}}", NULL},
        {"{'s':[1]}", "{'$addToSet':{'s':1.0}}", NULL},
        {"{'s':[1]}", "{'$addToSet':{'s':2}}", "{'s':[1,2]}", "{'u':{'s':[1,2]}}"},
        {"{'s':[1,1]}", "{'$addToSet':{'s':{'$each':[2,1,2,{'x':1}]}}}", "{'s':[1,1,2,{'x':1}]}"},
        {"{}", "{'$addToSet':{'s':{'$each':[2,2]}}}", "{'s':[2]}", "{'i':{'s':[2]}}"},
        {"{}", "{'$addToSet':{'s':[1]}}", "{'s':[[1]]}"},
        {"{}", "{'$addToSet':{'s':{'$each':[]}}}", "{'s':[]}"},
        {"{'a':[1,2,1.0,'x']}", "{'$pull':{'a':1}}", "{'a':[2,'x']}", "{'u':{'a':[2,'x']}}"},
        {"{'a':[1,2]}", "{'$pull':{'a':9,'b':1}}", NULL},
        {"{'a':[1,5,9]}", "{'$pull':{'a':{'$gte':5}}}", "{'a':[1]}"},
        {"{'a':[1,5,9]}", "{'$pull':{'a':{'$in':[5,9]}}}", "{'a':[1]}"},
        {"{'a':['ab','b',1]}", "{'$pull':{'a':{'$regex':'^a'}}}", "{'a':['b',1]}"},
        {"{'a':[{'x':1,'y':2},{'x':2},3]}", "{'$pull':{'a':{'x':1}}}", "{'a':[{'x':2},3]}"},
        {"{'a':[{'x':1},{'x':2},3]}", "{'$pull':{'a':{'$or':[{'x':1},{'x':2}]}}}", "{'a':[3]}"},
        {"{'a':[{'r':[{'q':1}]},{'r':[]}]}",
         "{'$pull':{'a':{'r':{'$elemMatch':{'q':{'$gte':1}}}}}}", "{'a':[{'r':[]}]}"},
        {"{'a':[[1],[2]]}", "{'$pull':{'a':[1]}}", "{'a':[[2]]}"},
        {"{'a':[null,1]}", "{'$pull':{'a':null}}", "{'a':[1]}"},
        {"{'a':[1,2,3,2]}", "{'$pullAll':{'a':[2,3.0]}}", "{'a':[1]}", "{'u':{'a':[1]}}"},
        {"{'a':[1]}", "{'$pullAll':{'a':[]}}", NULL},
        {"{'a':[1,2,3]}", "{'$pop':{'a':1}}", "{'a':[1,2]}", "{'u':{'a':[1,2]}}"},
        {"{'a':[1,2,3]}", "{'$pop':{'a':-1}}", "{'a':[2,3]}"},
        {"{'a':[]}", "{'$pop':{'a':-1,'b':1}}", NULL},
    };

    (void)state;
    CHECK_ALL(cases);
}

static void test_positional(void **state)
{
    static const struct ucase cases[] = {
        {"{'a':[1,2,3]}", "{'$set':{'a.$':9}}", "{'a':[1,9,3]}", "{'sa':{'a':true,'u1':9}}", NULL,
         "{'a':2}"},
        {"{'a':[{'x':1},{'x':2}]}", "{'$inc':{'a.$.n':5}}", "{'a':[{'x':1},{'x':2,'n':5}]}",
         "{'sa':{'a':true,'s1':{'i':{'n':5}}}}", NULL, "{'a.x':2}"},
        {"{'a':[1,2]}", "{'$inc':{'a.$[]':1}}", "{'a':[2,3]}", "{'sa':{'a':true,'u0':2,'u1':3}}"},
        {"{'a':[]}", "{'$inc':{'a.$[]':1}}", NULL},
        {"{'a':[1,5,9]}", "{'$set':{'a.$[e]':0}}", "{'a':[1,0,0]}",
         "{'sa':{'a':true,'u1':0,'u2':0}}", "[{'e':{'$gte':5}}]"},
        {"{'a':[{'k':1,'v':[1,2]},{'k':2,'v':[2]}]}", "{'$set':{'a.$[x].v.$[y]':7}}",
         "{'a':[{'k':1,'v':[1,7]},{'k':2,'v':[2]}]}",
         "{'sa':{'a':true,'s0':{'sv':{'a':true,'u1':7}}}}", "[{'x.k':1},{'y':2}]"},
        {"{'a':[{'k':1},{'k':2}]}", "{'$set':{'a.$[].m':1,'a.$[x].n':2,'a.0.o':3}}",
         "{'a':[{'k':1,'m':1,'o':3},{'k':2,'m':1,'n':2}]}",
         "{'sa':{'a':true,'s0':{'i':{'m':1,'o':3}},'s1':{'i':{'m':1,'n':2}}}}",
         "[{'x.k':{'$gt':1}}]"},
        {"{'a':[1,2]}", "{'$set':{'a.$[x]':3}}", NULL, NULL, "[{'$or':[{'x':7},{'x':8}]}]"},
        {"{'a':[1,2]}", "{'$unset':{'a.$[]':1}}", "{'a':[null,null]}"},
        {"{'a':[[1,2],[3]]}", "{'$mul':{'a.$[].$[]':2}}", "{'a':[[2,4],[6]]}"},
    };

    (void)state;
    CHECK_ALL(cases);
}

/* --- replacements and pipelines --------------------------------------------------------------- */

static void test_replacement(void **state)
{
    static const struct ucase cases[] = {
        {"{'_id':1,'a':1}", "{'b':2}", "{'_id':1,'b':2}"},
        {"{'_id':1,'a':1}", "{}", "{'_id':1}"},
        {"{'_id':1,'a':1}", "{'a':1}", NULL},
        {"{'_id':1,'a':1}", "{'a':1,'_id':1.0}", NULL},
        {"{'_id':1,'a':1}", "{'a':1.0,'_id':1}", "{'_id':1,'a':1.0}"},
        {"{'_id':1,'a':1}", "{'a':{'$x':1}}", "{'_id':1,'a':{'$x':1}}"},
        {"{'_id':1}", "{'t':{'$timestamp':{'t':0,'i':0}},'s':{'t':{'$timestamp':{'t':0,'i':0}}}}",
         "{'_id':1,'t':{'$timestamp':{'t':7,'i':9}},'s':{'t':{'$timestamp':{'t':0,'i':0}}}}"},
    };

    (void)state;
    ev.cluster_time = 7ULL << 32 | 9;
    CHECK_ALL(cases);
}

#define LONG "012345678901234567890123456789012345678901234567890123456789"

static void test_pipeline(void **state)
{
    static const struct ucase cases[] = {
        {"{'_id':1,'a':1,'k':'" LONG "'}", "[{'$set':{'a':{'$add':['$a',1]}}}]",
         "{'_id':1,'a':2,'k':'" LONG "'}", "{'u':{'a':2}}"},
        {"{'_id':1,'a':1}", "[{'$set':{'a':2}}]", "{'_id':1,'a':2}"},
        {"{'_id':1,'a':1}", "[{'$set':{'a':1}}]", NULL},
        {"{'_id':1,'a':1}", "[]", NULL},
        {"{'_id':1,'arr':['" LONG "','" LONG "','" LONG "'],'keep':'x'}",
         "[{'$set':{'arr':['" LONG "']}}]", "{'_id':1,'arr':['" LONG "'],'keep':'x'}",
         "{'sarr':{'a':true,'l':1}}"},
        {"{'_id':1,'a':1}", "[{'$replaceWith':{'x':1}}]", "{'_id':1,'x':1}"},
        {"{'_id':1,'a':1,'k':'" LONG "'}", "[{'$unset':'a'}]", "{'_id':1,'k':'" LONG "'}",
         "{'d':{'a':false}}"},
    };

    (void)state;
    CHECK_ALL(cases);
}

/* --- errors ----------------------------------------------------------------------------------- */

struct efail {
    const char *doc, *update;
    int code;
    const char *text; /* the whole text, or NULL */
    const char *filters;
};

static void check_fail(const struct efail *f)
{
    struct ucase c = {.update = f->update, .filters = f->filters};
    struct update_result r;
    int rc = run(&c, doc_of(f->doc), &r);

    if (rc != f->code || op.err->code != f->code)
        fail_msg("%s on %s: %d %s", f->update, f->doc, rc, rc == 0 ? show(r.doc) : op.err->text);
    if (f->text != NULL)
        assert_string_equal(op.err->text, f->text);
}

#define CHECK_FAILS(cases)                                                                         \
    for (size_t i = 0; i < sizeof(cases) / sizeof((cases)[0]); i++)                                \
    check_fail(&(cases)[i])

static void test_parse_errors(void **state)
{
    static const struct efail cases[] = {
        {"{}", "{'$foo':{'a':1}}", 9,
         "Unknown modifier: $foo. Expected a valid update modifier or pipeline-style update "
         "specified as an array"},
        {"{}", "{'$set':{'a':1},'b':1}", 9,
         "Unknown modifier: b. Expected a valid update modifier or pipeline-style update "
         "specified as an array"},
        {"{}", "{'$SET':{'a':1}}", 9, NULL},
        {"{}", "{'$set':5}", 9,
         "Modifiers operate on fields but we found type int instead. For example: {$mod: "
         "{<field>: ...}} not {$set: 5}"},
        {"{}", "{'a':1,'$set':{'b':1}}", 52, NULL},
        {"{}", "{'$set':{'':1}}", 56, "An empty update path is not valid."},
        {"{}", "{'$set':{'a.':1}}", 56,
         "The update path 'a.' contains an empty field name, which is not allowed."},
        {"{}", "{'$set':{'a..b':1}}", 56, NULL},
        {"{}", "{'$set':{'.a':1}}", 56, NULL},
        {"{}", "{'$set':{'$a':1}}", 52, NULL},
        {"{}", "{'$set':{'a':1},'$inc':{'a':1}}", 40,
         "Updating the path 'a' would create a conflict at 'a'"},
        {"{}", "{'$set':{'a':1,'a.b':1}}", 40,
         "Updating the path 'a.b' would create a conflict at 'a'"},
        {"{}", "{'$set':{'a.b':1},'$unset':{'a':1}}", 40,
         "Updating the path 'a' would create a conflict at 'a'"},
        {"{}", "{'$set':{'a.b':1,'a.c':1,'a.b.c.d':1}}", 40,
         "Updating the path 'a.b.c.d' would create a conflict at 'a.b'"},
        {"{}", "{'$rename':{'a':'b'},'$set':{'b':1}}", 40, NULL},
        {"{}", "{'$rename':{'a':'b'},'$set':{'a':1}}", 40, NULL},
        {"{}", "{'$rename':{'a':1}}", 2, "The 'to' field for $rename must be a string: a: 1"},
        {"{}", "{'$rename':{'a':'a'}}", 2,
         "The source and target field for $rename must differ: a: \"a\""},
        {"{}", "{'$rename':{'a':'a.b'}}", 2,
         "The source and target field for $rename must not be on the same path: a: \"a.b\""},
        {"{}", "{'$rename':{'a.$':'b'}}", 2, NULL},
        {"{}", "{'$rename':{'a':'b.$[]'}}", 2, NULL},
        {"{}", "{'$rename':{'a':''}}", 56, NULL},
        {"{}", "{'$inc':{'a':'x'}}", 14, "Cannot increment with non-numeric argument: {a: \"x\"}"},
        {"{}", "{'$mul':{'a':null}}", 14, "Cannot multiply with non-numeric argument: {a: null}"},
        {"{}", "{'$currentDate':{'a':'date'}}", 2, NULL},
        {"{}", "{'$currentDate':{'a':{'$foo':1}}}", 2, "Unrecognized $currentDate option: $foo"},
        {"{}", "{'$bit':{'a':1}}", 2, NULL},
        {"{}", "{'$bit':{'a':{}}}", 2, NULL},
        {"{}", "{'$bit':{'a':{'not':1}}}", 2, NULL},
        {"{}", "{'$bit':{'a':{'or':1.0}}}", 2, NULL},
        {"{}", "{'$push':{'a':{'$each':1}}}", 2,
         "The argument to $each in $push must be an array but it was of type: int"},
        {"{}", "{'$push':{'a':{'$each':[],'$foo':1}}}", 2, "Unrecognized clause in $push: $foo"},
        {"{}", "{'$push':{'a':{'$each':[],'$slice':'x'}}}", 2, NULL},
        {"{}", "{'$push':{'a':{'$each':[],'$slice':1.5}}}", 2, NULL},
        {"{}", "{'$push':{'a':{'$each':[],'$position':'x'}}}", 2, NULL},
        {"{}", "{'$push':{'a':{'$each':[],'$sort':2}}}", 2,
         "The $sort element value must be either 1 or -1"},
        {"{}", "{'$push':{'a':{'$each':[],'$sort':{}}}}", 2, NULL},
        {"{}", "{'$push':{'a':{'$each':[],'$sort':{'a.':1}}}}", 2, NULL},
        {"{}", "{'$push':{'a':{'$each':[],'$sort':{'a':3}}}}", 2, NULL},
        {"{}", "{'$push':{'a':{'$each':[],'$sort':'x'}}}", 2, NULL},
        {"{'k':[1]}", "{'$addToSet':{'k':{'$each':[1],'$position':1}}}", 2,
         "Found unexpected fields after $each in $addToSet: { $each: [ 1 ], $position: 1 }"},
        {"{'k':[1]}", "{'$addToSet':{'k':{'$each':[1],'$slice':1}}}", 2, NULL},
        {"{'k':[1]}", "{'$addToSet':{'k':{'$each':[1],'$sort':1}}}", 2, NULL},
        {"{'k':[1]}", "{'$addToSet':{'k':{'$each':1}}}", 14, NULL},
        {"{}", "{'$pullAll':{'a':1}}", 2,
         "$pullAll requires an array argument but was given a int"},
        {"{}", "{'$pop':{'a':'x'}}", 9, "Expected a number in: a: \"x\""},
        {"{}", "{'$pop':{'a':2}}", 9, "$pop expects 1 or -1, found: 2"},
        {"{}", "{'$pull':{'a':{'$foo':1}}}", 2, NULL},
        /* array filters */
        {"{}", "{'$set':{'a.$[x]':1}}", 2,
         "No array filter found for identifier 'x' in path 'a.$[x]'"},
        {"{}", "{'$set':{'a':1}}", 9,
         "The array filter for identifier 'x' was not used in the update { $set: { a: 1 } }",
         "[{'x':1}]"},
        {"{}", "{'$set':{'a.$[x]':1}}", 9,
         "Found multiple array filters with the same top-level field name x",
         "[{'x':1},{'x.b':2}]"},
        {"{}", "{'$set':{'a.$[x]':1}}", 9,
         "Error parsing array filter :: caused by :: Expected a single top-level field name, found "
         "'x' and 'y'",
         "[{'x':1,'y':2}]"},
        {"{}", "{'$set':{'a.$[x]':1}}", 9,
         "Cannot use an expression without a top-level field name in arrayFilters", "[{}]"},
        {"{}", "{'$set':{'a.$[X]':1}}", 2, NULL, "[{'X':1}]"},
        {"{}", "{'$set':{'a.$[x]':1}}", 14, NULL, "[1]"},
        {"{}", "{'$set':{'a.$[x]':1}}", 2, NULL, "[{'x':{'$foo':1}}]"},
        {"{}", "{'b':1}", 9, NULL, "[{'x':1}]"},
        {"{}", "[{'$set':{'b':1}}]", 9, NULL, "[{'x':1}]"},
        {"{}", "{'$set':{'$[]':1}}", 2, NULL},
        {"{}", "{'$set':{'$.a':1}}", 2, NULL},
        {"{}", "{'$set':{'a.$.b.$':1}}", 2,
         "Too many positional (i.e. '$') elements found in path 'a.$.b.$'"},
    };

    (void)state;
    CHECK_FAILS(cases);
}

static void test_apply_errors(void **state)
{
    static const struct efail cases[] = {
        {"{'a':1}", "{'$set':{'a.x':1}}", 28, "Cannot create field 'x' in element {a: 1}"},
        {"{'a':null}", "{'$set':{'a.x':1}}", 28, "Cannot create field 'x' in element {a: null}"},
        {"{'_id':1,'a':[1,2]}", "{'$set':{'a.b':1}}", 28,
         "Cannot create field 'b' in element {a: [ 1, 2 ]}"},
        {"{'a':[1,2]}", "{'$set':{'a.1.b':1}}", 28, "Cannot create field 'b' in element {1: 2}"},
        {"{'a':[1,2]}", "{'$set':{'a.01':1}}", 28, NULL},
        {"{'_id':1,'a':1}", "{'$set':{'_id':2}}", 66,
         "Performing an update on the path '_id' would modify the immutable field '_id'"},
        {"{'_id':1,'a':1}", "{'$unset':{'_id':1}}", 66, NULL},
        {"{'_id':1,'a':1}", "{'$inc':{'_id':1}}", 66, NULL},
        {"{'_id':1,'a':1}", "{'$rename':{'_id':'b'}}", 66, NULL},
        {"{'_id':1,'a':2}", "{'$rename':{'a':'_id'}}", 66, NULL},
        {"{'_id':{'x':1}}", "{'$set':{'_id.x':2}}", 66,
         "Performing an update on the path '_id.x' would modify the immutable field '_id'"},
        {"{'_id':1}", "{'_id':2,'a':1}", 66,
         "After applying the update, the (immutable) field '_id' was found to have been altered to "
         "_id: 2"},
        {"{'_id':1}", "[{'$set':{'_id':2}}]", 66, NULL},
        {"{'_id':1,'a':'x'}", "{'$inc':{'a':1}}", 14,
         "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 'a' of "
         "non-numeric type string"},
        {"{'_id':1,'a':{'b':null}}", "{'$mul':{'a.b':1}}", 14,
         "Cannot apply $mul to a value of non-numeric type. {_id: 1} has the field 'b' of "
         "non-numeric type null"},
        {"{'_id':1,'a':{'$numberLong':'9223372036854775807'}}", "{'$inc':{'a':1}}", 2,
         "Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for "
         "document {_id: 1}"},
        {"{'_id':1,'a':{'$numberLong':'9223372036854775807'}}", "{'$mul':{'a':2}}", 2, NULL},
        {"{'_id':1,'a':1.5}", "{'$bit':{'a':{'or':1}}}", 2, NULL},
        {"{'_id':1,'a':{'b':1}}", "{'$push':{'a.b':1}}", 2,
         "The field 'a.b' must be an array but is of type int in document {_id: 1}"},
        {"{'_id':1,'a':1}", "{'$addToSet':{'a':1}}", 2,
         "Cannot apply $addToSet to non-array field. Field named 'a' has non-array type int"},
        {"{'_id':1,'a':1}", "{'$pull':{'a':1}}", 2, "Cannot apply $pull to a non-array value"},
        {"{'_id':1,'a':1}", "{'$pullAll':{'a':[1]}}", 2, NULL},
        {"{'_id':1,'a':1}", "{'$pop':{'a':1}}", 14,
         "Path 'a' contains an element of non-array type 'int'"},
        {"{'a':[1]}", "{'$set':{'a.$':1}}", 2,
         "The positional operator did not find the match needed from the query."},
        {"{'a':1}", "{'$set':{'a.$[]':1}}", 2,
         "Cannot apply array updates to non-array element a: 1"},
        {"{'a':{'x':1}}", "{'$set':{'a.$[].b':1}}", 2,
         "Cannot apply array updates to non-array element a: { x: 1 }"},
        {"{'b':{}}", "{'$set':{'b.c.$[]':1}}", 2,
         "The path 'b.c' must exist in the document in order to apply array updates."},
        {"{'a':[1]}", "{'$set':{'a.$[]':1,'a.0':2}}", 40, "Update created a conflict at 'a.0'"},
        {"{'_id':1,'a':[[[5]]],'b':7}", "{'$rename':{'b':'a.0.2'}}", 2, NULL},
        {"{'_id':1,'a':[5],'b':7}", "{'$rename':{'b':'a.0'}}", 2,
         "The destination field cannot be an array element, 'a.0' in doc with _id: 1 has an array "
         "field called 'a'"},
        {"{'_id':1,'a':[[[5]]],'b':7}", "{'$rename':{'a.0':'c'}}", 2,
         "The source field cannot be an array element, 'a.0' in doc with _id: 1 has an array field "
         "called 'a'"},
        {"{'a':[]}", "{'$set':{'a.1500001':1}}", 34, NULL},
        {"{'a':[]}", "{'$set':{'a.999999999':1}}", 34, NULL},
    };

    (void)state;
    CHECK_FAILS(cases);
}

static void test_forms(void **state)
{
    struct update_spec spec = {.u = doc_of("{'a':1}"), .multi = true};
    struct update *u = NULL;

    (void)state;
    assert_int_equal(update_parse(&op, &op.arena, &spec, &u), 9);
    assert_string_equal(op.err->text, "multi update is not supported for replacement-style update");
    spec.multi = false;
    assert_int_equal(update_parse(&op, &op.arena, &spec, &u), 0);
    assert_int_equal(update_form(u), UPDATE_REPLACEMENT);
    spec.constants = doc_of("{'c':1}");
    assert_int_equal(update_parse(&op, &op.arena, &spec, &u), 51198);
    spec = (struct update_spec){.u = doc_of("{'$set':{'a':1}}"), .multi = true};
    assert_int_equal(update_parse(&op, &op.arena, &spec, &u), 0);
    assert_int_equal(update_form(u), UPDATE_OPERATORS);
    spec.u = bv_true;
    assert_int_equal(update_parse(&op, &op.arena, &spec, &u), 9);
}

static void test_pipeline_constants(void **state)
{
    struct update_spec spec = {.u = array_of("[{'$set':{'a':'$$c'}}]"),
                               .constants = doc_of("{'c':42}")};
    struct update *u = NULL;
    struct update_result r;

    (void)state;
    assert_int_equal(update_parse(&op, &op.arena, &spec, &u), 0);
    assert_int_equal(update_form(u), UPDATE_PIPELINE);
    assert_int_equal(update_apply(u, &ev, doc_of("{'_id':1}"), -1, &r), 0);
    assert_true(bv_identical(r.doc, doc_of("{'_id':1,'a':42}")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_set, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rename, setup, teardown),
        cmocka_unit_test_setup_teardown(test_current_date, setup, teardown),
        cmocka_unit_test_setup_teardown(test_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_push, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_positional, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replacement, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipeline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parse_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_apply_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pipeline_constants, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
