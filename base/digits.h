/* Numbers as people read them: no more digits than the measurement supports. Use it for documents
 * and for tables on a terminal; records keep nine digits (json.h). */
#pragma once

enum { DIGITS_SIZE = 128 };

/* Writes a quantity, such as seconds or images/s, with three significant digits: "1230", "44.4",
 * "0.411". A whole number keeps all its digits, since it may be a count. A number that is not
 * finite becomes a dash. */
void digits_amount(char out[DIGITS_SIZE], double x);

/* Writes a number with its interval: "3920 (3740 to 4100)". The last decimal is that of the second
 * digit of the interval's half width if this width begins with 10 to 35, else that of its first
 * digit; so does the Particle Data Group ("Review of particle physics", 2022, section 5.3).
 * Digits before this decimal are rounded too; a number whose interval excludes 0 keeps its first.
 * Without an interval, writes as digits_amount does. */
void digits_interval(char out[DIGITS_SIZE], double x, double low, double high);

/* Writes `s` seconds as "40 s" if they are fewer than `most`, else as "12 min" or "3.5 h". */
void digits_duration(char out[DIGITS_SIZE], double s, double most);
