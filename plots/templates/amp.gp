# Draws the share of the gradients per power of two. Above the curves, two strips show the range of
# fp16: one strip at loss scale 1, and one at the current loss scale, where the range begins and
# ends at smaller values.
scales = loss_scale == 1 ? 1 : 2
moved(s) = s == 1 ? 0 : -shift
low_end = -25 + moved(scales) < -25 ? -25 + moved(scales) : -25
x_low = (x_min < low_end ? x_min : low_end) - 1
x_high = (x_max > 16 ? x_max : 16) + 1
# The strips lie in the upper part of the picture. Their positions are in units of the y axis.
y_end = y_max * (scales == 2 ? 1.42 : 1.24)
strip(s) = y_max * (1.10 + 0.17 * (s - 1))
tall = 0.085 * y_max

set xlabel 'Magnitude of the gradient, without loss scale'
set ylabel 'Share of those that are not zero (%)'
set xrange [x_low:x_high]
set yrange [0:y_end]
set format x '2^%g'
set xtics 8
y_step = y_max > 15 ? 5 : y_max > 6 ? 2 : 1
set ytics 0,y_step,y_max
lost(p) = p == 0 ? '0 %' : p < 0.001 ? 'under 0.001 %' : sprintf(p < 1 ? '%.3f %%' : '%.1f %%', p)
note = 'underflow: '.lost(lost_at_one).' at scale 1'.\
    (scales == 2 ? sprintf(', %s at %.10g', lost(lost_at_scale), loss_scale) : '')
eval heading

do for [s = 1:scales] {
    set object 2 * s rectangle from -25 + moved(s),strip(s) to -14 + moved(s),strip(s) + tall \
        back fs solid 0.45 noborder fc rgb '#E69F00'
    set object 2 * s + 1 rectangle from -14 + moved(s),strip(s) to 16 + moved(s),strip(s) + tall \
        back fs solid 0.45 noborder fc rgb '#009E73'
    set label 10 + s sprintf('fp16 at loss scale %.10g', s == 1 ? 1 : loss_scale) \
        at 1 + moved(s),strip(s) + tall / 2 center @grey_small
    set label 20 + s 'subnormal' at -19.5 + moved(s),strip(s) + tall / 2 center @grey_small
    set arrow s from -25 + moved(s),0 to -25 + moved(s),strip(s) nohead back \
        lw 1.5 dt (6,6) lc rgb '#505050'
    set label 30 + s sprintf('← zero at loss scale %.10g', s == 1 ? 1 : loss_scale) \
        at -25 + moved(s),strip(s) - 0.035 * y_max left offset 0.4,0 @grey_small
}

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    plot for [i in all_runs] table(i) using ($1 + 0.5):2 \
        with histeps lw 3 lc rgb colour(i) title legend[run(i)]
    unset output
}
