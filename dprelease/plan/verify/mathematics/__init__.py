"""The losses of draws as the verifier derives them: by other ways than those of ``privacy``."""
