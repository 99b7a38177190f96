"""What people read: tables and sentences from results, in English and Chinese. Nothing is computed twice here:
every figure comes from a result's columns and summary.
"""
