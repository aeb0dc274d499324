/* What the tests of acceptance share. A failure fails the test. */
#pragma once

#include "../results/scratch.h"
#include "accept/accept_judge.h"
#include "base/status.h"

/* A spec and a check of it. In their JSON, and in all texts that these functions read, the quotes
 * are single. */
#define SPEC(device, checks)                                                                       \
    "{'schema': 1, 'name': 'made', 'about': 'a test', 'device': '" device                          \
    "', 'hardware': ['*'], 'checks': [" checks "]}"
#define MADE_CHECK(name, kind, more)                                                               \
    "{'name': '" name "', 'kind': '" kind "', 'level': 1, 'seconds': 1, 'limit_s': 60" more "}"

/* Reads a spec; devices: 0 means the spec's own number. */
enum status spec_read(const char *text, int devices, struct accept_spec *s);
void spec_take(const char *text, struct accept_spec *s);

/* The caller calls json_decref. */
json_t *json_quoted(const char *text);
