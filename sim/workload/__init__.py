"""Where requests come from: given ones, traces, and the clients that send them."""
