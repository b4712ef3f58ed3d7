"""What an operator asks beside any release: is everything in place, and what shall a monitor know?"""
