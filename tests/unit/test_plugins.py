"""Plug-ins: what somebody registers is there under its name, for as long as it should be, and runs like our own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugin_files import FIRST, GENERATED, Desk, desk
from tiny import checked, log, request, scenario, simulate, tokens

import sim
from sim import plugins
from sim.errors import PluginError, ResultError, ScenarioError
from sim.policies.orders import ORDERS, Order
from sim.policies.prefill_first import PrefillFirst
from sim.policies.presets import PRESETS, Axes, Preset
from sim.scenario import schema_json

__all__ = ["desk"]

TRIO = [request("A", 0, 4, 2), request("B", 1, 2, 2), request("C", 1, 8, 2)]


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    with plugins.apart():
        yield


def longest_prompt(request: Any, _given: Any) -> int:
    return -int(request.prompt_tokens)


# --- registering ------------------------------------------------------------------------------------------------------


def test_an_order_goes_by_its_key() -> None:
    """A runs to 4.25; of B (2 tokens) and C (8), which both wait by then, the longer prompt goes first."""
    sim.register("order", "longest-prompt", longest_prompt)
    run = simulate(TRIO, order="longest-prompt")
    assert log(run)[:3] == [(0, 4.25, "prefill A 4"), (4.25, 12.5, "prefill C 8"), (12.5, 14.75, "prefill B 2")]


def test_it_registers_as_a_decorator_and_leaves_the_thing_as_it_was() -> None:
    decorated = sim.register("order", "longest-prompt")(longest_prompt)
    assert decorated is longest_prompt
    assert ORDERS.source("longest-prompt") is not None


def test_what_was_there_from_the_start_stays_and_comes_first() -> None:
    before = list(ORDERS)
    sim.register("order", "a-new-one", longest_prompt)
    assert list(ORDERS) == [*before, "a-new-one"]
    with pytest.raises(KeyError):
        plugins.remove("order", "fcfs")


def test_behind_its_time_it_is_gone() -> None:
    before = list(ORDERS)
    with plugins.apart():
        sim.register("order", "mine", longest_prompt)
    assert list(ORDERS) == before
    with pytest.raises(ScenarioError, match='order = "mine": unknown; one of fcfs'):
        scenario(TRIO, order="mine")


@pytest.mark.parametrize(
    ("kind", "name", "thing", "said"),
    [
        ("order", "fcfs", longest_prompt, 'order "fcfs": there is one of this name already; another name'),
        ("victim", "auto", longest_prompt, 'victim "auto": there is one of this name already; another name'),
        ("policy", "all", longest_prompt, 'policy "all": there is one of this name already; another name'),
        (
            "ordre",
            "x",
            longest_prompt,
            (
                'ordre "x": no such kind; one of policy, composition, order, victim, predictor, '
                "cost, arrivals, lengths, trace format; did you mean 'order'?"
            ),
        ),
        ("order", "a b", longest_prompt, "order \"a b\": not a name; 1 to 64 of letters, digits, '.', '_', '-'"),
        (
            "order",
            "x",
            3,
            ('order "x": something of type int; a function of (request, given), or an Order of by, rule or queue'),
        ),
        (
            "order",
            "x",
            Order(),
            ('order "x": something of type Order; a function of (request, given), or an Order of by, rule or queue'),
        ),
        (
            "policy",
            "x",
            Axes("continuous", "mixed"),
            ('policy "x": something of type Axes, not a Preset: Preset(Axes(batching, composition, …), …)'),
        ),
        (
            "policy",
            "x",
            Preset(Axes("continuous", "mixd")),
            (
                'policy "x": composition "mixd": unknown; one of '
                "prefill-first, alternate, mixed, mixed-decode-first; did you mean 'mixed'?"
            ),
        ),
        (
            "cost",
            "x",
            dict,
            ('cost "x": not a dataclass; a class under @dataclass(frozen=True), whose fields are its keys'),
        ),
    ],
)
def test_what_can_t_be_registered_is_refused_where_it_was(kind: str, name: str, thing: object, said: str) -> None:
    line = sys._getframe().f_lineno + 2
    with pytest.raises(PluginError) as refused:
        sim.register(kind, name, thing)
    assert str(refused.value) in (
        f"plugin {__file__} (line {line}): {said}",
        f"plugin {__file__} (line {longest_prompt.__code__.co_firstlineno}): {said}",
    )


def test_only_an_order_has_flags() -> None:
    with pytest.raises(PluginError, match="moves: no such flag; an order may have moves, preempts, sinks"):
        sim.register("victim", "x", longest_prompt, moves=True)
    sim.register("order", "x", longest_prompt, moves=True)
    assert ORDERS["x"].moves


def test_a_name_registered_after_the_scenario_was_read_is_known_to_it() -> None:
    read = scenario(TRIO)
    sim.register("order", "mine", longest_prompt)
    assert read.with_overrides({"scheduler.order": "mine"}).scheduler.order == "mine"


# --- each kind --------------------------------------------------------------------------------------------------------


def test_a_policy_is_a_row_of_settings() -> None:
    sim.register("order", "longest-prompt", longest_prompt)
    sim.register("policy", "mine", Preset(Axes("continuous", "prefill-first", order="longest-prompt")))
    assert list(PRESETS)[-1] == "mine"
    assert log(simulate(TRIO, "mine")) == log(simulate(TRIO, order="longest-prompt"))


def test_a_composition_decides_like_one_of_ours() -> None:
    class Mine:
        def __init__(self, axes: Axes) -> None:
            self.inner = PrefillFirst(axes.prefills_per_job)

        def plan(self, view: Any, cycle: Any) -> None:
            self.inner.plan(view, cycle)

    sim.register("composition", "mine", Mine)
    assert log(simulate(TRIO, composition="mine")) == log(simulate(TRIO))


def test_a_composition_has_the_budget_that_the_scenario_gives() -> None:
    """Nine tokens at most: A's 4 and 5 of the other 8."""

    class Greedy:
        def plan(self, view: Any, cycle: Any) -> None:
            cycle.extend_running()
            while (head := cycle.next_waiting()) is not None and cycle.budget:
                if not cycle.prefill(head, min(cycle.rest(head), cycle.budget)):
                    return

    sim.register("composition", "greedy", lambda _axes: Greedy())
    run = simulate([request("A", 0, 4, 1), request("B", 0, 8, 1)], composition="greedy", token_budget=9)
    assert [what for *_, what in log(run)] == ["prefill A 4 B 5", "prefill B 3"]


