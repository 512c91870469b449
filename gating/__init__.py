"""Permissions: rules about scopes, earlier calls, milestones and facts; votes of servers."""

from ..retrieval.refusal import Refusal
from .argument import argument
from .condition import (
    Condition,
    after,
    all_of,
    annotation,
    any_of,
    fact,
    milestone,
    not_,
    predicate,
    requires_scope,
)
from .rules import Gate, Provides, Rule
from .state import State
from .votes import Votes

__all__ = [
    "Condition",
    "Gate",
    "Provides",
    "Refusal",
    "Rule",
    "State",
    "Votes",
    "after",
    "all_of",
    "annotation",
    "any_of",
    "argument",
    "fact",
    "milestone",
    "not_",
    "predicate",
    "requires_scope",
]
