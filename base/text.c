/* Cleans text, and appends to it. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Whether the character at `s` reorders the text around it, or ends a line: U+061C, U+200E, U+200F,
 * U+2028 to U+202E, U+2066 to U+2069. */
static bool misleads(const unsigned char *s)
{
    if (s[0] == 0xd8)
        return s[1] == 0x9c;
    if (s[0] != 0xe2)
        return false;
    return (s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
           (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

/* The number of bytes of the UTF-8 character at `s` (RFC 3629: shortest form, no surrogates).
 * Returns 0 if the bytes are not such a character, and also for a control character or a character
 * for which `misleads` is true. */
static size_t char_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] != 0x7f;
    size_t n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    unsigned second_min = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : s[0] == 0xc2 ? 0xa0 : 0x80;
    unsigned second_max = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    return s[1] >= second_min && s[1] <= second_max && !misleads(s) ? n : 0;
}

void text_clean(char *out, size_t size, const char *in)
{
    size_t len = 0;
    while (*in) {
        size_t n = char_length((const unsigned char *)in);
        size_t take = n ? n : 1;
        if (len + take >= size)
            break;
        if (n)
            memcpy(out + len, in, n);
        else
            out[len] = '?';
        len += take;
        in += take;
    }
    out[len] = '\0';
}

void text_print(FILE *out, const char *fmt, ...)
{
    char raw[TEXT_LINE_MAX], clean[TEXT_LINE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    text_clean(clean, sizeof clean, raw);
    fprintf(out, "%s\n", clean);
}

void text_print_csv(FILE *out, const char *text)
{
    char clean[TEXT_LINE_MAX];
    text_clean(clean, sizeof clean, text);
    bool quoted = strpbrk(clean, "\",") != NULL;
    if (quoted)
        fputc('"', out);
    if (*clean && strchr("=+-@", *clean))
        fputc('\'', out);
    for (const char *c = clean; *c; c++)
        fputs((char[3]){*c, *c == '"' ? '"' : '\0'}, out);
    if (quoted)
        fputc('"', out);
}

/* Formats a text and appends the part of it that fits in `out`. If the text does not fit, cuts it
 * between two characters and returns false. */
static bool append(char *out, size_t size, const char *between, const char *fmt, va_list args)
{
    size_t used = strnlen(out, size);
    if (used >= size)
        return false;
    size_t left = size - used;
    int n = *between && used > 0 ? snprintf(out + used, left, "%s", between) : 0;
    if (n >= 0 && (size_t)n < left) {
        int more = vsnprintf(out + used + n, left - (size_t)n, fmt, args);
        n = more < 0 ? more : n + more;
    }
    if (n >= 0 && (size_t)n < left)
        return true;
    size_t end = strlen(out), start = end;
    while (start > used && ((unsigned char)out[start - 1] & 0xc0) == 0x80)
        start--;
    if (start > used && (unsigned char)out[start - 1] >= 0xc0 &&
        char_length((const unsigned char *)out + start - 1) != end - start + 1)
        out[start - 1] = '\0';
    return false;
}

bool text_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

int text_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool text_append(char *out, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    bool whole = append(out, size, "", fmt, args);
    va_end(args);
    return whole;
}

bool text_join(char *out, size_t size, const char *between, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    bool whole = append(out, size, between, fmt, args);
    va_end(args);
    return whole;
}
