/* The devices of the fake GPU, and their memory. */
#include "delays.h"
#include "fake.h"
#include "inject.h"

#include "cuda_runtime.h"

#include <map>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

struct model {
    int major, minor;
};

const model models[] = {{9, 0}, {9, 0}, {7, 5}, {6, 1}};
const int N_DEVICES = sizeof models / sizeof *models;
const int L2_CACHE = 16 << 10;
const int VERSION = 12090;             /* CUDA 12.9 */
const size_t FILLED = (size_t)4 << 20; /* bytes of an allocation that are set to 0xCD */

std::recursive_mutex lock;
struct pages {
    size_t size; /* bytes of the pages whose protection changes */
    int device;
    uint64_t number; /* in the order of allocation */
};
std::map<char *, pages> mapped; /* device memory, by its address */
uint64_t allocations;
size_t used;
int opened; /* depth of nested calls that access device memory */
thread_local int device;
int kernel_device; /* device of the kernel that is running */
bool reached[N_DEVICES][N_DEVICES]; /* from, to */
int lost_gpu = -1;
bool flipped;

/* The GPUs that CUDA_VISIBLE_DEVICES names ("1,0"), in its order; all GPUs if it is not set. */
int visible(int *gpu)
{
    const char *set = getenv("CUDA_VISIBLE_DEVICES");
    int n = 0;
    for (int i = 0; i < N_DEVICES && !set; i++)
        gpu[n++] = i;
    while (set && *set >= '0' && *set < '0' + N_DEVICES && n < N_DEVICES) {
        gpu[n++] = *set++ - '0';
        set += *set == ',';
    }
    return n;
}

/* Returns false if the process sees no GPU with this number. */
bool find_model(int index, model *m)
{
    int gpu[N_DEVICES];
    if (index < 0 || index >= visible(gpu))
        return false;
    const char *set = getenv("AMPSCALE_FAKE_GPU");
    *m = models[gpu[index]];
    if (m->major == 7 && set && strncmp(set, "volta", 5) == 0)
        m->minor = 0;
    return true;
}

/* Bytes of a device's memory. */
size_t memory()
{
    const char *set = getenv("AMPSCALE_FAKE_MEMORY");
    return (size_t)(set ? atoi(set) : fake_delayed() ? 140 : 1) << 30;
}

bool machine_is(const char *what)
{
    const char *set = getenv("AMPSCALE_FAKE_GPU");
    return set && strcmp(set, what) == 0;
}

size_t page_size()
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void protect(void *at, size_t size, int protection)
{
    if (mprotect(at, size, protection) != 0)
        abort();
}

void protect_all(int protection)
{
    for (auto &m : mapped)
        protect(m.first, m.second.size, protection);
}

/* Sets each byte to `value`. With delays, sets large blocks to zeros instead. */
void fill(void *dst, int value, size_t bytes)
{
    if (fake_too_large((double)bytes, 0))
        fake_clear(dst, bytes);
    else
        memset(dst, value, bytes);
}

/* Returns the first page of an allocation. `mem` is less than 256 bytes from the end of its last
 * page. */
char *first_page(void *mem)
{
    auto m = mapped.upper_bound((char *)mem);
    if (m == mapped.begin())
        return NULL;
    --m;
    return (char *)mem < m->first + m->second.size ? m->first : NULL;
}

} // namespace

fake_hold::fake_hold()
{
    lock.lock();
}

fake_hold::~fake_hold()
{
    lock.unlock();
}

bool fake_lost(int gpu)
{
    return gpu == lost_gpu;
}

/* Flips a mantissa bit in the middle of a GPU's first large allocation. */
static void flip(int gpu)
{
    char *first = NULL;
    for (auto &m : mapped)
        if (m.second.device == gpu && m.second.size >= 16384 &&
            (!first || m.second.number < mapped[first].number))
            first = m.first;
    if (first)
        fake_with_memory([=] { ((uint32_t *)first)[mapped[first].size / 8] ^= 1 << 10; });
    flipped = true;
}

void fake_look_for_faults()
{
    char what[5], file[4096];
    int gpu;
    const char *set = getenv("AMPSCALE_FAKE_FAULT");
    if (!set || sscanf(set, "%4[a-z]:%d:%4095s", what, &gpu, file) != 3 || access(file, F_OK) != 0)
        return;
    if (strcmp(what, "lost") == 0)
        lost_gpu = gpu;
    else if (!flipped)
        flip(gpu);
}

