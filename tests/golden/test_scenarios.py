"""The ready scenarios keep what the comment at their head says, and what they claim is so.

The expected numbers stand here, in a table of their own; the header is then held to what the runs give.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from test_kv_scenarios import FIGURES
from test_load_scenarios import LOADS

import sim
from sim import gallery
from sim.analysis.verify import verify_document
from sim.experiment import plan
from sim.record import json_form

Run = dict[str, Any]

NEEDS_A_TRACE = ("azure-conv",)  # its numbers are in tests/model/test_azure.py

# ms: first token, longest stall, last token (from arrival), queue; then the makespan and the number of jobs.
GOLDEN: dict[str, dict[str, tuple[dict[str, tuple[float, float | None, float, float]], float, int]]] = {
    "mixed": {
        "fcfs": (
            {"A": (2.25, 14.75, 29.5, 0), "L": (12.5, 2.5, 15, 0.25), "S": (11.75, 1.25, 15.5, 10.5)},
            29.5,
            14,
        ),
        "chunked": (
            {"A": (2.25, 3.5, 30.75, 0), "L": (21.25, 1.25, 22.5, 1.5), "S": (21.75, 1.25, 25.5, 20.5)},
            30.75,
            19,
        ),
    },
    "prefill-only": {
        "fcfs": ({"P": (12.25, None, 12.25, 0)}, 12.25, 1),
        "chunked": ({"P": (13.5, None, 13.5, 0)}, 13.5, 6),
    },
    "static-vs-continuous": {
        "fcfs": (
            {
                "long": (2.25, 3.5, 22.75, 0),
                "brief": (4.5, 1.25, 5.75, 2.25),
                "next": (7, 1.25, 8.25, 4.75),
                "last": (10.5, 1.25, 11.75, 8.25),
            },
            22.75,
            15,
        ),
        "static": (
            {
                "long": (2.25, 3.5, 18.25, 0),
                "brief": (4.5, 1.25, 5.75, 2.25),
                "next": (19.5, 3.5, 23, 17.25),
                "last": (21.75, 1.25, 23, 19.5),
            },
            24,
            16,
        ),
    },
    "unseen": {
        "fcfs": (
            {"U1": (3.25, 18.75, 28.25, 0), "U2": (15, 1.25, 20, 0.75), "U3": (3.75, 15.5, 21.75, 0.5)},
            28.25,
            9,
        ),
        "chunk-2": (
            {"U1": (3.5, 3.5, 21.25, 0), "U2": (23.25, 1.25, 28.25, 3.75), "U3": (5.5, 3.5, 13.75, 0.75)},
            35.25,
            21,
        ),
        "chunk-4": (
            {"U1": (3.25, 5.5, 29, 0), "U2": (20.75, 1.25, 25.75, 2), "U3": (3.75, 5.5, 16, 0.5)},
            32.75,
            15,
        ),
        "chunk-8": (
            {"U1": (3.25, 9.5, 28.5, 0), "U2": (17.75, 1.25, 22.75, 2), "U3": (3.75, 9.5, 22, 0.5)},
            29.75,
            11,
        ),
    },
}


# ms, to two decimals: first token at p50 and p99, longest stall of any, makespan; and the number of jobs.
DRAWN: dict[str, dict[str, tuple[float, float, float, float, int]]] = {
    "poisson": {
        "fcfs": (25.53, 46.69, 119.34, 50711.66, 5751),
        "chunked": (41.05, 106.81, 18.9, 50723.06, 6046),
    },
}


@cache
def document(name: str, **overrides: Any) -> dict[str, Any]:
    """The result JSON of a ready scenario, as the command compares it."""
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    results = [each.run() for each in plan(sim.load(name, overrides=changes))]
    found: dict[str, Any] = json.loads("".join(json_form.text(json_form.document(results))), parse_float=Decimal)
    return found


def runs(name: str, **overrides: Any) -> dict[str, Run]:
    return {run["name"]: run for run in document(name, **overrides)["runs"]}


def column(run: Run, key: str) -> dict[str, Any]:
    return {row["id"]: row[key] for row in run["requests"]}


def test_every_ready_scenario_is_held_to_something() -> None:
    assert sorted([*GOLDEN, *DRAWN, *NEEDS_A_TRACE, *FIGURES, *LOADS]) == gallery.names()


@pytest.mark.parametrize("name", GOLDEN)
def test_numbers(name: str) -> None:
    found = {
        run_name: (
            {
                row["id"]: tuple(row[key] for key in ("ttftMs", "maxItlMs", "e2eMs", "queueMs"))
                for row in run["requests"]
            },
            run["summary"]["makespanMs"],
            run["summary"]["jobs"],
        )
        for run_name, run in runs(name).items()
    }
    assert list(found) == list(GOLDEN[name])
    assert found == GOLDEN[name]


@pytest.mark.parametrize("name", DRAWN)
def test_numbers_of_many(name: str) -> None:
    """They are in the header, too."""
    found = {}
    for run_name, run in runs(name).items():
        figures, first = run["summary"], run["summary"]["ttft"]
        all_of_them = (first["p50"], first["p99"], figures["itl"]["max"], figures["makespanMs"], figures["jobs"])
        found[run_name] = tuple(round(Decimal(figure), 2) for figure in all_of_them)
        assert {*found[run_name]} <= stated(name)
    assert found == {run: tuple(Decimal(str(figure)) for figure in due) for run, due in DRAWN[name].items()}


@pytest.mark.parametrize("name", [*GOLDEN, *DRAWN])
def test_the_record_is_sound(name: str) -> None:
    assert verify_document(document(name)).findings == []


# --- the comment at the head of each file ----------------------------------------------------------------------------

IN_WORDS = {"one": 1, "two": 2, "six": 6}


def header(name: str) -> str:
    lines = gallery.path(name).read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removeprefix("#") for line in lines[: next(n for n, x in enumerate(lines) if x[:1] != "#")])


def stated(name: str) -> set[Decimal]:
    """The numbers in a header: not those in names (U1, chunk-2, --chunk 4, a file's name)."""
    text = re.sub(r"`[^`]*`|\S*/\S*|--\S+ \d+", "", header(name))
    numbers = re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w])", text)
    words = [str(value) for word, value in IN_WORDS.items() if re.search(rf"\b{word}\b (?:jobs|tokens|output)", text)]
    return {Decimal(number) for number in [*numbers, *words]}


