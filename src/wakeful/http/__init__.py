"""How every HTTP path reads a request and answers it: body, parameters, problems, callers, who may."""
