/* The lines in the figures of a study. They show quantities of a series against the number of
 * devices, or accuracies of a cell against the epoch. A line is from a study or from a published
 * table. Internal to plots/. */
#pragma once

#include "plots/figure.h"

enum quantity {
    QUANTITY_NONE,
    QUANTITY_RATE, /* images/s */
    QUANTITY_PER_DEVICE,
    QUANTITY_SPEEDUP,
    QUANTITY_TIME,            /* seconds of the whole training */
    QUANTITY_EFFICIENCY,      /* percent, by throughput */
    QUANTITY_EFFICIENCY_WALL, /* percent, by the wall-clock time of the whole training */
    QUANTITY_READ,            /* MB/s, by the loaders */
    QUANTITY_STORAGE,         /* MB/s, from storage */
    QUANTITY_ACCURACY,        /* percent; the first of ANALYSIS_ACCURACIES quantities */
    QUANTITIES = QUANTITY_ACCURACY + ANALYSIS_ACCURACIES
};

/* A value of a quantity at a point of a line. NaN means "not known" in all members. */
struct study_value {
    double mid, low, high;
    double ideal; /* the value with perfect scaling, computed from the line's first point */
};

struct study_point {
    double x; /* number of devices, or of completed epochs */
    struct study_value value[QUANTITIES];
};

/* The properties in which the lines of a study may differ, in the order in which a label contains
 * them. */
enum study_key {
    STUDY_MODE,
    STUDY_PRECISION,
    STUDY_ARCH,
    STUDY_DATA,
    STUDY_SCALING,
    STUDY_BATCH, /* "b64", if two series differ only in the batch; else "". Of a cell: "2x32" */
    STUDY_KEYS
};

enum { STUDY_KEY_MAX = 64, STUDY_LINES_MAX = 24 };

struct study_line {
    char label[FIGURE_LABEL_MAX];
    char key[STUDY_KEYS][STUDY_KEY_MAX]; /* cleaned for display */
    bool is_published;                   /* whether the line is from a published table. Then only
                                          * the keys for network, precision and data are set; "":
                                          * not known */
    bool is_strong;                      /* strong scaling: the batch over all devices is fixed */
    bool is_weak; /* weak scaling: the batch per device is fixed. A published line is neither strong
                   * nor weak */
    int n;
    struct study_point *point; /* (n) ascending by x */
};

struct study_lines {
    int n;
    int64_t left_out; /* further lines, beyond STUDY_LINES_MAX */
    struct study_line line[STUDY_LINES_MAX];
};

/* study_lines_add adds the series of a study, study_lines_add_cells the learning curves of its
 * cells, but no more than STUDY_LINES_MAX lines. study_lines_add_published adds a published series.
 * No two labels are equal. The caller frees with study_lines_free, also after a failure. */
MUST_CHECK enum status study_lines_add(struct study_lines *l, const struct analysis *a);
MUST_CHECK enum status study_lines_add_cells(struct study_lines *l, const struct analysis *a);
MUST_CHECK enum status study_lines_add_published(struct study_lines *l,
                                                 const struct published_series *s);

/* Sets varies[key] for each key: whether the lines that `which` marks have different values of the
 * key. `which` has an entry for each line; NULL: all lines. Published lines are ignored. */
void study_lines_vary(const struct study_lines *l, const bool *which, bool varies[STUDY_KEYS]);

/* Writes the values of the keys in `shown`, joined by `between`, such as "ddp amp". */
void study_line_name(const struct study_line *l, const bool shown[STUDY_KEYS], const char *between,
                     char name[FIGURE_LABEL_MAX]);

void study_lines_free(struct study_lines *l);
