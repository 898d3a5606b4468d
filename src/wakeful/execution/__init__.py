"""Execution: claims runs, runs their handlers step by step, and stores how they ended."""
