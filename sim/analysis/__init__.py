"""What is concluded from results: here, whether one is what it claims to be."""
