/* A separate library, which `launch` names in LD_PRELOAD for mpirun if all ranks are on one
 * machine. The mpirun programs of Open MPI and of MPICH listen at all addresses, and no setting
 * prevents that. Therefore the library replaces bind: if mpirun would bind a TCP socket to all
 * addresses, the library binds it to the loopback address. */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

typedef int bind_call(int, const struct sockaddr *, socklen_t);

/* If `s` is the wildcard address, replaces it by the loopback address; false: `s` is another
 * address. */
static int to_loopback(struct sockaddr_storage *s, socklen_t n)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (s->ss_family == AF_INET && n >= sizeof v4) {
        memcpy(&v4, s, sizeof v4);
        int any = v4.sin_addr.s_addr == htonl(INADDR_ANY);
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        memcpy(s, &v4, any ? sizeof v4 : 0);
        return any;
    }
    if (s->ss_family != AF_INET6 || n < sizeof v6)
        return 0;
    memcpy(&v6, s, sizeof v6);
    int any = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
    v6.sin6_addr = in6addr_loopback;
    memcpy(s, &v6, any ? sizeof v6 : 0);
    return any;
}

/* Replaces bind of the C library. If loopback has no IPv6 address, binds the address that the
 * caller gave. */
int bind(int fd, const struct sockaddr *address, socklen_t n)
{
    bind_call *next;
    void *symbol = dlsym(RTLD_NEXT, "bind");
    struct sockaddr_storage s;
    int type = 0;
    socklen_t size = sizeof type;
    memcpy(&next, &symbol, sizeof next);
    if (n <= sizeof s && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
        type == SOCK_STREAM) {
        memcpy(&s, address, n);
        if (to_loopback(&s, n)) {
            int code = next(fd, (const struct sockaddr *)&s, n);
            if (code == 0 || errno != EADDRNOTAVAIL)
                return code;
        }
    }
    return next(fd, address, n);
}