def test_a_victim_is_whom_the_rule_picks() -> None:
    """Two requests of 4 + 4 tokens in 3 blocks of 4: when the third block is short, the first to be admitted goes."""
    sim.register("victim", "first", lambda running, _memory: next(iter(running)))
    document = {
        "schema": 1,
        "name": "tiny",
        "workload": {"requests": [request("A", 0, 4, 4), request("B", 0, 4, 4)]},
        "kv": {"blocks": 3, "block_tokens": 4, "victim": "first"},
        "scheduler": {"policy": "vllm"},
    }
    run = checked(sim.simulate(sim.load(document)))
    assert [event["preempted"] for event in run["events"] if event["preempted"]] == [["A"]]


def test_a_predictor_is_asked_once_for_each() -> None:
    asked: list[str] = []

    def predict(request: Any) -> int:
        asked.append(request.id)
        return {"A": 1, "B": 9, "C": 1}[request.id]

    sim.register("predictor", "mine", lambda _ground: predict)
    run = sim.simulate(scenario(TRIO, order="sjf", predictor="mine")).to_dict()["runs"][0]
    assert log(run)[1:3] == [(4.25, 12.5, "prefill C 8"), (12.5, 14.75, "prefill B 2")]  # 8 + 1 before 2 + 9
    assert sorted(asked) == ["A", "A", "B", "B", "C", "C"]  # by the run and, for its lists, by the JSON


