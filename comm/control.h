/* Inside comm/ and launch/: TCP connections between the processes of a job, by which they meet,
 * prove that they belong to the job, and control it. */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct addrinfo;
struct comm;
struct sockaddr;

/* --- sockets: all of them are non-blocking and send at once (control_socket.c) --- */

enum { SOCKET_ADDRESSES_MAX = 16, SOCKET_TEXT_MAX = 80 };

/* Send or receive exactly `bytes` bytes and, but for _plain, a CRC-32C; timeout_s is the time limit
 * of a wait without progress (0: none). STATUS_IO: the connection is lost. STATUS_LIBRARY: the time
 * limit is over. STATUS_MISMATCH: a bit changed. The message does not name the other side. */
MUST_CHECK enum status socket_put(int fd, const void *data, size_t bytes, double timeout_s);
MUST_CHECK enum status socket_get(int fd, void *data, size_t bytes, double timeout_s);
MUST_CHECK enum status socket_get_plain(int fd, void *data, size_t bytes, double timeout_s);

/* As socket_get, after the first `have` of the `bytes` bytes have been received by _plain. */
MUST_CHECK enum status socket_get_rest(int fd, void *data, size_t have, size_t bytes,
                                       double timeout_s);

/* Continues the CRC-32C `crc`, of the bytes before `data`; 0: there are none. */
unsigned socket_crc(unsigned crc, const void *data, size_t bytes);
#define SOCKET_CHANGED "a network card, a cable or memory changed bits on the way"

/* Finds the addresses of HOST:PORT, or [IPv6]:PORT; the caller frees *list by freeaddrinfo. Sets
 * *loopback to whether all of them are loopback addresses. STATUS_USAGE: `address` has another
 * form. STATUS_IO: its host has no address yet. */
MUST_CHECK enum status socket_resolve(const char *address, struct addrinfo **list, bool *loopback);

/* Opens *n sockets, in fd[SOCKET_ADDRESSES_MAX], that listen at this machine's addresses in `list`.
 */
MUST_CHECK enum status socket_listen(const char *address, const struct addrinfo *list, int *fd,
                                     int *n);

/* Opens a socket that listens at a free port of the IP address `at`, and writes HOST:PORT to
 * `text`. *fd is -1 after a failure. */
MUST_CHECK enum status socket_listen_free(const struct sockaddr *at, int *fd,
                                          char text[SOCKET_TEXT_MAX]);

/* Connects to the address `a` within timeout_s, and returns the socket. -1: it failed, and errno is
 * EMFILE or ENFILE if this process or machine has no descriptor for a socket. */
int socket_connect(const struct addrinfo *a, double timeout_s);

/* --- the secret that the ranks of a job share (control_socket.c) --- */

enum { SECRET_MIN = 16, SECRET_MAX = 1024, NONCE_BYTES = 32, DIGEST_BYTES = 32 };
#define SECRET_VARIABLE "AMPSCALE_SECRET"

struct secret {
    size_t size;                         /* 0: there is none */
    unsigned char bytes[SECRET_MAX + 2]; /* 2 more, to find a newline or a longer secret */
};

/* Reads the secret from `file`, without the newline at its end, or from AMPSCALE_SECRET, if set.
 * STATUS_USAGE for a secret of a wrong length, and for a file that another user than root owns or
 * may access. Messages do not contain the secret. */
MUST_CHECK enum status secret_read(const char *file, struct secret *s);
void secret_clear(struct secret *s); /* overwrites it */

enum { NONCE_TEXT_MAX = 2 * NONCE_BYTES + 1 };
MUST_CHECK enum status nonce_make(unsigned char nonce[NONCE_BYTES]); /* random bytes */
MUST_CHECK enum status nonce_text(char text[NONCE_TEXT_MAX]);        /* in hexadecimal digits */

/* The HMAC-SHA256 (RFC 2104, FIPS 180-4), keyed by the secret, of `label` and `size` bytes. */
void secret_proof(const struct secret *s, const char *label, const void *data, size_t size,
                  unsigned char proof[DIGEST_BYTES]);

