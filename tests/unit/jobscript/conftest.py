from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Scripts are played on machines that are busy with other things: no deadline for one example.
settings.register_profile(
    "jobscript",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    max_examples=int(os.environ.get("GYM_TESTS_EXAMPLES", "100")),
)
