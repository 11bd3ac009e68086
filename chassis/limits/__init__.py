"""How often somebody may ask.

A request on a bearer route: `admission.Admission.admit_address` looks whether its address has failed too often (429
before the credential is looked at), `charge_address` counts a failure (401), `take` counts a request of a known
principal (429) and leaves on the request what its answer says in three headers. On a route of project keys a key that
is in memory passes without regard to its address; `take` counts the requests of the key.

`gcra` is the arithmetic; `limiter` is what an implementation promises, `local` the one inside the process, `redis` the
one that processes share. A bucket is one number, and one per class of limit and holder. What a bucket holds may be
lost: its holder may then ask once more than the rule says, as after a restart.
"""
