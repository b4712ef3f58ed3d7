"""What do randomized answers lose to their collector, by their probabilities, and does anything take them for true?"""
