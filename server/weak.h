/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Until these exist: without a database none of them is called. */
#pragma weak oplog_visible
#pragma weak oplog_durable
#pragma weak oplog_allocated
#pragma weak oplog_term
#pragma weak oplog_wait_ack
#pragma weak oplog_flush_ticket
#pragma weak oplog_noop
#pragma weak oplog_advance_clock