def test_a_cost_model_says_how_long_a_job_takes(desk: Desk) -> None:
    """10 us a token and 1 us a job: prefills of 4, 8 and 2 tokens and a decode of all three."""
    desk.plugin(
        "@sim.register('cost', 'flat')\n@dataclass(frozen=True)\nclass Flat:\n us: int\n more: Decimal = Decimal(1)\n"
        " def job_ns(self, work):\n  tokens = work.prefill_tokens + work.decode_requests\n"
        "  return self.us * 1000 * tokens + int(self.more * 1000)\n"
    )
    desk.scenario("[device]\ncost = 'flat'\nus = 10\n")
    assert desk.run("--output", "r.json").code == 0
    events = json.loads(Path("r.json").read_text())["runs"][0]["events"]
    assert [(e["endMs"] * 1000 - e["startMs"] * 1000, e["kind"]) for e in events[:2]] == [
        (pytest.approx(41), "prefill"),
        (pytest.approx(11), "decode"),
    ]
    assert desk.headway("verify", "r.json", "--plugin", "mine.py").code == 0


def test_arrivals_and_lengths_draw_from_their_own_streams(desk: Desk) -> None:
    desk.plugin(
        "@sim.register('arrivals', 'pairs')\n@dataclass(frozen=True)\nclass Pairs:\n every_ms: Decimal\n"
        " def arrival_ns(self, count, random):\n"
        "  return np.arange(count) // 2 * int(self.every_ms * 10**6)\n"
        "@sim.register('lengths', 'coin')\n@dataclass(frozen=True)\nclass Coin:\n sides: list[int]\n"
        " def tokens(self, count, random):\n  return random.choice(self.sides, count)\n"
    )
    plugins.load("mine.py")
    text = GENERATED.replace('{process = "deterministic", rate_per_s = 100}', '{process = "pairs", every_ms = 2.5}')
    text = text.replace('{distribution = "fixed", value = 4}', '{distribution = "coin", sides = [3, 5]}')
    read = sim.load(desk.scenario("", text))
    result = sim.simulate(read)
    assert result.requests["arrival_ns"].tolist() == [0, 0, 2_500_000, 2_500_000, 5_000_000]
    assert set(result.requests["prompt_tokens"].tolist()) == {3, 5}
    again = sim.simulate(read.with_overrides({"workload.output_tokens.value": 3}))
    assert np.array_equal(result.requests["prompt_tokens"], again.requests["prompt_tokens"])


def test_a_trace_format_is_a_row(desk: Desk) -> None:
    desk.plugin(
        "from sim.workload.trace_layout import Layout\n"
        "sim.register('trace format', 'ours', Layout('csv', 'a CSV file of ours', "
        "{'arrival': 't', 'prompt_tokens': 'in', 'output_tokens': 'out'}, unit='s'))\n"
    )
    Path("t.csv").write_text("t,in,out\n1,3,2\n3.5,4,1\n")
    answer = desk.headway("trace", "t.csv", "--format", "ours", "--plugin", "mine.py", "--json")
    assert (answer.code, json.loads(answer.out)["spanMs"]) == (0, 2500)
    assert "no format has these" in desk.headway("trace", "t.csv", "--plugin", "mine.py").err  # only by its name


# --- keys of one's own ------------------------------------------------------------------------------------------------

