# The upper panel shows what storage delivered: bytes (left axis, solid lines) and files (right
# axis, dashed lines). The lower panel shows the time to decode and augment an image.
height = 1060 + 34 * legend_rows
from_top(y) = 1 - 1.0 * y / height
set lmargin at screen 0.095
set rmargin at screen 0.88
note = 'solid: bytes   dashed: files'
set xrange [0:1.02 * x_max]

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    set multiplot

    set label 1 figure_title at screen 0.095,from_top(52) left font title_font(note)
    set label 2 note at screen 0.88,from_top(58) right @grey_small
    set tmargin at screen from_top(90)
    set bmargin at screen from_top(490)
    unset xlabel
    set format x ''
    set ylabel 'Bytes read (MB/s)'
    set y2label 'Files read (files/s)' offset 0.8,0
    set yrange [0:bytes_max]
    set y2range [0:files_max]
    set y2tics @marks
    set border 11 @frame
    unset key
    plot \
        for [i in all_runs] table(i) using 1:2 \
            with linespoints lw 2.5 pt shape(i) ps 0.9 pn 10 lc rgb colour(i), \
        for [i in all_runs] table(i) using 1:3 axes x1y2 with lines lw 2.5 dt (14,9) \
            lc rgb colour(i)

    unset label
    unset y2label
    unset y2tics
    set border 3 @frame
    set tmargin at screen from_top(540)
    set bmargin at screen from_top(920)
    set xlabel time_label
    set format x '%g'
    set ylabel 'Decoding (ms per image)'
    set yrange [0:decode_max]
    set key
    plot \
        for [i in all_runs] table(i) using 1:4 with linespoints lw 2.5 pt shape(i) ps 0.9 pn 10 \
            lc rgb colour(i) title legend[run(i)]
    unset multiplot
    unset output
}
