/* Makes an SVG suit dark displays. gnuplot draws on white paper; a style sheet in the picture
 * replaces the colours of paper, text and axes where the reader prefers dark pages. */
#include "base/file.h"
#include "plots/gnuplot.h"

#include <stdlib.h>
#include <string.h>

enum { SVG_MAX_BYTES = 64 << 20 };

/* plots/templates/dark.css, compiled in. */
extern const unsigned char plot_dark[];

enum status svg_suit_dark(const char *path)
{
    static const char place[] = "<g id=\"gnuplot_canvas\">";
    char *bytes;
    size_t size;
    struct atomic_file out = {0};
    TRY(file_read(path, SVG_MAX_BYTES, &bytes, &size));
    enum status st = STATUS_OK;
    const char *canvas = memmem(bytes, size, place, strlen(place));
    if (!canvas) /* another version of gnuplot: the picture stays light */
        goto done;
    size_t before = (size_t)(canvas - bytes);
    CHECK(atomic_file_open(&out, path));
    fwrite(bytes, 1, before, out.stream);
    fprintf(out.stream, "<style>\n%s</style>\n", (const char *)plot_dark);
    fwrite(canvas, 1, size - before, out.stream);
    st = atomic_file_publish(&out); /* the picture is renamed next */
done:
    atomic_file_abandon(&out);
    free(bytes);
    return st;
}
