"""The scenarios of load keep what their headers say; what they claim of random loads holds for other seeds, too.

Two are small and worked out by hand. Of the others, which are drawn, the figures of seed 0 stand in a table here. Each
number of a header is then one of these tables, of the scenario, or worked out here.
"""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from test_kv_scenarios import as_json, column, header, numbers, stated

import sim
from sim.analysis.closed_loop import measure
from sim.analysis.verify import verify
from sim.experiment import plan
from sim.record import write
from sim.record.result import Result
from sim.request import NEVER

Run = dict[str, Any]

OTHER_SEEDS = (1, 2, 3, 4, 5)

# A run; its requests: when each starts, and its first and last token from its arrival; all done. In ms.
BY_HAND = """
sjf-starvation / fcfs
  S1 0 1 4 | L 4 4 11 | S2 12 10 13 | S3 16 10 13 | S4 20 10 13 | S5 24 10 13 | S6 28 10 13 | S7 32 10 13 |
  S8 36 10 13 = 40
sjf-starvation / sjf
  S1 0 1 4 | L 32 32 39 | S2 4 2 5 | S3 8 2 5 | S4 12 2 5 | S5 16 2 5 | S6 20 2 5 | S7 24 2 5 | S8 28 2 5 = 40
sjf-starvation / aged
  S1 0 1 4 | L 12 12 19 | S2 4 2 5 | S3 8 2 5 | S4 20 10 13 | S5 24 10 13 | S6 28 10 13 | S7 32 10 13 |
  S8 36 10 13 = 40
sjf-starvation / hrrn
  S1 0 1 4 | L 8 8 15 | S2 4 2 5 | S3 16 10 13 | S4 20 10 13 | S5 24 10 13 | S6 28 10 13 | S7 32 10 13 |
  S8 36 10 13 = 40
tenants / fcfs
  H1 0 1 8 | H2 8 9 16 | H3 16 17 24 | H4 24 25 32 | H5 32 33 40 | H6 40 41 48 | L1 48 48 49 | L2 50 40 41 |
  L3 52 32 33 | L4 54 24 25 = 56
tenants / vtc
  H1 0 1 8 | H2 10 11 18 | H3 20 21 28 | H4 30 31 38 | H5 40 41 48 | H6 48 49 56 | L1 8 8 9 | L2 18 8 9 | L3 28 8 9 |
  L4 38 8 9 = 56
tenants / drr
  H1 0 1 8 | H2 10 11 18 | H3 20 21 28 | H4 30 31 38 | H5 40 41 48 | H6 48 49 56 | L1 8 8 9 | L2 18 8 9 | L3 28 8 9 |
  L4 38 8 9 = 56
tenants / vtc-10
  H1 0 1 8 | H2 10 11 18 | H3 18 19 26 | H4 28 29 36 | H5 36 37 44 | H6 44 45 52 | L1 8 8 9 | L2 26 16 17 |
  L3 52 32 33 | L4 54 24 25 = 56
"""

# Of seed 0, each under the columns of its header: ms to two decimals, or counts.
DRAWN_COLUMNS = {
    "bursty-vs-poisson": ("first p50", "first p99", "last p50", "last p99", "most waiting", "all done"),
    "diurnal": ("first p50", "first p99", "last p50", "last p99", "most waiting", "all done"),
    "closed-loop-overload": ("users", "ended", "X", "R", "Z", "most waiting"),
    "multi-turn": ("turn 1", "turn 3", "turn 5", "last p50", "scheduled", "cached", "most waiting"),
}
DRAWN = {
    "bursty-vs-poisson": {
        "even": "20.39 65.83 580.70 3619.45 1 101313.50",
        "poisson": "22.16 124.95 603.28 3562.39 4 101436.50",
        "bursty": "134.38 2058.98 1034.77 4391.35 36 101077.48",
    },
    "diurnal": {
        "constant": "22.51 223.84 637.67 3644.61 5 181736.88",
        "diurnal": "302.55 3273.41 1209.62 5044.55 56 180768.09",
        "diurnal-32": "22.56 93.01 650.74 3789.26 3 180768.09",
    },
    "closed-loop-overload": {
        "users-4": "4 43 1.43 779.31 2011.39 0",
        "users-40": "40 296 9.87 2001.49 2052.56 22",
        "users-80": "80 293 9.77 5844.98 2346.15 61",
        "open": "600 288 9.60 16229.98 46270.02 304",
    },
    "multi-turn": {
        "off": "138.35 240.84 282.99 1388.90 409386 0 3",
        "on": "41.70 44.51 42.91 605.68 140458 268928 0",
        "off-small": "555.35 632.13 711.88 1754.84 431716 0 16",
        "on-small": "162.64 309.87 306.38 1217.95 332619 81424 10",
    },
}


