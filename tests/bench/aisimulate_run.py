"""One run of AISimulate, by the Python of its own environment: `aisimulate_run.py REQUESTS RATE [RECORDS]`.

With RECORDS, it keeps a record of each request and writes them to that file, a line of JSON each, as its own command
does when asked for them. Prints how many requests it completed, with how many tokens.
"""

import json
import sys
from pathlib import Path

from aisimulate import CorePredictionConfig, EngineReplayRunnerFactory
from aisimulate.predict import run_prediction
from aisimulate.sweeper.replay import ReplayOutputRequirements

requests, rate_per_s, *records = sys.argv[1:]

config = CorePredictionConfig.model_validate({
    "traffic": {
        "source": {"type": "synthetic", "input_tokens": 512, "output_tokens": 512},
        "load": {"type": "poisson", "requests_per_second": float(rate_per_s), "seed": 0},
        "stop": {"requests": int(requests)},
    },
    "engine": {
        "mode": "aggregated",
        "backend": "vllm",
        "model": "Qwen/Qwen3-32B-FP8",  # it wants names; with times and blocks given, nothing follows from them
        "hardware": "h200_sxm",
        "context_length": 4096,
        "workers": {
            "aggregated": {
                "scheduler": {"max_batched_tokens": 2048, "max_sequences": 256},
                "kv_cache": {"block_size": 16, "capacity": {"type": "fixed", "blocks": 40_000}},
                "timing": {"type": "fixed", "prefill_ms": 20.0, "decode_ms": 10.0},
            }
        },
    },
})  # fmt: skip

wanted = ReplayOutputRequirements(include_raw_report=True, capture_per_request=bool(records))
result = run_prediction(
    config, stack="engine", runner_factory=EngineReplayRunnerFactory(), output_requirements=wanted
)  # fmt: skip
if records:
    with Path(records[0]).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, sort_keys=True) + "\n" for row in result.native["per_request"])
keys = ("completed_requests", "total_input_tokens", "total_output_tokens")
sys.stdout.write(json.dumps([result.summary[key] for key in keys]))
