"""Statistics of a few repeated measurements; plain Python."""
import math
import statistics


def t_above(t, df):
    """The probability that Student's t with df degrees of freedom exceeds t >= 0, by Simpson's rule
    over its density (Abramowitz and Stegun, 26.7.1)."""
    n = 2000
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def density(x):
        return scale * (1 + x * x / df) ** (-(df + 1) / 2)

    h = t / n
    inner = sum((4 if i % 2 else 2) * density(i * h) for i in range(1, n))
    return max(0.0, 0.5 - h / 3 * (density(0) + inner + density(t)))


def t_quantile(p, df):
    """The t that is exceeded with probability p, 0 < p < 0.5."""
    low, high = 0.0, 1.0
    while t_above(high, df) > p:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_above(middle, df) > p else (low, middle)
    return high


def mean_interval(values, level):
    """Mean, standard deviation, and the interval of the mean by Student's t. None for one value."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return {"mean": mean}
    deviation = statistics.stdev(values)
    half = t_quantile((1 - level) / 2, len(values) - 1) * deviation / math.sqrt(len(values))
    return {"mean": mean, "deviation": deviation, "low": mean - half, "high": mean + half}


def difference(values, reference, level, margin):
    """The difference of two means with its interval by Welch's t, and whether two one-sided tests,
    each at 1 - level, find it within -margin..margin (Schuirmann 1987)."""
    a, b = (statistics.variance(x) / len(x) for x in (values, reference))
    apart = statistics.mean(values) - statistics.mean(reference)
    if a + b == 0:
        return {"difference": apart, "low": apart, "high": apart, "equivalent": abs(apart) < margin}
    df = (a + b) ** 2 / (a * a / (len(values) - 1) + b * b / (len(reference) - 1))
    error = math.sqrt(a + b)
    half = t_quantile((1 - level) / 2, df) * error
    one_sided = t_quantile(1 - level, df) * error
    return {"difference": apart, "low": apart - half, "high": apart + half,
            "equivalent": abs(apart) + one_sided < margin}


def median_interval(values, level):
    """The narrowest interval of the median that two order statistics give with at least this
    probability whatever the distribution: low and high, or None where there are too few values."""
    x, n = sorted(values), len(values)
    for k in range(n // 2, 0, -1):
        outside = 2 * sum(math.comb(n, i) for i in range(k)) / 2 ** n
        if outside <= 1 - level:
            return x[k - 1], x[n - k]
    return None
