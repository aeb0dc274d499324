# Draws a bar for each run, or for each cell of a study: the parts of a step in ms (left) and in
# percent (right); half a figure has the percents alone. The columns of the table are part, left and right end in ms, left and right end
# in percent.
n_rows = words(all_runs)
below = is_half ? 250 : 200 # units below the axis
above = is_half ? 105 : 75 # units above the first bar
row_height = is_half ? 80 : 95
height = above + 50 + below + row_height * n_rows

# A part has a number as its label if it is wide enough for the number.
is_wide(low) = column(low + 1) - column(low) > 0.085 * x_end
as_ms(low) = digits(column(low + 1) - column(low))
as_share(low) = sprintf('%.0f %%', column(low + 1) - column(low))

set yrange [-n_rows - 0.4:-0.6]
set tmargin at screen 1 - 1.0 * above / height
unset ytics
set grid noytics xtics
set key bmargin left horizontal maxrows (is_half ? 4 : 3) reverse Left samplen 1 width 1 \
    font ',18' maxcols (is_half ? 3 : 4)

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    set multiplot
    set border 1 @frame
    set xtics @marks
    set bmargin at screen 1.0 * below / height
    first = is_half ? 1 : 0
    do for [panel = first:1] {
        low = panel == 0 ? 2 : 4
        x_end = panel == 0 ? 1.02 * x_max : 100
        set xrange [0:x_end]
        set xlabel (panel == 0 ? time_label : 'Share of the step (%)')
        set lmargin at screen (panel == first ? 0.025 : 0.585)
        set rmargin at screen (panel == 0 ? 0.535 : is_half ? 0.95 : 0.98)
        unset label
        if (panel == first) {
            set label figure_title at screen 0.025,1 - 38.0 / height left font title_font('')
            do for [k = 1:n_rows] {
                i = word(all_runs, k) + 0
                set label legend[i].': '.digits(total_ms[i]).' ms' \
                    at first 0,-k + 0.36 left font ',18' textcolor rgb '#202020'
            }
        }
        plot \
            for [k = 1:n_rows] for [p in used_parts] table(word(all_runs, k)) \
                using (column(1) == p + 0 ? column(low) : NaN):(-k): \
                    (column(low)):(column(low + 1)):(-k - 0.28):(-k + 0.18) \
                with boxxyerror fs solid 1 border lc rgb '#FFFFFF' fc rgb part_colour(p) notitle, \
            for [k = 1:n_rows] table(word(all_runs, k)) \
                using ((column(low) + column(low + 1)) / 2):(-k - 0.05): \
                    (!is_wide(low) ? '' : panel == 0 ? as_ms(low) : as_share(low)) \
                with labels font ',18' textcolor rgb '#000000' notitle
    }
    # The legend is the key of an empty plot as wide as both panels, so that it can lie below them.
    unset label
    unset border
    unset xtics
    unset xlabel
    set lmargin at screen 0.025
    set rmargin at screen 0.98
    set bmargin at screen (below - 90.0) / height
    plot for [p in used_parts] NaN with boxes fs solid 1 lc rgb part_colour(p) title part[p + 0]
    unset multiplot
    unset output
}
