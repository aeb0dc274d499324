/* Reading a JSON file that people write by hand. Messages say where: "batch.weak". */
#ifndef BASE_JSON_KEYS_H
#define BASE_JSON_KEYS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

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

/* A list of 1 to `room` ascending numbers. */
MUST_CHECK enum status keys_counts(const json_t *object, const char *where, const char *key,
                                   int64_t min, int64_t max, int64_t *v, int room, int *n);

/* A list of 1 to `room` names, none of them twice, each in `size` bytes of `names`. */
MUST_CHECK enum status keys_names(const json_t *object, const char *key, char *names, size_t size,
                                  int room, int *n);

/* A list of strings that is absent (*out is NULL) or whole. */
MUST_CHECK enum status keys_words(const json_t *object, const char *key, const json_t **out);

/* Fit to be a part of a file's name: letters, digits, '-', '_' and '.', not '.' at first. */
bool keys_is_name(const char *text);
#endif
