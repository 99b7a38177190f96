"""When requests arrive: every law of arrivals by its name. A law is a frozen class and a row here."""

from typing import Any

from sim.registry import Registry
from sim.workload.batches import Batch
from sim.workload.hawkes import Hawkes
from sim.workload.modulated import Mmpp, OnOff
from sim.workload.renewal import Deterministic, Gamma, Given, Hyperexponential, Poisson, Weibull
from sim.workload.varying import PiecewiseLinear, Ramp, Sinusoid, Steps, TraceRate

PROCESSES: Registry[Any] = Registry(
    "arrivals",
    {
        "poisson": Poisson,
        "deterministic": Deterministic,
        "given": Given,
        "gamma": Gamma,
        "weibull": Weibull,
        "hyperexponential": Hyperexponential,
        "mmpp": Mmpp,
        "on-off": OnOff,
        "sinusoid": Sinusoid,
        "piecewise-linear": PiecewiseLinear,
        "steps": Steps,
        "ramp": Ramp,
        "trace-rate": TraceRate,
        "hawkes": Hawkes,
        "batch": Batch,
    },
)
"""By name: a class of the law, or what somebody registered (:class:`~sim.own_keys.OwnThing`)."""
