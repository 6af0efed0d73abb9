"""How long work will take, and a refusal of what takes days unless that is wanted."""

from xdops.errors import XDError

#: Longer than this takes a user who says so.
LONGEST = 24 * 3600.0


def check_duration(seconds: float, however_long: bool) -> None:
    """Refuse what would take days, unless that is wanted."""
    if seconds > LONGEST and not however_long:
        raise XDError(
            f"work that would take about {lasting(seconds)}",
            f"at most {lasting(LONGEST)}, or --however-long",
            "fewer or smaller of what is asked for; or --however-long, which does it all the same",
        )


def lasting(seconds: float) -> str:
    """About how long: 40 s, 12 min, 5 h, 3 days, 20 years"""
    for unit, name in ((365 * 86400, "years"), (86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit or (seconds >= unit and name in ("h", "min")):
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"


def hours(value: float | None) -> str:
    """For a column of hours: 0.42, 12, 1,234; never nothing for something."""
    if value is None:
        return "–"
    return "< 0.01" if value < 0.0095 else f"{value:.2g}" if value < 10 else f"{value:,.0f}"
