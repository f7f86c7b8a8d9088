/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The data directory: whose it is, in which format, and whether it was left cleanly.
 *
 *     RUNNEL        format file, "runnel-format 1\n"; written once, by temporary file and rename
 *     RUNNEL.lock   held with flock for the life of the process; the text is the owner's pid
 *     RUNNEL.clean  there only between a clean close and the next open
 *     all else      WiredTiger's
 *
 * Nothing is created, changed or removed before the directory is known to be ours or empty.
 * One thread.
 */
#ifndef RUNNEL_STORAGE_DIRECTORY_H
#define RUNNEL_STORAGE_DIRECTORY_H

#include "base/error.h"

#define DIRECTORY_FORMAT 1

struct directory {
    int fd;       /* the directory itself */
    int lock_fd;  /* RUNNEL.lock, locked */
    bool unclean; /* the previous process did not close it */
};

/*
 * Makes the directory when it is missing (not its parents), locks it, checks or writes the format
 * file and removes the clean marker. ERR_OBJECT_IS_BUSY: another process has it.
 * ERR_ILLEGAL_OPERATION: not ours, or of a newer format. ERR_OPERATION_FAILED: the system refused.
 */
int directory_open(const char *path, struct error *err, struct directory *ret) MUST_CHECK;
/* Unlocks; with `clean` the marker is written first. */
int directory_close(struct directory *d, bool clean, struct error *err) MUST_CHECK;

#endif
