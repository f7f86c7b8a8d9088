/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/commands/cmd_common.h"

int check_collation(struct op *op, struct bv collation)
{
    struct bv locale = bv_get(collation, "locale");

    if (bv_is_missing(collation) || bv_empty(collation))
        return 0;
    if (locale.type != BV_STRING)
        return op_fail(op, ERR_IDL_MISSING_FIELD,
                       "BSON field 'collation.locale' is missing but a required field");
    if (bv_str_is(locale, "simple"))
        return 0;
    return op_fail(op, ERR_NOT_IMPLEMENTED, "collation is not supported yet");
}

int check_hint(struct op *op, struct bv hint, struct bv *ret)
{
    *ret = BV_NONE;
    if (hint.type == BV_DOC && bv_empty(hint))
        return 0;
    if (!bv_is_missing(hint) && hint.type != BV_STRING && hint.type != BV_DOC)
        return op_fail(op, ERR_FAILED_TO_PARSE, "Hint must be a string or an object");
    *ret = hint;
    return 0;
}

int command_let(struct op *op, struct bv let, struct let_vars *ret)
{
    ret->vars = NULL;
    ret->ev = NULL;
    if (bv_is_missing(let) || bv_empty(let))
        return 0;
    ret->vars = ARENA_NEW(&op->arena, struct expr_vars);
    ret->ev = ARENA_NEW(&op->arena, struct eval);
    eval_init(ret->ev, op, &op->arena);
    return expr_parse_let(op, &op->arena, let, ret->ev, ret->vars);
}

int check_user_ns(struct op *op, const char *ns)
{
    const char *coll = strchr(ns, '.') + 1;

    if (strcmp(ns, "local.oplog.rs") == 0)
        return op_fail(op, ERR_UNAUTHORIZED, "not authorized on local to change 'local.oplog.rs'");
    if (strncmp(coll, "system.", 7) == 0)
        return op_fail(op, ERR_INVALID_NAMESPACE, "Invalid system namespace: %s", ns);
    return 0;
}
