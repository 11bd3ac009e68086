"""HTTP/1.1 connections: aiohttp's protocol with the timeouts and limits that it lacks.

    chassis.http.serve.Acceptor       accepts the connections that the kernel has queued, in batches
    connection.HttpConnection         `connection_made`: `registry.ConnectionContext.admit` registers the connection in
                                      `registry.ConnectionRegistry`, which evicts an idle connection at the limit;
                                      otherwise `bad_requests.reject_connection` sends 503
    receiver.RequestReader            `data_received`: takes one head at a time from `framing.InputBuffer`, limited by
                                      `registry.HeadMemoryLimit` and a `timeouts.Timeout`
      bad_requests                    a head that cannot be parsed gets a 400 in the error format of its path
      chassis.http.preparse           may refuse the request before it is parsed
      framing.build_body_frame        finds the end of the body, so that the parser gets no byte of the next request
    connection.HttpConnection         `finish_response` sends; a client that reads less than the minimum rate
                                      (`timeouts.SendProgress`) is disconnected

All connections of a process share one `registry.ConnectionContext`.
"""
