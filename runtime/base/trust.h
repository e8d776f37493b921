/* trust.h: whose a folder is, for mgpuc and its programs. */
#ifndef MGPU_TRUST_H
#define MGPU_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* only this user (or root) has made the file and may write it */
bool mgpu_is_own(const struct stat *);

/* Whether others than this user and root may change what is in the folder, or put another in its place: then `why` says it, as
 * "it belongs to the user 1000". A folder that is not there, nobody may. */
bool mgpu_others_may_write(const char *folder, char *why, size_t room);
#endif