def given(found: dict[str, Any]) -> Iterator[Decimal]:
    """The numbers of a result: what was asked for, what each request got, and the summary's plain values."""
    for run in found["runs"]:
        rows = [*run["requests"], run["summary"], run["settings"]]
        yield from (Decimal(value) for row in rows for value in row.values() if isinstance(value, int | Decimal))


@pytest.mark.parametrize("name", GOLDEN)
def test_each_number_in_the_header_is_one_that_the_runs_give(name: str) -> None:
    assert stated(name) - set(given(document(name))) == set()


@pytest.mark.parametrize("name", GOLDEN)
def test_headers_do_state_their_numbers(name: str) -> None:
    """So that the test above can't pass on an empty header: each run's makespan stands there."""
    makespans = {Decimal(str(makespan)) for _, makespan, _ in GOLDEN[name].values()}
    assert makespans <= stated(name)


@pytest.mark.parametrize("name", gallery.names())
def test_every_header_has_its_question_and_its_outcome(name: str) -> None:
    first = header(name).strip().splitlines()[0]
    assert first.startswith(f"{name}: ")
    assert "?" in header(name)
    assert "Expected" in header(name)
    assert sim.load(gallery.path(name)).claim.endswith(".")


@pytest.mark.parametrize("name", gallery.names())
def test_every_file_is_called_as_its_scenario(name: str) -> None:
    assert sim.load(gallery.path(name)).name == name


# --- the claims ------------------------------------------------------------------------------------------------------