KEYS = """
@sim.register("cost", "mine")
@dataclass(frozen=True)
class Mine:
    whole: int
    exact: Decimal = Decimal("0.5")
    rough: float = 0.5
    word: str = "x"
    yes: bool = True
    many: list[int] = ()
    maybe: int | None = None
    def __post_init__(self):
        if self.whole > 9:
            raise ValueError("whole: at most 9")
    def job_ns(self, work):
        return 1000 * self.whole
"""


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("", "tiny.toml (line 8): device.whole: missing"),
        (
            "whole = 1.5",
            (
                "tiny.toml (line 10): device.whole = 1.5: expected an integer, got a number with a decimal point "
                "or an exponent"
            ),
        ),
        (
            "whole = '1'",
            ('tiny.toml (line 10): device.whole = "1": expected an integer, got a string; write 1 without quotes'),
        ),
        ("whole = true", "tiny.toml (line 10): device.whole = true: expected an integer, got a boolean"),
        ("whole = 1\nexact = 'a'", 'tiny.toml (line 11): device.exact = "a": expected a number, got a string'),
        ("whole = 1\nexact = nan", "tiny.toml (line 11): device.exact = nan: not finite; must be a finite number"),
        ("whole = 1\nexact = 1e99", "tiny.toml (line 11): device.exact = 1e+99: out of range; between 1e-40 and 1e40"),
        ("whole = 1\nword = 1", "tiny.toml (line 11): device.word = 1: expected a string, got an integer"),
        ("whole = 1\nyes = 1", "tiny.toml (line 11): device.yes = 1: expected true or false, got an integer"),
        ("whole = 1\nmany = 1", "tiny.toml (line 11): device.many = 1: expected a list, got an integer"),
        ("whole = 1\nmany = [1, 'a']", 'tiny.toml (line 11): device.many[1] = "a": expected an integer, got a string'),
        (
            "whole = 1\nwhoel = 2",
            "tiny.toml (line 11): device.whoel = 2: unknown key in [device]; did you mean 'whole'?",
        ),
        (
            "whole = 1\njob_ms = 2",
            (
                "tiny.toml (line 11): device.job_ms = 2: unknown key in [device]; one of cost, whole, exact, "
                "rough, word, yes, many, maybe"
            ),
        ),
        ("whole = 10", "tiny.toml (line 8): device: whole: at most 9"),
    ],
)
def test_keys_are_checked_by_their_annotations(desk: Desk, keys: str, said: str) -> None:
    desk.plugin(KEYS)
    desk.scenario(f"[device]\ncost = 'mine'\n{keys}\n")
    answer = desk.run()
    assert (answer.code, answer.err.splitlines()) == (2, [said])


def test_all_keys_are_recorded_and_make_the_same_run_again(desk: Desk) -> None:
    desk.plugin(KEYS)
    desk.scenario("[device]\ncost = 'mine'\nwhole = 1\nmany = [1, 2]\n")
    assert desk.run("--output", "out").code == 0
    assert desk.headway("verify", "out", "--plugin", "mine.py").code == 0
    settings = json.loads(Path("out/result.json").read_text())["runs"][0]["settings"]
    assert {key: value for key, value in settings.items() if key.startswith("device.")} == {
        "device.cost": "mine",
        "device.whole": 1,
        "device.exact": 0.5,
        "device.rough": 0.5,
        "device.word": "x",
        "device.yes": True,
        "device.many": [1, 2],
        "device.maybe": None,
    }
    again = desk.headway("run", "out/fcfs/scenario.toml", "--plugin", "mine.py", "--output", "again")
    assert again.code == 0
    tables = sorted(path.name for path in Path("out/fcfs").glob("*.parquet"))
    assert [Path("out/fcfs", name).read_bytes() for name in tables] == [
        Path("again/fcfs", name).read_bytes() for name in tables
    ]


def test_its_keys_can_be_set_from_outside(desk: Desk) -> None:
    desk.plugin(KEYS)
    desk.scenario()
    answer = desk.run("--set", "device.cost=mine", "--set", "device.whole=3", "--json")
    assert json.loads(answer.out)["runs"][0]["settings"]["device.whole"] == 3
    assert (
        desk.run("--set", "device.whoel=3").err == "--set device.whoel = 3: unknown key; did you mean 'device.whole'?\n"
    )


def test_a_field_that_can_t_be_a_key_is_refused(desk: Desk) -> None:
    desk.plugin("@sim.register('cost', 'mine')\n@dataclass\nclass Mine:\n x: dict\n def job_ns(self, work): return 1\n")
    desk.scenario()
    assert desk.run().err == (
        f"plugin mine.py (line {FIRST}): cost \"mine\": field x: <class 'dict'> can't be a key; int, Decimal, float, "
        "bool, str, a list of one of them, or one of them or None\n"
    )


def test_the_schema_knows_its_name_and_keys(desk: Desk) -> None:
    desk.plugin(KEYS)
    plugins.load("mine.py")
    device = schema_json()["$defs"]["Device"]["properties"]
    assert device["cost"]["enum"] == ["linear", "mine"]
    assert device["whole"]["type"] == "integer"


# --- files ------------------------------------------------------------------------------------------------------------


def order_file(desk: Desk, name: str = "mine.py", order: str = "mine") -> str:
    return desk.plugin(
        f"def key(request, given):\n return -request.prompt_tokens\nsim.register('order', '{order}', key)\n", name
    )


