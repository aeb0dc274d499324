#include "input/jpeg_scan.h"

#include <jerror.h>

/* The member of libjpeg's struct that holds the width of a block after the transform, in pixels.
 * Version 7 of libjpeg renamed this member. */
#if JPEG_LIB_VERSION >= 70
#define SCALED_SIZE DCT_h_scaled_size
#else
#define SCALED_SIZE DCT_scaled_size
#endif

enum { MARKER = 0xff, RST0 = 0xd0, RESTARTS = 8 };

static void damaged(j_decompress_ptr jpeg, int code)
{
    jpeg->err->msg_code = code;
    jpeg->err->emit_message((j_common_ptr)jpeg, -1);
}

static bool build_tables(struct jpeg_scan *s, j_decompress_ptr jpeg)
{
    for (int b = 0; b < jpeg->blocks_in_MCU; b++) {
        const jpeg_component_info *c = jpeg->cur_comp_info[jpeg->MCU_membership[b]];
        const JHUFF_TBL *dc = jpeg->dc_huff_tbl_ptrs[c->dc_tbl_no];
        const JHUFF_TBL *ac = jpeg->ac_huff_tbl_ptrs[c->ac_tbl_no];
        if (!dc || !ac || !huffman_build(&s->dc[c->dc_tbl_no], dc->bits, dc->huffval, true) ||
            !huffman_build(&s->ac[c->ac_tbl_no], ac->bits, ac->huffval, false))
            return false;
        s->part[b] = (struct huffman_part){.dc = &s->dc[c->dc_tbl_no],
                                           .ac = &s->ac[c->ac_tbl_no],
                                           .last = &s->last[jpeg->MCU_membership[b]],
                                           .first_only = c->SCALED_SIZE == 1};
    }
    return true;
}

static void begin_interval(struct jpeg_scan *s, j_decompress_ptr jpeg, const uint8_t *from,
                           const uint8_t *end)
{
    huffman_begin(&s->bits, from, end);
    for (int i = 0; i < MAX_COMPS_IN_SCAN; i++)
        s->last[i] = 0;
    s->left = jpeg->restart_interval;
}

bool jpeg_scan_begin(struct jpeg_scan *s, j_decompress_ptr jpeg, JDIMENSION x, JDIMENSION width)
{
    if (jpeg->progressive_mode || jpeg->arith_code || jpeg->data_precision != 8 ||
        jpeg_has_multiple_scans(jpeg) || !build_tables(s, jpeg))
        return false;
    const uint8_t *from = jpeg->src->next_input_byte;
    begin_interval(s, jpeg, from, from + jpeg->src->bytes_in_buffer);
    /* Width of a unit (MCU) in output pixels. In a scan of one component, a unit is one block. */
    JDIMENSION side = (JDIMENSION)jpeg->min_DCT_scaled_size *
                      (JDIMENSION)(jpeg->comps_in_scan > 1 ? jpeg->max_h_samp_factor : 1);
    s->begin = x / side;
    s->end = (x + width + side - 1) / side;
    s->column = 0;
    s->restarts = 0;
    return true;
}

/* Ignores bytes up to the next marker. This must be the expected restart marker. Decoding continues
 * after it. */
static void restart(struct jpeg_scan *s, j_decompress_ptr jpeg)
{
    const uint8_t *p = s->bits.at, *end = s->bits.end;
    while (end - p >= 2 && (p[0] != MARKER || p[1] == 0 || p[1] == MARKER))
        p++;
    if (end - p < 2)
        damaged(jpeg, JWRN_JPEG_EOF);
    if (p[1] != RST0 + s->restarts % RESTARTS)
        damaged(jpeg, JWRN_MUST_RESYNC);
    s->restarts++;
    begin_interval(s, jpeg, p + 2, end);
}

void jpeg_scan_unit(struct jpeg_scan *s, j_decompress_ptr jpeg, JBLOCKROW *blocks)
{
    if (jpeg->restart_interval > 0 && s->left-- == 0) {
        restart(s, jpeg);
        s->left--;
    }
    bool needed = blocks && s->column >= s->begin && s->column < s->end;
    if (++s->column == jpeg->MCUs_per_row)
        s->column = 0;
    for (int b = 0; b < jpeg->blocks_in_MCU; b++)
        s->part[b].block = needed ? *blocks[b] : NULL;
    if (!huffman_decode(&s->bits, jpeg->blocks_in_MCU, s->part))
        damaged(jpeg, JWRN_HUFF_BAD_CODE);
    if (huffman_overrun(&s->bits))
        damaged(jpeg, JWRN_HIT_MARKER);
}
