/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * From a message to a finished reply.
 *
 *     dispatch()        parses the message, finds the command, runs it, finishes the reply
 *     envelope_parse()  the fields that any command may carry
 *     reply_*()         payload, ok, labels, $clusterTime, operationTime, what is waited for
 */
#ifndef RUNNEL_SERVER_DISPATCH_H
#define RUNNEL_SERVER_DISPATCH_H

#include "server/command.h"

/*
 * One run of rq. 0: rq->out is the reply, to be sent when its ack_* waits are over. Else INT_PARK,
 * INT_TO_SCHEMA, INT_CLOSE or INT_NOREPLY. Errors of the command have become replies.
 */
int dispatch(struct request *rq, bool on_schema_thread) MUST_CHECK;

/* Fills the envelope fields of rq from op->cmd; op->db is set for OP_QUERY and else read from $db.
 * rq->cmd is set. INT_PARK: waits for afterClusterTime. */
int envelope_parse(struct request *rq) MUST_CHECK;
/* Only $db and, when it is asked for, help: for choosing the command. */
int envelope_db(struct request *rq) MUST_CHECK;

/* Finishes rq->reply, which holds the payload, as a success. */
void reply_finish(struct request *rq);
/* Drops the payload and makes the error document of op->err-> */
void reply_error(struct request *rq);
/* There is no memory for the reply. An error reply would deny what was written: then the connection
 * is closed, and the client knows that it does not know. Returns what the command returns. */
int reply_lost(struct request *rq);
/* A command that succeeded: sets op->ack_* as the write or read concern asks. */
int reply_set_waits(struct request *rq) MUST_CHECK;
/* Puts rq->write_concern_error into the finished reply, where it would have been. */
void reply_add_write_concern_error(struct request *rq);
/* The current cluster time of this server. */
uint64_t server_cluster_time(struct server *s);

#endif