def test_what_a_file_brings_ends_with_the_command(desk: Desk) -> None:
    order_file(desk)
    desk.scenario("scheduler.order = 'mine'")
    assert desk.run().code == 0
    assert "mine" not in ORDERS
    assert sorted(path.name for path in desk.folder.iterdir()) == ["mine.py", "tiny.toml"]  # no __pycache__


def test_several_files(desk: Desk) -> None:
    order_file(desk)
    order_file(desk, "other.py", "other")
    answer = desk.headway("list", "--plugin", "mine.py", "--plugin", "other.py", "--json")
    assert [(each["name"], each["file"], each["line"]) for each in json.loads(answer.out)["plugins"]] == [
        ("mine", "mine.py", FIRST + 2),
        ("other", "other.py", FIRST + 2),
    ]


def test_two_of_one_name(desk: Desk) -> None:
    order_file(desk)
    order_file(desk, "other.py")
    answer = desk.headway("list", "--plugin", "mine.py", "--plugin", "other.py")
    assert (
        answer.err
        == f'plugin other.py (line {FIRST + 2}): order "mine": there is one of this name already; another name\n'
    )
    assert (answer.code, "mine" in ORDERS) == (2, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (", f"plugin mine.py (line {FIRST}): it can't be loaded: SyntaxError: '(' was never closed"),
        (
            "x = 1\n  y = 2",
            f"plugin mine.py (line {FIRST + 1}): it can't be loaded: IndentationError: unexpected indent",
        ),
        (
            "import no_such_module",
            (
                f"plugin mine.py (line {FIRST}): it can't be loaded: ModuleNotFoundError: No module named "
                "'no_such_module'"
            ),
        ),
        (
            "def f(): return 1 // 0\n\nf()",
            (
                f"plugin mine.py (line {FIRST}): it can't be loaded: ZeroDivisionError: integer "
                "division or modulo by zero"
            ),
        ),
        ("raise SystemExit(3)", f"plugin mine.py (line {FIRST}): it can't be loaded: SystemExit: 3"),
    ],
)
def test_a_file_that_can_t_be_loaded(desk: Desk, text: str, said: str) -> None:
    desk.plugin(text)
    for command in (["run", "mixed"], ["verify", "nothing"], ["list"], ["schema"], ["trace", "nothing"]):
        assert desk.headway(*command, "--plugin", "mine.py") == (2, "", f"{said}\n")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("none.py", "plugin none.py: can't be read: no such file or directory"),
        (".", "plugin .: is a directory; must be a regular file"),
        ("a\0.py", "plugin a\\u0000.py: not a file name: it contains a NUL character"),
        ("", "--plugin: empty; a value"),
    ],
)
def test_a_file_that_is_none(desk: Desk, file: str, said: str) -> None:
    assert desk.headway("list", "--plugin", file) == (2, "", f"{said}\n")


def test_a_file_given_twice(desk: Desk) -> None:
    order_file(desk)
    said = '--plugin "mine.py": given twice; each at most once\n'
    assert desk.headway("list", "--plugin", "mine.py", "--plugin", "mine.py") == (2, "", said)


def test_a_file_that_is_loaded_half_leaves_nothing(desk: Desk) -> None:
    order_file(desk)
    with Path("mine.py").open("a") as file:
        file.write("1 // 0\n")
    with pytest.raises(PluginError):
        plugins.load("mine.py")
    assert "mine" not in ORDERS


def test_one_that_loads_for_ever_is_stopped(desk: Desk) -> None:
    desk.plugin("x = 1\nwhile True: x += 1\n")
    answer = desk.headway("list", "--plugin", "mine.py", "--plugin-seconds", "0.2")
    said = f"plugin mine.py (line {FIRST + 1}): it can't be loaded: no answer after 0.2 s; it was stopped there\n"
    assert answer == (3, "", said)


