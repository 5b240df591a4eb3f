"""What verifications of all layers share: findings, samples, and proofs of what was compared before."""

from __future__ import annotations
