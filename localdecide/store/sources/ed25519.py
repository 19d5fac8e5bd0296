"""Ed25519 signatures (RFC 8032), for the one that a registry asks for: about ten milliseconds each, no library."""

from __future__ import annotations

import hashlib

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202

Point = tuple[int, int, int, int]
"""Extended coordinates X, Y, Z, T with x = X/Z, y = Y/Z, x*y = T/Z."""

_BASE: Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


def public_key(seed: bytes) -> bytes:
    """The 32 bytes of the public key of a 32-byte seed."""
    scalar, _ = _expand(seed)
    return _encode(_multiply(scalar, _BASE))


def sign(seed: bytes, message: bytes) -> bytes:
    """The 64 bytes of the signature."""
    scalar, prefix = _expand(seed)
    public = _encode(_multiply(scalar, _BASE))
    nonce = _number(hashlib.sha512(prefix + message).digest()) % _ORDER
    first = _encode(_multiply(nonce, _BASE))
    challenge = _number(hashlib.sha512(first + public + message).digest()) % _ORDER
    return first + ((nonce + challenge * scalar) % _ORDER).to_bytes(32, "little")


def _expand(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    scalar = _number(digest[:32])
    scalar &= (1 << 254) - 8
    scalar |= 1 << 254
    return scalar, digest[32:]


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _encode(point: Point) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, -1, _P)
    x, y = x * inverse % _P, y * inverse % _P
    return (y | ((x & 1) << 255)).to_bytes(32, "little")


def _add(one: Point, other: Point) -> Point:
    """RFC 8032, section 5.1.4."""
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _multiply(scalar: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point = _add(point, point)
        scalar >>= 1
    return total
