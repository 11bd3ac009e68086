"""What the statuses of object stores mean."""

from control.outbound.egress import EgressError, HttpReply
from control.warehouse.stores.store import ObjectStoreError

MISSING = "The bucket or container does not exist."
_REFUSED = "The store refused the credentials, or they may not write objects there."


def failed(reply: HttpReply) -> ObjectStoreError:
    """An answer that is neither success nor an existing key."""
    match reply.status:
        case 401 | 403:
            return ObjectStoreError(_REFUSED, permanent=True)
        case 404:
            return ObjectStoreError(MISSING, permanent=True)
        case 301 | 302 | 307 | 308:
            return ObjectStoreError("The bucket is in another region, or has another endpoint.", permanent=True)
        case 408 | 425 | 429 | 503:
            return ObjectStoreError("The store is busy.")
        case status if status >= 500:
            return ObjectStoreError("The store has failed.")
        case status:
            return ObjectStoreError(f"The store refused the object with status {status}.", permanent=True)


def not_reached(error: EgressError) -> ObjectStoreError:
    """No answer: whether the object is stored is not known."""
    return ObjectStoreError(f"The store was not reached. {error.detail}", permanent=error.permanent)
