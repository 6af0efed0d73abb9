"""results.json and report.html of a finished search."""

import shlex
from dataclasses import dataclass

import torch

from xdops.errors import several
from xdops.experiments.finished import Finished
from xdops.experiments.folder import REPORT, RESULTS
from xdops.experiments.tuning import Tuned
from xdops.operations import XDOperation
from xdops.operations.dense import dense_operations
from xdops.report.comparisons import Compared, compare_spaces, verdict
from xdops.report.curves import learning_curves, novelty_bars, seed_strip
from xdops.report.operators import input_sizes, matrices_figure, reach_figure, some_outputs
from xdops.report.page import Changed, Page, Picture, figure, table
from xdops.report.style import embed
from xdops.report.summary import SpaceSummary, is_share, summarise
from xdops.report.tuning import HEADS, NOTHING_TUNED, setting, step_size_figure, trial_lines, tuning_lines
from xdops.search import SearchResult
from xdops.storage.files import write_file, write_json

#: Pictures of at most this many layers.
MOST_CHANGED = 3

WHAT_MATRICES_SHOW = (
    "One row per dimension. A = Re(K diag(L w) M) with the mean filter w: row = output position, column = input position, blue "
    "negative, red positive, each on its own scale. Before the search it is a convolution's band along the diagonal; whatever "
    "leaves the band after it is what the search found. |K|, |L|, |M| are the moduli of the learned matrices; they start out as "
    "Fourier transforms, of constant modulus, times identities."
)
AS_TUNED = "as tuned"
WHAT_STEP_SIZES_SHOW = (
    "Every dot is one trial, at its best epoch on validation; the longer it was trained, the larger. The ring is what was chosen. "
    "Every space tried the same points, for as many epochs; the test part was not looked at."
)
WHAT_REACH_SHOWS = (
    "Which input pixels four output pixels (circled) look at, each on its own colour scale. Before the search: their neighbours. "
    "After: wherever the search lets them look."
)


@dataclass(frozen=True)
class SearchOutcome:
    """What a search says in the end."""

    rows: list[SpaceSummary]
    compared: list[Compared]
    verdict: str
    tuned: dict[str, Tuned]


def write_report(finished: Finished, where: str) -> SearchOutcome:
    """Write both files from what is in the folder. where: its name for readers, who may know it by a URL."""
    results: dict[str, list[SearchResult]] = {}
    for space, seed in finished.runs():
        results.setdefault(space, []).append(finished.result(space, seed))
    rows = summarise(results)
    compared = compare_spaces(rows, {space: finished.scores(space) for space in results}, finished.reading.objective().metric)
    outcome = SearchOutcome(rows, compared, verdict(compared), finished.tuned())
    write_json(
        finished.out / RESULTS,
        {
            "verdict": outcome.verdict,
            "spaces": [row.to_dict() for row in rows],
            "comparisons": [pair.to_dict() for pair in compared],
            "tuned": {space: {"epochs": t.epochs, "seconds": t.seconds, "chosen": t.values} for space, t in outcome.tuned.items()},
            "runs": [
                {"space": space, "seed": seed} | {k: v for k, v in finished.result(space, seed).to_dict().items() if k != "history"}
                for space, seed in finished.runs()
            ],
        },
    )
    write_file(finished.out / REPORT, make_page(finished, results, outcome, where).html().encode(errors="replace"))
    return outcome


def make_page(finished: Finished, results: dict[str, list[SearchResult]], outcome: SearchOutcome, where: str) -> Page:
    rows = outcome.rows
    metric = rows[0].metric
    novelty = novelty_bars(results)
    return Page(
        title=f"xdops search: {finished.settings['task']}",
        verdict=outcome.verdict,
        rows=rows,
        compared=outcome.compared,
        notes=finished.settings["notes"],
        seeds=Picture(
            embed(seed_strip(rows), "svg", f"test {metric} per seed"),
            "Every dot is one seed, the bar is their mean. Where the dots of two spaces overlap, a difference may be chance.",
        ),
        curves=Picture(
            embed(learning_curves(results), "svg", "learning curves"),
            f"Thin lines are seeds, thick lines their mean. Left: {metric} on the validation part"
            + (" in percent" if is_share(metric) else "")
            + ", which chooses the epoch. Right: the loss that is trained on.",
        ),
        novelty=None
        if novelty is None
        else Picture(
            embed(novelty, "svg", "novelty per layer"),
            "How far each layer's architecture parameters moved from where they started, relative to their size, mean over seeds.",
        ),
        changed=most_changed(finished, results),
        tuning=tuning_part(outcome.tuned, metric),
        command=finished.settings["command"],
        facts=facts(finished, where),
    )


