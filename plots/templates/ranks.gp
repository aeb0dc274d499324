# Draws a panel for each run, with a bar for each rank: the parts of the rank's mean step. The parts
# without communication come first, so that their sum can be compared with the median rank's sum
# (dashed). Exposed communication is drawn above them, because most of it is the wait for slower
# ranks. The columns of the table are rank, 0, and the upper ends of the parts in ms. The second
# block of the table has the first rank, the last rank and the name of each host.
n_rows = words(all_runs)
panel_height = 455
legend_height = 120
height = 70 + panel_height * n_rows + legend_height
from_top(y) = 1 - 1.0 * y / height
part_in_bar = '1 2 3 4 6 5 7'
as_part(k) = word(part_in_bar, k + 0) + 0
own_parts = 5

is_slow(i) = is_straggler[i] > 0
some_slow = 0
do for [i in all_runs] {
    some_slow = some_slow || is_slow(i + 0)
}
finding(i) = !is_slow(i) ? \
    sprintf('no straggler: slowest is rank %d, %+.1f %%; a straggler has at least %+.1f %%', \
        slowest[i], behind[i], bound[i]) : \
    sprintf('straggler: rank %d on %s, +%.1f %%; %s +%s ms', \
        slowest[i], slowest_host[i], behind[i], part[as_part(behind_in[i])], digits(behind_ms[i]))

# With fewer than eight ranks, bars are as wide as with eight ranks. With many ranks, there are no
# gaps between bars. Numbers, names of hosts, and the lines between hosts are drawn only where there
# is space.
pixels = 0
half_width(i) = n_ranks[i] < 8 ? 0.05 * n_ranks[i] : n_ranks[i] <= 128 ? 0.4 : 0.5 * ranks_a_bar[i]
is_labelled(k) = pixels * 2 * wide > 60 && column(k + 2) - column(k + 1) > 0.07 * y_end
host_pixels(first, last) = (last - first + 1) * pixels
host_end(first, last) = last < n - 1 && host_pixels(first, last) > 20 ? last + 0.5 : NaN
host_name(first, last, name) = strlen(name) * 11 < host_pixels(first, last) - 8 ? name : ''

set rmargin at screen 0.98
set grid noxtics ytics

do for [f in formats] {
    eval('set terminal '.terminal(f))
    set output '../'.draft.figure.'.'.f
    set multiplot
    do for [row = 1:n_rows] {
        i = word(all_runs, row) + 0
        n = n_ranks[i]
        pixels = 1400.0 / n
        wide = half_width(i)
        y_end = 1.25 * top_ms[i]
        head = 70 + panel_height * (row - 1)
        set border 3 @frame
        unset key
        set lmargin at screen 0.085
        set tmargin at screen from_top(head + 75)
        set bmargin at screen from_top(head + 370)
        set xrange [-0.5:n - 0.5]
        set yrange [0:y_end]
        if (n <= 32) {
            set xtics 0,1 @marks
        } else {
            set xtics autofreq @marks
        }
        set ytics @marks
        set xlabel 'Rank' offset 0,0.6
        set ylabel 'Mean step (ms)'
        unset label
        if (row == 1) {
            set label figure_title at screen 0.025,from_top(38) left font title_font('')
        }
        set label legend[i] at screen 0.025,from_top(head + 22) left font ',18' \
            textcolor rgb '#202020'
        set label finding(i) at screen 0.025,from_top(head + 50) left @grey_small
        plot \
            table(word(all_runs, row)) index 1 using (host_end($1, $2)):(0):(0):(y_end) \
                with vectors nohead lw 1 lc rgb '#B0B0B0' notitle, \
            for [k in used_parts] table(word(all_runs, row)) index 0 \
                using 1:(column(k + 1)):(column(1) - wide):(column(1) + wide): \
                    (column(k + 1)):(column(k + 2)) \
                with boxxyerror fs solid 1 noborder fc rgb part_colour(as_part(k)) notitle, \
            for [k in used_parts] table(word(all_runs, row)) index 0 \
                using 1:((column(k + 1) + column(k + 2)) / 2): \
                    (is_labelled(k) ? digits(column(k + 2) - column(k + 1)) : '') \
                with labels font ',16' textcolor rgb '#000000' notitle, \
            median_ms[i] with lines lw 2 dt (8,6) lc rgb '#202020' notitle, \
            '+' using (slowest[i]):(0):(slowest[i] - wide):(slowest[i] + wide): \
                    (0):(is_slow(i) ? slowest_ms[i] : NaN) every ::0::0 \
                with boxxyerror lw 3 lc rgb '#000000' fs empty border lc rgb '#000000' notitle, \
            '+' using (slowest[i]):(is_slow(i) ? 1.06 * top_ms[i] : NaN) every ::0::0 \
                with points pt 11 ps 1.4 lc rgb '#000000' notitle, \
            table(word(all_runs, row)) index 1 using ((column(1) + column(2)) / 2.0):(0.95 * y_end): \
                    (host_name($1, $2, stringcolumn(3))) \
                with labels font ',16' textcolor rgb '#505050' notitle
    }
    # The legend is the key of an empty plot, so that it can lie below all panels.
    unset label
    unset border
    unset tics
    unset xlabel
    unset ylabel
    set lmargin at screen 0.025
    set tmargin at screen from_top(20)
    set bmargin at screen from_top(height - 20)
    set key at screen 0.03,from_top(height - legend_height) left top vertical maxrows 3 reverse \
        Left samplen 1 width 1 font ',18'
    plot for [k in used_parts] NaN with boxes fs solid 1 lc rgb part_colour(as_part(k)) \
            title part[as_part(k)], \
        NaN with lines lw 2 dt (8,6) lc rgb '#202020' title "median of others' own parts", \
        for [k = 1:some_slow] NaN with points pt 11 ps 1.4 lc rgb '#000000' title 'straggler'
    unset multiplot
    unset output
}
