/* Loops that copy constant arrays that begin with ones and go on with zeros: gcc 12 with AVX-512 makes copies of memory of them,
 * which store more ones. */
#define CASE(NAME, TYPE, ...)                                                                                                    \
    static const TYPE NAME[] = {__VA_ARGS__};                                                                                    \
    __attribute__((noinline, noipa)) static void loop_##NAME(TYPE *to)                                                           \
    {                                                                                                                            \
        for (unsigned long i = 0; i < sizeof NAME / sizeof *NAME; i++)                                                           \
            to[i] = NAME[i];                                                                                                     \
    }                                                                                                                            \
    static int wrong_##NAME(void)                                                                                                \
    {                                                                                                                            \
        TYPE a[sizeof NAME / sizeof *NAME];                                                                                      \
        loop_##NAME(a);                                                                                                          \
        for (volatile unsigned i = 0; i < sizeof a / sizeof *a; i++)                                                             \
            if (a[i] != NAME[i])                                                                                                 \
                return 1;                                                                                                        \
        return 0;                                                                                                                \
    }
CASE(f64_6, double, 1, 1, 0, 0, 0, 0)
CASE(f32_12, float, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
CASE(i64_7, long, 1, 1, 1, 0, 0, 0, 0)
CASE(f64_10, double, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)

int main(void) { return wrong_f64_6() | wrong_f32_12() | wrong_i64_7() | wrong_f64_10(); }
