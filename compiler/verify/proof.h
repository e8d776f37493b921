/* proof.h: a schedule, proved or refuted. */
#ifndef MGPU_VERIFY_PROOF_H
#define MGPU_VERIFY_PROOF_H

typedef struct Schedule Schedule;

/* Proves a schedule (verify.c). Returns NULL, or what is wrong, with both operations and the missing edge. */
const char *verify(const Schedule *);
int verify_line(void); /* the line of the text whose record the last `verify` refused; 0: of none */
#endif
