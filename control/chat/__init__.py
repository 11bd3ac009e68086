"""People who act from a chat: `/webhooks/chat-a/...` and `/webhooks/chat-b/interactions` (specification 4.5).

A chat user acts as the principal that it is linked with, under the rules of the API, or not at all. The link is made
with a one-time code from the signed-in dashboard (`links`), which the user sends from the chat (`/sluice link CODE`).
"""