def test_what_it_prints_does_not_mix_with_the_answer(desk: Desk) -> None:
    desk.plugin(
        "print('loaded')\ndef key(request, given):\n print('asked')\n return 0\nsim.register('order', 'mine', key)\n"
    )
    desk.scenario("scheduler.order = 'mine'")
    answer = desk.run("--json")
    assert json.loads(answer.out)["schema"] == "headway.result/1"
    assert answer.err.splitlines()[:2] == ["loaded", "asked"]


def test_no_scenario_names_a_plug_in(desk: Desk) -> None:
    order_file(desk)
    desk.scenario('plugin = "mine.py"\n')
    assert 'plugin = "mine.py": unknown key in the file' in desk.headway("run", "tiny.toml").err


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(desk: Desk) -> Desk:
    """A result ``r.json`` of a plug-in's order."""
    order_file(desk)
    desk.scenario("scheduler.order = 'mine'")
    assert desk.run("--output", "r.json").code == 0
    return desk


def test_a_result_says_which_file_it_went_by(saved: Desk) -> None:
    provenance = json.loads(Path("r.json").read_text())["provenance"]
    digest = sha256((saved.folder / "mine.py").read_bytes()).hexdigest()
    assert provenance["plugins"] == [{"file": "mine.py", "sha256": digest}]


def test_a_result_of_our_own_rules_does_not_though_a_file_was_given(desk: Desk) -> None:
    order_file(desk)
    desk.scenario()
    assert desk.run("--output", "r.json").code == 0
    assert "plugins" not in json.loads(Path("r.json").read_text())["provenance"]


def test_verify_says_what_it_leaves_out(saved: Desk) -> None:
    answer = saved.headway("verify", "r.json", "--plugin", "mine.py")
    assert answer.code == 0
    assert answer.out.splitlines()[0] == (
        'left out: runs[0] fcfs, every decision is made again: order "mine" is a plug-in\'s, whose rule only it knows'
    )


def test_verify_without_the_plug_in_asks_for_it(saved: Desk) -> None:
    answer = saved.headway("verify", "r.json")
    assert (answer.code, answer.out) == (2, "")
    assert 'scheduler.order = "mine": unknown; one of fcfs, ' in answer.err
    assert answer.err.endswith("; a plug-in's? give it with --plugin FILE\n")
    with pytest.raises(ResultError, match="give it with --plugin FILE"):
        sim.open_result("r.json")


def test_verify_refuses_another_plug_in_of_the_same_name(saved: Desk) -> None:
    was = sha256((saved.folder / "mine.py").read_bytes()).hexdigest()
    with (saved.folder / "mine.py").open("a") as file:
        file.write("# another\n")
    answer = saved.headway("verify", "r.json", "--plugin", "mine.py")
    assert answer == (
        2,
        "",
        (
            f'order "mine" of plugin mine.py (line {FIRST + 2}): not the file that this was made with, which '
            f"had sha256 {was}; give that one\n"
        ),
    )


def test_verify_misses_a_plug_in_that_the_result_does_not_name(saved: Desk) -> None:
    document = json.loads(Path("r.json").read_text(), parse_float=str)
    text = Path("r.json").read_text()
    listed = text[text.index('"plugins"') : text.index("]", text.index('"plugins"')) + 1]
    assert document["provenance"]["plugins"]
    Path("r.json").write_text(text.replace(f", {listed}", "").replace(f",\n  {listed}", "").replace(f",{listed}", ""))
    assert "plugins" not in json.loads(Path("r.json").read_text())["provenance"]
    answer = saved.headway("verify", "r.json", "--plugin", "mine.py")
    assert answer.code == 1
    assert (
        'provenance, plugins, of order "mine": provenance is that of the scenario: expected mine.py, found none'
        in answer.out
    )


@pytest.mark.parametrize("found", ["emittedTokens", "startMs"])
def test_verify_still_finds_what_is_wrong(saved: Desk, found: str) -> None:
    """A number that is one too large, where it stands first."""
    text = Path("r.json").read_text()
    start = text.index(f'"{found}": ') + len(found) + 4
    end = next(place for place in range(start, len(text)) if text[place] in ",}")
    Path("r.json").write_text(text[:start] + str(Decimal(text[start:end]) + 1) + text[end:])
    assert saved.headway("verify", "r.json", "--plugin", "mine.py").code == 1