def by_hand() -> dict[str, dict[str, tuple[dict[str, tuple[Decimal, ...]], Decimal]]]:
    found: dict[str, Any] = {}
    for each in BY_HAND.strip().split("\n"):
        if not each.startswith(" "):
            name, _, run = each.partition(" / ")
            requests: dict[str, tuple[Decimal, ...]] = {}
            continue
        rows, _, done = each.strip().strip("|").partition(" = ")
        for row in rows.split("|"):
            id_, *times = row.split()
            requests[id_] = tuple(map(Decimal, times))
        if done:
            found.setdefault(name, {})[run] = (requests, Decimal(done))
    return found


WORKED_BY_HAND = by_hand()
LOADS = (*WORKED_BY_HAND, *DRAWN)


@cache
def results(name: str, seed: int = 0) -> dict[str, Result]:
    """The runs that the command compares."""
    return {each.name: each.run() for each in plan(sim.load(name, overrides={"run.seed": seed}))}


@cache
def runs(name: str) -> dict[str, Run]:
    """As JSON: of the small ones."""
    return {run["name"]: run for run in as_json(results(name))["runs"]}


HEAVY = ("closed-loop-overload", "diurnal", "bursty-vs-poisson")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in LOADS]
)
def test_the_record_is_sound(name: str, tmp_path: Path) -> None:
    write.save_all(list(results(name).values()), tmp_path / name)
    assert verify(tmp_path / name).findings == []


@pytest.mark.parametrize("name", WORKED_BY_HAND)
def test_requests_by_hand(name: str) -> None:
    keys = ("firstScheduledMs", "ttftMs", "e2eMs")
    found = {
        run_name: (
            {row["id"]: tuple(row[key] for key in keys) for row in run["requests"]},
            run["summary"]["makespanMs"],
        )
        for run_name, run in runs(name).items()
    }
    assert found == WORKED_BY_HAND[name]


# --- figures of many requests ----------------------------------------------------------------------------------------


def in_ms(ns: Fraction | int) -> Fraction:
    return Fraction(ns) / 10**6


def quantile(which: str, percent: int) -> Callable[[Result], Fraction]:
    return lambda result: in_ms(result.summary.distributions[which].percentiles[percent] or 0)


def turn_ms(number: int) -> Callable[[Result], Fraction]:
    """The mean first token of this turn of all sessions, which have 5 each."""

    def of(result: Result) -> Fraction:
        ns = result.requests["ttft_ns"][number - 1 :: 5]
        return in_ms(Fraction(int(ns.sum()), len(ns)))

    return of


def cached(result: Result) -> Fraction:
    pool = result.summary.pool
    return Fraction(pool.cached_tokens + pool.cached_on_resume_tokens if pool else 0)


FIGURES: Mapping[str, Callable[[Result], Fraction]] = {
    "first p50": quantile("ttft", 50),
    "first p99": quantile("ttft", 99),
    "last p50": quantile("e2e", 50),
    "last p99": quantile("e2e", 99),
    "most waiting": lambda result: Fraction(int(result.jobs["waiting"].max())),
    "all done": lambda result: in_ms(result.summary.makespan_ns or 0),
    "users": lambda result: Fraction(measure(result).users),
    "ended": lambda result: Fraction(measure(result).ended),
    "X": lambda result: measure(result).throughput_per_ns * 10**9,
    "R": lambda result: in_ms(measure(result).response_ns),
    "Z": lambda result: in_ms(measure(result).think_ns),
    "turn 1": turn_ms(1),
    "turn 3": turn_ms(3),
    "turn 5": turn_ms(5),
    "scheduled": lambda result: Fraction(result.summary.scheduled_tokens),
    "cached": cached,
}


