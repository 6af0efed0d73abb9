"""How figures look, and how they are put into a page: as data, so that the page needs nothing beside itself."""

import base64
import io
from html import escape
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: One colour per space, told apart by people with any colour vision.
COLOURS = {"backbone": "#64748b", "darts": "#d97706", "xd": "#1d4ed8", "coordinates": "#047857"}
OTHER = "#7c3aed"
INK, FAINT = "#1f2937", "#e5e7eb"
FONT: dict[Any, Any] = {"font.family": "sans-serif", "font.size": 10, "svg.fonttype": "path", "svg.hashsalt": "xdops"}


def colour(space: str) -> str:
    return COLOURS.get(space, OTHER)


def literal(text: object) -> str:
    """Text in a figure as it stands: a dollar sign begins no formula."""
    return str(text).replace("$", r"\$")


def quiet(axes: Axes) -> None:
    """Only what carries information."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9ca3af")
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)


def embed(figure: Figure, kind: str, alt: str) -> str:
    """An <img> that holds the figure: "svg" for lines, "png" for matrices."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {}
    with rc_context(FONT):
        figure.savefig(buffer, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
    mime = {"svg": "image/svg+xml", "png": "image/png"}[kind]
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(alt)}" src="data:{mime};base64,{data}">'
