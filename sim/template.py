"""The scenario that ``headway new`` writes: small, complete, every table commented."""

import re
from pathlib import Path

from sim.errors import OutputError, ScenarioError
from sim.show import show

TEMPLATE = """\
# {name}: the question that this scenario asks goes here.
#
# Run it:        headway run {name}.toml
# All keys:      headway schema     (JSON Schema: editors complete and check against it)

schema = 1
name = "{name}"
claim = "What you expect to see, in one sentence, before you run it."

# Requests that meet on one device. Times are in milliseconds and exact: 0.1 is 100,000 ns.
[workload]
requests = [
  {{id = "early", arrival_ms = 0, prompt_tokens = 4, output_tokens = 8}},   # it is decoding already when
  {{id = "long", arrival_ms = 5, prompt_tokens = 20, output_tokens = 2}},   # a long prompt comes in,
  {{id = "short", arrival_ms = 6, prompt_tokens = 1, output_tokens = 4}},   # and a short one behind it
]
# ... or take them from a trace:
# trace = {{path = "trace.csv", limit = 1000}}
# ... or generate them:
# count = 1000
# arrivals = {{process = "poisson", rate_per_s = 4.0}}
# prompt_tokens = {{distribution = "uniform", min = 1, max = 16}}
# output_tokens = {{distribution = "fixed", value = 8}}

# What a job costs. This is the lesson's device; costs that you leave out of the table are 0.
[device]
job_ms = 0.25                 # every job
prefill_ms_per_token = 1.0    # each prompt token in it
decode_ms_per_batch = 1.0     # once if it decodes anything, however many
# decode_ms_per_request = 0.0
# context_ms_per_token = 0.0

[scheduler]
chunk_tokens = 2              # read by policies that cut prompts into chunks
# max_running = 8             # most requests that run at once

[run]
policies = ["fcfs", "chunked"]    # what is compared; there is also "static"

# Instead of policies: the same policy with one thing changed at a time.
# [[run.variants]]
# name = "chunk-4"
# set = {{"scheduler.policy" = "chunked", "scheduler.chunk_tokens" = 4}}
"""


def write(name: str) -> Path:
    """``NAME.toml`` in the working directory. ``ScenarioError``: no name; ``OutputError``: it exists already."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) or name.startswith(("-", ".")):
        raise ScenarioError(
            f"{show(name)}: not a name; 1 to 64 letters, digits, '.', '_', '-', the first no '.' or '-'"
        )
    path = Path(f"{name.removesuffix('.toml')}.toml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.format(name=path.stem))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; it was not written") from error
    return path
