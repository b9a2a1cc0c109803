"""Audits: does a model or a release give its training data away, and is a claimed epsilon true?

Membership inference: :func:`membership_inference_score` (000 eq. 69), :func:`distance_attack`,
:func:`likelihood_ratio_attack`, and :func:`audit_membership` for a fitted classifier in one call.
Claims: :func:`audit_epsilon` and :func:`audit_epsilon_one_run` for any function; :func:`attack` for a release
of which an :class:`AttackTarget` says what it would be without noise. The tests attack onefold's own so.
An audit can convict, never acquit: every result says what it does not show.
"""

from onefold.audit.battery import AttackFinding, AttackTarget, attack
from onefold.audit.density import DensityDifference, density_difference
from onefold.audit.epsilon import EpsilonAudit, audit_epsilon, audit_epsilon_one_run
from onefold.audit.intervals import clopper_pearson
from onefold.audit.membership import (
    AttackResult,
    LikelihoodRatioAttack,
    MembershipAudit,
    OperatingPoint,
    audit_membership,
    distance_attack,
    likelihood_ratio_attack,
    membership_inference_score,
    own_class_score,
)

__all__ = [
    "AttackFinding",
    "AttackResult",
    "AttackTarget",
    "DensityDifference",
    "EpsilonAudit",
    "LikelihoodRatioAttack",
    "MembershipAudit",
    "OperatingPoint",
    "attack",
    "audit_epsilon",
    "audit_epsilon_one_run",
    "audit_membership",
    "clopper_pearson",
    "density_difference",
    "distance_attack",
    "likelihood_ratio_attack",
    "membership_inference_score",
    "own_class_score",
]
