"""The decisions of a run made again, from the times of its jobs alone: the rules in plain words, for a second time.

Nothing here uses the engine. Reading a JSON takes from it what the JSON does not say; ``verify`` compares.
"""
