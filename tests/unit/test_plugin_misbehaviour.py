"""A plug-in that raises, answers nonsense or never answers is named with its file and line, and nothing is written.

Each case is a plug-in, what the scenario says to use it, and the line that the command refuses with. ``(line N)``
counts from the first line of the case.
"""

import re
from typing import NamedTuple

import pytest
from plugin_files import FIRST, GENERATED, SCENARIO, Desk, desk

__all__ = ["desk"]

A0 = "<A: 0 of 4 tokens computed, 0 emitted>"
POOL = "\n[kv]\nblocks = 3\nblock_tokens = 4\n"


class Case(NamedTuple):
    plugin: str
    scenario: str
    said: str
    base: str = SCENARIO
    code: int = 2


def order(body: str, said: str, line: int = 2, flags: str = "", code: int = 2) -> Case:
    plugin = f"def mine(request, given):\n{body}\nsim.register('order', 'mine', mine{flags})\n"
    return Case(plugin, "scheduler.order = 'mine'", f'(line {line}): order "mine": {said}', code=code)


def policy(body: str, said: str, line: int = 3, code: int = 2, more: str = "") -> Case:
    plugin = f"class Mine:\n def plan(self, view, cycle):\n{body}\n"
    plugin += "sim.register('composition', 'mine', lambda axes: Mine())\n"
    said = f'(line {line}): composition "mine": {said}'
    return Case(plugin, f"scheduler.composition = 'mine'\n{more}", said, code=code)


def victim(body: str, said: str, line: int = 2) -> Case:
    plugin = f"def mine(running, memory):\n{body}\nsim.register('victim', 'mine', mine)\n"
    return Case(plugin, f"scheduler.policy = 'vllm'{POOL}victim = 'mine'", f'(line {line}): victim "mine": {said}')


def cost(body: str, said: str, line: int = 5) -> Case:
    plugin = "@sim.register('cost', 'mine')\n@dataclass(frozen=True)\nclass Mine:\n"
    plugin += f" def job_ns(self, work):\n{body}\n"
    return Case(plugin, "device.cost = 'mine'", f'(line {line}): cost "mine": {said}')


def law(kind: str, method: str, body: str, said: str, line: int = 5) -> Case:
    plugin = f"@sim.register('{kind}', 'mine')\n@dataclass(frozen=True)\nclass Mine:\n"
    plugin += f" def {method}(self, count, random):\n{body}\n"
    base = GENERATED.replace("deterministic", "mine").replace(", rate_per_s = 100", "") if kind == "arrivals" else (
        GENERATED.replace('{distribution = "fixed", value = 4}', '{distribution = "mine"}'))  # fmt: skip
    return Case(plugin, "", f'(line {line}): {kind} "mine": {said}', base)


def predictor(body: str, said: str, line: int = 2) -> Case:
    plugin = f"def mine(request):\n{body}\nsim.register('predictor', 'mine', lambda ground: mine)\n"
    scheduler = "scheduler.order = 'sjf'\nscheduler.predictor = 'mine'"
    return Case(plugin, scheduler, f'(line {line}): predictor "mine": {said}')


