"""The kit Wakeful is tested with, for the tests of your own agents."""
