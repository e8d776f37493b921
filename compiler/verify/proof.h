/* proof.h: a schedule, proved or refuted. */
#ifndef MGPU_VERIFY_PROOF_H
#define MGPU_VERIFY_PROOF_H

typedef struct Schedule Schedule;

/* verify.c         NULL: proved; else what is wrong, naming both operations and the missing edge */
const char *verify(const Schedule *);
#endif
