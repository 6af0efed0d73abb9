"""`xdops reproduce`: the paper's tables and figures, run here, beside the paper's own numbers."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from xdops.cli import terminal
from xdops.cli.places import check_shared_memory, find_place
from xdops.cli.search import Flag, MaybeInt, MaybePath, MaybeText, stopped
from xdops.cli.workers import WorkerOptions, open_workers
from xdops.errors import XDError
from xdops.report.paper_state import state_table
from xdops.report.pictures import PICTURES
from xdops.report.result_page import check_page, write_page
from xdops.report.rows import read_results, terminal_table
from xdops.reproduce.reproduction import Reproduction
from xdops.reproduce.tables import TABLES, Context, Scale, find_table
from xdops.search import Interrupted, Progress, Silent
from xdops.search.settings import check_seed
from xdops.storage.place import Place
from xdops.workers import Job

MOST_SEEDS = 100


@dataclass(frozen=True)
class Reproduce:
    """Run a table or figure of the paper, and show it beside the paper's own numbers.

    This takes long: start it in the background. Ctrl-C or a crash loses nothing: the same command continues. Several processes
    may share a table, each run is made by one of them; a URL takes one command at a time.

    examples:
      xdops reproduce --list                              every table and figure of the paper, and what is done here
      xdops reproduce burgers                             all rows and seeds that are not finished yet, then table, plots and page
      xdops reproduce burgers --scale paper               with the paper's settings
      xdops reproduce burgers --workers 4                 four runs at a time; --ray auto: as many as a Ray cluster has room for
      xdops reproduce burgers --rows cnn-xd "*-256"       only rows with these words in their name, or that match a glob
      xdops reproduce burgers --missing                   only seeds that results/ lacks, of rows begun on another machine
      xdops reproduce --render                            docs/results.md and its figures again, from results/ alone
    """

    table: Annotated[MaybeText, tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")] = None
    """Which one; --list names them."""
    scale: Scale = "laptop"
    """laptop: the same code, smaller, for two cores; paper: the paper's settings, but for what the table's note names."""
    rows: tuple[str, ...] = ()
    """Run only rows whose name holds one of these, e.g. cnn-xd or resolution-256, or matches it as a glob."""
    seeds: tuple[int, ...] = ()
    """Run these seeds, instead of those of the table."""
    missing: Flag = False
    """Run only seeds that --results does not have yet, with the settings that were chosen there, and put all of them together: for
    rows begun on another machine, whose folder of runs is not here."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR|URL")] = "runs/reproduce"
    """The folder of the runs: checkpoints, metrics, results; or a URL that fsspec knows, such as s3://bucket/paper."""
    results: Path = Path("results")
    """Where TABLE-SCALE.json is written."""
    docs: Path = Path("docs")
    """Where results.md and figures/ are written."""
    data_dir: MaybePath = None
    """Where the data are, or are to be made."""
    workers: int = 1
    """Runs at a time on this machine: by Ray where it is installed (pip install 'xdops[ray]'), else in plain processes."""
    ray: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS", help_behavior_hint="")] = None
    """auto, the Ray cluster that this machine has joined, or HOST:PORT of its head: as many runs at a time as it has room for. All
    machines must see --out: a folder that they share, or a URL."""
    cpus_per_run: MaybeInt = None
    """Threads of each run. Default: the cores divided by --workers; 1 on a cluster."""
    gpus_per_run: int = 0
    """GPUs that each run is given, with --workers or --ray."""
    list: Flag = False
    """List the tables and figures, and run nothing."""
    render: Flag = False
    """Write the page and its figures from the results that are there, and run nothing."""
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(aliases=["-q"])] = False
    """Do not print every epoch."""

    def run(self) -> int:
        console = terminal.console()
        if self.list:
            if not self.results.is_dir():
                console.print(
                    f"There is no folder {self.results} here: what follows does not know what has been run.", soft_wrap=True
                )
            console.print(state_table(read_results(self.results)))
            return 0
        if self.render:
            return self.write_page(console)
        if self.table is None:
            raise XDError("no table", f"one of {', '.join(TABLES) or 'none yet'}", "xdops reproduce --list")
        place = find_place(self.out)
        options = WorkerOptions(self.workers, self.ray, self.cpus_per_run, self.gpus_per_run)
        check_shared_memory(place, self.workers)
        reproduction = self.reproduction(self.table, place.folder if options.in_turn else place.folder.absolute())
        check_seeds(self.seeds)
        check_page(self.docs)

        def tell(line: str) -> None:
            console.print(line, soft_wrap=True)

        def progress() -> Progress | None:
            return Silent() if self.quiet else None

        def named(job: Job) -> Progress | None:
            tell(job.name)
            return progress()

        home = Place(reproduction.out, place.mirror).below(reproduction.home.name)
        try:
            with home.opened():
                if options.in_turn and home.mirror is None:
                    found = reproduction.run(tell, progress)
                else:
                    with open_workers(options, home, named, None if self.quiet else console) as workers:
                        found = reproduction.run_on(workers, tell)
                console.print(terminal_table(found))
                if self.table in PICTURES:
                    PICTURES[self.table](reproduction.context, reproduction.home, self.docs)
        except (Interrupted, KeyboardInterrupt) as ending:
            tell(f"{stopped(ending)} Run the same command again to continue.")
            return Interrupted.exit_code
        return self.write_page(console)

    def write_page(self, console: Console) -> int:
        check_page(self.docs)
        page = write_page(self.results, self.docs)
        console.print(f"Page: {page}", soft_wrap=True)
        return 0

    def reproduction(self, name: str, out: Path) -> Reproduction:
        context = Context(self.scale, self.data_dir)
        command = shlex.join(["xdops", "reproduce", name, "--scale", self.scale])
        return Reproduction(find_table(name), context, out, self.results, command, self.rows, self.seeds, self.missing)


def check_seeds(seeds: tuple[int, ...]) -> None:
    """Each once, and no more than anybody would wait for."""
    for seed in seeds:
        check_seed(seed)
    if len(set(seeds)) != len(seeds) or len(seeds) > MOST_SEEDS:
        raise XDError(f"--seeds with {len(seeds)} numbers", f"different ones, at most {MOST_SEEDS}", "--seeds 0 1 2")
