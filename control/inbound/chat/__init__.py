"""People who act from a chat: `/webhooks/chat-a/...` and `/webhooks/chat-b/interactions` (specification 4.5).

A chat user acts as the principal that it is linked with (`control.identity.chat_links`), under the rules of the API, or
not at all. The link is made with a one-time code from the signed-in dashboard (`links`), which the user sends from the
chat (`/sluice link CODE`). A press of an Approve button in chat-a:

    ChatA._read                 the body, its signature, the rate limit of the platform         -> 404, 413, 401, 429
    payloads                    who pressed what; before the signature holds, nothing is parsed -> 400
    ChatActor.press             one transaction:
        find_answer             a repeated press gets the first answer, and nothing changes
        commands.find_access    the link, and what its principal may do at this moment
        commands.approve        the vote, as in the API; refused, it changes nothing, and the person is told why
        update_queue.enqueue    the message with the result in place of the button
        store_answer            what the press was answered
    200                         the answer
    ChatUpdater                 sends the message, until it arrives or the platform takes it no longer
"""
