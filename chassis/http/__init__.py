"""The HTTP runtime of a service, from the bound port to the response.

`serve.bind` binds the port, `web.build_app` builds the application from the routes of the services, and `serve.serve`
runs it: `serve.Acceptor` accepts, `connections.connection.HttpConnection` receives, and
`preparse.ConnectionAdmission.check` refuses before parsing where a route has a filter. Then come the middlewares of
`web`, the access check (`access.with_access_check`), the handler, and in it `body.read_body` and
`validation.decode_body`. An `ApiError` from any of them is rendered in one place (`web`).
"""
