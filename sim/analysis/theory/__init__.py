"""What is known exactly about queues and batches, whether it applies to a scenario, and whether the simulation agrees.

The formulas (``paths``, ``queues``, ``batches``) are pure functions and know nothing of scenarios.
"""
