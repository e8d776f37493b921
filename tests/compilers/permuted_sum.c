/* A sum in order over members of a struct that are loaded in another order: GCC PR 110381 adds some twice and leaves others out.
 * This and the other files here: status 1 if the compiler's code is wrong (tests/compilers.test). */
struct Triple {
    double a, b, c;
};

__attribute__((noinline, noipa)) static double sum(const struct Triple *t)
{
    double s = 0;
    for (int i = 0; i < 8; i++) {
        s += t[i].a;
        s += t[i].c;
        s += t[i].b;
    }
    return s;
}

int main(void)
{
    static struct Triple t[8];
    for (int i = 0; i < 8; i++)
        t[i] = (struct Triple){1 << i, 256 << i, 65536 << i};
    return sum(t) != 255.0 + 256 * 255 + 65536 * 255;
}
