"""Who makes way for somebody more urgent: as few as will do."""

from collections.abc import Callable

from sim.request import Request


def fewest(candidates: list[Request], do: Callable[[list[Request]], bool]) -> list[Request] | None:
    """Those of ``candidates``, from the first on, who ``do`` if they leave; None if all of them would not.

    Of these the later stay whose leaving makes no difference.
    """
    needed = next((n for n in range(1, len(candidates) + 1) if do(candidates[:n])), None)
    if needed is None:
        return None
    leaving = candidates[:needed]
    for spared in reversed(candidates[: needed - 1]):
        others = [other for other in leaving if other is not spared]
        if do(others):
            leaving = others
    return leaving
