"""Every key of a scenario stands in one table of the documents, and every law, format and order has a row there.

A table of keys is known by its first heading, which says what its keys are keys of (:data:`PLACES`).
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from documents import codes, inline_code, read, section, tables

import sim
from sim.policies.orders import ORDERS
from sim.policies.predictors import PREDICTORS
from sim.record.json_form import ASKED
from sim.request import Workload
from sim.scenario import KEYS
from sim.workload.arrivals import PROCESSES
from sim.workload.durations import DURATIONS
from sim.workload.generate import generate
from sim.workload.lengths import DISTRIBUTIONS
from sim.workload.streams import stream
from sim.workload.trace_formats import FORMATS

ROOT = Path(__file__).parents[2]
ENGLISH = ("README.md", "docs/workloads.md", "docs/policies.md")
CHINESE = "README.zh-CN.md"

ARRIVALS = ("workload.arrivals.", "workload.classes.arrivals.")
LENGTHS = (
    "workload.prompt_tokens.", "workload.output_tokens.", "workload.classes.prompt_tokens.",
    "workload.classes.output_tokens.", "workload.sessions.turns.",
)  # fmt: skip
COMPONENTS = tuple(f"{place}components." for place in LENGTHS)
DURATIONS_AT = ("workload.clients.think_ms.", "workload.sessions.think_ms.", "workload.patience_ms.")
PLACES = {
    "key": ("",),
    "键": ("",),
    "key of a request": ("workload.requests.",),
    "请求的键": ("workload.requests.",),
    "key of a law of arrivals": ARRIVALS,
    "key of a law of lengths, or of a component": (*LENGTHS, *COMPONENTS),
    "key of a law of lengths alone": LENGTHS,
    "key of a component alone": COMPONENTS,
    "key of a duration": DURATIONS_AT,
    "key of a class": ("workload.classes.",),
    "key of a trace": ("workload.trace.",),
    "key of the columns": ("workload.trace.columns.",),
}
"""By a table's first heading, what stands before its keys."""

ONLY_TABLES = {"workload", "scheduler", "run"}
"""Keys of which there is nothing to say but what is in them."""


