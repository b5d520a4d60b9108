"""A plugin of offleash: one verifier, sampler, log format, fingerprint, training method and figure."""
