/* The CUDA backend: the list of what it covers, and the one function that the module exports. */
#include "config.h"
#include "kernels/cuda/conv_exec.h"
#include "kernels/cuda/plan.h"
#include "kernels/module.h"

#define U8     (1u << DTYPE_U8)
#define F32    (1u << DTYPE_F32)
#define FLOATS (F32 | 1u << DTYPE_F16 | 1u << DTYPE_BF16)

/* Plans look at layouts themselves. */
#define ANY_LAYOUT (~0u)

static const struct op_record records[] = {
    {OP_CONV_FWD, FLOATS, ANY_LAYOUT, cuda_plan_conv},
    {OP_CONV_BWD_DATA, FLOATS, ANY_LAYOUT, cuda_plan_conv},
    {OP_CONV_BWD_WEIGHTS, FLOATS, ANY_LAYOUT, cuda_plan_conv},
    {OP_LINEAR_FWD, FLOATS, ANY_LAYOUT, cuda_plan_linear},
    {OP_LINEAR_BWD_DATA, FLOATS, ANY_LAYOUT, cuda_plan_linear},
    {OP_LINEAR_BWD_WEIGHTS, FLOATS, ANY_LAYOUT, cuda_plan_linear},
    {OP_BN_FWD_TRAIN, FLOATS, ANY_LAYOUT, cuda_plan_bn},
    {OP_BN_FWD_EVAL, FLOATS, ANY_LAYOUT, cuda_plan_bn},
    {OP_BN_BWD, FLOATS, ANY_LAYOUT, cuda_plan_bn},
    {OP_CONV_STATS_FWD, FLOATS, ANY_LAYOUT, cuda_plan_conv_fused},
    {OP_CONV_APPLY_BWD_WEIGHTS, FLOATS, ANY_LAYOUT, cuda_plan_conv_fused},
    {OP_CONV_BWD_DATA_BN, FLOATS, ANY_LAYOUT, cuda_plan_conv_fused},
    {OP_BN_FINALIZE, F32, ANY_LAYOUT, cuda_plan_bn_finalize},
    {OP_BN_APPLY, FLOATS, ANY_LAYOUT, cuda_plan_bn},
    {OP_BN_BWD_APPLY, FLOATS, ANY_LAYOUT, cuda_plan_bn_bwd_apply},
    {OP_RELU_FWD, FLOATS, ANY_LAYOUT, cuda_plan_elements},
    {OP_RELU_BWD, FLOATS, ANY_LAYOUT, cuda_plan_elements},
    {OP_ADD, FLOATS, ANY_LAYOUT, cuda_plan_elements},
    {OP_ADD_STRIDED, FLOATS, ANY_LAYOUT, cuda_plan_add_strided},
    {OP_ROUND, F32, ANY_LAYOUT, cuda_plan_elements},
    {OP_MAXPOOL_FWD, FLOATS, ANY_LAYOUT, cuda_plan_maxpool},
    {OP_MAXPOOL_BWD, FLOATS, ANY_LAYOUT, cuda_plan_maxpool},
    {OP_AVGPOOL_FWD, FLOATS, ANY_LAYOUT, cuda_plan_avgpool},
    {OP_AVGPOOL_BWD, FLOATS, ANY_LAYOUT, cuda_plan_avgpool},
    {OP_DROPOUT_FWD, FLOATS, ANY_LAYOUT, cuda_plan_dropout},
    {OP_DROPOUT_BWD, FLOATS, ANY_LAYOUT, cuda_plan_dropout},
    {OP_SOFTMAX_XENT, FLOATS, ANY_LAYOUT, cuda_plan_xent},
    {OP_SGD, F32, ANY_LAYOUT, cuda_plan_sgd},
    {OP_CHECK_FINITE, F32, ANY_LAYOUT, cuda_plan_sgd},
    {OP_SCALE_SET, F32, ANY_LAYOUT, cuda_plan_scale},
    {OP_SCALE_UPDATE, F32, ANY_LAYOUT, cuda_plan_scale},
    {OP_NORMALIZE, U8, ANY_LAYOUT, cuda_plan_normalize},
    {OP_REORDER, ~0u, ANY_LAYOUT, cuda_plan_reorder},
};

static const struct backend backend_cuda = {
    .name = "cuda",
    .library = "cuDNN",
    .library_version = conv_library_version,
    .native = cuda_native,
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
    .stream_open_urgent = cuda_stream_open_urgent,
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
};

cuda_module_entry ampscale_cuda_backend;

const struct backend *ampscale_cuda_backend(unsigned abi)
{
    return abi == AMPSCALE_MODULE_ABI ? &backend_cuda : NULL;
}
