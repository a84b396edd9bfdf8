# SPDX-License-Identifier: Apache-2.0
# rich.py - part of the kernel of Python: representations of values as HTML, images and data

FIELDS = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
    "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
    "application/json": "json", "application/javascript": "javascript", "e2b/data": "data",
    "e2b/chart": "chart",
}
METHODS = {
    "_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png", "_repr_jpeg_": "image/jpeg", "_repr_pdf_": "application/pdf",
    "_repr_latex_": "text/latex", "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
}
# In this order, fields are left away from a result that is too large.
LARGEST = ("data", "chart", "json", "pdf", "svg", "html", "javascript", "markdown", "latex", "jpeg", "png")
CELLS_MAX = 200000  # of a data frame


def encoded(value):
    """JSON has no bytes, so images are encoded in base64."""
    if isinstance(value, (bytes, bytearray)):
        import binascii
        return binascii.b2a_base64(value, newline=False).decode()
    return value


def warn(what, error):
    sys.stderr.write(f"{what} failed: {type(error).__name__}: {error}\n")


def method_of(value, name):
    """Returns a method of the value's class. Some classes claim to have every attribute."""
    if isinstance(value, type) or not hasattr(type(value), name) or hasattr(value, "_ipython_canary_method_"):
        return None
    return getattr(value, name, None)


def call(value, name):
    method = method_of(value, name)
    if method is None:
        return None
    try:
        got = method(include=None, exclude=None) if name == "_repr_mimebundle_" else method()
    except NotImplementedError:
        return None
    except Exception as error:
        warn(f"{type(value).__name__}.{name}()", error)
        return None
    return got[0] if isinstance(got, tuple) and got else got


def text_of(value):
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr() failed: {type(error).__name__}: {error}>"


def is_frame(value):
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, "DataFrame", ()))


def is_figure(value):
    figure = sys.modules.get("matplotlib.figure")
    return figure is not None and isinstance(value, figure.Figure)


def frame_data(frame):
    """Returns a dict of lists: the columns of a data frame."""
    if frame.shape[0] * frame.shape[1] > CELLS_MAX:
        return None
    return {str(name): [cell(v) for v in frame.iloc[:, i].tolist()] for i, name in enumerate(frame.columns)}


def cell(value):
    if value is None or isinstance(value, (str, int, float, list, dict)):
        return value
    if value is sys.modules["pandas"].NaT or value is getattr(sys.modules["pandas"], "NA", value):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def extra_kinds(value):
    """Returns the representations that E2B adds to those of Jupyter."""
    try:
        if is_frame(value):
            data = frame_data(value)
            return {} if data is None else {"e2b/data": data}
        if is_figure(value):
            return figure_bundle(value)
    except Exception as error:
        warn(f"the description of a {type(value).__name__}", error)
    return {}


def own_bundle(value):
    """Represents a value as IPython does."""
    found = {}
    for name, kind in METHODS.items():
        got = call(value, name)
        if got is not None:
            found[kind] = got
    more = call(value, "_repr_mimebundle_")
    if isinstance(more, dict):
        found.update(more)
    found.setdefault("text/plain", text_of(value))
    return found


def bundle(kernel, value):
    if is_figure(value):
        kernel.shown.append(value)
    if kernel.shell is not None:
        found = dict(kernel.shell.display_formatter.format(value)[0])
    else:
        found = own_bundle(value)
    found.update(extra_kinds(value))
    return found


def unquoted(text):
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def encode_result(fields):
    return "{" + ",".join(quote(k) + ":" + v for k, v in fields.items()) + "}"


def result_json(found, is_main):
    """Returns the event of a result; of one that is too large, a part."""
    fields, extra = {"type": '"result"', "is_main_result": "true" if is_main else "false"}, {}
    for kind, value in found.items():
        name = FIELDS.get(kind)
        value = encoded(value)
        if value is None:
            continue
        if name in ("text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "javascript"):
            value = value if isinstance(value, str) else str(value)
        if name == "text":
            value = unquoted(value)
        try:
            if name is None:
                extra[str(kind)] = to_json(value)
            else:
                fields[name] = to_json(value)
        except (ValueError, RecursionError) as error:
            warn(f"the {kind} of a result", error)
    fields["extra"] = encode_result(extra)
    if sum(map(len, fields.values())) > LINE_MAX:
        shorten(fields)
    return encode_result(fields)


def shorten(fields):
    gone = []
    fields["extra"] = "{}"
    for name in LARGEST:
        if sum(map(len, fields.values())) <= LINE_MAX:
            break
        if fields.pop(name, None) is not None:
            gone.append(name)
    if sum(map(len, fields.values())) > LINE_MAX:
        fields["text"] = to_json(from_json(fields["text"])[:1 << 20] + "...")
        gone.append("the end of text")
    sys.stderr.write(f"the result is too large; without {', '.join(gone) or 'extra'}\n")


# ------------------------------------------------------------------ figures


def figure_bundle(figure):
    """Returns the image of a figure, and a description of what is plotted in it."""
    data = io.BytesIO()
    figure.savefig(data, format="png", bbox_inches="tight", dpi=figure.dpi, facecolor=figure.get_facecolor())
    found = {"text/plain": repr(figure), "image/png": data.getvalue()}
    try:
        chart = part("charts")["figure_chart"](figure)
        if chart is not None:
            found["e2b/chart"] = chart
    except Exception as error:
        warn("the description of a chart", error)
    return found


def show_figures(kernel, pyplot):
    """Displays the open figures that the cell has not displayed, and closes them."""
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        if not any(figure is shown for shown in kernel.shown) and figure.get_axes():
            kernel.display(figure)
    pyplot.close("all")
    kernel.shown.clear()


def hook_pyplot(kernel, pyplot):
    """Draws without a screen; figures are displayed by show() or at the end of the cell."""
    pyplot.switch_backend("agg")

    def show(*_, **__):
        show_figures(kernel, pyplot)

    pyplot.show = show
    sys.modules["matplotlib.figure"].Figure.show = lambda figure, *_, **__: kernel.display(figure)
    axes = sys.modules["matplotlib.axes"].Axes
    original = axes.bxp

    def bxp(self, bxpstats, *args, **kw):
        """Remembers what boxes show, because the lines of a box do not tell which it is."""
        self._kernel_boxes = [*getattr(self, "_kernel_boxes", ()), *bxpstats]
        return original(self, bxpstats, *args, **kw)

    bxp.__doc__ = original.__doc__
    axes.bxp = bxp
