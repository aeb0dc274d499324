# Draws three panels against the number of ranks: throughput and efficiency side by side, and below
# them the parts of a step. Table 1 has the forecasts. Its columns are ranks, images per second,
# efficiency in percent, the lower and the upper end of the 95 % interval of images per second, and
# then where the parts compute, stragglers, exposed communication and input end, in percent of a step.
# Tables 2 (calibration points) and 3 (held-out points) have the first three of these columns.
note = strlen(assumed) ? 'assumed, not measured: '.assumed : ''
height = 1335 + (strlen(assumed) ? 45 : 0)
from_top(y) = 1 - 1.0 * y / height
blue = word(hues, 1)
orange = word(hues, 2)
shade = '#E8E8E8'
has_lower = checked_low > x_low * 1.2501
has_upper = checked_high < x_high / 1.2501
is_shaded = has_lower || has_upper
array part_end[4] = ['compute', 'waiting for the slowest rank', 'exposed communication', \
    'waiting for storage']
# The colours are those of the parts of a step. Forward and backward pass together are 'compute',
# and waiting for the slowest rank has a colour of its own.
end_colours = part_colour(4).' #AAAA00 '.part_colour(5).' '.part_colour(1)

set logscale x 2
set xrange [x_low:x_high]
set format x '%.0f'
# A legend is the key of an empty plot that is as wide as the picture. It lies below its panels.
legend_at(y) = sprintf("set key at screen 0.04,%f left top horizontal maxrows 1 maxcols 6 ".\
    "reverse Left samplen 2.5 width 1 font ',18'", from_top(y))
bare = "unset object; unset label; unset border; unset tics; unset xlabel; unset ylabel; unset logscale y; ".\
    "set yrange [0:1]; set lmargin at screen 0.02; set rmargin at screen 0.98; ".\
    "set tmargin at screen from_top(20); set bmargin at screen from_top(height - 20)"
dressed = "set border 3 @frame; set xtics autofreq @marks; set xlabel 'Ranks'; unset key"

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    set multiplot

    set label 1 figure_title at screen 0.025,from_top(38) left font title_font('')
    # Forecasts can be checked only in the range of the measured points. The ranges below and above
    # it are shaded.
    if (has_lower) {
        set object 1 rectangle from x_low,graph 0 to checked_low,graph 1 behind fs solid 1 \
            noborder fc rgb shade
    }
    if (has_upper) {
        set object 2 rectangle from checked_high,graph 0 to x_high,graph 1 behind fs solid 1 \
            noborder fc rgb shade
    }
    set label 2 legend[1] at screen 0.025,from_top(80) left @grey_small
    set label 3 note at screen 0.025,from_top(1345) left textcolor rgb '#505050' \
        font sprintf(',%.0f', fitting(strlen(note), 1520))
    set tmargin at screen from_top(120)
    set bmargin at screen from_top(610)
    set lmargin at screen 0.11
    set rmargin at screen 0.49
    eval dressed
    set ylabel 'Images per second'
    set logscale y 10
    set yrange [y_low1:y_high1]
    set ytics autofreq @marks
    if (strlen(y_ticks1)) { eval('set ytics ('.y_ticks1.') '.marks) }
    plot \
        table('1') using 1:4:5 with filledcurves fs solid 0.25 noborder lc rgb blue notitle, \
        ideal * x with lines lw 1.5 dt (3,4) lc rgb '#505050' notitle, \
        table('1') using 1:2 with lines lw 3 lc rgb blue notitle, \
        (has_fitted ? table('2') : table('1')) using 1:(has_fitted ? $2 : NaN) with points pt 7 \
            ps 1.3 lc rgb '#000000' notitle, \
        (has_held_out ? table('3') : table('1')) using 1:(has_held_out ? $2 : NaN) with points \
            pt 12 ps 1.7 lw 3 lc rgb orange notitle

    unset label
    unset logscale y
    set lmargin at screen 0.59
    set rmargin at screen 0.97
    set ylabel 'Efficiency (%)'
    set yrange [0:112]
    set ytics 0,20,100 @marks
    plot \
        table('1') using 1:(is_predicted ? NaN : $3 * $4 / $2):($3 * $5 / $2) with filledcurves \
            fs solid 0.25 noborder lc rgb blue notitle, \
        100 with lines lw 1.5 dt (3,4) lc rgb '#505050' notitle, \
        table('1') using 1:3 with lines lw 3 lc rgb blue notitle, \
        (has_fitted ? table('2') : table('1')) using 1:(has_fitted ? $3 : NaN) with points pt 7 \
            ps 1.3 lc rgb '#000000' notitle, \
        (has_held_out ? table('3') : table('1')) using 1:(has_held_out ? $3 : NaN) with points \
            pt 12 ps 1.7 lw 3 lc rgb orange notitle

    set tmargin at screen from_top(815)
    set bmargin at screen from_top(1145)
    set lmargin at screen 0.11
    set ylabel 'Share of a step (%)'
    # The areas fill this whole panel, so the shade is drawn in front of them.
    if (has_lower) { set object 1 front fs transparent solid 0.55 noborder }
    if (has_upper) { set object 2 front fs transparent solid 0.55 noborder }
    set yrange [0:100]
    plot \
        for [p = 4:1:-1] table('1') using 1:(column(5 + p)) with filledcurves y1=0 fs solid 1 \
            noborder lc rgb word(end_colours, p) notitle

    eval bare
    eval legend_at(712)
    plot \
        for [k = 1:is_shaded] NaN with boxes fs solid 1 lc rgb shade title 'beyond what was measured', \
        for [k = 1:has_spread] NaN with boxes fs solid 0.25 lc rgb blue title '95 % interval', \
        NaN with lines lw 1.5 dt (3,4) lc rgb '#505050' title 'ideal', \
        NaN with lines lw 3 lc rgb blue title 'forecast', \
        for [k = 1:has_fitted] NaN with points pt 7 ps 1.3 lc rgb '#000000' \
            title (is_predicted ? 'predicted step' : 'measured'), \
        for [k = 1:has_held_out] NaN with points pt 12 ps 1.7 lw 3 lc rgb orange title 'measured, held out'
    eval legend_at(1245)
    plot for [p in has_parts] NaN with boxes fs solid 1 lc rgb word(end_colours, p + 0) title part_end[p + 0]
    unset multiplot
    unset output
}
