"""The page: the web interface for people. The path of one view, `GET /ui/acme/shop/explore?q=serviceName:cart`:

    app.WebHandlers.shell      returns the same document for every path below /ui/. It names script and styles
    app.WebHandlers.asset      returns script, styles and parts of the page. Their names contain their hash, so that
                               browsers can cache them. They are read and compressed once, at the start
    page/src/main.tsx          runs in the browser: chooses the view by the address, and calls the APIs

The service has no secrets and no data. The browser calls the APIs itself, at the same origin and with the session of
the logged-in user. The service needs no store, so `sluice web` runs without stores. During set-up, esbuild builds the
TypeScript in `page/` into `static/`. The wheel contains the result.
"""