def test_mixed_time_is_moved_not_saved() -> None:
    """Chunking shortens A's stall and delays the first tokens of L and S."""
    fcfs, chunked = runs("mixed").values()
    assert column(chunked, "maxItlMs")["A"] < column(fcfs, "maxItlMs")["A"]
    for id_ in ("L", "S"):
        assert column(chunked, "ttftMs")[id_] > column(fcfs, "ttftMs")[id_]
    assert column(chunked, "ttftMs")["A"] == column(fcfs, "ttftMs")["A"]
    assert chunked["summary"]["makespanMs"] > fcfs["summary"]["makespanMs"]


def test_prefill_only_chunking_only_adds_the_cost_of_more_jobs() -> None:
    fcfs, chunked = runs("prefill-only").values()
    more_jobs = chunked["summary"]["jobs"] - fcfs["summary"]["jobs"]
    assert column(chunked, "e2eMs")["P"] - column(fcfs, "e2eMs")["P"] == more_jobs * Decimal("0.25")
    for run in runs("prefill-only", device__job_ms=0).values():
        assert column(run, "e2eMs") == {"P": 12}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_poisson_chunks_bound_the_stalls_and_most_first_tokens_come_later(seed: int) -> None:
    """A stall under chunks is one of 512 tokens and a batch of as many as there are at most: 18.64 ms and 0.02 each."""
    fcfs, chunked = runs("poisson", run__seed=seed).values()
    together = max(len(event["scheduled"]) for event in chunked["events"] if event["kind"] == "decode")
    bound = Decimal("18.64") + together * Decimal("0.02")
    assert chunked["summary"]["itl"]["max"] <= bound < fcfs["summary"]["itl"]["max"]
    later = sum(column(chunked, "ttftMs")[id_] > ms for id_, ms in column(fcfs, "ttftMs").items())
    assert later > 170
    assert all(run["summary"]["finished"] == 200 for run in (fcfs, chunked))


def test_static_vs_continuous_those_who_wait_for_a_place_gain_and_the_longest_pays() -> None:
    """``next`` and ``last`` have to wait for a place under both; ``brief`` never does, and neither gains nor pays."""
    fcfs, static = (column(run, "finishMs") for run in runs("static-vs-continuous").values())
    assert fcfs["long"] > static["long"]
    assert fcfs["brief"] == static["brief"]
    assert all(fcfs[id_] < static[id_] for id_ in ("next", "last"))


def test_unseen_who_is_done_sooner_depends_on_the_chunk() -> None:
    """U1 with chunks of 2, not of 4 or 8; U3 with 2 and 4, not 8; U2 with none."""
    fcfs, *chunked = runs("unseen").values()
    sooner = {
        run["name"]: [id_ for id_, ms in column(run, "finishMs").items() if ms < column(fcfs, "finishMs")[id_]]
        for run in chunked
    }
    assert sooner == {"chunk-2": ["U1", "U3"], "chunk-4": ["U3"], "chunk-8": []}
    for run in chunked:
        for id_, ms in column(run, "finishMs").items():
            assert ms != column(fcfs, "finishMs")[id_]  # so "later" is what is left


def test_unseen_u2_always_pays_for_u1s_stall() -> None:
    """The lesson's two questions: the first token of U2 and the longest stall of U1."""
    fcfs, *chunked = runs("unseen").values()
    for run in chunked:
        assert column(run, "ttftMs")["U2"] > column(fcfs, "ttftMs")["U2"]
        assert column(run, "maxItlMs")["U1"] < column(fcfs, "maxItlMs")["U1"]


def test_unseen_the_lessons_own_question() -> None:
    """``--policy both --chunk 4``, as the lesson asks it."""
    scenario = sim.load("unseen", overrides={"scheduler.chunk_tokens": 4})
    found = {each.name: each.run().to_dict()["runs"][0] for each in plan(scenario, "both")}
    assert {name: (column(run, "ttftMs")["U2"], column(run, "maxItlMs")["U1"]) for name, run in found.items()} == {
        "fcfs": (15, 18.75),
        "chunked": (20.75, 5.5),
    }


def test_ready_scenarios_lie_beside_the_package() -> None:
    assert {path.stem for path in (Path(sim.__file__).parents[1] / "scenarios").glob("*.toml")} == set(gallery.names())