def tuning_part(tuned: dict[str, Tuned], metric: str) -> str:
    """What was tried and chosen, as HTML."""
    if not tuned:
        return f"<p>{NOTHING_TUNED}</p>"
    picture = step_size_figure(tuned, metric)
    shown = "" if picture is None else figure(Picture(embed(picture, "svg", "validation against step size"), WHAT_STEP_SIZES_SHOW))
    trials = table([("space", "trial", "epochs", "setting", "validation"), *trial_lines(tuned, metric)])
    return f"{table([HEADS, *tuning_lines(tuned, metric)])}{shown}<details><summary>All trials</summary>{trials}</details>"


def most_changed(finished: Finished, results: dict[str, list[SearchResult]]) -> list[Changed]:
    """Pictures of the XD layers that moved furthest, of the seed that did best on validation."""
    if "xd" not in results:
        return []
    seeds = [seed for space, seed in finished.runs() if space == "xd"]
    runs = dict(zip(seeds, results["xd"], strict=True))
    sign = 1 if results["xd"][0].higher_is_better else -1
    seed = max(runs, key=lambda s: sign * runs[s].best_validation)
    start, best = finished.start("xd", seed), finished.best("xd", seed)
    sizes = input_sizes(best, torch.zeros(2, *finished.reading.request.input_shape))
    old, new = dict(start.named_modules()), dict(best.named_modules())
    order = sorted(sizes, key=lambda name: -runs[seed].novelty.get(name, 0.0))
    return [
        picture_layer(
            name, old[name], new[name], sizes[name], f"Seed {seed}, novelty {runs[seed].novelty.get(name, 0.0):.3f}.", i == 0
        )
        for i, name in enumerate(order[:MOST_CHANGED])
    ]


def picture_layer(
    name: str, old: torch.nn.Module, new: torch.nn.Module, size: tuple[int, ...], moved: str, explain: bool
) -> Changed:
    """One layer before and after; what to see is explained at the first of them."""
    assert isinstance(old, XDOperation)
    assert isinstance(new, XDOperation)
    before, after = dense_operations(old, size), dense_operations(new, size)
    matrices = embed(matrices_figure(before, after), "png", f"operator matrices of {name}")
    pictures = [Picture(matrices, WHAT_MATRICES_SHOW if explain else "")]
    if len(size) == 2:
        reach = embed(reach_figure(before, after, some_outputs(after)), "png", f"reach of four outputs of {name}")
        pictures.append(Picture(reach, WHAT_REACH_SHOWS if explain else ""))
    kernel, grid = (" x ".join(map(str, s)) for s in (new.kernel_size, size))
    channels = f"{new.in_channels} to {new.out_channels} channels"
    told = f"{moved} Filters of size {kernel}, {channels}, on a grid of {grid}; depths of K, L, M: {new.depth}."
    return Changed(name, told, tuple(pictures))


def facts(finished: Finished, where: str) -> dict[str, str]:
    """Settings that all spaces share. What was tuned is each space's own, and stands in the table of tuning."""
    identity = finished.settings["identity"]
    search, tuned = identity["search"], identity.get("tuning", {}).get("ranges", {})
    weights, architecture = search["weights"], search["architecture"]
    step, arch_step = (AS_TUNED if name in tuned else f"{o['lr']:g}" for name, o in (("lr", weights), ("arch_lr", architecture)))
    frozen = f"at first {AS_TUNED}" if "warmup" in tuned else f"for the first {several(search['warmup'], 'epoch')}"
    return {
        "backbone": finished.network.backbone,
        "epochs": str(search["epochs"]),
        "batch size": AS_TUNED if "batch_size" in tuned else str(search["batch_size"]),
        "weights": f"{weights['name']}, step size {step}, {search['schedule']['name']} schedule",
        "architecture": f"{architecture['name']}, step size {arch_step}, frozen {frozen}",
        **{f"of {space} alone": setting(values) for space, values in identity["own"].items()},
        "XD depth (K, L, M)": str(finished.network.depth),
        "seeds": ", ".join(map(str, finished.settings["seeds"])),
        "folder": shlex.quote(where),
    }
