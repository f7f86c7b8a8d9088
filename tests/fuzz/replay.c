/* SPDX-License-Identifier: GPL-3.0-or-later */
/* usage: TARGET FILE|FOLDER...: runs a fuzz target once over kept inputs, without libFuzzer. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/fuzz/notation.h"

static size_t replayed;

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rbe");
    struct stat st;
    uint8_t *data;

    if (f == NULL || fstat(fileno(f), &st) != 0) {
        perror(path);
        exit(1);
    }
    /* Exactly as long as the input, so that AddressSanitizer sees a step past its end. */
    data = malloc((size_t)st.st_size + (st.st_size == 0));
    if (data == NULL || fread(data, 1, (size_t)st.st_size, f) != (size_t)st.st_size) {
        perror(path);
        exit(1);
    }
    fclose(f);
    (void)LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
    free(data);
    replayed++;
}

static void replay_folder(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char file[4096];

    if (d == NULL) {
        perror(path);
        exit(1);
    }
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
        replay_file(file);
    }
    closedir(d);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct stat st;

        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            replay_folder(argv[i]);
        else
            replay_file(argv[i]);
    }
    printf("%s: %zu inputs\n", argv[0], replayed);
    return replayed == 0; /* a corpus that is not there tests nothing */
}
