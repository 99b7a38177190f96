"""A process that is called but not waited for does nothing, without a word: every such call is found here.

In the files that know SimPy, a generator function is a process. A call of one stands right under ``yield from`` or is
given to ``env.process``; what is meant for a ``for`` loop says so by its type, ``Iterator``. A function that hands out
processes (``Iterator[Generator[...]]``) may yield their calls; whoever calls it starts each in a loop of its own.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeGuard

import pytest

SIM = Path(__file__).parents[2] / "sim"
KNOW_SIMPY = ("engine/*.py", "workload/clients.py", "simulation.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """What belongs to ``function`` itself, not to functions or classes inside it."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))


def is_process(function: Function) -> bool:
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(function))
    return yields and "Iter" not in ast.unparse(function.returns or ast.Constant(None))


def hands_out_processes(function: Function) -> bool:
    return ast.unparse(function.returns or ast.Constant(None)).startswith("Iterator[Generator[")


def is_start(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and called_name(node) == "process"


def starts_each(loop: ast.For) -> bool:
    """Whether the loop is ``for x in …: env.process(x)``."""
    match loop.body:
        case [ast.Expr(value=ast.Call(args=[argument]) as call)] if is_start(call):
            return ast.unparse(argument) == ast.unparse(loop.target)
    return False


def called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def complaints(sources: Sequence[str]) -> list[str]:
    """Calls of process functions, by whichever source defines them, that nobody waits for: one line each."""
    trees = [ast.parse(source) for source in sources]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, Function)]
    processes = {function.name for function in functions if is_process(function)}
    others = {function.name for function in functions if not is_process(function)}
    handing_out = [function for function in functions if hands_out_processes(function)]
    waited_for = {id(node.value) for node in nodes if isinstance(node, ast.YieldFrom)}
    waited_for |= {id(argument) for node in nodes if is_start(node) for argument in node.args}
    waited_for |= {id(node.value) for f in handing_out for node in own_nodes(f) if isinstance(node, ast.Yield)}
    started = {id(node.iter) for node in nodes if isinstance(node, ast.For) and starts_each(node)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [
        *(f"{name}: a process and something else have this name" for name in sorted(processes & others)),
        *(
            f"{ast.unparse(call)}: not under yield from or env.process"
            for call in calls
            if called_name(call) in processes and id(call) not in waited_for
        ),
        *(
            f"{ast.unparse(call)}: not all of them are given to env.process"
            for call in calls
            if called_name(call) in {function.name for function in handing_out} and id(call) not in started
        ),
    ]


def test_every_process_that_is_called_is_waited_for() -> None:
    files = [file for pattern in KNOW_SIMPY for file in sorted(SIM.glob(pattern))]
    assert complaints([file.read_text(encoding="utf-8") for file in files]) == []


# --- the checker itself ----------------------------------------------------------------------------------------------

CLIENT = """
def patience(env): yield env.timeout(1)
def rows() -> Iterator[int]: yield 1
class Client:
    def serve(self): yield from patience(self.env)
def all_of(env) -> Iterator[Generator[Event, object, None]]: yield patience(env)
"""


@pytest.mark.parametrize(
    "right",
    [
        "env.process(client.serve())",
        "def f(env): yield from patience(env)",
        "def f(env): return (yield from patience(env))",
        "def f(env): yield env.process(patience(env)) | env.timeout(2)",
        "for row in rows(): pass",
        "for client in all_of(env): env.process(client)",
        "def f():\n def g(env): yield env.timeout(1)\n return g\nf()",
    ],
)
def test_a_call_that_is_waited_for_is_right(right: str) -> None:
    assert complaints([CLIENT, right]) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("client.serve()", "client.serve(): not under yield from or env.process"),
        ("def f(env): yield patience(env)", "patience(env): not under yield from or env.process"),
        ("def f(env): done = patience(env)", "patience(env): not under yield from or env.process"),
        ("env.process(list(patience(env)))", "patience(env): not under yield from or env.process"),
        ("all_of(env)", "all_of(env): not all of them are given to env.process"),
        ("for client in all_of(env): pass", "all_of(env): not all of them are given to env.process"),
        ("for client in all_of(env): env.process(other)", "all_of(env): not all of them are given to env.process"),
        ("def f() -> Iterator[int]: yield patience(env)", "patience(env): not under yield from or env.process"),
        ("def serve(): pass", "serve: a process and something else have this name"),
    ],
)
def test_a_call_that_is_not_is_found(wrong: str, complaint: str) -> None:
    assert complaints([CLIENT, wrong]) == [complaint]
