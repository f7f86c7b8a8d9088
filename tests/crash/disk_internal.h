/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What disk.c (names, the interface) and disk_file.c (the bytes of files) share. All of it is
 * called under the disk's lock. */
#ifndef RUNNEL_TESTS_CRASH_DISK_INTERNAL_H
#define RUNNEL_TESTS_CRASH_DISK_INTERNAL_H

#include <pthread.h>

#include "disk.h"

enum { PAGE = 4096, SECTOR = 512, BUCKETS = 256 };

/* An unsynced page of a file. */
struct page {
    struct page *next; /* in its bucket */
    uint64_t number;
    uint8_t bytes[PAGE];
};

struct disk_file {
    int fd;           /* the real file */
    uint64_t number;  /* names the real file while it has no name yet */
    uint64_t size;    /* as the program sees it */
    uint64_t shines;  /* so many bytes of the real file are seen where there is no page */
    unsigned handles; /* open ones */
    unsigned names;   /* as the program sees them, and pending ones */
    struct page *pages[BUCKETS];
};

struct name {
    struct name *next;
    struct disk_file *file;
    char text[];
};

/* An operation on names that is not synced yet. */
struct pending {
    struct pending *next;
    struct disk_file *linked; /* a new file, which gets the name `to`; else NULL */
    char *from, *to;          /* from: removed or renamed; to: the new name, NULL: none */
};

struct disk {
    pthread_mutex_t mx; /* guards all of the below */
    int dir_fd;
    struct disk_options o;
    struct disk_counts counts;
    uint64_t random, next_number;
    struct name *names;
    struct pending *pending, **pending_end;
};

/* disk.c */
void *disk_take(size_t size); /* zeroed; aborts when memory is out */
bool disk_leaks(struct disk *d);
uint64_t disk_random(struct disk *d, uint64_t below);
void disk_step(struct disk *d); /* before each change of a real file */

/* disk_file.c: 0 or an errno. */
int file_read(struct disk_file *f, uint64_t at, uint8_t *buf, size_t len);
int file_write(struct disk *d, struct disk_file *f, uint64_t at, const uint8_t *buf, size_t len);
int file_truncate(struct disk *d, struct disk_file *f, uint64_t size);
int file_sync(struct disk *d, struct disk_file *f);
void file_drop_pages(struct disk_file *f, uint64_t from);

#endif
