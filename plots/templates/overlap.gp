# Draws two panels above a common axis of bucket sizes. The upper one has the time until all
# gradients are reduced, with its spread, and the time of the backward pass, which overlaps with
# communication. The lower one has the share of communication that is hidden. The columns of the
# table are position; median, p5 and p95 of the time; backward pass; percent hidden; percent hidden
# if all ranks were equally fast; 1 in the row with the lowest time, else 0.
height = 1260
from_top(y) = 1 - 1.0 * y / height
x_low = x_min / 1.6
x_high = x_max * 1.6
y_margin = 0.06 * (y_max - y_min) + 0.01 * y_max
y_low = y_min - y_margin
y_high = y_max + y_margin
# The lines do not stand for series, so they have colours that no series has.
dark = '#202020'
light = '#707070'

set logscale x
set xrange [x_low:x_high]
eval('set xtics ('.ticks.') nomirror out scale 0.75')
set rmargin at screen 0.97
set lmargin at screen 0.09
legend_below(y, rows) = sprintf("set key at screen 0.06,%f left top horizontal maxrows %d ".\
    "reverse Left samplen 2.5 width 1 font ',18'", from_top(y), rows)

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    set multiplot

    set label 1 figure_title at screen 0.025,from_top(38) left font title_font('')
    set label 2 legend[1] at screen 0.025,from_top(80) left @grey_small
    set tmargin at screen from_top(115)
    set bmargin at screen from_top(570)
    eval legend_below(622, 4)
    set yrange [y_low:y_high]
    set ytics autofreq @marks
    set xlabel ''
    set ylabel 'Time in a step (ms)'
    set object 1 rectangle from x_low,alone_p5 to x_high,alone_p95 back fs solid 1 noborder \
        fc rgb '#EEEEEE'
    plot \
        alone with lines lw 2 dt (8,6) lc rgb '#505050' title 'backward pass on its own, without communication', \
        table('1') using 1:5 with linespoints lw 2 dt (2,3) pt 6 ps 1 lc rgb light \
            title 'backward pass, overlapped with communication', \
        table('1') using 1:2:3:4 with yerrorbars lw 2 pt 7 ps 1 lc rgb dark notitle, \
        table('1') using 1:2 with linespoints lw 3 pt 7 ps 1.2 lc rgb dark \
            title 'until all gradients are reduced', \
        table('1') using 1:($8 == 1 ? $2 : NaN) with points pt 6 ps 2.4 lw 3 lc rgb dark \
            title 'lowest'

    unset object 1
    unset label 1
    set label 2 'medians over the rounds   bars and grey band: p5 to p95' \
        at screen 0.97,from_top(80) right @grey_small
    set tmargin at screen from_top(800)
    set bmargin at screen from_top(1100)
    eval legend_below(1200, 1)
    set yrange [0:104]
    set ytics 0,20,100 @marks
    set xlabel 'Size of a gradient bucket (MiB)'
    set ylabel 'Hidden (%)'
    plot \
        table('1') using 1:6 with linespoints lw 3 pt 9 ps 1.2 lc rgb dark title 'communication hidden', \
        table('1') using 1:7 with linespoints lw 2 dt (2,3) pt 8 ps 1.2 lc rgb light \
            title 'hidden if all ranks were equally fast'
    unset multiplot
    unset output
}
