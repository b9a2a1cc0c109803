"""Student-t membership-mappings and the autoencoders made of them (001 Sec. 3)."""

from onefold.models.membership._autoencoders import DeepMembershipAutoencoder, WideMembershipAutoencoder
from onefold.models.membership._estimator import MembershipMapping

__all__ = ["DeepMembershipAutoencoder", "MembershipMapping", "WideMembershipAutoencoder"]
