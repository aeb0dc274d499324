# Draws images per second: a faint dot for each step, and a line for the running median. The line
# has gaps at validations and checkpoints.
set xlabel time_label
set ylabel 'Images per second'
set xrange [0:1.02 * x_max]
set yrange [0:y_max]
note = 'dots: steps   line: running median   legend: median step'
eval heading

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    plot \
        for [i in all_runs] table(i) using 1:2 with points pt 7 ps 0.3 lc rgb faint(i) notitle, \
        for [i in all_runs] table(i) using 1:3 with linespoints lw 3 pt shape(i) ps 0.9 pn 10 \
            lc rgb colour(i) title legend[run(i)]
    unset output
}
