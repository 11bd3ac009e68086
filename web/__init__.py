"""The page: what people look at. The path of one view, `GET /ui/acme/shop/explore?q=serviceName:cart`:

    app.WebHandlers.shell      the same document for every path below /ui/: it names the script and the styles
    app.WebHandlers.asset      script, styles and parts of the page, by names that contain their hash, so that browsers
                               keep them; read and compressed once, at the start
    page/src/main.tsx          in the browser: the address decides the view, which asks the APIs of other services

The service knows no secret and no data: the browser asks the APIs itself, at the same origin and as whoever has logged
in. It needs no store, so `sluice web` runs without one. TypeScript in `page/` is built into `static/` by esbuild when
Sluice is set up; the wheel carries the result.
"""
