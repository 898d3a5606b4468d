"""The version of Wakeful."""

__version__ = "0.1.0"