W = "Work(prefill_tokens=4, decode_requests=0, context_tokens=0, blocks=0)"
CASES = {
    # raises
    "order raises": order(" return 1 // 0", "ZeroDivisionError: integer division or modulo by zero"),
    "order raises without words": order(" raise KeyError", "KeyError"),
    "order stops the iteration": order(" raise StopIteration(1)", "StopIteration: 1"),
    "order leaves": order(" raise SystemExit(3)", "SystemExit: 3"),
    "order raises many lines": order(" raise ValueError('a\\nb')", "ValueError: a\\nb"),
    "policy raises": policy("  view.no_such_thing", "AttributeError: 'View' object has no attribute 'no_such_thing'"),
    "policy goes too deep": policy("  self.plan(view, cycle)", "RecursionError: maximum recursion depth exceeded"),
    "victim raises": victim(" return running[0]", "TypeError: 'dict_values' object is not subscriptable"),
    "cost raises": cost("  return 1 / work.blocks", "ZeroDivisionError: division by zero"),
    "arrivals raise": law(
        "arrivals", "arrival_ns", "  return count.x", "AttributeError: 'int' object has no attribute 'x'"
    ),
    "lengths raise": law("lengths", "tokens", "  return random.x()", "AttributeError: 'numpy.random._generator."),
    "predictor raises": predictor(" return {}[0]", "KeyError: 0"),
    # keys of an order
    "key is NaN": order(" return float('nan')", f"answers nan for {A0}; numbers that are not NaN, or texts", 1),
    "key is Decimal's NaN": order(" return Decimal('sNaN')", f"answers Decimal('sNaN') for {A0}; numbers", 1),
    "key is nothing": order(" pass", f"answers None for {A0}; numbers that are not NaN, or texts", 1),
    "key can't be compared": order(" return (1, {})", f"answers (1, {{}}) for {A0}; numbers", 1),
    "key is complex": order(" return 1j", f"answers 1j for {A0}; numbers", 1),
    "key changes its type": order(
        " return 1 if request.id == 'A' else 'x'",
        "answers 'x' for <B: 0 of 8 tokens computed, 0 emitted>; before, its keys were of another kind: 1 of number", 1,
    ),
    "key changes its length": order(
        " return (1,) if request.id == 'A' else (1, 2)",
        "answers (1, 2) for <B: 0 of 8 tokens computed, 0 emitted>; before, its keys were of another kind: 1 of number",
        1,
    ),
    "key moves in an order that does not": order(
        " return given.moment.now_ns",
        "AttributeError: given.moment changes while requests wait; register the order with moves=True",
    ),
    "key goes by the cache": order(
        " return given.cached(request)", "AttributeError: given.cached: only order lpm can go by the cache",
        flags=", moves=True",
    ),
    # what a policy does
    "a request twice": policy(
        "  h = cycle.next_prefill()\n  cycle.prefill(h, 2)\n  cycle.prefill(h, 2)",
        "a policy schedules 2 tokens, 4 are left to compute, of <A: 0 of 4 tokens computed, 0 emitted>, "
        "which is in this job already", 5,
    ),
    "more tokens than are left": policy(
        "  cycle.prefill(cycle.next_prefill(), 5)", f"a policy schedules 5 tokens, 4 are left to compute, of {A0}"
    ),
    "tokens that are no integer": policy(
        "  cycle.prefill(cycle.next_prefill(), 2.0)", f"a policy schedules 2.0 tokens, 4 are left to compute, of {A0}"
    ),
    "tokens that are true": policy(
        "  cycle.prefill(cycle.next_prefill(), True)", f"a policy schedules True tokens, 4 are left to compute, of {A0}"
    ),
    "memory for more than there is": policy(
        "  cycle.admit(cycle.next_waiting(), 99)", f"a policy schedules 99 tokens, 4 are left to compute, of {A0}"
    ),
    "more than the budget": policy(
        "  h = cycle.next_prefill()\n  cycle.admit(h, 4)\n  cycle.extend(h, 4)",
        f"a policy schedules 4 tokens of {A0}, 3 are left of the budget", 5,
        more="scheduler.token_budget = 3\nscheduler.chunked_prefill = true",
    ),
    "a request that is none": policy(
        "  cycle.prefill('A', 1)", "AttributeError: 'str' object has no attribute 'known'", 3
    ),
    "a plan that is none": Case(
        "sim.register('composition', 'mine', lambda axes: 3)\n", "scheduler.composition = 'mine'",
        '(line 1): composition "mine": made something of type int, which has no plan(view, cycle)',
    ),
    "a promise that is none": Case(
        "class Mine:\n stable_for = 0\n def plan(self, view, cycle): pass\n"
        "sim.register('composition', 'mine', lambda axes: Mine())\n",
        "scheduler.composition = 'mine'",
        '(line 4): composition "mine": stable_for = 0: not a number of decisions; an integer from 1 on',
    ),
    # victims
    "a victim that is none": victim(" return None", "answers None, which does not run", 1),
    "a victim that waits": victim(
        " from sim.request import Request, RequestSpec\n return Request(next(iter(running)).spec)",
        "answers <B: 0 of 8 tokens computed, 0 emitted>, which does not run", 1,
    ),
    # times
    "a time that is NaN": cost("  return float('nan')", f"job_ns answers nan for {W}; whole ns, from 0 on", 4),
    "a time before 0": cost("  return -1", f"job_ns answers -1 for {W}; whole ns, from 0 on", 4),
    "a time between two ns": cost("  return 1.5", f"job_ns answers 1.5 for {W}; whole ns, from 0 on", 4),
    "a time that is a float": cost("  return 1e6", f"job_ns answers 1000000.0 for {W}; whole ns, from 0 on", 4),
    "a time beyond the clock": cost("  return 2**70", f"job_ns answers {2**70} for {W}; whole ns, from 0 on", 4),
    "no time": cost("  pass", f"job_ns answers None for {W}; whole ns, from 0 on", 4),
    # arrivals
    "time goes back": law(
        "arrivals", "arrival_ns", "  return np.array([0, 5, 4, 7, 9])",
        "arrival_ns goes back in time: number 2 (from 0) is 4 ns after 5 ns; ascending", 4,
    ),
    "time begins before 0": law(
        "arrivals", "arrival_ns", "  return np.arange(count) - 1", "arrival_ns answers -1 ns as the first arrival", 4
    ),
    "arrivals in floats": law(
        "arrivals", "arrival_ns", "  return np.full(count, np.nan)",
        "arrival_ns answers numbers of type float64; whole numbers (int64)", 4,
    ),
    "too few arrivals": law(
        "arrivals", "arrival_ns", "  return np.arange(3)", "arrival_ns answers an array of shape (3,); 5 numbers", 4
    ),
    "arrivals in two columns": law(
        "arrivals", "arrival_ns", "  return np.zeros((5, 1), int)",
        "arrival_ns answers an array of shape (5, 1); 5 numbers", 4,
    ),
    "no arrivals": law("arrivals", "arrival_ns", "  pass", "arrival_ns answers an array of shape (); 5 numbers", 4),
    "arrivals beyond the clock": law(
        "arrivals", "arrival_ns", "  return np.full(count, 2**62)", f"arrival_ns ends at {2**62} ns; at most", 4
    ),
    # lengths
    "no tokens": law(
        "lengths", "tokens", "  return np.arange(count)", "tokens answers 0 tokens for number 0 (from 0); 1 to", 4
    ),
    "too many tokens": law(
        "lengths", "tokens", "  return np.full(count, 2**40)",
        f"tokens answers {2**40} tokens for number 0 (from 0); 1 to 2147483647", 4,
    ),
    "lengths in floats": law(
        "lengths", "tokens", "  return random.random(count)",
        "tokens answers numbers of type float64; whole numbers (int64)", 4,
    ),
    "too many lengths": law(
        "lengths", "tokens", "  return [1] * 9", "tokens answers an array of shape (9,); 5 numbers", 4
    ),
    # predictors
    "nothing is expected": predictor(" return 0", f"expects 0 tokens of {A0}; an integer from 1 to 2147483647", 1),
    "half a token is expected": predictor(" return 2.5", f"expects 2.5 tokens of {A0}; an integer from 1", 1),
    "a predictor that is none": Case(
        "sim.register('predictor', 'mine', lambda ground: 3)\n",
        "scheduler.order = 'sjf'\nscheduler.predictor = 'mine'",
        '(line 1): predictor "mine": made something of type int, not a function of (request)',
    ),
}  # fmt: skip


