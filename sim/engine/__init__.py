"""One serving replica: its queue, its running requests, its device, and the scheduler that joins them."""
