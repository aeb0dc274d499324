# Draws a panel for each series: the points in order of time (hollow if not accepted), and
# the steps, at which the level changes, with the change in percent. A line shows the median of the
# points between two steps.
panels = words(all_runs)
height = 160 + 420 * panels
from_top(y) = 1 - 1.0 * y / height
set lmargin at screen 0.105
set rmargin at screen 0.97
unset key
note = 'hollow: not accepted   line: median between steps'

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    set multiplot
    set label 1 figure_title at screen 0.105,from_top(40) left font title_font(note)
    set label 2 note at screen 0.97,from_top(44) right @grey_small
    do for [i in all_runs] {
        top = 110 + 420 * (run(i) - 1)
        set tmargin at screen from_top(top)
        set bmargin at screen from_top(top + 270)
        set label 3 legend[run(i)] at graph 0,1.07 left @grey_small
        set xlabel run(i) == panels ? 'Points in order of time: date, commit' : '' offset 0,-0.6
        set ylabel units[run(i)]
        stats table(i) index 0 using 1 name 'points' nooutput
        stats table(i) index 0 using 2 name 'values' nooutput
        # The text of a step is above all points, in one of three rows, with a line to its point.
        row(n) = values_max + (0.08 + 0.15 * (int(n) % 3)) * (values_max > values_min ? \
            values_max - values_min : 0.02 * abs(values_max))
        eval('set xtics ('.point_marks[run(i)].") nomirror out scale 0.75 font ',16'")
        has_steps = strstrt(' '.stepped.' ', ' '.i.' ') > 0
        set xrange [0:*]
        set offsets 0, graph 0.02, graph 0.08, graph 0.1
        plot \
            table(i) index 0 using 1:($3 == 1 ? $2 : NaN) with points pt 7 ps 0.7 \
                lc rgb colour(i), \
            table(i) index 0 using 1:($3 == 0 ? $2 : NaN) with points pt 6 ps 0.8 lw 1.5 \
                lc rgb colour(i), \
            table(i) index 1 using 1:2 with lines lw 3 lc rgb '#202020', \
            for [k = 1:has_steps] table(i) index 2 using 1:2:(0):(row($0) - $2) \
                with vectors nohead lc rgb '#808080', \
            for [k = 1:has_steps] table(i) index 2 using 1:2 with points pt 9 ps 1.2 lc rgb '#202020', \
            for [k = 1:has_steps] table(i) index 2 using 1:(row($0)):(2 * $1 > points_max ? stringcolumn(3) : '') \
                with labels right offset -0.5,0.4 font ',16', \
            for [k = 1:has_steps] table(i) index 2 using 1:(row($0)):(2 * $1 > points_max ? '' : stringcolumn(3)) \
                with labels left offset 0.5,0.4 font ',16'
        unset label 1
        unset label 2
    }
    unset label
    unset multiplot
    unset output
}
