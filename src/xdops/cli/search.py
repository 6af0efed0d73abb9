"""`xdops search`: train a backbone and the search spaces around it on the user's own data, and say whether it helped."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, TypeVar

import tyro
from rich.console import Console

from xdops.backbones.request import TaskKind
from xdops.cli import terminal
from xdops.cli.places import check_shared_memory, find_place
from xdops.cli.workers import WorkerOptions, check_processes, open_workers
from xdops.data.own import DataSettings
from xdops.data.task import Task
from xdops.errors import XDError, several
from xdops.experiments.experiment import Experiment, first_process
from xdops.experiments.finished import Finished
from xdops.experiments.folder import REPORT, SETTINGS
from xdops.experiments.network import PLAIN, Causal, NetworkSettings, check_causal
from xdops.experiments.ranges import read_ranges
from xdops.experiments.recipes import EMBEDDED, TrainingRecipe, find_task
from xdops.experiments.tuning import Tuning
from xdops.operations.domains import DEFAULT_DOMAIN, Domain
from xdops.search import Interrupted, OptimizerSettings, Progress, ScheduleSettings, SearchSettings, Silent
from xdops.search.distributed import under_torchrun
from xdops.search.overall import OneOfMany, Overall
from xdops.search.settings import Accelerator, Precision
from xdops.storage.files import DiskFull
from xdops.storage.place import Place
from xdops.workers import Job

DEFAULT_DATA = "permuted-digits"

#: Flags that change the training of some spaces alone.
CONCERNED = {
    ("depth", "domain", "causal"): ("xd",),
    ("arch_lr", "warmup"): ("darts", "xd"),
    ("backbone_lr",): PLAIN,
}

# None stands for "detected" or "by recipe", which the help text of each says better than "{None}|INT (default: None)".
MaybeInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
MaybeFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
MaybeText = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
MaybePath = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")]
MaybePlace = Annotated[str | None, tyro.conf.arg(metavar="DIR|URL", help_behavior_hint="")]
MaybeKind = Annotated[
    TaskKind | None, tyro.conf.arg(metavar="classification|regression|dense|next-step|sequence-class", help_behavior_hint="")
]
MaybeCausal = Annotated[Causal | None, tyro.conf.arg(metavar="filters|direct|windows", help_behavior_hint="")]
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class Search:
    """Turn a convolutional network into its search space, search, and say whether it helped.

    Trains the backbone and each search space on the same data with the same settings and seeds, and ends with a table, one plain
    sentence, and DIR/report.html. Whatever you do not say is detected and printed, and you can overrule it.

    examples:
      xdops search                                  the demonstration: digits whose rows and columns are permuted, two minutes
      xdops search data.npz                         your arrays x and y: signals, images or volumes; classes, numbers or grids
      xdops search data.mat --x-name ecg --y-name rhythm --spaces backbone,xd --seeds 3 --epochs 50 --out runs/ecg
      xdops search data.npz --backbone mymodels:build   your own network: build(request) -> nn.Module
      xdops search data.npz --out runs/ecg --resume     continue after Ctrl-C or a crash, or add seeds
      xdops predict runs/ecg new.npz -o predictions.npz

    the data: .npz, .h5, .mat, or a folder of .npy, with arrays
      x, y                    split for you, seeded, each class in proportion; or
      x_train, y_train, x_test, y_test [, x_val, y_val]
      x: (N, length), (N, channels, length), (N, H, W), (N, channels, H, W), (N, H, W, channels), volumes likewise
      x, length [, y]: sequences of different lengths, one after the other in x, (steps,) or (steps, channels), and the length of
         each, none of them empty; what is predicted is the next step (the probability of a one where x has only zeros and ones,
         else numbers) or, with y (sequences,), the class of each
      y: integers (N,): classification; floats (N,) or (N, k): regression; floats on the grid of x: dense prediction
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = DEFAULT_DATA
    """Your file or folder; or permuted-digits or digits, which come with xdops."""
    spaces: str = "backbone,darts,xd"
    """What to train, separated by commas: backbone (no search), darts (the relaxed discrete set), xd; and coordinates, the backbone
    that sees where each point is, which shows whether XD has gained more than that."""
    seeds: MaybeInt = None
    """Runs of each, from different random starts; a single one cannot tell skill from chance. Default: 3 (digits: 5)."""
    seed: int = 0
    """The first seed; the others count up from it."""
    epochs: MaybeInt = None
    """How many times the training data are seen. Default: 20 for digits, 100 for dense, 40 for all else."""
    out: MaybePlace = None
    """The folder of settings, metrics, checkpoints and report.html, or a URL that fsspec knows, such as s3://bucket/mine. Default:
    runs/NAME-OF-THE-DATA."""
    resume: Flag = False
    """Continue what is in --out: finished runs are kept, an interrupted one continues bit for bit, missing ones are added."""

    x_name: str = "x"
    """The name of the inputs in your file; with parts, the beginning of it: NAME_train, NAME_test."""
    y_name: str = "y"
    """The name of the targets, in the same way."""
    layout: MaybeText = None
    """Which axis of x is what, if the guess is wrong: NL, NCL, NLC, NHW, NCHW, NHWC, NDHW, NCDHW or NDHWC."""
    kind: MaybeKind = None
    """What is predicted, if the guess is wrong."""
    split: tuple[float, float, float] = (0.7, 0.15, 0.15)
    """Fractions for training, validation and test, where the file has no parts of its own."""
    split_seed: int = 0
    """The seed of that split."""
    crop: MaybeInt = None
    """Train on random windows of this many points per side, drawn anew in every step, of inputs and of targets on their grid: for
    images, maps and signals too large to train on whole. Predictions are then made at any size, in overlapping tiles."""

    backbone: MaybeText = None
    """auto (by kind), residual, small, operator, periodic, unet, fno, lenet, resnet8, resnet20, wrn-40-4, tcn, undilated-tcn, or
    package.module:function, called with one argument that has .in_channels, .outputs, .spatial (the grid) and .kind, and returning
    a torch.nn.Module for inputs (batch, in_channels, *spatial)."""
    periodic: Flag = False
    """For grids as targets: the grid is a torus, its last point next to its first, and no point differs from any other. Without it
    the default backbone pads with zeros and sees the coordinates of every point."""
    lr: MaybeFloat = None
    """Step size of the weights: Adam, with a cosine down to zero."""
    backbone_lr: MaybeFloat = None
    """Step size of the plain backbone, if its best is not that of the others: only then is the comparison fair. Default: --lr."""
    arch_lr: MaybeFloat = None
    """Step size of the architecture: Adam, following the same schedule."""
    warmup: int = 0
    """Epochs before the architecture begins to move."""
    batch_size: MaybeInt = None
    """Examples per step."""
    trials: int = 0
    """Settings to try for every space, the backbone included, on validation: the same points of the ranges, most given up early;
    the best of each is then trained with the seeds. 0: nothing is tuned."""
    ranges: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """What --trials tunes, and between which values, in TOML or JSON. Default: lr = [0.001, 0.1], weight_decay = [1e-6, 0.01],
    batch_size = [16, 128], arch_lr = [0.001, 0.1], warmup = [0, 0.3] (of the epochs)."""
    whole_trials: Flag = False
    """Train every trial to the end. It takes about three times as long, and is fairer to large step sizes, which begin slowly."""
    clip: MaybeFloat = None
    """Largest gradient norm, if any."""
    depth: tuple[int, int, int] = (3, 3, 3)
    """Depths of the K-matrices K, L and M: 3 3 3 holds permutations before and after a convolution, 1 1 1 is the cheapest."""
    domain: Domain = DEFAULT_DOMAIN
    """Of the XD-operations: half has half the points, for half the cost; full is the paper's."""
    causal: MaybeCausal = None
    """How XD-operations on sequences of different lengths are kept from the future. filters, the default: the same at every step,
    for any length. direct: masked, with other operations at every step, up to the longest length in the data, and no longer ones
    can be predicted. windows: each prediction from the last 40 steps alone (zeros before the first), in which operations look
    anywhere: the paper's, and the slowest. The backbone and darts are the same with all three."""
    precision: Precision = "32-true"
    """Precision of the arithmetic; bf16-mixed for processors and GPUs that have it."""
    accelerator: Accelerator = "auto"
    """Where to compute."""
    processes: int = 1
    """Data-parallel processes on this machine, one device each."""
    sync_batchnorm: Flag = False
    """Batch norm over the examples of all processes, instead of each process's own; with --processes, or under torchrun."""
    workers: int = 1
    """Runs at a time on this machine: by Ray where it is installed (pip install 'xdops[ray]'), else in plain processes."""
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """auto, the Ray cluster that this machine has joined, or HOST:PORT of its head: as many runs at a time as it has room for. All
    machines must see --out: a folder that they share, or a URL."""
    cpus_per_run: MaybeInt = None
    """Threads of each run. Default: the cores divided by --workers; 1 on a cluster."""
    gpus_per_run: int = 0
    """GPUs that each run is given, with --workers or --ray."""
    however_long: Flag = False
    """Begin even if it will take more than a day."""
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(aliases=["-q"])] = False
    """Print only the result, not every epoch."""

    def run(self) -> int:
        console = terminal.console(quiet=not first_process())
        task, recipe = find_task(
            self.data, DataSettings(self.x_name, self.y_name, self.kind, self.layout, self.split, self.split_seed, self.crop)
        )
        place = self.place()
        experiment = self.experiment(task, recipe, place.folder)
        options = WorkerOptions(self.workers, self.ray, self.cpus_per_run, self.gpus_per_run)
        check_processes(self.workers, self.processes)
        check_shared_memory(place, max(self.workers, self.processes))
        console.print(task.name, style="bold", soft_wrap=True)
        for note in task.notes:
            console.print(f"  {note}", soft_wrap=True)
        for note in self.idle(experiment.spaces):
            console.print(f"  {note}", soft_wrap=True)

        if experiment.tuning is not None:
            console.print(f"  {plan(experiment)}", soft_wrap=True)
        if self.resume and place.mirror is None and not (place.folder / SETTINGS).exists():
            console.print(f"  nothing to continue in {place}: a new search begins", soft_wrap=True)

        try:
            with place.opened(SETTINGS), ExitStack() as held:
                with (
                    self.progress(console, experiment, options.in_turn) as progress,
                    open_workers(options, place, progress, None if self.quiet else console) as workers,
                ):
                    experiment.run(self.resume, workers, self.however_long, held)
                if first_process():
                    self.report(console, experiment, place)
        except (Interrupted, KeyboardInterrupt) as ending:
            console.print(f"{stopped(ending)} Continue with:\n  {self.command()} --resume", soft_wrap=True)
            return Interrupted.exit_code
        except DiskFull as full:
            hint = f"free some space, then go on: {self.command()} --resume"
            raise XDError(full.given, full.expected, hint) from full
        return 0

    @contextmanager
    def progress(self, console: Console, experiment: Experiment, in_turn: bool) -> Iterator[Callable[[Job], Progress | None]]:
        """How each job is shown: not at all, as part of one bar over all of them on a terminal, or by itself.

        Jobs that are made several at a time, not in turn, have a board of their own; a run in several processes shows itself, from
        one of them, where a bar of this one is not.
        """
        if self.quiet:
            yield lambda job: Silent()
        elif in_turn and self.processes == 1 and console.is_terminal and first_process():
            with Overall(dict.fromkeys(experiment.spaces, experiment.epochs_of_each()), console) as overall:
                yield in_one_bar(overall)
        else:

            def named(job: Job) -> None:
                console.print(job.name, style="bold")

            yield named

    def report(self, console: Console, experiment: Experiment, place: Place) -> None:
        # These bring matplotlib, which nobody should wait for before training.
        from xdops.report.search_report import write_report
        from xdops.report.table import comparison_table, terminal_table, tuning_table

        outcome = write_report(Finished.open(experiment.out, self.backbone), str(place))
        if outcome.tuned:
            console.print(tuning_table(outcome.tuned, outcome.rows[0].metric))
        console.print(terminal_table(outcome.rows, experiment.task.name))
        if outcome.compared:
            console.print(comparison_table(outcome.compared))
        console.print(outcome.verdict, soft_wrap=True)
        console.print(f"Report: {place.below(REPORT)}", soft_wrap=True)

    def experiment(self, task: Task, recipe: TrainingRecipe, out: Path) -> Experiment:
        if self.sync_batchnorm and self.processes == 1 and not under_torchrun():
            raise XDError(
                "--sync-batchnorm with one process, whose batches are whole anyway",
                "several processes",
                "--processes 2, or torchrun; or leave it out",
            )
        if self.causal is not None:
            check_causal(self.causal, task.request)
        search = SearchSettings(
            epochs=given(self.epochs, recipe.epochs),
            batch_size=given(self.batch_size, recipe.batch_size),
            seed=self.seed,
            weights=OptimizerSettings("adam", given(self.lr, recipe.lr)),
            architecture=OptimizerSettings("adam", given(self.arch_lr, recipe.arch_lr)),
            schedule=ScheduleSettings("cosine"),
            warmup=self.warmup,
            clip=self.clip,
            precision=self.precision,
            accelerator=self.accelerator,
            processes=self.processes,
            sync_batchnorm=self.sync_batchnorm,
        )
        return Experiment(
            task,
            NetworkSettings(self.chosen_backbone(task, recipe), self.depth, self.domain, given(self.causal, "filters")),
            tuple(dict.fromkeys(name.strip() for name in self.spaces.split(",") if name.strip())),
            given(self.seeds, recipe.seeds),
            search,
            self.own(recipe),
            out,
            self.command(),
            self.tuning(),
        )

    def own(self, recipe: TrainingRecipe) -> dict[str, dict[str, float]]:
        """Settings that only some spaces have: those of the recipe that no flag sets, and --backbone-lr."""
        flags = {"lr": self.lr, "arch_lr": self.arch_lr}
        own = {space: {name: v for name, v in values.items() if flags.get(name) is None} for space, values in recipe.own.items()}
        if self.backbone_lr is not None:
            own["backbone"] = own.get("backbone", {}) | {"lr": self.backbone_lr}
        return {space: values for space, values in own.items() if values}

    def idle(self, spaces: tuple[str, ...]) -> Iterator[str]:
        """What is given and changes nothing here; not refused, as the space that it is for may be added by --resume."""
        for flags, concerned in CONCERNED.items():
            given = [flag for flag in flags if getattr(self, flag) != type(self).__dataclass_fields__[flag].default]
            if given and not set(concerned) & set(spaces):
                words = " and ".join("--" + flag.replace("_", "-") for flag in given)
                yield f"{words}: without effect here, for {' and '.join(concerned)} alone, which --spaces leaves out"

    def place(self) -> Place:
        """Absolute if workers are to find it, who may be elsewhere."""
        place = find_place(str(default_out(self.data)) if self.out is None else self.out)
        elsewhere = self.workers > 1 or self.ray is not None
        return Place(place.folder.absolute(), place.mirror) if elsewhere else place

    def tuning(self) -> Tuning | None:
        """What is tried, if anything; what is tuned cannot be given as well."""
        if self.trials == 0:
            for flag, value in (("--ranges", self.ranges), ("--whole-trials", self.whole_trials or None)):
                if value is not None:
                    raise XDError(f"{flag} without --trials", "a number of trials", "--trials 16")
            return None
        tuning = Tuning(self.trials, read_ranges(self.ranges), self.whole_trials)
        flags = {"lr": self.lr, "arch_lr": self.arch_lr, "batch_size": self.batch_size, "warmup": self.warmup or None}
        both = [name for name, value in flags.items() if value is not None and name in tuning.ranges.bounds]
        both += ["backbone_lr"] if self.backbone_lr is not None and "lr" in tuning.ranges.bounds else []
        if both:
            words = ", ".join("--" + name.replace("_", "-") for name in both)
            raise XDError(f"{words} with --trials, which tunes it", "one of the two", "a --ranges file that does not name it")
        return tuning

    def chosen_backbone(self, task: Task, recipe: TrainingRecipe) -> str:
        if self.periodic and (self.backbone is not None or task.kind != "dense"):
            what = f"--backbone {self.backbone}" if self.backbone is not None else f"{task.kind} targets"
            raise XDError(
                f"--periodic with {what}", "--periodic with grids as targets and the default backbone", "without --periodic"
            )
        return "periodic" if self.periodic else given(self.backbone, recipe.backbone)

    def command(self) -> str:
        """What to type to have this search again: everything that differs from the defaults."""
        words = ["xdops", "search", self.data]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("data", "resume", "quiet", "however_long") and value != field.default:
                words.append("--" + field.name.replace("_", "-"))
                if value is not True:
                    words += map(str, value if isinstance(value, tuple) else (value,))
        return shlex.join(words)


