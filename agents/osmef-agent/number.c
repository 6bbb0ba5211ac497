#include "number.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Further digits don't fit and only shift the decimal point. */
#define FULL 1000000000000000000u
#define LARGEST_EXPONENT 9999
#define EXACT_POWER 22

/* The digits so far, and their exponent of ten. */
struct decimal {
    uint64_t digits;
    int exponent;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *read_digits(const char *at, struct decimal *decimal, bool behind_point)
{
    for (; is_digit(*at); at++) {
        const bool fits = decimal->digits < FULL;
        if (fits)
            decimal->digits = decimal->digits * 10 + (uint64_t)(*at - '0');
        decimal->exponent += (fits ? 0 : 1) - behind_point;
    }
    return at;
}

static const char *read_exponent(const char *at, int *exponent)
{
    const bool negative = *at == '-';
    int value = 0;
    at += *at == '+' || *at == '-';
    if (!is_digit(*at))
        return NULL;
    for (; is_digit(*at); at++)
        value = value > LARGEST_EXPONENT ? value : value * 10 + (*at - '0');
    *exponent += negative ? -value : value;
    return at;
}

static double scaled(double value, int exponent)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    for (; exponent > EXACT_POWER && isfinite(value) && value > 0; exponent -= EXACT_POWER)
        value *= tens[EXACT_POWER];
    for (; exponent < -EXACT_POWER && value > 0; exponent += EXACT_POWER)
        value /= tens[EXACT_POWER];
    if (value == 0 || !isfinite(value))
        return value;
    return exponent < 0 ? value / tens[-exponent] : value * tens[exponent];
}

const char *number_read(const char *text, double *value)
{
    struct decimal decimal = {0, 0};
    const char *at = text + (*text == '-');
    if (!is_digit(*at) || (*at == '0' && is_digit(at[1])))
        return NULL;
    at = read_digits(at, &decimal, false);
    if (*at == '.') {
        if (!is_digit(at[1]))
            return NULL;
        at = read_digits(at + 1, &decimal, true);
    }
    if (*at == 'e' || *at == 'E')
        at = read_exponent(at + 1, &decimal.exponent);
    *value = scaled((double)decimal.digits, decimal.exponent) * (*text == '-' ? -1 : 1);
    return at;
}
