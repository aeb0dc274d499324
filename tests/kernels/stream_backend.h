/* A device that goes on beside the host, made of the reference: for tests of what runs on one.
 *
 * Every stream is a thread with a queue, which carries commands out in their order and takes its
 * time over some; events are marks that threads wait for; recording keeps a stream's commands
 * and launching plays them again. The results are the reference's bits as long as all that must be
 * waited for is waited for. What is not shows:
 *
 * - host memory is read and written when a copy is carried out, not when it is called;
 * - in programs under the thread sanitizer any access without an order between them is reported.
 *
 * A command that fails ends what its stream does; waiting for the stream or for any event of the
 * device returns the failure. */
#ifndef TESTS_KERNELS_STREAM_BACKEND_H
#define TESTS_KERNELS_STREAM_BACKEND_H

#include "kernels/backend.h"

struct stream_backend {
    struct backend base;
    struct op_record record[OP_KIND_COUNT];
};

/* Fills in a backend named "stream"; it must stay as long as its devices. */
void stream_backend_make(struct stream_backend *b);

/* Graphs that were recorded and launched on a device, since it was opened. */
struct stream_counts {
    int recorded, launched;
};
struct stream_counts stream_backend_counts(struct device *dev);

#endif