def answers(desk: Desk, case: Case, *arguments: str) -> str:
    """What the command says of the plug-in, its lines counted from the first of the case; nothing is written."""
    desk.plugin(case.plugin)
    desk.scenario(case.scenario, case.base)
    answer = desk.run("--output", "result.json", *arguments)
    assert (answer.code, answer.out) == (case.code, "")
    assert sorted(path.name for path in desk.folder.iterdir()) == ["mine.py", "tiny.toml"]
    said = answer.err.splitlines()[-1]
    assert said.isprintable()
    return re.sub(r"\(line (\d+)\)", lambda found: f"(line {int(found[1]) - FIRST + 1})", said, count=1)


@pytest.mark.parametrize("name", CASES)
def test_it_is_named_with_its_file_and_line(desk: Desk, name: str) -> None:
    said = answers(desk, CASES[name])
    assert said.startswith(f"plugin mine.py {CASES[name].said}")


def test_debug_shows_its_traceback(desk: Desk) -> None:
    desk.plugin("def mine(request, given):\n return 1 // 0\nsim.register('order', 'mine', mine)\n")
    desk.scenario("scheduler.order = 'mine'")
    answer = desk.run("--debug")
    assert answer.code == 2
    assert f'File "mine.py", line {FIRST + 1}, in mine' in answer.err


