"""A run plans with the rates it began with, whatever the machine's are when it is resumed."""

from pathlib import Path

from search_support import SETTINGS, make_network, make_problem

from xdops.engine.machine import rates, rates_restored, set_rates
from xdops.engine.rates import Rates
from xdops.search import Silent, search


class Seen(Silent):
    def start(self, epochs: int, steps: int, metric: str, epoch: int) -> None:
        self.rates = rates()


def test_a_run_resumes_with_the_rates_of_its_checkpoint(tmp_path: Path) -> None:
    began, now = Rates(gemm=3e10), Rates(gemm=7e10)
    with rates_restored():
        set_rates(began)
        search(make_network(), make_problem(), SETTINGS, tmp_path / "run", progress=Silent())
        set_rates(now)
        seen = Seen()
        search(make_network(), make_problem(), SETTINGS, tmp_path / "run", resume=True, progress=seen)
        assert seen.rates == began
        assert rates() == now