def rows_of(name: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The rows of the tables of keys, each with what stands before its keys."""
    for rows in tables(read(ROOT / name)):
        if rows[0][0] in PLACES:
            yield from ((PLACES[rows[0][0]], row) for row in rows[1:])


def documented(name: str) -> list[str]:
    """The dotted keys, as often as they stand there."""
    return [f"{place}{key}" for places, row in rows_of(name) for key in codes(row[0]) for place in places]


def of_schema() -> dict[str, str]:
    """Each dotted key with its description."""
    described = {
        ".".join((*at, key)): info.description or "" for at, keys in KEYS.items() for key, info in keys.items()
    }
    return {key: text for key, text in described.items() if key not in ONLY_TABLES}


def table(name: str, heading: str) -> list[list[str]]:
    """The rows of the one table whose first heading this is."""
    (found,) = (rows[1:] for rows in tables(read(ROOT / name)) if rows[0][0] == heading)
    return found


# --- keys ------------------------------------------------------------------------------------------------------------


def test_every_key_stands_in_one_table_and_none_is_invented() -> None:
    listed = Counter(key for name in ENGLISH for key in documented(name))
    assert sorted(listed.keys() - of_schema().keys()) == [], "no such keys"
    assert sorted(of_schema().keys() - listed.keys()) == [], "in no table"
    assert sorted(key for key, times in listed.items() if times > 1) == [], "in several tables"


def test_the_chinese_readme_has_the_keys_of_the_english_one() -> None:
    assert sorted(documented(CHINESE)) == sorted(documented("README.md"))


@pytest.mark.parametrize("name", ENGLISH[1:])
def test_the_tables_say_what_the_schema_says(name: str) -> None:
    described = of_schema()
    for places, row in rows_of(name):
        (key,) = codes(row[0])
        assert {described[f"{place}{key}"] for place in places} == {row[1]}, key


@pytest.mark.parametrize("name", ENGLISH[1:])
def test_the_tables_say_what_happens_to_a_key_that_is_left_out(name: str) -> None:
    infos = {".".join((*at, key)): info for at, keys in KEYS.items() for key, info in keys.items()}
    for places, row in rows_of(name):
        for key in (f"{place}{code}" for place in places for code in codes(row[0]) if len(row) > 2):
            info = infos[key]
            if info.is_required() or isinstance(info.default, (bool, int, Decimal)):
                due = "must be there" if info.is_required() else f"`{str(info.default).lower()}`"
                assert row[2] == due, key


# --- laws ------------------------------------------------------------------------------------------------------------

BASE: dict[str, Any] = {
    "count": 3,
    "arrivals": {"process": "poisson", "rate_per_s": 4},
    "prompt_tokens": {"distribution": "fixed", "value": 9},
    "output_tokens": {"distribution": "fixed", "value": 2},
}


def laws(heading: str, columns: int) -> list[list[str]]:
    """The rows of the table of laws; durations have one as well, with fewer columns."""
    (found,) = (
        rows[1:] for rows in tables(read(ROOT / ENGLISH[1])) if (rows[0][0], len(rows[0])) == (heading, columns)
    )
    return found


@pytest.mark.parametrize(
    ("heading", "columns", "known"), [("process", 4, PROCESSES), ("distribution", 5, DISTRIBUTIONS),
                                      ("distribution", 3, DURATIONS)],
)  # fmt: skip
def test_every_law_has_a_row_and_a_line_that_is_of_this_law(heading: str, columns: int, known: dict[str, Any]) -> None:
    rows = laws(heading, columns)
    assert [codes(row[0]) for row in rows] == [[name] for name in known]
    for row in rows:
        (line,) = codes(row[-1])
        (law,) = tomllib.loads(line).values()
        assert law[heading] == codes(row[0])[0]


@pytest.mark.parametrize("row", [*laws("process", 4), *laws("distribution", 5)], ids=lambda row: row[0])
def test_the_line_of_a_law_generates_requests(row: list[str], tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,5,2\n1,6,3\n")
    line = tomllib.loads(codes(row[-1])[0], parse_float=Decimal)
    asked = sim.load({"schema": 1, "name": "law", "workload": BASE | line}).workload
    drawn: Workload = generate(asked, 0, tmp_path)
    assert len(drawn) == 3


@pytest.mark.parametrize("row", laws("distribution", 3), ids=lambda row: row[0])
def test_the_line_of_a_duration_is_one_of_clients(row: list[str]) -> None:
    line = tomllib.loads(codes(row[-1])[0], parse_float=Decimal)
    base = {key: value for key, value in BASE.items() if key != "arrivals"}
    asked = sim.load({"schema": 1, "name": "law", "workload": base | {"clients": {"users": 2, **line}}}).workload
    assert asked.clients is not None
    assert (asked.clients.think_ms.law.ns(3, stream(0, "think")) >= 0).all()


@pytest.mark.parametrize(
    ("heading", "columns", "known"), [("process", 4, PROCESSES), ("distribution", 5, DISTRIBUTIONS)]
)
def test_a_law_is_told_with_all_keys_that_it_must_have(heading: str, columns: int, known: dict[str, Any]) -> None:
    for row in laws(heading, columns):
        must = {field.name for field in fields(known[codes(row[0])[0]]) if field.default is MISSING}
        (law,) = tomllib.loads(codes(row[-1])[0]).values()
        assert must <= law.keys()


# --- formats, orders, predictors -------------------------------------------------------------------------------------


def test_every_format_has_a_row() -> None:
    assert [codes(row[0]) for row in table(ENGLISH[1], "format")] == [[name] for name in FORMATS]


def test_every_order_has_a_row_that_says_what_it_is() -> None:
    rows = table(ENGLISH[2], "`scheduler.order`")
    assert [codes(row[0]) for row in rows] == [[name] for name in ORDERS]
    for row, order in zip(rows, ORDERS.values(), strict=True):
        settings = [code for code in codes(row[4]) if code != "ageing"]
        assert row[2] == ("moves" if order.moves else "stands"), row[0]
        assert row[3] == ("yes" if order.preempts else "no"), row[0]
        assert settings == [name for name in order.uses if name != "ageing"], row[0]
        assert ("ageing" in row[4]) == ("ageing" not in order.uses), row[0]


def test_every_predictor_has_a_row() -> None:
    assert [codes(row[0]) for row in table(ENGLISH[2], "`scheduler.predictor`")] == [[name] for name in PREDICTORS]


@pytest.mark.parametrize("name", ["README.md", CHINESE])
def test_the_readmes_name_all_laws_formats_and_orders(name: str) -> None:
    heading = {"README.md": "Your own load", CHINESE: "自己的负载"}[name]
    first = {"README.md": "Who goes first", CHINESE: "谁先走"}[name]
    named = inline_code(section(read(ROOT / name), heading))
    assert {*PROCESSES, *DISTRIBUTIONS, *FORMATS} - {*named} == set()
    assert {*ORDERS} - {*inline_code(section(read(ROOT / name), first))} == set()


def test_what_a_request_of_a_trace_says_besides_is_explained() -> None:
    explained = codes(section(read(ROOT / "docs/results.md"), "A run"))
    assert {"asked", *ASKED.values(), "tenant", "prefixGroup", "pieces"} - {*explained} == set()
    columns = codes(section(read(ROOT / "docs/results.md"), "`requests.parquet`"))
    assert {"piece_ids", "piece_tokens"} <= {*columns}
