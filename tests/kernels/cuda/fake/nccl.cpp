/* NCCL on the fake GPU (tests/comm/nccl_fake.h), for groups of one rank. Without AMPSCALE_FAKE_NCCL
 * in the environment, the fake GPU has no NCCL. */
#include <nccl.h>

extern "C" {
#include "tests/comm/nccl_fake.h"
}

#include "fake.h"
#include "inject.h"

#include <stdlib.h>

namespace
{

bool put(cudaStream_t s, void (*run)(void *context), void *context)
{
    return fake_submit_copy(s, [=] { run(context); }, 0) == cudaSuccess;
}

void *inside(cudaStream_t, const void *mem)
{
    return const_cast<void *>(mem);
}

} // namespace

enum status nccl_library_load(const char *, struct nccl_library *lib)
{
    static const struct nccl_fake_gpu gpu = {1, fake_fails, put, inside};
    if (!getenv("AMPSCALE_FAKE_NCCL"))
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module was built without NCCL; use --comm host");
    *lib = *nccl_fake_library(&gpu);
    return STATUS_OK;
}