int fake_device()
{
    return device;
}

int fake_sm(int index)
{
    model m = {0, 0};
    find_model(index, &m);
    return m.major * 10 + m.minor;
}

void fake_with_memory(const std::function<void()> &call)
{
    if (opened++ == 0 && !fake_delayed())
        protect_all(PROT_READ | PROT_WRITE);
    call();
    if (--opened == 0 && !fake_delayed())
        protect_all(PROT_NONE);
}

/* Changes the protection of the memory that kernels of a device reach, or of all other memory. */
static void protect_reach(int from, bool reach, int protection)
{
    for (auto &m : mapped) {
        int owner = m.second.device;
        if ((owner == from || reached[from][owner]) == reach)
            protect(m.first, m.second.size, protection);
    }
}

void fake_open_memory()
{
    if (!fake_delayed())
        protect_reach(kernel_device, true, PROT_READ | PROT_WRITE);
}

void fake_run_kernel(int from, bool early, const std::function<void()> &kernel)
{
    if (fake_delayed())
        return kernel();
    kernel_device = from;
    protect_reach(from, false, PROT_NONE);
    if (early)
        protect_reach(from, true, PROT_NONE);
    kernel();
    protect_reach(from, false, PROT_READ | PROT_WRITE);
}

cudaError_t shim_attributes(cudaFuncAttributes *attributes)
{
    FAKE_ASK(cudaFuncGetAttributes);
    attributes->ptxVersion = machine_is("old-code") ? 75 : fake_sm(device);
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
    static const std::map<cudaError_t, const char *> text = {
        {cudaSuccess, "no error"},
        {cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"},
        {cudaErrorMemoryAllocation, "out of memory"},
        {cudaErrorInvalidResourceHandle, "invalid resource handle"},
        {cudaErrorInvalidConfiguration, "invalid configuration argument"},
        {cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"},
        {cudaErrorNoDevice, "no CUDA-capable device is detected"},
        {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
        {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
        {cudaErrorLaunchFailure, "unspecified launch failure"},
        {cudaErrorInvalidDevice, "invalid device ordinal"},
        {cudaErrorNotReady, "device not ready"},
        {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
        {cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"},
        {cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"},
        {cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"},
        {cudaErrorUnknown, "unknown error"},
    };
    auto known = text.find(e);
    return known == text.end() ? "invalid argument" : known->second;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    FAKE_ASK(cudaDriverGetVersion);
    *version = machine_is("no-driver") ? 0 : machine_is("old-driver") ? 11040 : machine_is("driver-12.2") ? 12020 : VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    FAKE_ASK(cudaRuntimeGetVersion);
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    FAKE_ASK(cudaGetDeviceCount);
    *n = 0;
    FAKE_NEED(!machine_is("no-driver") && !machine_is("old-driver"), cudaErrorInsufficientDriver);
    FAKE_NEED(!machine_is("no-gpu"), cudaErrorNoDevice);
    int gpu[N_DEVICES];
    *n = visible(gpu);
    return *n ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int index)
{
    FAKE_ASK(cudaSetDevice);
    model m;
    FAKE_NEED(find_model(index, &m), cudaErrorInvalidDevice);
    device = index;
    fake_context_opens();
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *index)
{
    FAKE_ASK(cudaGetDevice);
    *index = device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int index)
{
    FAKE_ASK(cudaGetDeviceProperties);
    model m;
    FAKE_NEED(find_model(index, &m), cudaErrorInvalidDevice);
    *prop = cudaDeviceProp{};
    snprintf(prop->name, sizeof prop->name, "fake GPU");
    prop->totalGlobalMem = memory();
    prop->major = m.major;
    prop->minor = m.minor;
    prop->multiProcessorCount = fake_delayed() ? 132 : 1; /* 1: loops of kernels repeat */
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int index)
{
    FAKE_ASK(cudaDeviceGetAttribute);
    model m;
    FAKE_NEED(find_model(index, &m), cudaErrorInvalidDevice);
    *value = attribute == cudaDevAttrL2CacheSize ? L2_CACHE : 0; /* clock rates are unknown */
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int size, int index)
{
    FAKE_ASK(cudaDeviceGetPCIBusId);
    snprintf(id, (size_t)size, "0000:%02x:00.0", index);
    return cudaSuccess;
}

/* GPUs of the same generation have peer access to each other. */
cudaError_t cudaDeviceCanAccessPeer(int *can, int index, int peer)
{
    FAKE_ASK(cudaDeviceCanAccessPeer);
    FAKE_NEED(index >= 0 && index < N_DEVICES && peer >= 0 && peer < N_DEVICES, cudaErrorInvalidDevice);
    *can = index != peer && models[index].major == models[peer].major;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    FAKE_ENTER_HELD(cudaDeviceEnablePeerAccess);
    int can;
    FAKE_NEED(cudaDeviceCanAccessPeer(&can, device, peer) == cudaSuccess && can, cudaErrorInvalidDevice);
    bool &reaches = reached[device][peer];
    cudaError_t e = reaches ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
    reaches = true;
    return e;
}

cudaError_t cudaMalloc(void **mem, size_t bytes)
{
    FAKE_ENTER_HELD(cudaMalloc);
    size_t page = page_size(), aligned = (bytes + 255) & ~(size_t)255;
    size_t pages = (aligned + page - 1) / page * page;
    *mem = NULL;
    FAKE_NEED(!fake_end_capture(), cudaErrorStreamCaptureUnsupported);
    FAKE_NEED(!fake_lost(device), cudaErrorECCUncorrectable);
    FAKE_NEED(pages <= memory() - used, cudaErrorMemoryAllocation);
    int protection = opened || fake_delayed() ? PROT_READ | PROT_WRITE : PROT_NONE;
    void *at =
        mmap(NULL, pages + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FAKE_NEED(at != MAP_FAILED && mprotect(at, pages, PROT_READ | PROT_WRITE) == 0, cudaErrorMemoryAllocation);
    if (!fake_delayed()) /* callers must not rely on zeros */
        memset(at, 0xCD, pages < FILLED ? pages : FILLED);
    protect(at, pages, protection);
    mapped[(char *)at] = {pages, device, allocations++};
    used += pages;
    *mem = (char *)at + (pages - aligned);
    return cudaSuccess;
}

/* Waits for all work, as CUDA does. The memory is freed even if the call fails. */
cudaError_t cudaFree(void *mem)
{
    cudaError_t result = fake_enter("cudaFree", true);
    fake_hold hold;
    if (!mem)
        return result;
    FAKE_NEED(!fake_end_capture(), cudaErrorStreamCaptureUnsupported);
    fake_finish_all();
    char *at = first_page(mem);
    FAKE_NEED(at, cudaErrorInvalidValue);
    fake_forget(at, mapped[at].size);
    used -= mapped[at].size;
    munmap(at, mapped[at].size + page_size());
    mapped.erase(at);
    return result;
}

cudaError_t cudaHostAlloc(void **mem, size_t bytes, unsigned)
{
    FAKE_ENTER(cudaHostAlloc);
    FAKE_NEED(!fake_end_capture(), cudaErrorStreamCaptureUnsupported);
    *mem = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return *mem ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *mem)
{
    cudaError_t result = fake_enter("cudaFreeHost", true);
    fake_hold hold;
    fake_finish_all();
    free(mem);
    return result;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind)
{
    FAKE_ENTER_HELD(cudaMemcpy);
    FAKE_NEED(!fake_end_capture(), cudaErrorStreamCaptureImplicit);
    FAKE_NEED(!fake_lost(device), cudaErrorECCUncorrectable);
    fake_with_memory([=] { memcpy(dst, src, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *dst, int value, size_t bytes)
{
    FAKE_ENTER_HELD(cudaMemset);
    FAKE_NEED(!fake_end_capture(), cudaErrorStreamCaptureImplicit);
    fake_with_memory([=] { fill(dst, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind,
                            cudaStream_t s)
{
    FAKE_ENTER_HELD(cudaMemcpyAsync);
    bool from = first_page((void *)src) != NULL, to = first_page(dst) != NULL;
    bool leave_out = to && fake_too_large((double)bytes, 0);
    double seconds = fake_copy_takes((double)bytes, !from || !to);
    return fake_submit_copy(
        s,
        [=] {
            if (!leave_out)
                memcpy(dst, src, bytes);
        },
        seconds);
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t s)
{
    FAKE_ENTER(cudaMemsetAsync);
    return fake_submit(
        s, [=] { fill(dst, value, bytes); }, fake_takes((double)bytes, 0, RATE_F32));
}
