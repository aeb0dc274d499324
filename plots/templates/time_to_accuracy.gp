# Draws top-1 of each validation against time. A dotted line shows the desired accuracy, and a ring
# marks the validation that reached it.
set xlabel time_label
set ylabel 'Top-1 accuracy of validation (%)'
set xrange [0:1.02 * x_max]
set yrange [0:y_max]
note = wanted ? 'dotted: desired accuracy   ring: reached' : ''
eval heading

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    plot \
        for [i in all_runs] table(i) using 1:4 with lines lw 1.5 dt (4,5) lc rgb colour(i) notitle, \
        for [i in all_runs] table(i) using 1:2 with linespoints lw 3 pt shape(i) ps 0.9 \
            lc rgb colour(i) title legend[run(i)], \
        for [i in all_runs] table(i) using 1:3 with points pt 6 ps 2.4 lw 3 lc rgb colour(i) notitle
    unset output
}
