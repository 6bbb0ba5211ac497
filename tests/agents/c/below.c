/* Opens files below the directory of the environment's QUOTA_TEST_ROOT instead of the machine's. */
#undef fopen
#include <stdio.h>
#include <stdlib.h>

FILE *fopen_below(const char *path, const char *mode);

FILE *fopen_below(const char *path, const char *mode)
{
    char below[4096];
    snprintf(below, sizeof below, "%s%s", getenv("QUOTA_TEST_ROOT"), path);
    return fopen(below, mode);
}
