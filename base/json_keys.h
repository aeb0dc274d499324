/* Reads values of a JSON file that people write by hand. Messages name the place: "batch.weak". */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Checks that `object` is an object, and that `known`, which ends with NULL, lists all its keys.
 * `where` names `object` in messages; "" at the top. STATUS_USAGE names an unknown key and the most
 * similar known one. */
MUST_CHECK enum status keys_check(const json_t *object, const char *where,
                                  const char *const *known);

/* Read the value of `key`; STATUS_USAGE describes a wrong value. For a missing key *out is
 * unchanged, or the result is STATUS_USAGE if `required`. */
MUST_CHECK enum status keys_count(const json_t *object, const char *where, const char *key,
                                  bool required, int64_t min, int64_t max, int64_t *out);
MUST_CHECK enum status keys_text(const json_t *object, const char *where, const char *key,
                                 bool required, char *out, size_t size);

/* Reads a required text that keys_is_name accepts. */
MUST_CHECK enum status keys_name(const json_t *object, const char *where, const char *key,
                                 char *out, size_t size);

/* Reads true or false; a missing key is false. */
MUST_CHECK enum status keys_flag(const json_t *object, const char *where, const char *key,
                                 bool *out);

/* Reads a list of 1 to `most` ascending numbers; a missing key is no error. */
MUST_CHECK enum status keys_counts(const json_t *object, const char *where, const char *key,
                                   int64_t min, int64_t max, int64_t *v, int most, int *n);

/* Reads a required list of 1 to `most` different names, each into `size` bytes of `names`. */
MUST_CHECK enum status keys_names(const json_t *object, const char *key, char *names, size_t size,
                                  int most, int *n);

/* Reads a list of one or more strings; *out is NULL if the key is missing. */
MUST_CHECK enum status keys_words(const json_t *object, const char *key, const json_t **out);

/* Can `text` be part of a file's name? It may have letters, digits, '-', '_' and '.'; the first
 * character must not be '.'. */
bool keys_is_name(const char *text);
