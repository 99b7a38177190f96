"""Requests drawn from their laws, a stream of random numbers for each law."""

from dataclasses import replace

import numpy as np

from sim.request import Workload
from sim.tables import Workload as Asked
from sim.workload.sending import closed_loop, sessions
from sim.workload.streams import stream


def generate(asked: Asked, seed: int) -> Workload:
    """The requests of a ``[workload]`` that has a count and laws, numbered as they arrive.

    ``ScenarioError``: the last would arrive too late.
    """
    if asked.clients is not None:
        return declared(closed_loop(asked, seed), asked)
    if asked.sessions is not None:
        return declared(sessions(asked, seed), asked)
    if asked.count is None or asked.arrivals is None or asked.prompt_tokens is None or asked.output_tokens is None:
        raise TypeError("a workload without count and laws")
    workload = Workload.of(
        asked.arrivals.law.arrival_ns(asked.count, stream(seed, "arrivals")),
        asked.prompt_tokens.law.tokens(asked.count, stream(seed, "prompt_tokens")),
        asked.output_tokens.law.tokens(asked.count, stream(seed, "output_tokens")),
    )
    return declared(workload, asked)


def declared(workload: Workload, asked: Asked) -> Workload:
    """The workload with the bound on outputs that ``[workload]`` states for all of them, if it does."""
    if asked.max_tokens is None:
        return workload
    return replace(workload, max_tokens=np.full(len(workload), asked.max_tokens, dtype=np.int64))
