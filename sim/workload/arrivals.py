"""When requests arrive: every law of arrivals by its name. A law is a frozen class and a row here."""

from collections.abc import Mapping
from types import MappingProxyType

from sim.workload.process import Process
from sim.workload.renewal import Deterministic, Gamma, Given, Hyperexponential, Poisson, Weibull

PROCESSES: Mapping[str, type[Process]] = MappingProxyType(
    {
        "poisson": Poisson,
        "deterministic": Deterministic,
        "given": Given,
        "gamma": Gamma,
        "weibull": Weibull,
        "hyperexponential": Hyperexponential,
    }
)
