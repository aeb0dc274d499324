# What all figures share: palette, fonts, axes, legend, and how a picture is opened.
set encoding utf8
hues = '#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #000000 #882255 #999933 #999999'
shapes7 = '7 5 9 11 13 6 4'
# Runs are named by the words of lists such as '1 3'. gnuplot enters a loop over an empty list
# once, with an empty word; it then finds nothing but NaN in run 1.
run(i) = i eq '' ? 1 : i + 0
# A run keeps its look, which is colour and shape, in every figure; repeats of one experiment have its
# colour and shapes of their own.
colour(i) = word(hues, (look[run(i)] - 1) % words(hues) + 1)
faint(i) = '#B0'.substr(colour(i), 2, 7)
shape(i) = int(word(shapes7, mark[run(i)]))
table(i) = sprintf('%s-%02d.dat', figure, run(i))

# The legend lies below, in as many columns as its longest line lets in, and the picture grows with
# it: the axes keep their size.
legend_chars = 0
do for [i in all_runs] {
    legend_chars = strlen(legend[run(i)]) > legend_chars ? strlen(legend[run(i)]) : legend_chars
}
legend_columns = int(1380 / (14.5 * legend_chars + 100))
legend_columns = legend_columns < 1 ? 1 : legend_columns > 3 ? 3 : legend_columns
legend_rows = (words(all_runs) + legend_columns - 1) / legend_columns
set key bmargin left vertical maxrows legend_rows reverse Left \
    samplen 2.5 spacing 1.2 width 1 height 0.7 font ',18' textcolor rgb '#202020'

height = 880 + 34 * legend_rows
# Figures are laid out on 1600 units, whatever their size: `width_in` inches, and of a PNG `dpi`
# pixels an inch. An SVG has no size of its own.
terminal(f) = f eq 'pdf' ? \
    sprintf("pdfcairo noenhanced size %fin,%fin ", width_in, width_in * height / 1600.0).\
        scaled(width_in * 72 / 1600.0, 2) : f eq 'png' ? \
    sprintf("pngcairo noenhanced size %.0f,%.0f ", width_in * dpi, \
        width_in * dpi * height / 1600.0).scaled(width_in * dpi / 1600.0, 1) : \
    sprintf("svg noenhanced dynamic size 1600,%d font 'sans-serif,20' fontscale 1.3 ".\
        "background '#FFFFFF'", height)
scaled(s, lw) = sprintf("font 'sans,20' fontscale %f lw %f dl %f pointscale %f background '#FFFFFF'", \
    s, lw * s, lw, 1.8 * s)

# The title, and a note on how to read the figure, share the line above the axes: a long title is
# set in smaller type.
grey_small = "font ',18' textcolor rgb '#505050'"
title_size(note) = 26.0 * (1330 - 12.5 * strlen(note)) / (19 * strlen(figure_title))
title_font(note) = sprintf(',%.0f', title_size(note) > 26 ? 26 : title_size(note) < 14 ? 14 : \
    title_size(note))
heading = "set label 1 figure_title at graph 0,1.04 left font title_font(note); ".\
    "set label 2 note at graph 1,1.031 right ".grey_small

frame = "lw 1.5 lc rgb '#404040'"
set border 3 @frame
marks = "nomirror out scale 0.75 textcolor rgb '#202020'"
set tics @marks
set format '%g'
set grid back lt 1 lw 1 dt solid lc rgb '#DADADA'
set lmargin 11
set rmargin 4
set tmargin 2.8

# The parts of a step, as they are called and coloured wherever they are shown. No series has these
# colours.
array part[7] = ['data wait', 'copy to device', 'forward', 'backward', 'exposed comm.', \
    'optimizer', 'other']
part_colours = '#EE8866 #BBCC33 #77AADD #44BB99 #FFAABB #EEDD88 #DDDDDD'
part_colour(p) = word(part_colours, p + 0)
digits(ms) = sprintf(ms < 10 ? '%.2f' : ms < 100 ? '%.1f' : '%.0f', ms)
