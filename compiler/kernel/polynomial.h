/* polynomial.h: polynomials of a few variables. They show what a kernel computes, whatever the order of its operations. */
#ifndef MGPU_KERNEL_POLYNOMIAL_H
#define MGPU_KERNEL_POLYNOMIAL_H

#include <stdbool.h>
#include <stdint.h>

enum { POLYNOMIAL_VARIABLES = 4, POLYNOMIAL_TERMS = 64 };
typedef struct PolynomialTerm {
    uint8_t power[POLYNOMIAL_VARIABLES];
    double factor;
} PolynomialTerm;
typedef struct Polynomial {
    bool unknown; /* not a polynomial, or of too many terms; so is all that is computed from it */
    int count;
    PolynomialTerm term[POLYNOMIAL_TERMS];
} Polynomial;

Polynomial polynomial_unknown(void);
Polynomial polynomial_number(double);
Polynomial polynomial_variable(int);
Polynomial polynomial_add(const Polynomial *, const Polynomial *, double factor); /* a + factor b */
Polynomial polynomial_multiply(const Polynomial *, const Polynomial *);
bool polynomial_equal(const Polynomial *, const Polynomial *); /* up to the rounding of F32; an unknown one equals none */
#endif
