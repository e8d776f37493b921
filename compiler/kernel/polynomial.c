/* polynomial.c: sums of products (kernel/polynomial.h), as lists of terms with different powers. */
#include "compiler/kernel/polynomial.h"

#include <math.h>
#include <string.h>

static const double ROUNDING = 1e-6, NOTHING = 1e-9; /* relative to a factor; the largest rest of terms that cancel */
enum { LARGEST_POWER = 16 };

Polynomial polynomial_unknown(void) { return (Polynomial){.unknown = true}; }
Polynomial polynomial_number(double number) { return (Polynomial){.count = number != 0, .term = {{.factor = number}}}; }

Polynomial polynomial_variable(int variable)
{
    Polynomial p = polynomial_number(1);
    p.term[0].power[variable] = 1;
    return p;
}

static const PolynomialTerm *find(const Polynomial *p, const PolynomialTerm *like)
{
    for (int i = 0; i < p->count; i++)
        if (memcmp(p->term[i].power, like->power, sizeof like->power) == 0)
            return &p->term[i];
    return NULL;
}

static void add_term(Polynomial *p, const PolynomialTerm *t)
{
    const PolynomialTerm *known = find(p, t);
    if (known)
        p->term[known - p->term].factor += t->factor;
    else if (p->count < POLYNOMIAL_TERMS)
        p->term[p->count++] = *t;
    else
        p->unknown = true;
}

Polynomial polynomial_add(const Polynomial *a, const Polynomial *b, double factor)
{
    Polynomial sum = *a;
    sum.unknown = a->unknown || b->unknown;
    for (int i = 0; i < b->count && !sum.unknown; i++) {
        PolynomialTerm t = b->term[i];
        t.factor *= factor;
        add_term(&sum, &t);
    }
    return sum;
}

Polynomial polynomial_multiply(const Polynomial *a, const Polynomial *b)
{
    Polynomial product = {.unknown = a->unknown || b->unknown};
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count && !product.unknown; k++) {
            PolynomialTerm t = {.factor = a->term[i].factor * b->term[k].factor};
            for (int v = 0; v < POLYNOMIAL_VARIABLES; v++) {
                t.power[v] = (uint8_t)(a->term[i].power[v] + b->term[k].power[v]);
                product.unknown = product.unknown || t.power[v] > LARGEST_POWER;
            }
            add_term(&product, &t);
        }
    return product;
}

static bool covers(const Polynomial *a, const Polynomial *b)
{
    for (int i = 0; i < a->count; i++) {
        const PolynomialTerm *other = find(b, &a->term[i]);
        double is = a->term[i].factor, wanted = other ? other->factor : 0;
        if (!(fabs(is - wanted) <= ROUNDING * fabs(wanted) + NOTHING))
            return false;
    }
    return true;
}

bool polynomial_equal(const Polynomial *a, const Polynomial *b)
{
    return !a->unknown && !b->unknown && covers(a, b) && covers(b, a);
}
