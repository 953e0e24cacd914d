"""What all tests share: a machine may be busy, so no example is failed for taking its time."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
