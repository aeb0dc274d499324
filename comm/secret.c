/* Reads secrets, and makes nonces and digests with Nettle's functions. */
#include "comm/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status check_length(const char *source, size_t size)
{
    if (size >= SECRET_MIN && size <= SECRET_MAX)
        return STATUS_OK;
    return status_fail(STATUS_USAGE,
                       "the secret in %s has %zu bytes; give %d to %d, for instance the output of "
                       "'openssl rand -hex 32'",
                       source, size, SECRET_MIN, SECRET_MAX);
}

static enum status check_private(const char *file, const struct stat *info)
{
    if (!S_ISREG(info->st_mode))
        return status_fail(STATUS_USAGE, "--secret-file '%s': not a regular file", file);
    if (info->st_uid != geteuid() && info->st_uid != 0)
        return status_fail(STATUS_USAGE, "--secret-file '%s': belongs to another user", file);
    if (info->st_mode & 077)
        return status_fail(
            STATUS_USAGE,
            "--secret-file '%s': other users have access (mode %03o); run 'chmod 600' "
            "on it",
            file, (unsigned)(info->st_mode & 0777));
    return STATUS_OK;
}

static enum status read_private(int fd, const char *file, struct secret *s)
{
    struct stat info;
    unsigned char bytes[SECRET_MAX + 2]; /* 1 for a newline, 1 to detect a longer file */
    if (fstat(fd, &info) != 0)
        return status_fail(STATUS_IO, "--secret-file '%s': %s", file, strerror(errno));
    TRY(check_private(file, &info));
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0)
        return status_fail(STATUS_IO, "--secret-file '%s': %s", file, strerror(errno));
    if (n > 0 && bytes[n - 1] == '\n')
        n--;
    TRY(check_length("--secret-file", (size_t)n));
    memcpy(s->bytes, bytes, (size_t)n);
    s->size = (size_t)n;
    explicit_bzero(bytes, sizeof bytes);
    return STATUS_OK;
}

static enum status read_file(const char *file, struct secret *s)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return status_fail(STATUS_USAGE, "--secret-file '%s': %s", file, strerror(errno));
    enum status st = read_private(fd, file, s);
    close(fd);
    return st;
}

enum status secret_read(const char *file, struct secret *s)
{
    s->size = 0;
    if (file)
        return read_file(file, s);
    const char *text = getenv(SECRET_VARIABLE);
    if (!text)
        return STATUS_OK;
    TRY(check_length(SECRET_VARIABLE, strlen(text)));
    s->size = strlen(text);
    memcpy(s->bytes, text, s->size);
    return STATUS_OK;
}

void secret_clear(struct secret *s)
{
    explicit_bzero(s, sizeof *s);
}

enum status nonce_make(unsigned char nonce[NONCE_BYTES])
{
    if (getrandom(nonce, NONCE_BYTES, 0) == NONCE_BYTES)
        return STATUS_OK;
    return status_fail(STATUS_IO, "cannot get random bytes: %s", strerror(errno));
}

void secret_proof(const struct secret *s, const char *label, const void *data, size_t size,
                  unsigned char proof[DIGEST_BYTES])
{
    struct hmac_sha256_ctx hmac;
    hmac_sha256_set_key(&hmac, s->size, s->bytes);
    hmac_sha256_update(&hmac, strlen(label) + 1, (const uint8_t *)label);
    hmac_sha256_update(&hmac, size, data);
    hmac_sha256_digest(&hmac, DIGEST_BYTES, proof);
    explicit_bzero(&hmac, sizeof hmac);
}

bool digest_equal(const unsigned char a[DIGEST_BYTES], const unsigned char b[DIGEST_BYTES])
{
    return memeql_sec(a, b, DIGEST_BYTES) != 0;
}

void digest_text(const char *text, unsigned char digest[DIGEST_BYTES])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, strlen(text), (const uint8_t *)text);
    sha256_digest(&sha, DIGEST_BYTES, digest);
}
