"""What the verifier derives by itself: losses and laws of noise, by other ways than ``privacy`` and ``noise``."""
