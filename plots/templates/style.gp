# Settings that all figures share: colours, fonts, axes, legend, and the terminal of each picture
# format.
set encoding utf8
# All coordinates are in units of which a figure is 1600 wide; half a figure is 800 wide, and its text
# therefore twice as large in the same width.
canvas = is_half ? 800 : 1600
hues = '#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #000000 #882255 #999933 #999999'
shapes7 = '7 5 9 11 13 6 4'
# A list such as '1 3' has the numbers of the runs to draw. For an empty list, gnuplot executes the
# body of a loop once, with an empty word. The empty word then stands for run 1, whose values are
# all NaN.
run(i) = i eq '' ? 1 : i + 0
# A run has the same colour and shape in all figures. Repeats of one experiment have the same colour
# and different shapes.
colour(i) = word(hues, (look[run(i)] - 1) % words(hues) + 1)
faint(i) = '#B0'.substr(colour(i), 2, 7)
shape(i) = int(word(shapes7, mark[run(i)]))
table(i) = sprintf('%s-%02d.dat', figure, run(i))

# The legend lies below the axes. The number of its columns depends on its longest entry. The height
# of the picture includes the legend, so the axes have the same size with any legend.
legend_chars = 0
do for [i in all_runs] {
    legend_chars = strlen(legend[run(i)]) > legend_chars ? strlen(legend[run(i)]) : legend_chars
}
legend_columns = int((canvas - 220) / (14.5 * legend_chars + 100))
legend_columns = legend_columns < 1 ? 1 : legend_columns > 3 ? 3 : legend_columns
# A size of the text of which `chars` characters fit into `units`; at most 18.
fitting(chars, units) = units < 18 * 0.72 * chars ? units / (0.72 * chars) : 18
legend_font = sprintf(',%.0f', fitting(legend_chars, is_half ? 590 : 1400))
legend_rows = (words(all_runs) + legend_columns - 1) / legend_columns
set key bmargin left vertical maxrows legend_rows reverse Left \
    samplen 2.5 spacing 1.2 width 1 height 0.7 font legend_font textcolor rgb '#202020'

height = (is_half ? 600 : 880) + 34 * legend_rows
# `width_in` is the width of a PNG or PDF in inches, and `dpi` the number of pixels of a PNG per inch.
# An SVG has no fixed size.
terminal(f) = f eq 'pdf' ? \
    sprintf("pdfcairo noenhanced size %fin,%fin ", width_in, width_in * height / (1.0 * canvas)).\
        scaled(width_in * 72 / canvas, 2) : f eq 'png' ? \
    sprintf("pngcairo noenhanced size %.0f,%.0f ", width_in * dpi, \
        width_in * dpi * height / (1.0 * canvas)).scaled(width_in * dpi / canvas, 1) : \
    sprintf("svg noenhanced dynamic size %d,%d font 'sans-serif,20' fontscale 1.3 ".\
        "background '#FFFFFF'", canvas, height)
scaled(s, lw) = sprintf("font 'sans,20' fontscale %f lw %f dl %f pointscale %f background '#FFFFFF'", \
    s, lw * s, lw, 1.8 * s)

# The title is on the same line as a note that explains the figure; in half a figure it is above the
# note. A long title has a smaller font.
grey_small = "font ',18' textcolor rgb '#505050'"
title_size(note) = 26.0 * (is_half ? 700 : 1330 - 12.5 * strlen(note)) / (19 * strlen(figure_title))
title_font(note) = sprintf(',%.0f', title_size(note) > 26 ? 26 : title_size(note) < 14 ? 14 : \
    title_size(note))
heading = is_half ? \
    "set label 1 figure_title at graph 0,1.13 left font title_font(note); ".\
    "set label 2 note at graph 0,1.05 left textcolor rgb '#505050' font sprintf(',%.0f', fitting(strlen(note), 680))" : \
    "set label 1 figure_title at graph 0,1.04 left font title_font(note); ".\
    "set label 2 note at graph 1,1.031 right ".grey_small

frame = "lw 1.5 lc rgb '#404040'"
set border 3 @frame
marks = "nomirror out scale 0.75 textcolor rgb '#202020'"
set tics @marks
set format '%g'
set grid back lt 1 lw 1 dt solid lc rgb '#DADADA'
set lmargin 11
set rmargin 4
set tmargin is_half ? 4.2 : 2.8

# The names and colours of the parts of a step, which are the same in all figures. No series has one
# of these colours.
array part[7] = ['data wait', 'copy to device', 'forward', 'backward', 'exposed comm.', \
    'optimizer', 'other']
part_colours = '#EE8866 #BBCC33 #77AADD #44BB99 #FFAABB #EEDD88 #DDDDDD'
part_colour(p) = word(part_colours, p + 0)
digits(ms) = sprintf(ms < 10 ? '%.2f' : ms < 100 ? '%.1f' : '%.0f', ms)
