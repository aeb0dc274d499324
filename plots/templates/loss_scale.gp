# Draws the loss scale; each run has a colour. A cross marks a skipped step, whose gradients
# overflowed.
set xlabel 'Training step'
set ylabel quantity offset -1,0
note = some_skipped ? 'crosses: skipped steps' : 'no step was skipped'
eval heading
set xrange [0:x_max > 0 ? 1.02 * x_max : 1]
if (x_max < 10) { set xtics 1 }
set logscale y 2
set lmargin 12 # gnuplot underestimates the width of labels that are powers of two
set yrange [y_min / 2:y_max * 2]
set format y '2^%L'
# Curves that coincide have their point symbols at different steps, so that the symbols of each
# curve are visible.
array place[|legend|]
drawn = 0
do for [i in all_runs] {
    place[run(i)] = drawn
    drawn = drawn + 1
}
mark_first(i) = int(mark_every * place[run(i)] / drawn)

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    plot \
        for [i in all_runs] table(i) using 1:2 with steps lw 3 lc rgb colour(i) notitle, \
        for [i in all_runs] table(i) using 1:2 every mark_every::mark_first(i) \
            with points pt shape(i) ps 0.9 lc rgb colour(i) notitle, \
        for [i in all_runs] table(i) using 1:3 \
            with points pt 2 ps 1.3 lw 3 lc rgb colour(i) notitle, \
        for [i in all_runs] NaN \
            with linespoints lw 3 pt shape(i) ps 0.9 lc rgb colour(i) title legend[run(i)]
    unset output
}
