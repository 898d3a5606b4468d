"""Policy: asked, and never acts. Facts in, a decision with its reason out; no input or output, the clock passed in."""

from wakeful.policy.decide import AdmissionFacts, decide

__all__ = ["AdmissionFacts", "decide"]
