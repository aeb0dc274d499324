/* Cleaning text. */
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

/* Characters that reorder the text around them, or end a line: U+061C, U+200E, U+200F, U+2028 to
 * U+202E, U+2066 to U+2069. */
static bool misleads(const unsigned char *s)
{
    if (s[0] == 0xd8)
        return s[1] == 0x9c;
    if (s[0] != 0xe2)
        return false;
    return (s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
           (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

/* Bytes of the UTF-8 character at `s` (RFC 3629: shortest form, no surrogates); 0 when there is
 * none, or it is a control character or misleads. */
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
