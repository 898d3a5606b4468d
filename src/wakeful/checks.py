"""Checks of an output that are ready to use: `from wakeful.checks import fresh`. `output/ready_checks.py` has their code."""

from wakeful.output.checks import EffectToCheck, RunToCheck
from wakeful.output.ready_checks import did, fresh

__all__ = ["EffectToCheck", "RunToCheck", "did", "fresh"]
