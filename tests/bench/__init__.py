"""What runs cost: `make bench`, `make bench-peers`, `make profile`. Nothing here is a test; nothing asserts a time."""
