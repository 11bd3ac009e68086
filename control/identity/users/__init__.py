"""Accounts as stored: users with their second factors (`user_store`), sessions (`session_store`), one-time login codes
and known client addresses (`login_store`), and password hashes (`passwords`). No module here handles HTTP requests.
"""
