/* SPDX-License-Identifier: GPL-3.0-or-later */
/* 70 % inserts, 20 % finds, 10 % updates at a fixed rate, with a checkpoint every few seconds. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/load.h"
#include "tests/bench/mix.h"

enum mix_op mix_op(uint64_t n)
{
    uint64_t x = (n * 0x9E3779B97F4A7C15u >> 32) % 100;

    return x < 70 ? MIX_INSERT : x < 90 ? MIX_FIND : MIX_UPDATE;
}

struct mix {
    struct message ops[MIX_UPDATE + 1];
    uint64_t n, first_id, docs;
};

static const struct message *next(struct load *l, struct client *c)
{
    struct mix *x = l->arg;
    uint64_t n = x->n++;
    enum mix_op op = mix_op(n);
    struct message *m = &x->ops[op];

    (void)c;
    message_set_id(m, 0, op == MIX_INSERT ? x->first_id + n : mix_target(n, x->docs));
    if (op == MIX_UPDATE)
        message_set_v(m, 0, (int64_t)(x->first_id + n));
    return m;
}

static atomic_bool stopped;

/* Asks for checkpoints over a connection of its own. */
static void *checkpoints(void *arg)
{
    struct client c;
    struct message m = message_admin("fsync");
    useconds_t every_us = (useconds_t)(MIX_CHECKPOINT_SECONDS * 1e6);

    client_open(&c, arg);
    while (usleep(every_us), !atomic_load(&stopped))
        (void)client_call(&c, &m);
    client_close(&c);
    return NULL;
}

void run_mix(void)
{
    struct target t = target_parse(arg_str("uri", NULL));
    struct mix x = {.first_id = (uint64_t)now_ns(), .docs = (uint64_t)arg_int("docs", 100000)};
    struct load l = {.n = (int)arg_int("conns", 32),
                     .rate = arg_num("rate", 4000),
                     .seconds = arg_num("seconds", 10),
                     .arg = &x,
                     .next = next};
    pthread_t thread;
    double took;

    x.ops[MIX_INSERT] = message_insert("c", 1, DOC_BYTES, NULL);
    x.ops[MIX_FIND] = message_find("c");
    x.ops[MIX_UPDATE] = message_update("c");
    l.clients = load_clients(&t, l.n);
    if (pthread_create(&thread, NULL, checkpoints, &t) != 0)
        die("thread");
    took = load_run(&l);
    atomic_store(&stopped, true);
    pthread_join(thread, NULL);
    load_report(&l, took);
    load_free(&l);
}