def figure(name: str, run: str, which: str, seed: int = 0) -> Fraction:
    return FIGURES[which](results(name, seed)[run])


def hundredths(value: Fraction | float) -> Decimal:
    return round(Decimal(round(Fraction(value) * 10**6)) / 10**6, 2)


@pytest.mark.parametrize("name", DRAWN)
def test_figures_of_seed_0(name: str) -> None:
    found = {
        run: [hundredths(FIGURES[which](result)) for which in DRAWN_COLUMNS[name]]
        for run, result in results(name).items()
    }
    assert found == {run: list(map(Decimal, row.split())) for run, row in DRAWN[name].items()}


# --- the headers -----------------------------------------------------------------------------------------------------


def at_once(name: str, slots: int = 16) -> Decimal:
    """Requests per second when all come at the same instant."""
    document = sim.load(name).document
    del document["run"]
    count = document["workload"]["count"]
    document["workload"]["arrivals"] = {"process": "batch", "size": count, "period_ms": 1}
    document["scheduler"]["max_running"] = slots
    return hundredths(sim.simulate(sim.load(document)).summary.requests_per_s or 0)


@cache
def twice_as_long(seed: int = 0) -> dict[str, Result]:
    """The closed loops over 60 s, and twice as many who send once each in the 60 s."""
    document = sim.load("closed-loop-overload", overrides={"run.seed": seed}).document
    document["workload"]["count"] *= 2
    document["run"]["horizon_ms"] *= 2
    opened = document["run"]["variants"][-1]["set"]
    opened["workload.count"] *= 2
    clients = opened["workload.clients"]
    clients["users"] *= 2
    clients["think_ms"]["max"] *= 2
    return {each.name: each.run() for each in plan(sim.load(document))}


def mean_first_token(run: str) -> Decimal:
    times = list(column(runs("sjf-starvation")[run], "ttftMs").values())
    return hundredths(Fraction(sum(times)) / len(times))


# What a header works out: its number, and how.
WORKED_OUT: dict[str, dict[str, Callable[[], Any]]] = {
    "bursty-vs-poisson": {
        "100": lambda: Fraction(1200, 12),
        "17.29": lambda: at_once("bursty-vs-poisson"),
    },
    "diurnal": {
        "180": lambda: 2160 // 12,
        "4.8": lambda: 12 - 12 * Decimal("0.6"),
        "19.2": lambda: 12 + 12 * Decimal("0.6"),
        "17.00": lambda: at_once("diurnal"),
        "27.84": lambda: at_once("diurnal", 32),
    },
    "closed-loop-overload": {
        "20": lambda: Fraction(40 * 1000, 2000),
        "30": lambda: Fraction(30000, 1000),
        "60": lambda: 2 * 30,
        "6184.94": lambda: hundredths(FIGURES["R"](twice_as_long()["users-80"])),
        "34457.88": lambda: hundredths(FIGURES["R"](twice_as_long()["open"])),
        "637": lambda: FIGURES["most waiting"](twice_as_long()["open"]),
    },
    "sjf-starvation": {
        "3": lambda: 4 - 1,
        "7": lambda: 8 - 1,
        "32": lambda: 24 + 8,
        "8.33": lambda: mean_first_token("fcfs"),
        "5.22": lambda: mean_first_token("sjf"),
        "7.44": lambda: mean_first_token("aged"),
        "7.89": lambda: mean_first_token("hrrn"),
    },
    "tenants": {
        "24": lambda: 8 + 2 * 8,
        "6": lambda: 2 + 2 * 2,
        "10": lambda: 8 + 2 * 1,
        "4": lambda: 2 + 2,
        "2.4": lambda: Decimal(24) / 10,
        "7": lambda: Decimal(8 + 2) / 10 + 6,
        "13": lambda: 7 + 6,
    },
    "multi-turn": {},
}


