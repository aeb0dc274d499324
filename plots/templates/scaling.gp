# Quantities against devices: one panel, or two side by side. A line is a series, with a dash, shape
# and colour of its own; its ideal is the thin line of that colour. The table's columns are devices,
# then for each panel the middle, both ends of its bar, and the ideal.
legend_columns = int(1500 / (14.5 * legend_chars + 190))
legend_columns = legend_columns < 1 ? 1 : legend_columns > 3 ? 3 : legend_columns
legend_rows = (words(all_runs) + legend_columns - 1) / legend_columns
height = 900 + 34 * legend_rows
from_bottom(y) = 1.0 * y / height
dashes = '1 2 4 5 3'
dash(i) = int(word(dashes, (run(i) - 1) % words(dashes) + 1))

# Where there are bars, points of the same number of devices stand side by side.
count = words(all_runs)
apart = has_bars ? (count * 0.03 > 0.24 ? 0.24 / count : 0.03) : 0
place(x, k) = x * 2**(apart * (k - 0.5 * (count + 1)))

set logscale x 2
set xrange [x_low:x_high]
eval('set xtics ('.ticks.') nomirror out scale 0.75')
set xlabel 'Devices'
set tmargin at screen from_bottom(height - 80)
set bmargin at screen from_bottom(150 + 34 * legend_rows)
array y_low[2] = [y_low1, y_low2]
array y_high[2] = [y_high1, y_high2]
array y_log[2] = [y_log1, y_log2]
array y_label[2] = [y_label1, y_label2]
note = (has_ideal ? 'thin: ideal' : '').\
    (has_bars ? '   bars: 95 % interval of the median' : '')

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.figure.'.'.f
    set multiplot
    set border 3 @frame
    set xlabel 'Devices'
    eval('set xtics ('.ticks.') nomirror out scale 0.75')
    set ytics autofreq @marks
    unset key
    do for [panel = 1:panels] {
        at = 4 * panel - 2
        set lmargin at screen (panel == 1 ? 0.1 : 0.6)
        set rmargin at screen (panels == 1 ? 0.97 : panel == 1 ? 0.48 : 0.97)
        unset label
        if (panel == 1) {
            set label figure_title at screen 0.025,from_bottom(height - 38) left font title_font(note)
            set label note at screen 0.97,from_bottom(height - 38) right @grey_small
        }
        unset logscale y
        if (y_log[panel] > 0) { set logscale y y_log[panel] }
        set yrange [y_low[panel]:y_high[panel]]
        set ylabel y_label[panel]
        plot \
            for [k = 1:count] table(word(all_runs, k)) using (place($1, k)):(column(at + 3)) \
                with lines lw 1.5 dt (5,5) lc rgb colour(word(all_runs, k)) notitle, \
            for [k = 1:count] table(word(all_runs, k)) using (place($1, k)): \
                (column(at + 1) == column(at + 1) ? column(at) : NaN):(column(at + 1)): \
                (column(at + 2)) with yerrorbars lw 2 pt 0 lc rgb colour(word(all_runs, k)) notitle, \
            for [k = 1:count] table(word(all_runs, k)) using (place($1, k)):at with linespoints \
                lw 3 dt dash(word(all_runs, k)) pt shape(word(all_runs, k)) ps 1.1 \
                lc rgb colour(word(all_runs, k)) notitle
    }
    # The legend runs below the panels: it belongs to an empty plot as wide as they are.
    unset label
    unset border
    unset xtics
    unset ytics
    unset xlabel
    unset ylabel
    unset logscale y
    set yrange [0:1]
    set lmargin at screen 0.025
    set rmargin at screen 0.98
    set key at screen 0.03,from_bottom(45 + 34 * legend_rows) left top vertical \
        maxrows legend_rows reverse Left samplen 3.5 spacing 1.2 width 1 font ',18'
    plot \
        for [i in all_runs] NaN with linespoints lw 3 dt dash(i) pt shape(i) ps 1.1 \
            lc rgb colour(i) title legend[run(i)]
    unset multiplot
    unset output
}
