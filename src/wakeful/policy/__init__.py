"""Policy decides and never acts. Facts in, a decision with its reason out; no I/O, and the time is an argument."""

from wakeful.policy.decide import AdmissionFacts, decide

__all__ = ["AdmissionFacts", "decide"]
