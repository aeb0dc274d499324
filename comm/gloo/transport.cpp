/* Moves messages between the ranks of a group for Gloo's collectives. */
#include "comm/gloo/transport.h"

#include <cerrno>
#include <cstring>
#include <gloo/transport/pair.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace ampscale
{

using std::chrono::duration;
using std::chrono::steady_clock;

namespace
{

const int LONGEST_WAIT_MS = 60000;

/* A pair that cannot send or receive. Gloo's collectives only check that a pair exists for each
 * rank. */
class NoPair : public gloo::transport::Pair
{
    [[noreturn]] static void refuse()
    {
        throw Failure(GLOO_FAILED, -1, "Gloo used a pair of ranks directly");
    }

  public:
    const gloo::transport::Address &address() const override
    {
        refuse();
    }
    void connect(const std::vector<char> &) override
    {
        refuse();
    }
    void close() override
    {
    }
    void setSync(bool, bool) override
    {
    }
    std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int, void *, size_t) override
    {
        refuse();
    }
    std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int, void *, size_t) override
    {
        refuse();
    }
    void send(gloo::transport::UnboundBuffer *, uint64_t, size_t, size_t) override
    {
        refuse();
    }
    void recv(gloo::transport::UnboundBuffer *, uint64_t, size_t, size_t) override
    {
        refuse();
    }
};

bool not_now()
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

} // namespace

Transport::Transport(const gloo_config &config)
    : gloo::transport::Context(config.rank, config.size), config_(config), peer_(config.size),
      poll_(config.size + config.watches)
{
    for (int r = 0; r < size; r++) {
        peer_[r].fd = r == rank ? -1 : config.fd[r];
        pairs_[r].reset(new NoPair);
    }
}

std::unique_ptr<gloo::transport::Pair> &Transport::createPair(int r)
{
    return pairs_.at(r);
}

std::unique_ptr<gloo::transport::UnboundBuffer> Transport::createUnboundBuffer(void *ptr,
                                                                               size_t bytes)
{
    return std::unique_ptr<gloo::transport::UnboundBuffer>(new Buffer(this, ptr, bytes));
}

void Transport::begin(const gloo_op &op)
{
    number_ = op.number;
    intent_ = op.intent;
    for (int r = 0; r < size; r++)
        if (peer_[r].early)
            check_same(r);
}

/* Compares a message of rank r with this rank's operation. Throws if the message belongs to an
 * earlier operation, or to a different operation with the same number. A message of a later
 * operation is no error, because rank r may be ahead. */
void Transport::check_same(int r) const
{
    const Frame &in = peer_[r].in;
    if (in.number < number_ || (in.number == number_ && in.intent != intent_))
        throw Failure(GLOO_DIFFER, r, "another operation");
}

void Transport::send(int r, const Piece &piece)
{
    Peer &p = peer_.at(r);
    p.sends.push_back(piece);
    while (write_some(p))
        continue;
}

void Transport::receive(int r, const Piece &piece)
{
    Peer &p = peer_.at(r);
    p.receives.push_back(piece);
    if (!p.early)
        return;
    p.early = false;
    while (read_some(r))
        continue;
}

/* Sends as many bytes of the first queued message as the socket accepts. Returns false if the
 * socket accepts no bytes, or no message is queued. */
bool Transport::write_some(Peer &p)
{
    if (p.sends.empty())
        return false;
    Piece &piece = p.sends.front();
    if (p.sent == 0)
        p.out = Frame{piece.slot, piece.bytes, number_, intent_};
    size_t head = p.sent < sizeof p.out ? sizeof p.out - p.sent : 0;
    size_t body = p.sent + head - sizeof p.out;
    iovec part[2] = {{reinterpret_cast<char *>(&p.out) + (sizeof p.out - head), head},
                     {piece.at + body, piece.bytes - body}};
    msghdr message = {};
    message.msg_iov = part;
    message.msg_iovlen = 2;
    ssize_t n = sendmsg(p.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && not_now())
        return false;
    if (n < 0)
        throw Failure(GLOO_LOST, static_cast<int>(&p - peer_.data()), strerror(errno));
    p.sent += static_cast<size_t>(n);
    if (p.sent == sizeof p.out + piece.bytes) {
        piece.buffer->sent++;
        p.sends.pop_front();
        p.sent = 0;
    }
    return true;
}

/* Finds the transfer to which the message from rank r belongs. False: no collective has requested
 * that transfer yet. */
