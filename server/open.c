/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "server/open.h"

int database_open(struct server *s, struct error *err)
{
    (void)s;
    (void)err;
    return 0;
}

void database_close(struct server *s)
{
    (void)s;
}

void database_tick(struct server *s)
{
    (void)s;
}
