/* Rounds numbers to the digits that their measurement supports. */
#include "base/digits.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Smaller numbers have an exponent: 4.85e-08. */
enum { DECIMALS_MAX = 9 };

/* From this value on, a whole number may have lost digits. */
#define WHOLE_MAX 9007199254740992.0

/* Returns the decimal exponent of x after rounding to `digits` significant digits: 2 for 99.96 and
 * three digits. */
static int exponent_of(double x, int digits)
{
    char text[64];
    snprintf(text, sizeof text, "%.*e", digits - 1, x);
    return atoi(strchr(text, 'e') + 1);
}

/* Appends x with `decimals` decimals; if negative, rounds to tens, hundreds, and so on. */
static void append(char out[DIGITS_SIZE], double x, int decimals)
{
    size_t n = strlen(out);
    double unit = decimals < 0 ? pow(10, -decimals) : 1;
    double rounded = decimals < 0 ? round(x / unit) * unit : x;
    if (fabs(rounded) >= WHOLE_MAX || decimals > DECIMALS_MAX)
        snprintf(out + n, DIGITS_SIZE - n, "%.3g", x);
    else
        snprintf(out + n, DIGITS_SIZE - n, "%.*f", decimals < 0 ? 0 : decimals, rounded);
    if (out[n] == '-' && !strpbrk(out + n, "123456789"))
        memmove(out + n, out + n + 1, strlen(out + n)); /* zero has no sign */
}

void digits_amount(char out[DIGITS_SIZE], double x)
{
    out[0] = '\0';
    if (!isfinite(x))
        strcpy(out, "\u2013");
    else if (x == floor(x))
        append(out, x, 0);
    else
        append(out, x, 2 - exponent_of(x, 3));
}

void digits_interval(char out[DIGITS_SIZE], double x, double low, double high)
{
    double half = high / 2 - low / 2;
    digits_amount(out, x);
    if (!isfinite(x) || !isfinite(low) || !isfinite(high))
        return;
    int decimals = 2 - exponent_of(x, 3);
    if (half > 0) {
        int e = exponent_of(half, 2);
        bool two = half < 3.55 * pow(10, e);
        decimals = two - e;
    }
    /* A number that is surely not 0 keeps its first digit. */
    int first = -exponent_of(x, 1);
    if ((low > 0 || high < 0) && decimals < first)
        decimals = first;
    out[0] = '\0';
    append(out, x, decimals);
    strcat(out, " (");
    append(out, low, decimals);
    strcat(out, " to ");
    append(out, high, decimals);
    strcat(out, ")");
}

void digits_duration(char out[DIGITS_SIZE], double s, double most)
{
    if (s < most)
        snprintf(out, DIGITS_SIZE, "%.0f s", s);
    else if (s < 100 * 60)
        snprintf(out, DIGITS_SIZE, "%.0f min", s / 60);
    else
        snprintf(out, DIGITS_SIZE, "%.1f h", s / 3600);
}
