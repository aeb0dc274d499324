/* Inside comm/: the secret that the ranks of a job share, and proofs that a process knows it. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    SECRET_MIN = 16, /* bytes */
    SECRET_MAX = 1024,
    NONCE_BYTES = 32,
    DIGEST_BYTES = 32,
};

#define SECRET_VARIABLE "AMPSCALE_SECRET"

struct secret {
    size_t size; /* 0: there is none */
    unsigned char bytes[SECRET_MAX];
};

/* Reads the secret from `file`, without the newline at its end. If `file` is NULL, reads it from
 * AMPSCALE_SECRET, if set. STATUS_USAGE for a secret that is too short or too long, for a file that
 * neither this user nor root owns, and for a file that other users may access. Messages do not
 * contain the secret. */
MUST_CHECK enum status secret_read(const char *file, struct secret *s);

/* Overwrites the secret. */
void secret_clear(struct secret *s);

/* Fills `nonce` with random bytes, which are used only once. */
MUST_CHECK enum status nonce_make(unsigned char nonce[NONCE_BYTES]);

/* Computes the HMAC-SHA256 (RFC 2104, FIPS 180-4) of `label` and the `size` bytes at `data`, with
 * the secret as key. */
void secret_proof(const struct secret *s, const char *label, const void *data, size_t size,
                  unsigned char proof[DIGEST_BYTES]);

/* Compares two digests. The time does not depend on the position of the first difference. */
bool digest_equal(const unsigned char a[DIGEST_BYTES], const unsigned char b[DIGEST_BYTES]);

/* Computes the SHA-256 digest of a text. */
void digest_text(const char *text, unsigned char digest[DIGEST_BYTES]);
