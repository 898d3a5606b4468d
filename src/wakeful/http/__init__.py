"""Shared by all HTTP paths: request bodies, parameters, problems, callers and access control."""
