"""People who act from a chat: `/webhooks/chat-a/...` and `/webhooks/chat-b/interactions` (specification 4.5).

A chat user acts as the principal that it is linked with (`control.identity.chat_links`), under the rules of the API, or not at
all. The link is made with a one-time code from the signed-in dashboard (`links`), which the user sends from the chat
(`/sluice link CODE`). A press of an Approve button:

    chat_a, chat_b      limits, the body, its signature; before it holds, nothing is parsed            -> 429, 404, 401
    payloads            who pressed what                                                               -> 400
    actor               one transaction:
        access          the link, and what its principal may do at this moment
        commands        the vote, as in the API; refused, it changes nothing, and the person is told why
        update_queue    the message with the outcome in place of the button
    200                 the answer; a repetition gets the same, and nothing changes
    updater             sends what was queued, until it arrives or the platform takes it no longer
"""
