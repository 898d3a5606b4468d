"""Channels for users: `from wakeful.channels import http`. `output/channels/` has their code."""

from wakeful.output.channels.base import Channel, Message, Sent
from wakeful.output.channels.email import email
from wakeful.output.channels.event import event
from wakeful.output.channels.file import file
from wakeful.output.channels.github import github
from wakeful.output.channels.http import http
from wakeful.output.channels.installed import channel
from wakeful.output.channels.jira import jira
from wakeful.output.channels.log import log
from wakeful.output.channels.pagerduty import pagerduty
from wakeful.output.channels.teams import teams

__all__ = [
    "Channel",
    "Message",
    "Sent",
    "channel",
    "email",
    "event",
    "file",
    "github",
    "http",
    "jira",
    "log",
    "pagerduty",
    "teams",
]
