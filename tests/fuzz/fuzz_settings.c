/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The config file: YAML gives settings within their bounds, or an error with a text. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/settings.h"
#include "tests/fuzz/notation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("settings", MFD_CLOEXEC);
    struct error err = {0};
    struct settings s;
    char path[64];
    int rc;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    settings_default(&s);
    rc = settings_load(&s, path, &err);
    if (rc != 0)
        ASSERT(err.code == rc && err.text[0] != '\0');
    ASSERT(s.port >= 0 && s.port <= 65535);
    ASSERT(s.repl_set != NULL && s.bind != NULL);
    rc = settings_check(&s, &err);
    if (rc != 0)
        ASSERT(err.code == rc && err.text[0] != '\0');
    settings_fini(&s);
    close(fd);
    return 0;
}
