"""Actions on outside services: `from wakeful.actions import github`. `outside/` has their code."""

from wakeful.outside.github import github
from wakeful.outside.jira import jira
from wakeful.outside.pagerduty import pagerduty

__all__ = ["github", "jira", "pagerduty"]
