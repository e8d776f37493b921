/* folder_owner.h: who may change a folder; used by mgpuc and its programs. */
#ifndef MGPU_TRUST_H
#define MGPU_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Returns true if the file belongs to this user or root, and nobody else may write it. */
bool mgpu_is_trusted(const struct stat *);

/* Returns true if users other than this one and root may change the folder's contents or replace it; `why` says so: "it belongs
 * to the user 1000". Returns false for a folder that does not exist. */
bool mgpu_others_may_write(const char *folder, char *why, size_t capacity);
#endif
