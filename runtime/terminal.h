/* terminal.h: what mgpuc and its programs share: the descriptors that they are started with. */
#ifndef MGPU_TERMINAL_H
#define MGPU_TERMINAL_H

/* Opens 0 to 2 where they are closed, so that no file that is opened later gets them: else what is printed would be written into a
 * log, or into weights. As those that are closed, they fail when they are read or written. */
void mgpu_hold_descriptors(void);
#endif