def test_a_victim_of_somebody_s_own_leaves_out_only_the_victims(desk: Desk) -> None:
    desk.plugin("sim.register('victim', 'mine', lambda running, memory: next(iter(running)))\n")
    desk.scenario("scheduler.policy = 'vllm'\n[kv]\nblocks = 3\nblock_tokens = 4\nvictim = 'mine'\n")
    assert desk.run("--output", "r.json").code == 0
    lines = desk.headway("verify", "r.json", "--plugin", "mine.py").out.splitlines()
    assert lines[0] == (
        'left out: runs[0] vllm, victims are those of the rule: victim "mine" is a plug-in\'s, whose rule only it knows'
    )
    assert lines[1].startswith("consistent: ")


# --- spans ------------------------------------------------------------------------------------------------------------


def both_ways(document: dict[str, Any]) -> None:
    """With spans and without, the same."""
    read = sim.load(document)
    one, other = sim.simulate(read).to_dict(), sim.simulate(read, spans=False, cohort=False).to_dict()
    for each in (one, other):
        del each["runs"][0]["work"]
    assert one == other


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("preemptive", [False, True])
def test_an_order_of_somebody_s_own_is_exact_under_spans(moves: bool, preemptive: bool) -> None:
    """By its prompt, or by how long it has waited for it: an order that moves, as hrrn does."""

    def key(request: Any, given: Any) -> Any:
        waited = given.moment.now_ns - request.arrival_ns if moves else 0
        return (request.priority, -waited // request.prompt_tokens, request.prompt_tokens)

    sim.register("order", "mine", key, moves=moves, preempts=True)
    rng = np.random.default_rng(5)
    requests = [
        request(f"r{i}", i * 3, int(rng.integers(1, 9)), int(rng.integers(1, 30)), priority=int(rng.integers(3)))
        for i in range(60)
    ]
    both_ways(
        {
            "schema": 1,
            "name": "tiny",
            "workload": {"requests": requests},
            "kv": {"blocks": 40, "block_tokens": 4},
            "scheduler": {
                "policy": "vllm",
                "order": "mine",
                "preemptive": preemptive,
                "max_running": 4,
                "token_budget": 16,
            },
        }
    )


@pytest.mark.parametrize("promise", ["", " stable_for = 2**62\n"])
def test_a_policy_of_somebody_s_own_is_exact_under_spans(desk: Desk, promise: str) -> None:
    desk.plugin(
        f"class Mine:\n{promise} def plan(self, view, cycle):\n  head = cycle.next_prefill()\n"
        "  if head is None or not cycle.prefill(head, cycle.rest(head)):\n   cycle.decode_all()\n"
        "sim.register('composition', 'mine', lambda axes: Mine())\n"
    )
    plugins.load("mine.py")
    both_ways(
        {
            "schema": 1,
            "name": "tiny",
            "workload": {"requests": [request(f"r{i}", i * 7, 3, 20) for i in range(30)]},
            "scheduler": {"composition": "mine", "max_running": 5},
        }
    )


# --- installed packages -----------------------------------------------------------------------------------------------


@pytest.fixture
def installed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A package whose entry point brings order "theirs", and one that is broken."""
    desk.plugin(
        "def bring():\n sim.register('order', 'theirs', lambda request, given: -request.prompt_tokens)\n", "theirs.py"
    )
    desk.plugin("1 // 0\n", "broken.py")
    points = [EntryPoint("theirs", "theirs:bring", plugins.GROUP), EntryPoint("broken", "broken", plugins.GROUP)]
    monkeypatch.setattr(plugins, "installed", lambda: points)
    monkeypatch.setattr(plugins, "_LOADED", [])
    monkeypatch.syspath_prepend(str(desk.folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield desk
    for name in ("theirs", "broken"):
        sys.modules.pop(name, None)


def test_an_unknown_name_is_looked_for_in_installed_packages(installed: Desk) -> None:
    installed.scenario("scheduler.order = 'theirs'")
    assert sim.load("tiny.toml").scheduler.order == "theirs"


def test_what_nobody_has_is_refused_and_what_is_broken_named(installed: Desk) -> None:
    installed.scenario("scheduler.order = 'nobody-s'")
    with pytest.raises(ScenarioError) as refused:
        sim.load("tiny.toml")
    first, second = refused.value.args
    assert "unknown; one of fcfs" in first
    assert second == (
        f'plugin {installed.folder}/broken.py (line 5): entry point "broken" of headway.plugins can\'t be loaded: '
        "ZeroDivisionError: integer division or modulo by zero"
    )


def test_the_command_has_them_and_goes_on_without_a_broken_one(installed: Desk) -> None:
    installed.scenario("scheduler.order = 'theirs'")
    answer = installed.headway("run", "tiny.toml", "--lang", "en")
    assert answer.code == 0
    assert answer.err.startswith(f"note: plugin {installed.folder}/broken.py (line 5): ")


def test_a_scenario_that_is_right_looks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "installed", lambda: 1 / 0)
    assert sim.load("mixed").name == "mixed"


# --- in Python --------------------------------------------------------------------------------------------------------


def test_a_script_registers_and_runs(desk: Desk) -> None:
    desk.scenario("scheduler.order = 'mine'")
    desk.plugin(
        "sim.register('order', 'mine', lambda request, given: -request.prompt_tokens)\n"
        "print(sim.simulate(sim.load('tiny.toml')).provenance['plugins'][0]['file'])\n",
        "script.py",
    )
    run = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(sim.__file__).parents[1])},
    )
    assert run.stdout == "script.py\n"


def test_tokens_come_as_by_hand() -> None:
    """The trio under the longest prompt first: prefills to 4.25, 12.5, 14.75, then one decode of all three, 1.25 ms."""
    sim.register("order", "mine", longest_prompt)
    assert tokens(simulate(TRIO, order="mine")) == {"A": [4.25, 16.0], "B": [14.75, 16.0], "C": [12.5, 16.0]}


def test_slack_goes_by_the_cost_model_that_the_scenario_has(desk: Desk) -> None:
    """A decode takes 1 us for each token of context. ``verify`` adds up what is left to do token by token."""
    desk.plugin("@sim.register('cost', 'reads')\n@dataclass(frozen=True)\nclass Reads:\n"
                " def job_ns(self, work):\n  return 1000 * (work.prefill_tokens + work.context_tokens)\n")  # fmt: skip
    plugins.load("mine.py")
    requests = [request(f"r{i}", i / 100, 5 + i % 3, 3 + i % 5, deadline_ms=0.3 + i % 4 / 10) for i in range(12)]
    run = checked(sim.simulate(scenario(requests, device={"cost": "reads"}, order="least-slack", max_running=2)))
    assert run["summary"]["finished"] == 12
    assert run["events"][0]["endMs"] == 0.005


# --- beside other parts -----------------------------------------------------------------------------------------------

FLAT = ("@sim.register('cost', 'flat')\n@dataclass(frozen=True)\nclass Flat:\n"
        " def job_ns(self, work):\n  return 1000 * (work.prefill_tokens + work.decode_requests)\n")  # fmt: skip


def test_theory_knows_nothing_of_a_server_that_somebody_else_wrote(desk: Desk) -> None:
    desk.plugin(FLAT)
    desk.scenario("[device]\ncost = 'flat'\n", GENERATED)
    answer = desk.headway("theory", "tiny.toml", "--plugin", "mine.py", "--json", "--replications", "1")
    assert answer.code == 0
    document = json.loads(answer.out)
    assert document["results"] == []
    assert document["saturationRatePerS"] is None
    assert {each["why"] for each in document["notApplicable"]} == {
        "cost flat is a plug-in's: what it does is not known here"
    }


def test_faults_of_the_linear_device_are_not_put_into_another(desk: Desk) -> None:
    desk.plugin(FLAT)
    desk.scenario("device = {cost = 'flat'}")
    assert desk.run("--output", "r.json").code == 0
    answer = desk.headway("verify", "r.json", "--plugin", "mine.py", "--inject", "all", "--json")
    tried = [fault["name"] for fault in json.loads(answer.out)["tried"]]
    assert answer.code == 0
    assert "changed-device" not in tried
    assert len(tried) > 10
