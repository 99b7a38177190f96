"""When requests arrive: every law of arrivals by its name. A law is a frozen class and a row here."""

from collections.abc import Mapping
from types import MappingProxyType

from sim.workload.batches import Batch
from sim.workload.hawkes import Hawkes
from sim.workload.modulated import Mmpp, OnOff
from sim.workload.process import Process
from sim.workload.renewal import Deterministic, Gamma, Given, Hyperexponential, Poisson, Weibull
from sim.workload.varying import PiecewiseLinear, Ramp, Sinusoid, Steps, TraceRate

PROCESSES: Mapping[str, type[Process]] = MappingProxyType(
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
    }
)