def tabled(name: str) -> set[Decimal]:
    if name in DRAWN:
        return {Decimal(figure) for row in DRAWN[name].values() for figure in row.split()}
    rows = [(*times, (done,)) for requests, done in WORKED_BY_HAND[name].values() for times in [requests.values()]]
    return {figure for row in rows for times in row for figure in times}


def asked(name: str) -> set[Decimal]:
    """The numbers of the scenario; that of its seed, which it leaves out, is 0."""
    return {Decimal(0), *numbers(json.loads(json.dumps(sim.load(name).document, default=float), parse_float=Decimal))}


@pytest.mark.parametrize("name", LOADS)
def test_each_number_in_the_header_is_one_that_the_runs_give(name: str) -> None:
    worked_out = WORKED_OUT[name]
    assert {number for number, how in worked_out.items() if Decimal(number) != how()} == set()
    assert set(worked_out) <= stated(name)
    known = tabled(name) | asked(name)
    assert {number for number in stated(name) - set(worked_out) if Decimal(number) not in known} == set()


def rows_of_header(name: str) -> dict[str, list[str]]:
    """The lines of a header's table by their runs."""
    lines = [line.split() for line in header(name).splitlines() if line.startswith("   ")]
    return {words[0]: words[1:] for words in lines if words[0] in results(name)}


@pytest.mark.parametrize("name", DRAWN)
def test_the_table_in_the_header_is_the_one_here(name: str) -> None:
    assert rows_of_header(name) == {run: row.split() for run, row in DRAWN[name].items()}


def test_the_table_of_sjf_starvation() -> None:
    found = {}
    for run, (requests, done) in WORKED_BY_HAND["sjf-starvation"].items():
        first = [requests[id_][1] for id_ in ("S2", "S3", "S4", "S8")]
        found[run] = [*requests["L"][:2], *first, requests["L"][2], done, mean_first_token(run)]
    assert {run: list(map(Decimal, row)) for run, row in rows_of_header("sjf-starvation").items()} == found


def test_the_table_of_tenants() -> None:
    found = {}
    for run, (requests, done) in WORKED_BY_HAND["tenants"].items():
        first = [requests[id_][1] for id_ in ("L1", "L2", "L3", "L4", "H2", "H6")]
        found[run] = [*first, *(requests[id_][2] for id_ in ("L1", "H2", "H6")), done]
    assert {run: list(map(Decimal, row)) for run, row in rows_of_header("tenants").items()} == found


# --- the claims ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 5, 50])
def test_sjf_starves_for_as_long_as_short_ones_come_and_its_cures_do_not(more: int) -> None:
    document = sim.load("sjf-starvation").document
    short = {"prompt_tokens": 4, "output_tokens": 4}
    requests = document["workload"]["requests"]
    requests += [{"id": f"S{9 + k}", "arrival_ms": 31 + 4 * k, **short} for k in range(more)]
    first = {each.name: column(each.run().to_dict()["runs"][0], "ttftMs")["L"] for each in plan(sim.load(document))}
    assert first == {"fcfs": 4, "sjf": 32 + 4 * more, "aged": 12, "hrrn": 8}


@pytest.mark.parametrize("more", [0, 5, 50])
def test_however_much_the_heavy_tenant_sends_the_light_one_waits_for_one_of_its_requests(more: int) -> None:
    document = sim.load("tenants").document
    requests = document["workload"]["requests"]
    heavy = {"arrival_ms": 0, "prompt_tokens": 8, "output_tokens": 8, "tenant": "heavy"}
    requests[6:6] = [{"id": f"H{7 + k}", **heavy} for k in range(more)]
    first = {each.name: column(each.run().to_dict()["runs"][0], "ttftMs")["L1"] for each in plan(sim.load(document))}
    assert first == {"fcfs": 48 + 8 * more, "vtc": 8, "drr": 8, "vtc-10": 8}


