# SPDX-License-Identifier: Apache-2.0
# charts.py - part of the kernel of Python: what a figure of matplotlib shows, as data
import re

import numpy
from matplotlib import dates
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.patches import Wedge

POINTS_MAX = 100000  # of a figure
UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def values(data):
    """Returns coordinates as JSON has them: numbers, text, dates in the format of ISO 8601."""
    found = numpy.ma.filled(numpy.ma.asarray(data), numpy.nan) if numpy.ma.isMaskedArray(data) else numpy.asarray(data)
    if found.dtype.kind == "M":
        return [str(v) for v in numpy.datetime_as_string(found)]
    if found.dtype.kind in "fiub":
        return found.tolist()
    return [v.isoformat() if hasattr(v, "isoformat") else v if isinstance(v, (int, float)) else str(v) for v in found.tolist()]


def is_date(axis):
    return isinstance(axis.get_major_formatter(), (dates.DateFormatter, dates.AutoDateFormatter, dates.ConciseDateFormatter))


def along(axis, data):
    """Returns the coordinates of points, which matplotlib keeps as numbers."""
    if is_date(axis) and numpy.asarray(data).dtype.kind in "fiu":
        return [dates.num2date(v).isoformat() for v in numpy.asarray(data).tolist()]
    return values(data)


def name_of(artist, prefix, number):
    label = str(artist.get_label() or "")
    return f"{prefix} {number}" if not label or label.startswith("_") else label


def tick_texts(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def scale_of(axis):
    if is_date(axis):
        return "datetime"
    if axis.get_scale() == "linear" and type(axis.get_major_formatter()).__name__ == "StrCategoryFormatter":
        return "categorical"
    return axis.get_scale()


def labels(ax):
    found = {}
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        text = axis.get_label_text()
        unit = UNIT.search(text)
        found[f"{name}_label"] = text or None
        found[f"{name}_unit"] = (unit[1] or unit[2]) if unit else None
    return found


def ticks(ax):
    found = {}
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        found[f"{name}_ticks"] = along(axis, axis.get_ticklocs())
        found[f"{name}_tick_labels"] = tick_texts(axis)
        found[f"{name}_scale"] = scale_of(axis)
    return found


# ----------------------------------------------------------- kinds of charts


def line_elements(ax, lines):
    return [{"label": name_of(line, "Line", i),
             "points": list(zip(along(ax.xaxis, line.get_xdata()), along(ax.yaxis, line.get_ydata())))}
            for i, line in enumerate(lines)]


def scatter_elements(ax, collections):
    found = []
    for i, collection in enumerate(collections):
        points = numpy.asarray(collection.get_offsets()).reshape(-1, 2)
        found.append({"label": name_of(collection, "Scatter", i),
                      "points": list(zip(along(ax.xaxis, points[:, 0]), along(ax.yaxis, points[:, 1])))})
    return found


def bar_label(center, positions, texts):
    """Returns the text of the tick that is nearest to a bar, if ticks have names; else its position."""
    named = [(abs(p - center), t) for p, t in zip(positions, texts)
             if t and not re.match(r"[-+\u2212]?[\d.,]+([eE][-+]?\d+)?$", t)]
    if named:
        near = min(named)
        if near[0] <= 0.5:
            return near[1]
    return f"{center:g}"


def bar_elements(ax, containers):
    found, sideways = [], getattr(containers[0], "orientation", "vertical") == "horizontal"
    axis = ax.yaxis if sideways else ax.xaxis
    positions, texts = axis.get_ticklocs(), tick_texts(axis)
    for i, container in enumerate(containers):
        for bar in container.patches:
            start, size = (bar.get_y(), bar.get_height()) if sideways else (bar.get_x(), bar.get_width())
            value = bar.get_width() if sideways else bar.get_height()
            found.append({"label": bar_label(float(start + size / 2), positions, texts),
                          "group": name_of(container, "Group", i), "value": values([value])[0]})
    return found


def pie_elements(_, wedges):
    return [{"label": name_of(w, "Slice", i), "angle": float(abs(w.theta2 - w.theta1)), "radius": float(w.r)}
            for i, w in enumerate(wedges)]


def box_elements(_, boxes):
    return [{"label": str(box.get("label", i + 1)), "min": float(box["whislo"]), "first_quartile": float(box["q1"]),
             "median": float(box["med"]), "third_quartile": float(box["q3"]), "max": float(box["whishi"]),
             "outliers": values(box.get("fliers", []))} for i, box in enumerate(boxes)]


KINDS_OF_CHARTS = {
    "line": line_elements, "scatter": scatter_elements, "bar": bar_elements, "pie": pie_elements,
    "box_and_whisker": box_elements,
}


def contents(ax):
    """Returns the kind of a chart, and the artists that show its data."""
    def has_data(artist):
        return all(artist.get_transform().contains_branch_seperately(ax.transData))

    if getattr(ax, "_kernel_boxes", None):
        return "box_and_whisker", ax._kernel_boxes
    for kind, found in (
            ("pie", [p for p in ax.patches if isinstance(p, Wedge)]),
            ("bar", [c for c in ax.containers if isinstance(c, BarContainer) and c.patches]),
            ("scatter", [c for c in ax.collections if isinstance(c, PathCollection)]),
            ("line", [line for line in ax.get_lines() if has_data(line)])):
        if found:
            return kind, found
    return "unknown", []


def axes_chart(ax):
    kind, artists = contents(ax)
    chart = {"type": kind, "title": ax.get_title() or None, "elements": []}
    if kind == "unknown":
        return chart
    chart["elements"] = KINDS_OF_CHARTS[kind](ax, artists)
    if kind != "pie":
        chart.update(labels(ax))
    if kind in ("line", "scatter"):
        chart.update(ticks(ax))
    return chart


def size(chart):
    return sum(len(e.get("points", ())) + len(e.get("outliers", ())) + 1 for e in chart["elements"])


def figure_chart(figure):
    """Returns the chart of a figure, or None if it shows none or too much."""
    axes = [ax for ax in figure.get_axes() if ax.get_label() != "<colorbar>" and ax.get_visible()]
    charts = [axes_chart(ax) for ax in axes]
    if not charts or sum(map(size, charts)) > POINTS_MAX:
        return None
    if len(charts) == 1:
        return charts[0]
    title = getattr(figure, "_suptitle", None)
    return {"type": "superchart", "title": title.get_text() if title is not None else None, "elements": charts}
