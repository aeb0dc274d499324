/* Which figure a record is for. */
#include "plots/record.h"

#include "plots/forecast.h"
#include "plots/overlap.h"
#include "plots/report.h"
#include "plots/trend.h"

enum status plot_record(const char *path, const char *out, const struct plot_options *options)
{
    bool is_forecast, is_trend;
    TRY(report_is(path, "record", "predict", &is_forecast));
    TRY(report_is(path, "record", "trend", &is_trend));
    if (is_trend)
        return plot_trend(path, out, options);
    return is_forecast ? plot_forecast(path, out, options) : plot_overlap(path, out, options);
}
