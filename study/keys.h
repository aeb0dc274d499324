/* Reading a JSON file that people write by hand. Messages say where: "batch.weak".
 */
#ifndef STUDY_KEYS_H
#define STUDY_KEYS_H

#include "study/spec.h"

/* STATUS_USAGE unless `object`, called `where` ("" at the top), is one and all its keys are among
 * `known`, which ends with NULL; an unknown one is named with the nearest of them. */
MUST_CHECK enum status keys_check(const json_t *object, const char *where,
                                  const char *const *known);

/* Values of `object`'s `key`; STATUS_USAGE says what is wrong. What is absent is left as it is, and
 * `required` says that this is wrong. */
MUST_CHECK enum status keys_count(const json_t *object, const char *where, const char *key,
                                  bool required, int64_t min, int64_t max, int64_t *out);
MUST_CHECK enum status keys_text(const json_t *object, const char *where, const char *key,
                                 bool required, char *out, size_t size);
MUST_CHECK enum status keys_counts(const json_t *object, const char *where, const char *key,
                                   int64_t min, int64_t max, struct study_counts *out);

/* A list of names, at least one, none of them twice. */
MUST_CHECK enum status keys_names(const json_t *object, const char *key, struct study_names *out);

/* A list of strings that is absent (*out is NULL) or whole. */
MUST_CHECK enum status keys_words(const json_t *object, const char *key, const json_t **out);

/* Fit to be a part of a file's name: letters, digits, '-', '_' and '.', not '.' at first. */
bool keys_is_name(const char *text);
#endif
