"""The HTTP runtime of a service, from the bound port to the response.

`serve.bind` binds the port, `web.build_app` builds the application from the routes of the services, and `serve.serve`
runs the application: `serve.Acceptor` accepts connections, `connections.connection.HttpConnection` receives requests,
and `preparse.ConnectionAdmission.check` refuses requests before parsing where a route has a filter. Then come the
middlewares of `web`, the access check (`access.with_access_check`), and the handler, which calls `body.read_body` and
`validation.decode_body`. `web` renders an `ApiError` that any of them raises.
"""
