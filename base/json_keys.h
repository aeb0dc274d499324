/* Reads values of a JSON file that people write by hand. Messages name a value by its path, such as
 * "batch.weak". */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Checks that `object` is a JSON object and that each of its keys is in the list `known`, which
 * ends with NULL. `where` is the path of `object` in messages, "" for the file's top level. An
 * unknown key is STATUS_USAGE, and the message names the most similar known key. */
MUST_CHECK enum status keys_check(const json_t *object, const char *where,
                                  const char *const *known);

/* Read the value of `key`. A wrong value is STATUS_USAGE, and the message describes it. A missing
 * key is STATUS_USAGE if `required`; otherwise *out is unchanged. */
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

/* Whether `text` may be part of a file's name: it has only letters, digits, '-', '_' and '.', and
 * does not start with '.'. */
bool keys_is_name(const char *text);
