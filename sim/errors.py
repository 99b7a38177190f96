"""The ways in which Headway refuses, each with the exit code that the command line gives it."""

from typing import Any


class HeadwayError(Exception):
    """Base of all. Its arguments are the lines of the message: ``type(e)(*e.args)`` gives an equal error.

    SimPy re-creates a failed process's exception exactly so; an error that does not survive it is lost.
    """

    exit_code = 1

    def __str__(self) -> str:
        return "\n".join(str(line) for line in self.args)


class ScenarioError(HeadwayError):
    """The input is wrong (scenario, trace, option): nothing was simulated. One argument per problem."""

    exit_code = 2


class PluginError(HeadwayError):
    """Somebody's own code can't be loaded, raised, or answered what can't be. The message has its file and line."""

    exit_code = 2


class EndlessPluginError(HeadwayError):
    """Somebody's own code gave no answer in time. The message says where it was stopped."""

    exit_code = 3


class ResultError(HeadwayError):
    """A path can't be read as a result of ours (missing, cut short, another schema)."""

    exit_code = 2


class StalledError(HeadwayError):
    """The model stopped although requests are not done. The message lists them."""

    exit_code = 3


class LimitError(HeadwayError):
    """A limit (``max_jobs``, ``max_seconds``, the range of the clock) ended the run.

    ``result``: what there was by then, marked as incomplete (:attr:`sim.Result.incomplete`); None if there is none.
    """

    exit_code = 3
    result: Any = None


class OutputError(HeadwayError):
    """A result could not be written; what was there before is untouched."""

    exit_code = 4


class InvariantError(HeadwayError):
    """Something that can't be happened: a bug in Headway or in a policy. The message names it."""

    exit_code = 1
