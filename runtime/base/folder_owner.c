/* folder_owner.c: checks who may change a folder. */
#include "runtime/base/folder_owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OTHERS_WRITE = S_IWGRP | S_IWOTH };

static bool is_of_user(const struct stat *s) { return s->st_uid == geteuid() || s->st_uid == 0; }

bool mgpu_is_trusted(const struct stat *s) { return is_of_user(s) && !(s->st_mode & OTHERS_WRITE); }

/* Checks a containing folder. In one like /tmp (1777), others cannot rename files that are not theirs. This user's own group may
 * write, because with a umask of 002, usual where each user has a group, all new folders are writable by the group. */
static bool others_may_rename_in(const char *folder, struct stat *s)
{
    if (stat(folder, s) != 0 || (s->st_mode & S_ISVTX))
        return false;
    return (s->st_mode & S_IWOTH) || ((s->st_mode & S_IWGRP) && s->st_gid != getegid());
}

bool mgpu_others_may_write(const char *folder, char *why, size_t capacity)
{
    struct stat s;
    char *path = realpath(folder, NULL);
    bool others = path && stat(path, &s) == 0 && !mgpu_is_trusted(&s);
    if (others && !is_of_user(&s))
        snprintf(why, capacity, "it belongs to the user %lu", (unsigned long)s.st_uid);
    else if (others)
        snprintf(why, capacity, "its mode is %04o", (unsigned)s.st_mode & 07777);
    for (char *slash; path && !others && (slash = strrchr(path, '/')) && path[1];) {
        slash[slash == path] = 0;
        others = others_may_rename_in(path, &s);
        if (others)
            snprintf(why, capacity, "%s above it has the mode %04o", path, (unsigned)s.st_mode & 07777);
    }
    free(path);
    return others;
}
