"""What is measured from inside: each in a process of its own, `python -m bench.inside KIND …`, which prints JSON."""

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

from bench import workloads

Found = dict[str, Any]

OUTPUTS = (64, 576)
"""Two output lengths whose difference is so many decode cycles, whatever the prompts cost."""
REPEATS = 9


def phases(scenario: str, folder: str) -> Found:
    """CPU seconds of a run by phase, and its work."""
    import sim
    from sim import simulate

    marks = [process_time()]
    loaded = sim.load(Path(scenario))
    marks.append(process_time())
    result = simulate(loaded)
    marks.append(process_time())
    _ = result.summary
    marks.append(process_time())
    result.save(folder)
    marks.append(process_time())
    names = ("load_s", "simulate_s", "metrics_s", "write_s")
    spent = [end - start for start, end in pairwise(marks)]
    return {"phases": dict(zip(names, spent, strict=True)), "work": dict(result.work)}


def cycle(batch: str) -> Found:
    """CPU µs of one decode cycle of a batch, spans off: the least of several runs of each length."""
    import sim
    from sim import simulate

    def seconds(output: int) -> float:
        scenario = sim.load(workloads.decoding(int(batch), output))
        began = process_time()
        simulate(scenario, spans=False)
        return process_time() - began

    in_turn = [[seconds(output) for output in OUTPUTS] for _ in range(REPEATS)]  # so that both meet the same machine
    short, long = map(min, zip(*in_turn, strict=True))
    return {"us_per_cycle": 1e6 * (long - short) / (OUTPUTS[1] - OUTPUTS[0])}


def step(path: str) -> Found:
    """CPU µs for each step of a recorded run of vLLM's scheduler, run again. That it is equal is for the tests."""
    import vllm_runs

    import sim
    from sim import simulate

    scenario = sim.load(vllm_runs.scenario(vllm_runs.read(Path(path))))
    began = process_time()
    result = simulate(scenario)
    spent = process_time() - began
    return {"us_per_step": 1e6 * spent / result.jobs["end_ns"].size}


KINDS: dict[str, Callable[..., Found]] = {"phases": phases, "cycle": cycle, "step": step}


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    sys.stdout.write(json.dumps(KINDS[kind](*arguments)))
