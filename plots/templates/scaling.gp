# Draws quantities against the number of devices, or accuracies against epochs (is_curve). The lines
# are divided into panels. Each panel consists of one picture for each y axis, and there are two
# pictures in a row. All panels have a common legend; a line has the dash, shape and colour of its
# entry there. Ideals are thin grey lines; if several coincide, only one is drawn. Bars of many epochs
# are a band. The columns of a table are devices or epochs, then for each axis the value, the low and
# the high end of its error bar, and the ideal.
legend_columns = int((canvas - 100) / (14.5 * legend_chars + 190))
legend_columns = legend_columns < 1 ? 1 : legend_columns > 3 ? 3 : legend_columns
legend_rows = (words(all_runs) + legend_columns - 1) / legend_columns

is_band = mark_every > 1
note = (has_ideal ? 'grey: ideal' : '').\
    (has_bars ? (has_ideal ? '   ' : '').(is_curve ? \
        (is_band ? 'band' : 'bars').': lowest to highest repeat' : \
        'bars: 95 % interval of the median') : '')
pictures = panels * axes
columns = pictures > 1 && !is_half ? 2 : 1
rows = (pictures + columns - 1) / columns
title_height = panels > 1 ? 46 : 0
plot_height = rows > 2 ? 320 : rows > 1 ? 400 : is_half ? 560 : 670
row_height = title_height + plot_height + 66
head = is_half && strlen(note) ? 114 : 80
height = head + 84 + rows * row_height + 34 * legend_rows
from_bottom(y) = 1.0 * y / height
top_of(row) = height - head - title_height - row_height * (row - 1)

entry(i) = word(entries, run(i))
dashes = '1 2 4 5 3'
dash(i) = int(word(dashes, (look[run(i)] - 1) % words(dashes) + 1))

# If the ideal is constant, or if there is none, the points with the same number of devices are
# drawn side by side. They are about the width of a point apart, or less if there are many lines, so
# that they stay away from the points with the next number of devices. The line of the ideal is then
# lengthened at both ends, so that it passes all of these points. If the ideal varies with the
# number of devices, points are not moved sideways.
octaves = log(x_high / x_low) / log(2)
apart = 22.0 / (columns > 1 ? 590 : 1390) * octaves
apart = apart * words(all_runs) > 0.3 ? 0.3 / words(all_runs) : apart
apart = is_side_by_side ? apart : 0
group = 0.5 * apart * words(all_runs)
nth(i) = word(places, run(i)) - 0.5 * (words(all_runs) + 1)
place(x, i) = is_curve ? x + 0.015 * (x_high - x_low) * nth(i) : x * 2**(apart * nth(i))

# Numbers with six digits need more space beside the name of the axis.
left = (y_high1 >= 1e5 ? 0.125 : 0.1) * (is_half ? 1.8 : 1)

if (!is_curve) { set logscale x 2 }
set xrange [x_low:x_high]
array y_low[2] = [y_low1, y_low2]
array y_high[2] = [y_high1, y_high2]
array y_log[2] = [y_log1, y_log2]
array y_ticks[2] = [y_ticks1, y_ticks2]
array y_label[2] = [y_label1, y_label2]

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    set multiplot
    set border 3 @frame
    eval('set xtics '.(!is_curve ? '('.ticks.')' : x_high < 10 ? '1' : 'autofreq').\
        ' nomirror out scale 0.75')
    unset key
    do for [picture = 1:pictures] {
        panel = (picture - 1) / axes + 1
        axis = (picture - 1) % axes + 1
        side = (picture - 1) % columns + 1
        top = top_of((picture - 1) / columns + 1)
        at = 4 * axis - 2
        set lmargin at screen (side == 1 ? left : 0.6)
        set rmargin at screen (side < columns ? 0.48 : 0.97)
        set tmargin at screen from_bottom(top)
        set bmargin at screen from_bottom(top - plot_height)
        unset label
        if (picture == 1) {
            set label figure_title at screen 0.025,from_bottom(height - 38) left font title_font(note)
            if (is_half) {
                set label note at screen 0.025,from_bottom(height - 76) left @grey_small
            } else {
                set label note at screen 0.97,from_bottom(height - 38) right @grey_small
            }
        }
        set label panel_title[panel] at graph 0,screen from_bottom(top + 24) left font ',20'
        # The name of an axis is drawn only once where neighbouring pictures have the same axis.
        set xlabel (picture + columns > pictures ? is_curve ? 'Epoch' : 'Devices' : '')
        set ylabel (side == 1 || axes > 1 ? y_label[axis] : '')
        unset logscale y
        if (y_log[axis] > 0) { set logscale y 10 }
        set yrange [y_low[axis]:y_high[axis]]
        set ytics autofreq @marks
        if (strlen(y_ticks[axis])) { eval('set ytics ('.y_ticks[axis].') '.marks) }
        if (is_band) {
            plot \
                for [i in panel_lines[panel]] table(i) using 1:3:4 with filledcurves \
                    fs transparent solid 0.15 noborder lc rgb colour(entry(i)) notitle, \
                for [i in panel_lines[panel]] table(i) using 1:2 with linespoints lw 3 \
                    dt dash(entry(i)) pt shape(entry(i)) ps 1.1 pi mark_every \
                    lc rgb colour(entry(i)) notitle
        } else {
            plot \
                for [i in panel_ideals[panel]] table(i) using 1:(column(at + 3)) \
                    with lines lw 1.5 lc rgb '#808080' notitle, \
                for [i in panel_ideals[panel]] table(i) using ($1 * 2**-group):(column(at + 3)): \
                    ($1 * (2**group - 2**-group)):(0) with vectors nohead lw 1.5 lc rgb '#808080' \
                    notitle, \
                for [i in panel_lines[panel]] table(i) using (place($1, i)): \
                    (column(at + 1) == column(at + 1) ? column(at) : NaN):(column(at + 1)): \
                    (column(at + 2)) with yerrorbars lw 2 pt 0 lc rgb colour(entry(i)) notitle, \
                for [i in panel_lines[panel]] table(i) using (place($1, i)):at with linespoints \
                    lw 3 dt dash(entry(i)) pt shape(entry(i)) ps 1.1 lc rgb colour(entry(i)) notitle
        }
    }
    # The legend is the key of an empty plot as wide as all panels, so that it can lie below them.
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
