"""How long prompts and outputs are: every law of lengths by its name. A law is a frozen class and a row here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sim.registry import Registry
from sim.workload.continuous import Gamma, Lognormal, Normal
from sim.workload.distribution import (
    Choice,
    Distribution,
    Empirical,
    Fixed,
    Geometric,
    Mixture,
    Uniform,
    UniformSglang,
    UniformVllm,
    Zipf,
)

DISTRIBUTIONS: Registry[Any] = Registry(
    "lengths",
    {
        "fixed": Fixed,
        "uniform": Uniform,
        "uniform-vllm": UniformVllm,
        "uniform-sglang": UniformSglang,
        "normal": Normal,
        "lognormal": Lognormal,
        "gamma": Gamma,
        "geometric": Geometric,
        "zipf": Zipf,
        "choice": Choice,
        "mixture": Mixture,
        "empirical": Empirical,
    },
)
IN_MIXTURES: Mapping[str, type[Distribution]] = MappingProxyType(
    {name: law for name, law in DISTRIBUTIONS.items() if name not in {"mixture", "empirical"}}
)
