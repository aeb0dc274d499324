# Draws the loss of training and validation, or the accuracy of one of them; each run has a colour.
# The x axis counts epochs. While there are few epochs it counts steps: then a faint dot shows each
# step, and a line shows the running mean.
set xlabel (by_step ? 'Training step' : 'Epoch')
set ylabel quantity.' ('.unit.')'
set xrange [0:1.02 * x_max]
set yrange [0:y_max]
if (x_max < 10) { set xtics 1 }
# If validation is in the same figure, the curves of training are dashed and have no point symbols.
both = strlen(train_runs) && strlen(val_runs)
train_dash = both ? 'dt (14,9)' : 'dt 1'
train_epochs = both ? 'lines lw 2.5 dt (14,9)' : \
    'linespoints lw 3 dt 1 pt shape(i) ps 0.9 pi mark_every'
note = (both ? 'dashed: training   solid: validation' : '').\
    (ema > 0 && !by_step ? sprintf('   moving average %g', ema) : '').\
    (cut_off ? sprintf('   axis clipped at %.3g', y_max) : '')
eval heading
steps(i) = sprintf('%s-steps-%02d.dat', figure, run(i))
# A curve over epochs has about twelve point symbols.
mark_every = 1 + int(x_max / 12)
# If a run has very few steps, their dots are larger and not faint.
dot_size = x_max > 20 ? 0.3 : 0.7
dot_colour(i) = x_max > 20 ? faint(i) : colour(i)

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    if (by_step) {
        plot \
            for [i in train_runs] steps(i) using 1:2 \
                with points pt 7 ps dot_size lc rgb dot_colour(i) notitle, \
            for [i in train_runs] steps(i) using 1:3 \
                with lines lw 2.5 @train_dash lc rgb colour(i) notitle, \
            for [i in val_runs] table(i) using 1:3 \
                with linespoints lw 3 dt 1 pt shape(i) ps 0.9 lc rgb colour(i) notitle, \
            for [i in all_runs] NaN \
                with linespoints lw 3 dt 1 pt shape(i) ps 0.9 lc rgb colour(i) title legend[run(i)]
    } else {
        plot \
            for [i in train_runs] table(i) using 1:2 \
                with @train_epochs lc rgb colour(i) notitle, \
            for [i in val_runs] table(i) using 1:3 \
                with linespoints lw 3 dt 1 pt shape(i) ps 0.9 pi mark_every lc rgb colour(i) \
                notitle, \
            for [i in all_runs] NaN \
                with linespoints lw 3 dt 1 pt shape(i) ps 0.9 lc rgb colour(i) title legend[run(i)]
    }
    unset output
}
