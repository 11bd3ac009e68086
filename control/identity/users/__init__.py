"""Accounts as stored: users with their second factors (`user_store`), sessions (`session_store`), one-time login codes
and known client addresses (`login_store`); and how passwords are hashed (`passwords`). Nothing here knows of requests.
"""