bool Transport::place(int r)
{
    Peer &p = peer_[r];
    check_same(r);
    if (p.in.number > number_)
        return false;
    for (auto it = p.receives.begin(); it != p.receives.end(); ++it) {
        if (it->slot != p.in.slot)
            continue;
        if (it->bytes != p.in.bytes)
            throw Failure(GLOO_DIFFER, r, "a message of another length");
        p.into = *it;
        p.receives.erase(it);
        return true;
    }
    return false;
}

/* Receives bytes of the current message from rank r, as many as have arrived. Returns false if
 * nothing was received. */
bool Transport::read_some(int r)
{
    Peer &p = peer_[r];
    if (p.received == sizeof p.in && !p.placed) {
        p.placed = place(r);
        p.early = !p.placed;
        if (p.early)
            return false;
    }
    bool head = p.received < sizeof p.in;
    size_t at = head ? p.received : p.received - sizeof p.in;
    size_t want = (head ? sizeof p.in : p.into.bytes) - at;
    char *to = head ? reinterpret_cast<char *>(&p.in) : p.into.at;
    if (want > 0) {
        ssize_t n = ::recv(p.fd, to + at, want, MSG_DONTWAIT);
        if (n < 0 && not_now())
            return false;
        if (n <= 0)
            throw Failure(GLOO_LOST, r, n == 0 ? "the connection was closed" : strerror(errno));
        p.received += static_cast<size_t>(n);
    }
    if (p.placed && p.received == sizeof p.in + p.into.bytes) {
        p.into.buffer->received++;
        p.placed = false;
        p.received = 0;
    }
    return true;
}

/* Waits up to `milliseconds` until a descriptor is ready, then sends and receives as much as the
 * sockets allow. Returns whether any data moved. */
bool Transport::move(int milliseconds)
{
    bool moved = false;
    for (int r = 0; r < size; r++) {
        const Peer &p = peer_[r];
        int events = (p.early ? 0 : POLLIN) | (p.sends.empty() ? 0 : POLLOUT);
        poll_[r] = pollfd{events ? p.fd : -1, static_cast<short>(events), 0};
    }
    for (int i = 0; i < config_.watches; i++)
        poll_[size + i] = pollfd{config_.watch[i], POLLIN, 0};
    if (poll(poll_.data(), poll_.size(), milliseconds) <= 0)
        return false;
    for (int i = 0; i < config_.watches; i++)
        if (poll_[size + i].revents && config_.readable(config_.context, i))
            throw Failure(GLOO_ENDED, -1, "");
    for (int r = 0; r < size; r++) {
        if (poll_[r].revents & POLLOUT)
            while (write_some(peer_[r]))
                moved = true;
        if (poll_[r].revents & ~POLLOUT)
            while (read_some(r))
                moved = true;
    }
    return moved;
}

void Transport::wait(const size_t &done)
{
    bool limited = config_.timeout_s > 0;
    auto moved = steady_clock::now();
    while (done == 0) {
        double left = LONGEST_WAIT_MS;
        if (limited)
            left =
                1e3 * (config_.timeout_s - duration<double>(steady_clock::now() - moved).count());
        if (left <= 0) {
            if (config_.overdue(config_.context))
                throw Failure(GLOO_ENDED, -1, "");
            moved = steady_clock::now();
        } else if (move(left < LONGEST_WAIT_MS ? static_cast<int>(left) + 1 : LONGEST_WAIT_MS)) {
            moved = steady_clock::now();
        }
    }
}

Piece Buffer::piece(uint64_t slot, size_t offset, size_t bytes)
{
    if (bytes == kUnspecifiedByteCount)
        bytes = size - offset;
    return Piece{this, slot, static_cast<char *>(ptr) + offset, bytes};
}

void Buffer::send(int rank, uint64_t slot, size_t offset, size_t bytes)
{
    transport_->send(rank, piece(slot, offset, bytes));
}

void Buffer::recv(int rank, uint64_t slot, size_t offset, size_t bytes)
{
    transport_->receive(rank, piece(slot, offset, bytes));
}

void Buffer::recv(std::vector<int>, uint64_t, size_t, size_t)
{
    throw Failure(GLOO_FAILED, -1, "Gloo received from any rank");
}

bool Buffer::waitRecv(int *, std::chrono::milliseconds)
{
    transport_->wait(received);
    received--;
    return true;
}

bool Buffer::waitSend(int *, std::chrono::milliseconds)
{
    transport_->wait(sent);
    sent--;
    return true;
}

Group::Group(const gloo_config &config) : gloo::Context(config.rank, config.size)
{
    transportContext_ = std::make_shared<Transport>(config);
}

} // namespace ampscale
