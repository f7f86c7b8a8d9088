# SPDX-License-Identifier: GPL-3.0-or-later
"""Line plots as SVG text, with nothing but the standard library. Both axes may be logarithmic."""

import html
import math

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 76, 20, 44, 56
COLOURS = ("#1f5fa8", "#8a8a8a", "#c05a1c", "#3b7d3b")


def number(x):
    """A short label: 1500000 is 1.5 M."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if abs(x) >= size:
            return f"{x / size:g}{unit}"
    return f"{x:.3g}"


class Axis:
    def __init__(self, values, start, end, log):
        self.log, self.start, self.end = log, start, end
        low, high = min(values), max(values)
        if log:
            self.low, self.high = math.log10(low), math.log10(high)
        else:
            self.low, self.high = min(0, low), high * 1.1
        if self.high == self.low:
            self.high += 1

    def at(self, x):
        x = math.log10(x) if self.log else x
        return self.start + (x - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self):
        if self.log:
            exponents = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
            return [10.0**e for e in exponents]
        step = 10 ** math.floor(math.log10(self.high - self.low))
        while (self.high - self.low) / step < 4:
            step /= 2
        return [i * step for i in range(int(self.low / step), int(self.high / step) + 1)]


def text(x, y, s, anchor="middle", size=12, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'{extra}>{html.escape(s)}</text>')


def grid(xs, ys, x_values):
    out = []
    for y in ys.ticks():
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{ys.at(y):.1f}" y2="{ys.at(y):.1f}" '
                   'stroke="#dddddd"/>')
        out.append(text(LEFT - 8, ys.at(y) + 4, number(y), "end"))
    for x in x_values:
        out.append(text(xs.at(x), HEIGHT - BOTTOM + 18, number(x)))
    out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" '
               f'y2="{HEIGHT - BOTTOM}" stroke="#333333"/>')
    return out


def line(points, xs, ys, colour, name, place):
    coordinates = [(xs.at(x), ys.at(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in coordinates)
    out = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in coordinates]
    out.append(text(WIDTH - RIGHT - 4, TOP + 14 + 16 * place, name, "end", 12, f'fill="{colour}"'))
    return out


def plot(title, x_name, y_name, lines, x_log=True, y_log=False):
    """lines: (name, [(x, y), ...]) each; SVG text."""
    lines = [(name, [p for p in points if p[1] is not None]) for name, points in lines]
    lines = [(name, points) for name, points in lines if points]
    every = [p for _, points in lines for p in points]
    xs = Axis([p[0] for p in every], LEFT + 12, WIDTH - RIGHT - 12, x_log)
    ys = Axis([p[1] for p in every], HEIGHT - BOTTOM, TOP, y_log)
    body = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            text(LEFT, 22, title, "start", 15),
            text(WIDTH / 2, HEIGHT - 12, x_name),
            text(LEFT, TOP - 6, y_name, "start", 11)]
    body += grid(xs, ys, sorted({p[0] for p in every}))
    for i, (name, points) in enumerate(lines):
        body += line(points, xs, ys, COLOURS[i % len(COLOURS)], name, i)
    return "\n".join(body + ["</svg>", ""])