/* Compares two digests. The time does not depend on the position of the first difference. */
bool digest_equal(const unsigned char a[DIGEST_BYTES], const unsigned char b[DIGEST_BYTES]);
void digest_text(const char *text, unsigned char digest[DIGEST_BYTES]); /* SHA-256 */

/* --- the rendezvous of ranks or, before they start, of the launchers of the job's nodes; a
 * launcher uses the index of its node as its rank --- */

enum rendezvous_kind { RENDEZVOUS_RANKS, RENDEZVOUS_NODES };

struct rendezvous_config {
    enum rendezvous_kind kind; /* a process retries if it finds a rank 0 of the other kind */
    const char *address;       /* HOST:PORT of rank 0 */
    int rank, size;
    double timeout_s;            /* time limit to connect all ranks; 0: none */
    const char *job;             /* the same text on all ranks of a job, another in other jobs */
    const struct secret *secret; /* the same on all ranks */
    bool insecure;               /* allows an address beyond loopback without a secret */
    bool one_host;               /* all ranks are known to be on this host */
    bool stops_later; /* a stop waits until all have connected, because others would wait for it */
    /* Called several times a second. If it fails, the rendezvous ends. NULL: stop_check. */
    enum status (*interrupted)(const void *context);
    const void *context;
};

/* Connects the ranks: on rank 0, peer[r] is a socket to rank r; on other ranks, peer[0] is a socket
 * to rank 0; all other entries are -1. The caller closes the sockets, also after a failure.
 *
 * Rank 0 listens only at the addresses that `address` names. It handles all connections at the same
 * time, each for a few seconds. All ranks wait until the host's name is known, and for rank 0,
 * within the time limit. Each side answers the random challenge of the other, which proves that it
 * knows the secret. Rank 0 refuses processes of another job, world size or program version, a rank
 * that has connected already, and wrong proofs; such a rank fails at once with the reason. Later
 * data is neither encrypted nor authenticated. A node whose launcher ends before all nodes have
 * connected may connect again. STATUS_USAGE for an address of a wrong form, or beyond loopback
 * without a secret. STATUS_LIBRARY on rank 0: a rank r did not connect in time; its peer[r] is -1.
 */
MUST_CHECK enum status rendezvous_meet(const struct rendezvous_config *c, int *peer);

/* Does rank 0's part of rendezvous_meet with `n` listening sockets, which stay open. */
MUST_CHECK enum status rendezvous_gather(const struct rendezvous_config *c, const int *listener,
                                         int n, int *peer);

/* --- jobs that another library has connected, and the communicator of comm_open_tcp --- */

/* Broadcasts bytes from rank 0 to all ranks by the other library. */
typedef enum status control_share(void *context, void *data, size_t bytes);

/* As rendezvous_meet, for ranks that another library already connects. Rank 0 listens at free
 * ports, only at loopback if `one_host`, else at all other addresses of its machine that are up,
 * except link-local ones, and shares them and a random secret. The others connect to the first
 * address that answers. If rank 0 does not connect all ranks within timeout_s (0: 300), all fail
 * with STATUS_LIBRARY, and the sockets are closed. */
MUST_CHECK enum status control_meet(int rank, int size, bool one_host, double timeout_s,
                                    control_share *share, void *context, int *peer);

/* For use between two operations of a communicator of comm_open_tcp, while the ranks do something
 * else together: fails if another rank has failed or is lost, of which rank 0 then informs all.
 * Sets *absent, on rank 0, to the first rank that has not begun the next operation; -1: all have.
 */
MUST_CHECK enum status control_check(struct comm *c, int *absent);

/* Sets the time limit of the following operations of a communicator of comm_open_tcp (0: none). */
void control_set_timeout(struct comm *c, double timeout_s);

/* The socket of a communicator of comm_open_tcp to `rank`; -1: there is none, because neither this
 * rank nor `rank` is rank 0. */
int control_socket(const struct comm *c, int rank);
