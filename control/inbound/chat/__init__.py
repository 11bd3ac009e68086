"""People who act from a chat: `/webhooks/chat-a/...` and `/webhooks/chat-b/interactions` (specification 4.5).

A chat user acts as the principal that it is linked with (`control.identity.chat_links`), under the rules of the API.
Without a link it cannot act. To make the link, a signed-in user gets a one-time code in the dashboard (`links`) and
sends it from the chat (`/sluice link CODE`). A press of an Approve button in chat-a:

    ChatA._read                 reads the body, checks its signature and the platform's rate limit -> 404, 413, 401, 429
    payloads                    parses who pressed which button, after the signature is verified   -> 400
    ChatActor.press             one transaction:
        find_answer             a repeated press gets the first answer, and nothing changes
        commands.find_access    finds the link and the current rights of its principal
        commands.approve        casts the vote as in the API; a refused vote changes nothing, and the reply says why
        update_queue.enqueue    stores the message with the result, which replaces the message with the button
        store_answer            stores the answer to the press
    200                         the answer
    ChatUpdater                 sends the message, until it has arrived or the platform no longer accepts it
"""
