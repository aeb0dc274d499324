/* The CUDA backend: the operations that it supports, and the module's entry function. */
#include "config.h"
#include "kernels/cuda/cudnn_desc.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/traffic.h"
#include "kernels/module.h"

#define U8     (1u << DTYPE_U8)
#define F32    (1u << DTYPE_F32)
#define FLOATS (F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16)

/* Planners check layouts themselves. */
#define ANY_LAYOUT (~0u)

static const struct op_record records[] = {
    {OPS_CONV, FLOATS, ANY_LAYOUT, cuda_plan_conv},
    {OPS_CONV_FUSED, FLOATS, ANY_LAYOUT, cuda_plan_conv_fused},
    {OPS_LINEAR, FLOATS, ANY_LAYOUT, cuda_plan_linear},
    {OPS_BN | OP_SET(BN_APPLY), FLOATS, ANY_LAYOUT, cuda_plan_bn},
    {OP_SET(BN_FINALIZE), F32, ANY_LAYOUT, cuda_plan_bn_finalize},
    {OP_SET(BN_BWD_APPLY), FLOATS, ANY_LAYOUT, cuda_plan_bn_bwd_apply},
    {OPS_BN_POOL, FLOATS, ANY_LAYOUT, cuda_plan_bn_pool},
    {OP_SET(RELU_FWD) | OP_SET(RELU_BWD) | OP_SET(ADD), FLOATS, ANY_LAYOUT, cuda_plan_elements},
    {OP_SET(ROUND), F32, ANY_LAYOUT, cuda_plan_elements},
    {OP_SET(ADD_STRIDED) | OPS_MAXPOOL, FLOATS, ANY_LAYOUT, cuda_plan_pool},
    {OPS_AVGPOOL, FLOATS, ANY_LAYOUT, cuda_plan_avgpool},
    {OPS_DROPOUT, FLOATS, ANY_LAYOUT, cuda_plan_dropout},
    {OP_SET(SOFTMAX_XENT), FLOATS, ANY_LAYOUT, cuda_plan_xent},
    {OPS_SGD, F32, ANY_LAYOUT, cuda_plan_sgd},
    {OPS_SCALE, F32, ANY_LAYOUT, cuda_plan_scale},
    {OP_SET(NORMALIZE), U8, ANY_LAYOUT, cuda_plan_normalize},
    {OP_SET(REORDER), ~0u, ANY_LAYOUT, cuda_plan_reorder},
};

static const struct backend backend_cuda = {
    .name = "cuda",
    .library = "cuDNN",
    .library_version = cudnn_version,
    .native = cuda_native,
    .pdl = cuda_pdl,
    .admit = cuda_admit,
    .n_records = sizeof records / sizeof *records,
    .record = records,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .zero = cuda_zero,
    .peer_open = cuda_peer_open,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_sync = cuda_stream_sync,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .event_record = cuda_event_record,
    .event_seconds = cuda_event_seconds,
    .asynchronous = true,
    .stream_wait = cuda_stream_wait,
    .event_wait = cuda_event_wait,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .capture_launch = cuda_capture_launch,
    .capture_free = cuda_capture_free,
    .profile = cuda_profile,
    .traffic = cuda_traffic,
};

cuda_module_entry ampscale_cuda_backend;

const struct backend *ampscale_cuda_backend(unsigned abi)
{
    return abi == AMPSCALE_MODULE_ABI ? &backend_cuda : NULL;
}
