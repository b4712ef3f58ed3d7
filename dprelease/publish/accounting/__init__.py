"""What was done and what it cost, in words and facts."""
