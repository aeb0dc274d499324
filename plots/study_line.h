/* What figures of scaling draw: lines of quantities against the number of devices, wherever they
 * come from. For plots/ alone. */
#ifndef PLOTS_STUDY_LINE_H
#define PLOTS_STUDY_LINE_H

#include "plots/figure.h"
#include "plots/study.h"

enum quantity {
    QUANTITY_NONE,
    QUANTITY_RATE, /* images/s */
    QUANTITY_PER_DEVICE,
    QUANTITY_SPEEDUP,
    QUANTITY_TIME,            /* seconds of the whole training */
    QUANTITY_EFFICIENCY,      /* percent, by throughput */
    QUANTITY_EFFICIENCY_WALL, /* percent, by the whole training's time */
    QUANTITY_TOP1,            /* percent */
    QUANTITY_TOP5,
    QUANTITIES
};

/* NaN is "not known" throughout. */
struct study_value {
    double mid, low, high;
    double ideal; /* with perfect scaling from the line's first point */
};

struct study_point {
    double devices;
    struct study_value value[QUANTITIES];
};

/* What tells the lines of a study apart, in the order in which a label says it. */
enum study_key {
    STUDY_MODE,
    STUDY_PRECISION,
    STUDY_ARCH,
    STUDY_DATA,
    STUDY_SCALING,
    STUDY_BATCH, /* "b64"; "" unless nothing else tells two lines apart */
    STUDY_KEYS
};

enum { STUDY_KEY_MAX = 64 };

struct study_line {
    char label[FIGURE_LABEL_MAX];
    char key[STUDY_KEYS][STUDY_KEY_MAX]; /* fit to be shown */
    bool is_published;                   /* has no keys */
    bool is_strong; /* scaling: the batch of all devices together is the same */
    bool is_weak;   /* that of each is; published lines may be of neither */
    int n;
    struct study_point *point; /* (n) ascending by devices */
};

struct study_lines {
    int n;
    struct study_line line[STUDY_LINES_MAX];
};

/* Adds the series of a study, as many as there is room for, and the published ones. Labels are all
 * different. The caller frees with study_lines_free, also after a failure. */
MUST_CHECK enum status study_lines_add(struct study_lines *l, const struct analysis *a);
MUST_CHECK enum status study_lines_add_published(struct study_lines *l,
                                                 const struct published_series *s);

/* Whether a key has several values among the lines that `which` (lines; NULL: all) names. */
void study_lines_vary(const struct study_lines *l, const bool *which, bool varies[STUDY_KEYS]);

/* The values of the keys that are to be shown, with `between` between them: "ddp amp". */
void study_line_name(const struct study_line *l, const bool shown[STUDY_KEYS], const char *between,
                     char name[FIGURE_LABEL_MAX]);

void study_lines_free(struct study_lines *l);

#endif