def in_one_bar(overall: Overall) -> Callable[[Job], Progress]:
    """A job's progress as part of the bar; when the next one begins, the one before is over."""
    before: list[OneOfMany] = []

    def progress(job: Job) -> Progress:
        for finished in before:
            finished.leave()
        before[:] = [overall.run(job.name, job.name.partition(",")[0], job.epochs)]
        return before[0]

    return progress


def stopped(ending: BaseException) -> str:
    """Whether all is saved: after KeyboardInterrupt, as a second Ctrl-C in a step raises it, up to the last checkpoint only."""
    if isinstance(ending, Interrupted):
        return "Stopped; everything is saved."
    return "Stopped; what was saved before is whole."


def plan(experiment: Experiment) -> str:
    """The budget of tuning, in one line."""
    assert experiment.tuning is not None
    epochs = experiment.search.epochs
    steps = ", ".join(f"{count} to epoch {end}" for count, end in experiment.tuning.rungs(epochs))
    names = ", ".join(experiment.tuning.ranges.bounds)
    return (
        f"tuning {names} on validation, for every space alike: {steps}; {several(experiment.tuning.epochs(epochs), 'epoch')} each"
    )


def default_out(data: str) -> Path:
    """runs/NAME-OF-THE-DATA, also where the data are `.` or `..`."""
    name = data if data in EMBEDDED else Path(data).resolve().stem
    if not name.strip("."):
        raise XDError(f"{data}, which has no name to call the folder by", "--out", "--out runs/mine")
    return Path("runs") / name


T = TypeVar("T")


def given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value