# --- it never answers -------------------------------------------------------------------------------------------------

LOOPS = {
    "order": order(" n = 0\n while True:\n  n += 1", "", 3),
    "order that catches all": order(" while True:\n  try: n = 1\n  except Exception: pass", "", 2),
    "policy": policy("  while True:\n   cycle.decode_all()", "", 4),
    "policy that only looks": policy("  while cycle.next_waiting() is not None: pass", "", 3),
    "cost": cost("  while True: pass", ""),
    "arrivals": law("arrivals", "arrival_ns", "  while True: pass", ""),
    "lengths": law("lengths", "tokens", "  while True: pass", ""),
    "predictor": predictor(" while True: pass", ""),
    "victim": victim(" while True: pass", ""),
}


@pytest.mark.parametrize("name", LOOPS)
def test_one_that_goes_on_for_ever_is_stopped(desk: Desk, name: str) -> None:
    case = LOOPS[name]
    said = answers(desk, case._replace(code=3), "--plugin-seconds", "0.2")
    first = int(case.said[len("(line ") : case.said.index(")")])
    line = int(said[len("plugin mine.py (line ") : said.index(")")])
    assert first - 1 <= line <= first + 2  # somewhere in the loop
    assert said.endswith(": no answer after 0.2 s; it was stopped there")
    assert case.said.split(": ")[1] in said


def test_a_call_that_takes_its_time_is_not_stopped(desk: Desk) -> None:
    """Three calls of 0.1 s each: each by itself is in time."""
    desk.plugin("import time\ndef mine(request, given):\n time.sleep(0.1)\n return 0\n"
                "sim.register('order', 'mine', mine)\n")  # fmt: skip
    desk.scenario("scheduler.order = 'mine'")
    assert desk.run("--plugin-seconds", "0.25").code == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("0", "--plugin-seconds 0: out of range; above 0, at most 1000000"),
        ("-1", "--plugin-seconds -1: out of range; above 0, at most 1000000"),
        ("soon", '--plugin-seconds "soon": not a number; decimal digits, with a point if needed'),
    ],
)
def test_a_limit_that_is_none(desk: Desk, given: str, said: str) -> None:
    assert desk.headway("run", "mixed", "--plugin-seconds", given).err == f"{said}\n"


# --- nothing comes of it ----------------------------------------------------------------------------------------------


def test_a_policy_that_does_nothing_is_named_when_all_stands_still(desk: Desk) -> None:
    said = answers(desk, policy("  pass", "", code=3))
    assert said == 'under composition "mine" of plugin mine.py (line 4)'


def test_a_policy_that_throws_everybody_out_is_named(desk: Desk) -> None:
    """A prefills a token, loses it, and so on: no token ever leaves."""
    body = "  if view.running: cycle.preempt()\n  head = cycle.next_waiting()\n  if head: cycle.prefill(head, 1)"
    assert answers(desk, policy(body, "", code=3)) == 'under composition "mine" of plugin mine.py (line 6)'
