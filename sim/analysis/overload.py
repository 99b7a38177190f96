"""A warning for whoever reads the figures of a server to which more comes than it can serve."""

from collections.abc import Iterator, Sequence

from sim.analysis.theory.load import of_result
from sim.record.result import Result


def warnings(results: Sequence[Result]) -> Iterator[str]:
    """A line for each run with a load of 1 or more; a list of requests in the scenario is a burst, and meant as one."""
    for result in results:
        load = of_result(result)
        if load.saturated and "requests" not in result.scenario.get("workload", {}):
            yield (
                f"{result.name}: load {load.load:.3g}: {load.arrival_rate:.4g} requests/s come, λ* = "
                f"{load.saturation_rate:.4g}/s can be served; the queue grows as long as this goes on"
            )
