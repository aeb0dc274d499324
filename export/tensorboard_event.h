/* Inside export/: writes a record of an event file. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes a message with its length and checksums. */
void tensorboard_put_record(FILE *out, const uint8_t *bytes, size_t size);
