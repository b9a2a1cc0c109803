"""Student-t membership-mappings and the autoencoders made of them (001 Sec. 3)."""

from onefold.models.membership._estimator import (
    DeepMembershipAutoencoder,
    MembershipMapping,
    WideMembershipAutoencoder,
)

__all__ = ["DeepMembershipAutoencoder", "MembershipMapping", "WideMembershipAutoencoder"]
