"""What people read: tables and sentences from results, in English and Chinese.

No metric is computed here: every figure comes from a result's columns and summary.
"""
