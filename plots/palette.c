/* Assigns colours and shapes to names of series. */
#include "plots/palette.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int find(const struct palette *p, const char *name)
{
    int i = 0;
    while (i < p->n && strcmp(p->name[i], name) != 0)
        i++;
    return i < p->n ? p->look[i] : -1;
}

/* The looks and the colours that are in use. A look is a pair of a colour and a shape. */
struct used {
    bool look[PALETTE_LOOKS], colour[PALETTE_COLOURS]; /* used by any name */
    bool here[PALETTE_COLOURS];                        /* used by a name of the current figure */
};

static void use(struct used *u, int look, bool here)
{
    u->look[look] = u->colour[look % PALETTE_COLOURS] = true;
    if (here)
        u->here[look % PALETTE_COLOURS] = true;
}

static int choose(const struct used *u, int otherwise)
{
    for (int c = 0; c < PALETTE_COLOURS; c++)
        if (!u->colour[c])
            return c;
    for (int k = 0; k < PALETTE_LOOKS; k++)
        if (!u->look[k] && !u->here[k % PALETTE_COLOURS])
            return k;
    for (int k = 0; k < PALETTE_LOOKS; k++)
        if (!u->look[k])
            return k;
    return otherwise % PALETTE_LOOKS;
}

static void remember(struct palette *p, const char *name, int look)
{
    if (p->n == PALETTE_MAX)
        return;
    snprintf(p->name[p->n], PALETTE_NAME_SIZE, "%s", name);
    p->look[p->n++] = look;
}

void palette_take(struct palette *p, int n, const char (*name)[PALETTE_NAME_SIZE], int look[])
{
    struct palette fresh;
    struct used used = {.look = {false}};
    if (!p) {
        fresh.n = 0;
        p = &fresh;
    }
    for (int i = 0; i < p->n; i++)
        use(&used, p->look[i], false);
    for (int i = 0; i < n; i++)
        if (find(p, name[i]) >= 0)
            use(&used, find(p, name[i]), true);
    for (int i = 0; i < n; i++) {
        look[i] = find(p, name[i]);
        if (look[i] >= 0)
            continue;
        look[i] = choose(&used, p->n);
        use(&used, look[i], true);
        remember(p, name[i], look[i]);
    }
}
