/* Inside the Gloo module: a transport for Gloo's collectives.
 *
 * Gloo's own TCP transport listens at a port for each pair of ranks, accepts the first connection
 * without checking that it comes from the other rank, and ends the process when an unexpected
 * message arrives. Therefore the program connects the sockets, and each rank proves that it knows
 * the job's secret (comm/gloo_mesh.c). One thread moves the data, while Gloo's collectives wait. */
#pragma once

#include "comm/gloo_port.h"

#include <chrono>
#include <deque>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <vector>

namespace ampscale
{

/* An operation cannot continue. */
struct Failure : std::runtime_error {
    Failure(gloo_end end, int rank, const std::string &message)
        : std::runtime_error(message), end(end), rank(rank)
    {
    }
    const gloo_end end;
    const int rank;
};

class Buffer;

/* The header of a message on a socket; the message's bytes follow it. All ranks run the same build
 * and have the same byte order. */
struct Frame {
    uint64_t slot, bytes; /* slot: Gloo's number of the transfer */
    uint64_t number, intent;
};

/* A transfer that a collective has requested. */
struct Piece {
    Buffer *buffer;
    uint64_t slot;
    char *at;
    size_t bytes;
};

/* The connection to another rank. */
struct Peer {
    int fd = -1;
    std::deque<Piece> sends, receives; /* the first of `sends` is being sent */
    Frame out;
    /* number of bytes sent, counted over the header `out` and the message that follows it */
    size_t sent = 0;
    Frame in;
    /* number of bytes received, counted over the header `in` and the message that follows it */
    size_t received = 0;
    bool placed = false; /* `into` is the transfer to which `in` belongs */
    bool early = false;  /* `in` belongs to a transfer that no collective has requested yet */
    Piece into;
};

/* Gloo's transport of one group. */
class Transport : public gloo::transport::Context
{
  public:
    explicit Transport(const gloo_config &config);

    std::unique_ptr<gloo::transport::Pair> &createPair(int rank) override;
    std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void *ptr,
                                                                        size_t size) override;

    /* Sets the operation to which the next transfers belong. */
    void begin(const gloo_op &op);

    void send(int rank, const Piece &piece);
    void receive(int rank, const Piece &piece);

    /* Moves data until `done` is not zero. Throws Failure. */
    void wait(const size_t &done);

  private:
    bool write_some(Peer &p);
    bool read_some(int rank);
    bool place(int rank);
    void check_same(int rank) const;
    bool move(int milliseconds);

    const gloo_config config_;
    uint64_t number_ = 0, intent_ = 0;
    std::vector<Peer> peer_;
    std::vector<pollfd> poll_;
};

/* Memory that a collective sends from or receives into. */
class Buffer : public gloo::transport::UnboundBuffer
{
  public:
    Buffer(Transport *transport, void *ptr, size_t size)
        : gloo::transport::UnboundBuffer(ptr, size), transport_(transport)
    {
    }

    /* These two functions ignore Gloo's time limit; the transport applies the communicator's time
     * limit. */
    bool waitRecv(int *rank, std::chrono::milliseconds) override;
    bool waitSend(int *rank, std::chrono::milliseconds) override;
    void abortWaitRecv() override
    {
    }
    void abortWaitSend() override
    {
    }
    void send(int rank, uint64_t slot, size_t offset, size_t bytes) override;
    void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override;
    void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) override;

    /* Numbers of completed transfers for which the caller has not waited yet. */
    size_t sent = 0, received = 0;

  private:
    Piece piece(uint64_t slot, size_t offset, size_t bytes);

    Transport *const transport_;
};

/* The context that Gloo's collectives require: it describes a group of ranks. */
class Group : public gloo::Context
{
  public:
    explicit Group(const gloo_config &config);
    Transport &transport()
    {
        return static_cast<Transport &>(*transportContext_);
    }
};

} // namespace ampscale