def test_no_work_is_saved_by_being_fair() -> None:
    assert {run["summary"]["jobs"] for run in runs("tenants").values()} == {6 * 8 + 4 * 2}


def test_the_three_loads_have_one_rate_and_the_same_requests() -> None:
    ends = {int(result.requests["arrival_ns"].max()) for result in results("bursty-vs-poisson").values()}
    assert ends == {100 * 10**9}
    first, *others = results("bursty-vs-poisson").values()
    for other in others:
        for name in ("prompt_tokens", "output_tokens"):
            assert (other.requests[name] == first.requests[name]).all()


@pytest.mark.parametrize("seed", [0, *OTHER_SEEDS])
def test_burstier_arrivals_make_first_tokens_later(seed: int) -> None:
    for which in ("first p50", "first p99"):
        even, poisson, bursty = (figure("bursty-vs-poisson", run, which, seed) for run in ("even", "poisson", "bursty"))
        assert even < poisson < bursty
    assert bursty > 2 * poisson


@pytest.mark.parametrize("seed", [0, *OTHER_SEEDS])
def test_a_peak_above_saturation_builds_up_a_queue(seed: int) -> None:
    constant, diurnal, borne = (
        figure("diurnal", run, "first p99", seed) for run in ("constant", "diurnal", "diurnal-32")
    )
    assert diurnal > 5 * constant
    assert borne < constant


@pytest.mark.parametrize("seed", [0, *OTHER_SEEDS])
def test_an_overloaded_closed_loop_is_at_its_bound(seed: int) -> None:
    """Twice as many users get no more out of it, and each waits as much longer as the law says."""
    for run, result in results("closed-loop-overload", seed).items():
        loop = measure(result)
        assert loop.response_ns == loop.users / loop.throughput_per_ns - loop.think_ns
        assert run == "open" or not has_run_out(result)
    of_40, of_80, opened = (figure("closed-loop-overload", run, "X", seed) for run in ("users-40", "users-80", "open"))
    assert abs(of_80 / of_40 - 1) < Fraction(1, 20)
    assert abs(opened / of_40 - 1) < Fraction(1, 10)
    of_40, of_80 = (figure("closed-loop-overload", run, "R", seed) for run in ("users-40", "users-80"))
    assert of_80 - of_40 > 3500


def has_run_out(result: Result) -> bool:
    """Whether a user has sent all requests that it has: then it asks for less than it would."""
    users = measure(result).users
    return bool((result.requests["arrived_job"][-users:] != NEVER).any())


@pytest.mark.parametrize("seed", [0, *OTHER_SEEDS])
def test_the_open_loop_waits_ever_longer(seed: int) -> None:
    """Over twice the time, twice as long; the users hardly longer."""
    longer = {run: FIGURES["R"](result) / figure("closed-loop-overload", run, "R", seed)
              for run, result in twice_as_long(seed).items()}  # fmt: skip
    assert longer["open"] > Fraction(5, 3)
    assert longer["users-40"] < Fraction(5, 4)
    assert longer["users-80"] < Fraction(5, 4)


@pytest.mark.parametrize("seed", [0, *OTHER_SEEDS])
def test_found_again_a_later_turn_is_as_soon_there_as_the_first(seed: int) -> None:
    off, on, off_small, on_small = (
        [figure("multi-turn", run, f"turn {k}", seed) for k in (1, 3, 5)] for run in DRAWN["multi-turn"]
    )
    assert off[0] * Fraction(3, 2) < off[2]
    assert on[2] < on[0] * Fraction(4, 3)
    assert all(found < computed for found, computed in zip(on, off, strict=True))
    assert all(found < computed for found, computed in zip(on_small, off_small, strict=True))
    assert figure("multi-turn", "on-small", "cached", seed) < figure("multi-turn", "on", "cached", seed) / 2
    assert min(on_small) > 2 * max(on)
