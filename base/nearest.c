/* Finds the known word with the smallest edit distance to a mistyped word. */
#include "base/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void copy_plain(char out[NEAREST_MAX], const char *text, size_t n)
{
    size_t i = 0;
    for (; i < n && i < NEAREST_MAX - 1; i++)
        out[i] = (char)(text[i] == '_' ? '-' : tolower((unsigned char)text[i]));
    out[i] = '\0';
}

struct nearest nearest_to(const char *text)
{
    struct nearest near = {.best = ""};
    text += strspn(text, "-");
    copy_plain(near.text, text, strcspn(text, "="));
    int third = (int)strlen(near.text) / 3;
    near.edits = (third > 1 ? third : 1) + 1;
    return near;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The optimal string alignment distance of `a` and `b`. In step i, row[2][k] is the distance
 * between the first i characters of `a` and the first k of `b`; row[1] has the distances for i - 1
 * characters of `a`, and row[0] those for i - 2. */
static int edits(const char *a, const char *b)
{
    int row[3][NEAREST_MAX + 1], na = (int)strlen(a), nb = (int)strlen(b);
    for (int k = 0; k <= nb; k++)
        row[1][k] = k;
    for (int i = 1; i <= na; i++) {
        row[2][0] = i;
        for (int k = 1; k <= nb; k++) {
            int change = row[1][k - 1] + (a[i - 1] != b[k - 1]);
            row[2][k] = least(change, least(row[1][k], row[2][k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                row[2][k] = least(row[2][k], row[0][k - 2] + 1);
        }
        memcpy(row[0], row[1], sizeof row[0]);
        memcpy(row[1], row[2], sizeof row[1]);
    }
    return row[1][nb];
}

void nearest_offer(struct nearest *near, const char *word, size_t n)
{
    char plain[NEAREST_MAX];
    copy_plain(plain, word, n);
    int d = edits(near->text, plain);
    if (d >= near->edits || *near->text == '\0')
        return;
    near->edits = d;
    snprintf(near->best, sizeof near->best, "%.*s", (int)n, word);
}

void nearest_say(const struct nearest *near, const char *mark, char *out, size_t size)
{
    *out = '\0';
    if (*near->best)
        snprintf(out, size, "; did you mean %s%s?", mark, near->best);
}
