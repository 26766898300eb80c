"""From files, overrides and an environment to a checked config."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from airflow_gym_provider.config.submit import SubmitConfig


def load_submit_config(
    source: str | Path | Sequence[str | Path] | Mapping[str, Any],
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> SubmitConfig:
    """Load a submit config."""
    tree = source if isinstance(source, Mapping) else yaml.safe_load(Path(source).read_text())
    return SubmitConfig.model_validate(tree, context={"environ": os.environ if environ is None else environ})
