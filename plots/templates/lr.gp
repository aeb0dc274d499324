# Draws the learning rate; each run has a colour.
set xlabel (by_step ? 'Training step' : 'Epoch')
set ylabel quantity
note = logarithmic ? 'logarithmic scale' : ''
eval heading
set xrange [0:x_max > 0 ? 1.02 * x_max : 1]
if (x_max < 10) { set xtics 1 }
if (logarithmic) {
    set logscale y
    set yrange [0.8 * y_min:1.25 * y_max]
} else {
    set yrange [0:1.08 * y_max]
}

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    plot \
        for [i in all_runs] table(i) using 1:2 \
            with linespoints lw 3 pt shape(i) ps 0.9 pn 10 lc rgb colour(i) title legend[run(i)]
    unset output
}
