"""A process that is called but not waited for does nothing, without a word: every such call is found here.

In the files that know SimPy, a generator function is a process. A call of one stands right under ``yield from`` or is
given to ``env.process``; what is meant for a ``for`` loop says so by its type, ``Iterator``.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SIM = Path(__file__).parents[2] / "sim"
KNOW_SIMPY = ("engine/*.py", "workload/clients.py", "simulate.py")

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


def called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def complaints(sources: Sequence[str]) -> list[str]:
    """Calls of process functions, by whichever source defines them, that nobody waits for: one line each."""
    trees = [ast.parse(source) for source in sources]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, Function)]
    processes = {function.name for function in functions if is_process(function)}
    others = {function.name for function in functions if not is_process(function)}
    waited_for = {id(node.value) for node in nodes if isinstance(node, ast.YieldFrom)}
    for node in nodes:
        if isinstance(node, ast.Call) and called_name(node) == "process":
            waited_for |= {id(argument) for argument in node.args}
    return [f"{name}: a process and something else have this name" for name in sorted(processes & others)] + [
        f"{ast.unparse(node)}: not under yield from or env.process"
        for node in nodes
        if isinstance(node, ast.Call) and called_name(node) in processes and id(node) not in waited_for
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
"""


@pytest.mark.parametrize(
    "right",
    [
        "env.process(client.serve())",
        "def f(env): yield from patience(env)",
        "def f(env): return (yield from patience(env))",
        "def f(env): yield env.process(patience(env)) | env.timeout(2)",
        "for row in rows(): pass",
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
        ("def serve(): pass", "serve: a process and something else have this name"),
    ],
)
def test_a_call_that_is_not_is_found(wrong: str, complaint: str) -> None:
    assert complaints([CLIENT, wrong]) == [complaint]
