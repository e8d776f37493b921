/* mgpu_vgpu_check.h: loads and stores of a module that is compiled with -fsanitize=thread (arch vgpu-check), for
 * mgpu_vgpu.h. The compiler calls a function for each; here they ask the one who launched whether it is allowed. What is on
 * a thread's own stack is not asked for. Of -fsanitize=bounds,alignment,shift,integer-divide-by-zero the failures are
 * reported. */
#ifndef MGPU_VGPU_CHECK_H
#define MGPU_VGPU_CHECK_H

extern "C" __attribute__((visibility("default"))) const int mgpu_vgpu_checked = 1; /* the module asks */

#define MGPU_VGPU_CALLBACK extern "C" __attribute__((visibility("hidden"), used)) MGPU_VGPU_OWN

static inline __attribute__((always_inline)) MGPU_VGPU_OWN void mgpu_vgpu_ask(const void *p, unsigned bytes, int how, const void *place)
{
    const mgpu_vgpu_fiber *f = mgpu_vgpu_e.fiber;
    if (f && (uintptr_t)p - (uintptr_t)f->stack >= MGPU_VGPU_STACK)
        mgpu_vgpu_access(p, bytes, how, place);
}

#define MGPU_VGPU_SIZE(bytes)                                                                                             \
    MGPU_VGPU_CALLBACK void __tsan_read##bytes(void *p) { mgpu_vgpu_ask(p, bytes, MGPU_VGPU_LOAD, __builtin_return_address(0)); } \
    MGPU_VGPU_CALLBACK void __tsan_write##bytes(void *p) { mgpu_vgpu_ask(p, bytes, MGPU_VGPU_STORE, __builtin_return_address(0)); } \
    MGPU_VGPU_CALLBACK void __tsan_unaligned_read##bytes(void *p) { mgpu_vgpu_ask(p, bytes, MGPU_VGPU_LOAD | MGPU_VGPU_UNALIGNED, __builtin_return_address(0)); } \
    MGPU_VGPU_CALLBACK void __tsan_unaligned_write##bytes(void *p) { mgpu_vgpu_ask(p, bytes, MGPU_VGPU_STORE | MGPU_VGPU_UNALIGNED, __builtin_return_address(0)); }
MGPU_VGPU_SIZE(1)
MGPU_VGPU_SIZE(2)
MGPU_VGPU_SIZE(4)
MGPU_VGPU_SIZE(8)
MGPU_VGPU_SIZE(16)
#undef MGPU_VGPU_SIZE
MGPU_VGPU_CALLBACK void __tsan_read_range(void *p, unsigned long bytes) { mgpu_vgpu_ask(p, (unsigned)bytes, MGPU_VGPU_LOAD, __builtin_return_address(0)); }
MGPU_VGPU_CALLBACK void __tsan_write_range(void *p, unsigned long bytes) { mgpu_vgpu_ask(p, (unsigned)bytes, MGPU_VGPU_STORE, __builtin_return_address(0)); }
MGPU_VGPU_CALLBACK void __tsan_init(void) {}
MGPU_VGPU_CALLBACK void __tsan_func_entry(void *) {}
MGPU_VGPU_CALLBACK void __tsan_func_exit(void) {}

struct mgpu_vgpu_source { const char *file; unsigned line, column; };
MGPU_VGPU_CALLBACK void __ubsan_handle_out_of_bounds(mgpu_vgpu_source *at, void *)
{
    mgpu_vgpu_fail("bounds", (int)at->line, "an index is outside its array");
}
struct mgpu_vgpu_mismatch { mgpu_vgpu_source at; const void *type; unsigned char log_alignment, how; };
MGPU_VGPU_CALLBACK void __ubsan_handle_type_mismatch_v1(mgpu_vgpu_mismatch *m, void *)
{
    char text[80];
    snprintf(text, sizeof text, "an address is not a multiple of %d", 1 << m->log_alignment);
    mgpu_vgpu_fail("alignment", (int)m->at.line, text);
}
MGPU_VGPU_CALLBACK void __ubsan_handle_shift_out_of_bounds(mgpu_vgpu_source *at, void *, void *)
{
    mgpu_vgpu_fail("arithmetic", (int)at->line, "a shift by more bits than there are");
}
MGPU_VGPU_CALLBACK void __ubsan_handle_divrem_overflow(mgpu_vgpu_source *at, void *, void *)
{
    mgpu_vgpu_fail("arithmetic", (int)at->line, "a division by zero, or its result does not fit");
}
#endif
